//! Log lines on standard error: standard output belongs to what a command prints.

use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing::Level;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

/// What is logged where nobody says otherwise. The database's own steps are of no use to an operator.
const DEFAULT_FILTER: &str = "info,fjall=warn,lsm_tree=warn,actix_server=warn";

/// Libraries that log whole frames and heads, tokens and payloads in them, below the level `info`.
const CONTENT_LOGGERS: [&str; 6] = [
    "tungstenite",
    "tokio_tungstenite",
    "actix_http",
    "ureq",
    "ureq_proto",
    "rustls",
];

/// What is logged, to be changed while the process runs.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

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
/// `tidegate=debug`; by default, or where it is empty, `info` for what the
/// gateway itself says.
pub fn init_logging(format: LogFormat, filter: Option<&str>) -> Result<(), LogError> {
    let (filter, handle) = reload::Layer::new(parse_filter(filter)?);
    // On top of the filter, so that nothing it says opens what must stay shut.
    let without_contents = filter_fn(|metadata| !may_show_contents(metadata.target(), metadata.level()));
    let subscriber = tracing_subscriber::registry().with(filter).with(without_contents);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let result = match format {
        LogFormat::Auto => subscriber.with(lines.with_ansi(wants_colours())).try_init(),
        LogFormat::Text => subscriber.with(lines.with_ansi(false)).try_init(),
        LogFormat::Json => subscriber.with(lines.json().flatten_event(true)).try_init(),
    };
    result.map_err(|_| LogError::AlreadySet)?;
    let _ = FILTER.set(handle);
    log_panics();
    Ok(())
}

/// Changes what is logged; the same text as [`init_logging`]'s. Where logging was set up by somebody else, it is theirs.
pub fn set_log_filter(filter: Option<&str>) -> Result<(), LogError> {
    let filter = parse_filter(filter)?;
    if let Some(handle) = FILTER.get() {
        handle.reload(filter).map_err(|_| LogError::AlreadySet)?;
    }
    Ok(())
}

/// Whether this is a filter.
pub fn check_filter(filter: &str) -> Result<(), LogError> {
    parse_filter(Some(filter)).map(|_| ())
}

/// A panic ends an actor, not the process: its cause belongs into the log, beside the line about the actor's end.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let cause = panic.payload_as_str().unwrap_or("no text");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(cause, place, "panic");
    }));
}

fn parse_filter(filter: Option<&str>) -> Result<EnvFilter, LogError> {
    let filter = filter.filter(|text| !text.is_empty()).unwrap_or(DEFAULT_FILTER);
    EnvFilter::builder().parse(filter).map_err(|error| LogError::Filter {
        filter: filter.to_owned(),
        reason: error.to_string(),
    })
}

/// Whether a line of this target and level may have a frame or a head in it.
fn may_show_contents(target: &str, level: &Level) -> bool {
    let library = target.split("::").next().unwrap_or_default();
    *level > Level::INFO && CONTENT_LOGGERS.contains(&library)
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
        for none in [None, Some("")] {
            let default = parse_filter(none).unwrap().to_string();
            assert!(default.contains("info") && default.contains("fjall=warn"), "{default}");
        }
        assert_eq!(
            parse_filter(Some("tidegate=debug")).unwrap().to_string(),
            "tidegate=debug"
        );
        let error = parse_filter(Some("tidegate=loud")).unwrap_err().to_string();
        assert!(error.contains("tidegate=loud"), "{error}");
    }

    #[test]
    fn what_libraries_log_of_frames_stays_shut() {
        assert!(may_show_contents("tungstenite::protocol", &Level::TRACE));
        assert!(may_show_contents("actix_http", &Level::DEBUG));
        assert!(!may_show_contents("tungstenite::protocol", &Level::WARN));
        assert!(!may_show_contents("tidegate::actors", &Level::TRACE));
    }
}
