//! `tidegate serve`.

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::LOG_VARIABLE;
use super::args::ConfigArgs;
use super::failure::Failure;
use crate::Gateway;
use crate::config::{Config, Exposure, Loaded, Origins, exposure};
use crate::server::{Reloader, ServeError};
use crate::telemetry::set_log_filter;

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
        follow_log_level(&loaded.config)?;
        let mut origins = loaded.origins;
        let gateway = Gateway::builder().config(loaded.config).start().await?;
        if let Some(address) = gateway.replay_address() {
            tracing::info!("history alone is served on {address}");
        }
        if let Some(address) = gateway.address() {
            tracing::info!("listening on {address}");
        }
        let reloader = gateway.reloader();
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                let (sources, reloader, before) = (sources.clone(), reloader.clone(), origins.clone());
                // Files are read, so not on this thread.
                let done = tokio::task::spawn_blocking(move || reload(&sources, flags, &reloader, &before)).await;
                match done {
                    Ok(Some(now)) => origins = now,
                    Ok(None) => {}
                    Err(error) => tracing::error!(%error, "the configuration was not loaded again"),
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

/// `TIDEGATE_LOG` comes before `log.level`.
fn follow_log_level(config: &Config) -> anyhow::Result<()> {
    if std::env::var_os(LOG_VARIABLE).is_none_or(|text| text.is_empty()) {
        set_log_filter(config.log.level.as_deref())?;
    }
    Ok(())
}

/// SIGHUP: the configuration is read again, the files that it names too. What can change does; each change is logged. The
/// answer is what is in force then.
fn reload(sources: &ConfigArgs, flags: &[(&str, &str)], reloader: &Reloader, before: &Origins) -> Option<Origins> {
    let loaded = match sources.load(flags) {
        Ok(loaded) => loaded,
        Err(error) => {
            tracing::error!("not taken over, what was in force stays: {error}");
            return None;
        }
    };
    let mut problems = reloader.reload(&loaded.config);
    problems.extend(follow_log_level(&loaded.config).err().map(|error| error.to_string()));
    for problem in &problems {
        tracing::error!("not taken over, what was in force stays: {problem}");
    }
    for change in before.changes_to(&loaded.origins) {
        let text = |value: Option<String>| value.unwrap_or_else(|| "not set".to_owned());
        let (key, from, to) = (change.key, text(change.from), text(change.to));
        match change.needs_restart {
            true => tracing::warn!(key, from, to, "this change needs a restart"),
            false => tracing::info!(key, from, to, "changed"),
        }
    }
    if problems.is_empty() {
        tracing::info!("keys, secrets and certificates were loaded again");
    }
    Some(loaded.origins)
}
