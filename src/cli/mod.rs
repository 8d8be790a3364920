//! The command line: what can be typed, and what a command's end means to the shell (0 done, 1 failed, 2 wrong usage or
//! configuration).

mod args;
mod bench;
mod client;
mod config;
mod dlq;
mod export;
mod failure;
mod frames;
mod groups;
mod http;
mod input;
mod output;
mod publish;
mod replay;
#[cfg(test)]
mod scripted_gateway;
mod serve;
mod store;
mod subscribe;
mod table;
mod token;
mod topics;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::telemetry::{LogFormat, init_logging};
use failure::Failure;

/// The variable that says what is logged.
const LOG_VARIABLE: &str = "TIDEGATE_LOG";

/// An event gateway: durable topics, consumer groups and replay over WebSocket.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate",
    version,
    after_help = "TIDEGATE_LOG says what is logged, on standard error: info \
    (default), debug, tidegate=debug, ..."
)]
struct Cli {
    /// How log lines look.
    #[arg(long, global = true, value_enum, default_value_t, env = "TIDEGATE_LOG_FORMAT")]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway.
    Serve(serve::ServeArgs),
    /// Publish an event, or one for each line of standard input.
    Publish(publish::PublishArgs),
    /// Print a topic's events, one a line, and ack them where there is a group.
    Subscribe(subscribe::SubscribeArgs),
    /// Print a topic's history, one event a line.
    Replay(replay::ReplayArgs),
    /// Write all of a topic's history to a file or to standard output, one event a line.
    Export(export::ExportArgs),
    /// All topics: what they hold, how fast they grow.
    Topics(topics::TopicsArgs),
    /// Consumer groups: how far they are, why they do not move; pause, move and delete them.
    #[command(subcommand)]
    Groups(groups::GroupsCommand),
    /// Dead letters: print them, publish the originals again.
    #[command(subcommand)]
    Dlq(dlq::DlqCommand),
    /// Put load on a gateway: how much it takes, how long that takes, and whether all of it arrives.
    Bench(bench::BenchArgs),
    /// Make a token for development, signed with auth.jwt.secret.
    Token(token::TokenArgs),
    /// Check the configuration, or show what is in force.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Check, repair or back up the embedded store's folder.
    #[command(subcommand)]
    Store(store::StoreCommand),
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message() {
                eprintln!("error: {message}");
            }
            failure.exit_code()
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let filter = std::env::var(LOG_VARIABLE).ok();
    init_logging(cli.log_format, filter.as_deref())
        .map_err(|error| Failure::Usage(format!("{LOG_VARIABLE}: {error}")))?;
    let out = &mut std::io::stdout();
    match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Publish(args) => block_on(publish::run(&args, out)),
        Command::Subscribe(args) => block_on(subscribe::run(&args, out)),
        Command::Replay(args) => replay::run(&args, out),
        Command::Export(args) => export::run(&args, out),
        Command::Topics(args) => topics::run(&args, out),
        Command::Groups(command) => groups::run(&command, out),
        Command::Dlq(command) => dlq::run(&command, out),
        Command::Bench(args) => block_on(bench::run(&args, out)),
        Command::Token(args) => token::run(&args, out),
        Command::Config(command) => config::run(&command, out),
        Command::Store(command) => store::run(&command, out),
    }
}

/// Runs a client's work: one connection needs one thread.
fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
    runtime.block_on(work)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wrong_usage_is_refused() {
        for wrong in [
            "publish",
            "publish Orders 1",
            "publish orders 1 --header x",
            "subscribe orders --from yesterday",
            "subscribe orders --count 0",
            "subscribe orders --group a/b",
            "replay orders --from latest",
            "replay orders --limit 0",
            "export",
            "export orders --resume",
            "export orders --from-ts yesterday",
            "config",
            "groups",
            "groups seek orders billing",
            "groups lag orders",
            "dlq replay orders --limit 0",
            "token",
            "token --scope admin --ttl soon",
            "bench --window 0",
            "bench --rate 0",
            "bench --rate 10 --window 10",
            "bench --payload 10",
            "bench --duration soon",
            "serve --log-format loud",
        ] {
            let words = ["tidegate"].into_iter().chain(wrong.split(' '));
            let error = Cli::try_parse_from(words).expect_err(wrong);
            assert_eq!(error.exit_code(), 2, "{wrong}");
        }
    }
}
