//! What the benchmarks have in common: a gateway in this process, and two ways to it. Nothing else in `benches` knows
//! the actors.

#![allow(dead_code, reason = "each benchmark uses its part")]

pub mod bus;
pub mod pipe;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use hdrhistogram::Histogram;
use tempfile::TempDir;
use tidegate::Gateway;
use tidegate::actors::shared::Shared;
use tidegate::config::{Sources, load};

/// Whatever went wrong ends a benchmark.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A variable of the environment, or what it is otherwise.
pub fn variable<T: std::str::FromStr>(name: &str, otherwise: &str) -> Result<T> {
    let text = std::env::var(name).unwrap_or_else(|_| otherwise.to_owned());
    text.parse().map_err(|_| format!("{name}={text} is not usable").into())
}

/// What the shell is told, and what a person is told where it went wrong.
pub fn ended(done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A gateway in this process, its limits off.
pub struct InProcess {
    shared: Arc<Shared>,
    gateway: Gateway,
    _folder: TempDir,
}

impl InProcess {
    /// Starts one with this store: `memory`, `embedded` (in a folder of its own), or `mongodb` (where
    /// `TIDEGATE_STORE__URL` says).
    pub async fn start(store: &str) -> Result<InProcess> {
        // Beside the build: a folder for temporary files may be in memory, where an fsync costs nothing.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let set = [
            format!("store.kind={store}"),
            format!("store.path={}", folder.path().join("store").display()),
            "gateway.listen=127.0.0.1:0".to_owned(),
            "replay.listen=off".to_owned(),
            "limits.connection=off".to_owned(),
            "limits.topic=off".to_owned(),
        ];
        let sources = Sources {
            directory: folder.path().to_owned(),
            env: std::env::vars().collect(),
            set: set.to_vec(),
            ..Sources::default()
        };
        let gateway = Gateway::builder().config(load(&sources)?.config).start().await?;
        Ok(InProcess {
            shared: gateway.shared(),
            gateway,
            _folder: folder,
        })
    }

    /// Drains it.
    pub async fn end(self) -> Result<()> {
        Ok(self.gateway.stop().await?)
    }
}

/// Latencies in nanoseconds, up to a minute, with three digits.
pub fn latencies() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 60_000_000_000, 3)?)
}
