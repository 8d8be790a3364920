//! `tidegate store`: looking after the embedded store's folder.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use super::args::ConfigArgs;
use super::failure::Failure;
use super::output::write_out;
use crate::config::StoreKind;
use crate::server::control::{self, Line, Request};
use crate::store::{Copied, EmbeddedStore, OpenError, StoreOptions, check_folder, repair_folder};

/// How long a gateway may be silent while it makes a backup: it tells its progress every second.
const SILENCE: Duration = Duration::from_secs(30);

/// What `store` can do.
#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Read everything in the folder and say what is wrong. Changes nothing; no gateway may run on it.
    Check(FolderOptions),
    /// Make a new folder of what is whole and say what was lost. The old one is moved aside, not changed.
    Repair(FolderOptions),
    /// Make a consistent copy, also while a gateway runs on the folder.
    Backup(BackupOptions),
}

/// Which folder.
#[derive(Debug, Args)]
pub(super) struct FolderOptions {
    /// The folder; by default the configuration's store.path.
    path: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// Output for programs.
    #[arg(long)]
    json: bool,
}

/// Which folder, and where to.
#[derive(Debug, Args)]
pub(super) struct BackupOptions {
    /// The folder to make; it must not exist.
    dest: PathBuf,
    /// The store's folder; by default the configuration's store.path.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// Output for programs.
    #[arg(long)]
    json: bool,
}

/// Does it.
pub(super) fn run(command: &StoreCommand, out: &mut dyn Write) -> Result<(), Failure> {
    match command {
        StoreCommand::Check(options) => check(options, out),
        StoreCommand::Repair(options) => repair(options, out),
        StoreCommand::Backup(options) => backup(options, out),
    }
}

fn folder(path: Option<&PathBuf>, config: &ConfigArgs) -> Result<PathBuf, Failure> {
    if let Some(path) = path {
        return Ok(path.clone());
    }
    let store = config.load(&[])?.config.store;
    match store.kind {
        StoreKind::Embedded => Ok(store.path),
        _ => Err(Failure::Usage(
            "store.kind is not embedded, so there is no folder: name one".to_owned(),
        )),
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

fn check(options: &FolderOptions, out: &mut dyn Write) -> Result<(), Failure> {
    let path = folder(options.path.as_ref(), &options.config)?;
    eprintln!("checking {}", path.display());
    let found = check_folder(&path, |events| eprintln!("{events} events read")).map_err(failed)?;
    let whole = found.problems.is_empty();
    let text = if options.json {
        let (topics, events, groups) = (found.topics, found.events, found.groups);
        let summary =
            json!({"ok": whole, "topics": topics, "events": events, "groups": groups, "problems": found.problems});
        format!("{summary}\n")
    } else {
        let mut text = format!(
            "{} topics, {} events, {} groups\n",
            found.topics, found.events, found.groups
        );
        for problem in &found.problems {
            text.push_str(&format!("- {problem}\n"));
        }
        text.push_str(match whole {
            true => "everything is as it was written\n",
            false => "damaged: put a backup in its place, or keep what is whole with `tidegate store repair`\n",
        });
        text
    };
    write_out(out, &text)?;
    if whole { Ok(()) } else { Err(Failure::Reported) }
}

fn repair(options: &FolderOptions, out: &mut dyn Write) -> Result<(), Failure> {
    let path = folder(options.path.as_ref(), &options.config)?;
    eprintln!("repairing {}", path.display());
    let repaired = repair_folder(&path, |events| eprintln!("{events} events read")).map_err(failed)?;
    let text = if options.json {
        let summary = json!({
            "topics": repaired.topics, "events": repaired.events, "groups": repaired.groups,
            "problems": repaired.problems, "lost": repaired.lost, "old": repaired.old,
        });
        format!("{summary}\n")
    } else {
        let mut text = format!(
            "kept: {} topics, {} events, {} groups\n",
            repaired.topics, repaired.events, repaired.groups
        );
        for problem in &repaired.problems {
            text.push_str(&format!("found: {problem}\n"));
        }
        for loss in &repaired.lost {
            text.push_str(&format!("lost: {loss}\n"));
        }
        if repaired.lost.is_empty() {
            text.push_str("lost: nothing\n");
        }
        text.push_str(&format!("the folder as it was: {}\n", repaired.old.display()));
        text
    };
    write_out(out, &text)
}

fn backup(options: &BackupOptions, out: &mut dyn Write) -> Result<(), Failure> {
    let path = folder(options.path.as_ref(), &options.config)?;
    let dest = std::path::absolute(&options.dest).map_err(failed)?;
    if !path.join("db").exists() {
        return Err(Failure::Failed(format!("there is no store in {}", path.display())));
    }
    eprintln!("copying {} to {}", path.display(), dest.display());
    let progress = |rows: u64| eprintln!("{rows} rows copied");
    let copied = match EmbeddedStore::open(&path, StoreOptions::default()) {
        Ok(store) => store.backup(&dest, progress).map_err(failed)?,
        Err(OpenError::Locked { .. }) => ask_gateway(&path, &dest, progress)?,
        Err(error) => return Err(failed(error)),
    };
    let text = if options.json {
        format!(
            "{}\n",
            json!({"events": copied.events, "rows": copied.rows, "commit": copied.commit, "dest": dest})
        )
    } else {
        format!(
            "{} events, as of commit {}, in {}\n",
            copied.events,
            copied.commit,
            dest.display()
        )
    };
    write_out(out, &text)
}

/// Lets the gateway that holds the folder make the copy.
fn ask_gateway(path: &Path, dest: &Path, mut progress: impl FnMut(u64)) -> Result<Copied, Failure> {
    let socket = control::socket_path(path);
    let unreachable = |error: std::io::Error| {
        let socket = socket.display();
        Failure::Failed(format!(
            "another process holds the folder and does not answer at {socket}: {error}"
        ))
    };
    let mut stream = UnixStream::connect(&socket).map_err(unreachable)?;
    stream.set_read_timeout(Some(SILENCE)).map_err(unreachable)?;
    stream.set_write_timeout(Some(SILENCE)).map_err(unreachable)?;
    let mut request = serde_json::to_vec(&Request::Backup(dest.to_path_buf())).map_err(failed)?;
    request.push(b'\n');
    stream.write_all(&request).map_err(unreachable)?;
    for line in BufReader::new(stream).lines() {
        match serde_json::from_str(&line.map_err(unreachable)?).map_err(failed)? {
            Line::Rows(rows) => progress(rows),
            Line::Done(copied) => return Ok(copied),
            Line::Error(why) => return Err(Failure::Failed(why)),
        }
    }
    Err(Failure::Failed("the gateway ended before the copy was done".to_owned()))
}
