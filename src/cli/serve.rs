//! `tidegate serve`.

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::args::ConfigArgs;
use super::failure::Failure;
use crate::Gateway;
use crate::config::{Exposure, Loaded, exposure};
use crate::server::{Reloader, ServeError};

/// What `serve` takes.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Let everybody who can reach the gateway in, without authentication.
    #[arg(long)]
    insecure: bool,
}

/// Runs the gateway until it is told to end.
pub(super) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let flags: &'static [_] = if args.insecure {
        &[("gateway.insecure", "true")]
    } else {
        &[]
    };
    let loaded = args.config.load(flags)?;
    if let Exposure::Refused(message) = exposure(&loaded.config) {
        return Err(Failure::Usage(message));
    }
    start(loaded, args, flags).map_err(|error| match error.downcast::<ServeError>() {
        Ok(ServeError::Refused(message)) => Failure::Usage(message),
        Ok(other) => Failure::Gateway(other.into()),
        Err(other) => Failure::Gateway(other),
    })
}

fn start(loaded: Loaded, args: &ServeArgs, flags: &'static [(&str, &str)]) -> anyhow::Result<()> {
    let sources = args.config.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let gateway = Gateway::builder().config(loaded.config).start().await?;
        if let Some(address) = gateway.address() {
            tracing::info!("listening on {address}");
        }
        let reloader = gateway.reloader();
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                let (sources, reloader) = (sources.clone(), reloader.clone());
                // Files are read, so not on this thread.
                let done = tokio::task::spawn_blocking(move || reload(&sources, flags, &reloader)).await;
                if let Err(error) = done {
                    tracing::error!(%error, "the configuration was not loaded again");
                }
            }
        });
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            // A listener failed: what ended is told below.
            _ = gateway.ended() => {}
        }
        Ok(gateway.stop().await?)
    })
}

/// SIGHUP: `[auth]` and `[tls]` are read again, the files that they name too.
fn reload(sources: &ConfigArgs, flags: &[(&str, &str)], reloader: &Reloader) {
    let problems = match sources.load(flags) {
        Ok(loaded) => reloader.reload(&loaded.config),
        Err(error) => vec![error.to_string()],
    };
    for problem in &problems {
        tracing::error!("not taken over, what was in force stays: {problem}");
    }
    if problems.is_empty() {
        tracing::info!("keys, secrets and certificates were loaded again");
    }
}
