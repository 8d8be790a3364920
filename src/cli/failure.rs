//! How a command can end other than well, and what the shell is told of it.

use std::process::ExitCode;

use super::frames::Refusal;
use crate::config::ConfigError;

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// The configuration is wrong.
    #[error("the configuration cannot be used\n{0}")]
    Config(#[from] ConfigError),
    /// The gateway said no.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// Something else went wrong.
    #[error("{0}")]
    Failed(String),
    /// The gateway ended with an error.
    #[error("{0:#}")]
    Gateway(#[from] anyhow::Error),
    /// Whoever read the output has seen enough (`| head`): no failure to them.
    #[error("the output was closed")]
    OutputClosed,
    /// Everything was said on standard output.
    #[error("the configuration cannot be used")]
    ConfigReported,
    /// What was looked for is wrong, and everything was said on standard output.
    #[error("damaged")]
    Reported,
}

impl Failure {
    /// What a person is told, if anything.
    pub fn message(&self) -> Option<String> {
        match self {
            Failure::OutputClosed | Failure::ConfigReported | Failure::Reported => None,
            other => Some(other.to_string()),
        }
    }

    /// What the shell is told.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::OutputClosed => ExitCode::SUCCESS,
            Failure::Refused(_) | Failure::Failed(_) | Failure::Gateway(_) | Failure::Reported => ExitCode::from(1),
            Failure::Usage(_) | Failure::Config(_) | Failure::ConfigReported => ExitCode::from(2),
        }
    }
}
