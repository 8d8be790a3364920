//! `tidegate config`: whether the configuration is right, and what is in force.

use std::io::Write;

use clap::{Args, Subcommand};

use super::args::ConfigArgs;
use super::failure::Failure;
use super::output::write_out;
use crate::config::{ConfigError, Exposure, Loaded, Problem, exposure};

/// What `config` can do.
#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Say what is wrong, or ok.
    Check(ConfigOptions),
    /// Show every value in force and where it came from, secrets hidden.
    Print(ConfigOptions),
}

/// What both take.
#[derive(Debug, Args)]
pub(super) struct ConfigOptions {
    #[command(flatten)]
    config: ConfigArgs,
    /// Output for programs.
    #[arg(long)]
    json: bool,
}

/// Checks or prints.
pub(super) fn run(command: &ConfigCommand, out: &mut dyn Write) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check(options) => report(options.config.load(&[]).and_then(startable), options.json, out),
        ConfigCommand::Print(options) => {
            let origins = options.config.load(&[])?.origins;
            let text = if options.json {
                format!("{:#}\n", origins.to_json())
            } else {
                origins.to_toml()
            };
            write_out(out, &text)
        }
    }
}

/// A configuration that `serve` would refuse is not ok, even where every single value is.
fn startable(loaded: Loaded) -> Result<Loaded, ConfigError> {
    match exposure(&loaded.config) {
        Exposure::Refused(message) => {
            let (key, origin) = ("gateway.insecure".to_owned(), "not set".to_owned());
            Err(ConfigError {
                problems: vec![Problem { key, origin, message }],
            })
        }
        _ => Ok(loaded),
    }
}

fn report(result: Result<Loaded, ConfigError>, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    match (result, json) {
        (Ok(_), false) => write_out(out, "ok\n"),
        (Ok(_), true) => write_out(out, "{\"ok\":true,\"problems\":[]}\n"),
        (Err(error), false) => Err(error.into()),
        (Err(error), true) => {
            let entry = |problem: &Problem| serde_json::json!({"key": problem.key, "from": problem.origin, "message": problem.message});
            let problems: Vec<_> = error.problems.iter().map(entry).collect();
            write_out(
                out,
                &format!("{}\n", serde_json::json!({"ok": false, "problems": problems})),
            )?;
            Err(Failure::ConfigReported)
        }
    }
}
