//! The program as a process of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A gateway that runs until it is killed.
pub struct Process {
    child: Child,
    pub address: String,
}

impl Process {
    /// Starts it on a folder, and waits until it listens.
    #[allow(dead_code, reason = "not all test programs that share this keep events in folders")]
    pub fn start(folder: &Path) -> Process {
        let path = format!("store.path={}", folder.join("data").display());
        Process::start_with(folder, &[&path, "topic=[{name=\"crash.os\",durability=\"os\"}]"])
    }

    /// Starts it with these settings, and waits until it listens.
    pub fn start_with(folder: &Path, settings: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("serve").current_dir(folder);
        let always = [
            "gateway.listen=127.0.0.1:0",
            "replay.listen=off",
            "limits.connection=off",
            "limits.topic=off",
        ];
        for set in always.iter().chain(settings) {
            command.args(["--set", set]);
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let address = loop {
            let Some(Ok(line)) = lines.next() else {
                panic!("the gateway ended instead of listening:\n{said}");
            };
            if let Some((_, address)) = line.split_once("listening on ") {
                break address.trim().to_owned();
            }
            said.push_str(&line);
            said.push('\n');
        };
        // It must not block on a full pipe.
        let told = std::env::var_os("RUST_LOG").is_some();
        std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .filter(|_| told)
                .for_each(|line| eprintln!("{line}"))
        });
        Process { child, address }
    }

    /// The process's id.
    #[allow(dead_code, reason = "not all test programs that share this need it")]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
