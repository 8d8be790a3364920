//! `tidegate serve`.

use clap::Args;

use super::args::ConfigArgs;
use super::failure::Failure;
use crate::config::{Auth, Exposure, Loaded, exposure};

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
    match exposure(&loaded.config) {
        Exposure::Refused(message) => return Err(Failure::Usage(message)),
        Exposure::OpenInsecure => {
            tracing::warn!("no authentication: everybody who can reach this gateway may do everything")
        }
        Exposure::Local if loaded.config.auth == Auth::None => {
            tracing::warn!("no authentication: everybody on this machine may do everything");
        }
        Exposure::Local | Exposure::OpenWithAuth => {}
    }
    Ok(start(loaded)?)
}

fn start(_loaded: Loaded) -> anyhow::Result<()> {
    anyhow::bail!("the gateway is not available yet")
}
