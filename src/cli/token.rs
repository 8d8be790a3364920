//! `tidegate token`: tokens for development.

use std::io::Write;
use std::time::Duration;

use clap::Args;

use super::args::ConfigArgs;
use super::failure::Failure;
use super::output::write_out;
use crate::auth::{SignError, sign};
use crate::config::Auth;

/// What `token` takes.
#[derive(Debug, Args)]
pub(super) struct TokenArgs {
    /// What the token gives the right to: publish:PATTERN, subscribe:PATTERN, *:PATTERN, admin or metrics. Can be given
    /// several times.
    #[arg(long = "scope", value_name = "SCOPE", required = true)]
    scopes: Vec<String>,
    /// Whom the token speaks of.
    #[arg(long, value_name = "NAME")]
    sub: Option<String>,
    /// How long it is good.
    #[arg(long, default_value = "1h", value_parser = humantime::parse_duration)]
    ttl: Duration,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Signs a token and prints it.
pub(super) fn run(args: &TokenArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let Auth::Jwt(config) = args.config.load(&[])?.config.auth else {
        let message = "tokens are for auth.mode = \"jwt\" with auth.jwt.secret, which the configuration does not have";
        return Err(Failure::Usage(message.to_owned()));
    };
    match sign(&config, &args.scopes, args.sub.as_deref(), args.ttl) {
        Ok(token) => write_out(out, &format!("{token}\n")),
        Err(error @ SignError::Signing(_)) => Err(Failure::Failed(error.to_string())),
        Err(error) => Err(Failure::Usage(error.to_string())),
    }
}
