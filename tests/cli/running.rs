//! The program as a process of its own, with a store in a temporary folder.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Nothing takes longer than this; a test that waits so long has failed.
const DEADLINE: Duration = Duration::from_secs(30);

/// `tidegate` with nothing of the caller's environment or configuration.
pub fn tidegate(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TIDEGATE_")) {
        command.env_remove(name);
    }
    command.current_dir(folder);
    command
}

/// A gateway in a process of its own; killed when it is dropped.
pub struct Running {
    child: Child,
    pub url: String,
}

impl Running {
    /// Starts `tidegate serve` in a folder and waits until it listens.
    pub fn start(folder: &Path, set: &[&str]) -> Running {
        let mut command = tidegate(folder);
        command.args([
            "--log-format",
            "text",
            "serve",
            "--set",
            "gateway.listen=127.0.0.1:0",
            "--set",
            "replay.listen=off",
        ]);
        for setting in set {
            command.args(["--set", setting]);
        }
        let mut child = command
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("its standard error")).lines();
        let mut said = Vec::new();
        let address = loop {
            let line = lines
                .next()
                .unwrap_or_else(|| panic!("it ended: {said:#?}"))
                .expect("text");
            if let Some((_, address)) = line.split_once("listening on ") {
                break address.split_whitespace().next().expect("an address").to_owned();
            }
            said.push(line);
        };
        // Whatever it says later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Running {
            child,
            url: format!("ws://{address}/ws"),
        }
    }

    /// Sends a signal by name and waits for the end.
    pub fn end(mut self, signal: &str) -> ExitStatus {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().expect("kill");
        assert!(sent.success());
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(began.elapsed() < DEADLINE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs a client command against it.
    pub fn client(&self, folder: &Path, args: &[&str]) -> Output {
        let mut command = tidegate(folder);
        command.args(args).args(["--url", &self.url]);
        command.output().expect("the program runs")
    }

    /// The same with something on standard input.
    pub fn client_with_input(&self, folder: &Path, args: &[&str], input: &str) -> Output {
        let mut command = tidegate(folder);
        command.args(args).args(["--url", &self.url]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        child
            .stdin
            .take()
            .expect("its input")
            .write_all(input.as_bytes())
            .expect("a reader");
        child.wait_with_output().expect("the program ends")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Standard output as text, of a command that must have succeeded.
pub fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, stderr(output));
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// Standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
