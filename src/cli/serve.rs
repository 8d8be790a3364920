//! `tidegate serve`.

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::args::ConfigArgs;
use super::failure::Failure;
use crate::config::{Exposure, Loaded, exposure};
use crate::server::{Gateway, ServeError};

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
    let flags: &[_] = if args.insecure {
        &[("gateway.insecure", "true")]
    } else {
        &[]
    };
    let loaded = args.config.load(flags)?;
    if let Exposure::Refused(message) = exposure(&loaded.config) {
        return Err(Failure::Usage(message));
    }
    start(loaded).map_err(|error| match error.downcast() {
        Ok(ServeError::Refused(message)) => Failure::Usage(message),
        Ok(error) => Failure::Gateway(error.into()),
        Err(error) => Failure::Gateway(error),
    })
}

fn start(loaded: Loaded) -> anyhow::Result<()> {
    actix::System::new().block_on(async move {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let gateway = Gateway::start(loaded.config).await?;
        tracing::info!("listening on {}", gateway.address());
        let stop = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        Ok(gateway.run_until(stop).await?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_yet_is_refused_as_a_wrong_configuration() {
        for set in [
            ["tls.cert=cert.pem", "tls.key=key.pem"],
            ["store.kind=mongodb", "replay.listen=off"],
        ] {
            let set = set.into_iter().chain(["gateway.listen=127.0.0.1:0"]);
            let config = ConfigArgs {
                config: None,
                set: set.map(str::to_owned).collect(),
            };
            let ended = run(&ServeArgs {
                config,
                insecure: false,
            });
            assert!(
                matches!(&ended, Err(Failure::Usage(why)) if why.contains("not available yet")),
                "{ended:?}"
            );
        }
    }
}
