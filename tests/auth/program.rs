//! The real program: a gateway as a process, and commands.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use crate::support::DEADLINE;

/// `tidegate` with nothing of this process's environment that would change it.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TIDEGATE_")) {
        command.env_remove(name);
    }
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub fn run(args: &[&str]) -> Output {
    command(args).output().expect("the program")
}

/// What a command said on both outputs.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// A gateway as a process of its own; killed when it is dropped.
pub struct Program {
    child: Child,
    lines: Receiver<String>,
    /// All that it logged, as far as it was read.
    pub log: String,
    pub address: SocketAddr,
}

impl Program {
    /// `serve` with a memory store on a free port, with everything logged that can be.
    pub fn serve(set: &[&str]) -> Program {
        Program::serve_with(set, &[])
    }

    /// The same, with variables.
    pub fn serve_with(set: &[&str], variables: &[(&str, &str)]) -> Program {
        let mut args = vec!["serve", "--log-format", "text"];
        for entry in ["gateway.listen=127.0.0.1:0", "replay.listen=off", "store.kind=memory"]
            .iter()
            .chain(set)
        {
            args.extend(["--set", entry]);
        }
        let mut child = command(&args)
            .env("TIDEGATE_LOG", "trace")
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut program = Program {
            child,
            lines,
            log: String::new(),
            address: ([127, 0, 0, 1], 0).into(),
        };
        let line = program.wait_for("listening on ");
        let address = line.split("listening on ").nth(1).expect("an address");
        program.address = address.trim().parse().expect("an address");
        program
    }

    /// Waits for a line with this text.
    pub fn wait_for(&mut self, text: &str) -> String {
        let end = Instant::now() + DEADLINE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("no {text:?} in the log:\n{}", self.log));
            self.log.push_str(&line);
            self.log.push('\n');
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status();
        assert!(sent.expect("the command kill, of procps or util-linux").success());
    }

    /// Ends it well and gives all that it logged.
    pub fn stop(mut self) -> String {
        self.signal("-TERM");
        self.wait_for("drained");
        let status = self.child.wait().expect("an end");
        assert!(status.success(), "{status}\n{}", self.log);
        while let Ok(line) = self.lines.recv_timeout(DEADLINE) {
            self.log.push_str(&line);
            self.log.push('\n');
        }
        std::mem::take(&mut self.log)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
