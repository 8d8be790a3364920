//! What a running gateway does for the command line on its own machine: a backup of the folder that it holds.
//!
//! The way there is a Unix socket in the folder, for its owner alone: who may read the folder may have a copy of it, and
//! nobody else gets near. A request is one line of JSON, `{"backup": DIR}`; the answer is lines of
//! `{"rows": n}` while it works, and at last `{"done": {...}}` or `{"error": text}`. One request at a time.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::store::{Copied, EmbeddedStore};

/// How long a client may take to say what it wants, and to take a line of the answer.
const DEADLINE: Duration = Duration::from_secs(5);
/// How often progress is told.
pub(crate) const PROGRESS: Duration = Duration::from_secs(1);
/// The longest request: a path and a few words.
const REQUEST_BYTES_MAX: u64 = 64 * 1024;

/// What can be asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Request {
    /// A copy of the store in this folder, an absolute path.
    Backup(PathBuf),
}

/// One line of an answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    /// So many rows are copied.
    Rows(u64),
    /// What the backup holds.
    Done(Copied),
    /// Why there is none.
    Error(String),
}

/// Where the socket of a folder is.
pub(crate) fn socket_path(folder: &Path) -> PathBuf {
    folder.join("CONTROL")
}

/// Listens in a folder that this process has locked. An error leaves the gateway without backups, and nothing else.
pub(super) fn listen(folder: &Path) -> io::Result<UnixListener> {
    let path = socket_path(folder);
    // What a killed gateway left; the lock says that nobody listens there.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers requests for as long as the gateway runs.
pub(super) async fn run(listener: UnixListener, store: Arc<EmbeddedStore>) {
    loop {
        let answered = match listener.accept().await {
            Ok((stream, _)) => answer(stream, &store).await,
            Err(error) => Err(error),
        };
        if let Err(error) = answered {
            tracing::warn!(%error, "a request over the control socket failed");
            // An error of `accept` itself may last.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn answer(mut stream: UnixStream, store: &Arc<EmbeddedStore>) -> io::Result<()> {
    let mut request = String::new();
    let mut reader = BufReader::new((&mut stream).take(REQUEST_BYTES_MAX));
    tokio::time::timeout(DEADLINE, reader.read_line(&mut request)).await??;
    let Request::Backup(target) = match serde_json::from_str(&request) {
        Ok(request) => request,
        Err(error) => return send(&mut stream, &Line::Error(format!("not a request: {error}"))).await,
    };
    tracing::info!(target = %target.display(), "backup begins");
    let rows = Arc::new(AtomicU64::new(0));
    let (store, counter) = (store.clone(), rows.clone());
    let mut work =
        tokio::task::spawn_blocking(move || store.backup(&target, |rows| counter.store(rows, Ordering::Relaxed)));
    // Who asked may be gone: the backup is made all the same, and the next request waits for its end.
    let mut listening = true;
    let result = loop {
        tokio::select! {
            result = &mut work => break result,
            () = tokio::time::sleep(PROGRESS) => {
                let line = Line::Rows(rows.load(Ordering::Relaxed));
                listening = listening && send(&mut stream, &line).await.is_ok();
            }
        }
    };
    let line = match result {
        Ok(Ok(copied)) => {
            tracing::info!(events = copied.events, commit = copied.commit, "backup done");
            Line::Done(copied)
        }
        Ok(Err(error)) => Line::Error(error.to_string()),
        Err(_) => Line::Error("the backup broke down".to_owned()),
    };
    if let Line::Error(why) = &line {
        tracing::error!(why, "backup failed");
    }
    send(&mut stream, &line).await
}

async fn send(stream: &mut UnixStream, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    tokio::time::timeout(DEADLINE, stream.write_all(&text)).await?
}
