//! Log lines on standard error: standard output belongs to what a command prints.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// What is logged where nobody says otherwise.
const DEFAULT_FILTER: &str = "info";

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Text, in colours where standard error is a terminal.
    #[default]
    Auto,
    /// Text without colours.
    Text,
    /// A JSON object a line.
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is none.
    #[error("{filter:?} is no filter such as \"info\" or \"tidegate=debug\": {reason}")]
    Filter {
        /// As it was given.
        filter: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Somebody has set up logging before.
    #[error("logging is set up already")]
    AlreadySet,
}

/// Sets up logging for the whole process; once. `filter` is what `TIDEGATE_LOG` says, such as `info` or
/// `tidegate=debug`; by default, or where it is empty, `info`.
pub fn init_logging(format: LogFormat, filter: Option<&str>) -> Result<(), LogError> {
    let filter = parse_filter(filter)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let result = match format {
        LogFormat::Auto => builder.with_ansi(wants_colours()).try_init(),
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.with_ansi(false).json().flatten_event(true).try_init(),
    };
    result.map_err(|_| LogError::AlreadySet)
}

fn parse_filter(filter: Option<&str>) -> Result<EnvFilter, LogError> {
    let filter = filter.filter(|text| !text.is_empty()).unwrap_or(DEFAULT_FILTER);
    EnvFilter::builder().parse(filter).map_err(|error| LogError::Filter {
        filter: filter.to_owned(),
        reason: error.to_string(),
    })
}

fn wants_colours() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_checked() {
        assert_eq!(parse_filter(None).unwrap().to_string(), "info");
        assert_eq!(parse_filter(Some("")).unwrap().to_string(), "info");
        assert_eq!(
            parse_filter(Some("tidegate=debug")).unwrap().to_string(),
            "tidegate=debug"
        );
        let error = parse_filter(Some("tidegate=loud")).unwrap_err().to_string();
        assert!(error.contains("tidegate=loud"), "{error}");
    }
}
