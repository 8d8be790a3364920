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
    pub fn start(folder: &Path) -> Process {
        let path = format!("store.path={}", folder.join("data").display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("serve").current_dir(folder);
        for set in [
            path.as_str(),
            "gateway.listen=127.0.0.1:0",
            "replay.listen=off",
            "limits.connection=off",
            "limits.topic=off",
            "topic=[{name=\"crash.os\",durability=\"os\"}]",
        ] {
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
        std::thread::spawn(move || lines.for_each(drop));
        Process { child, address }
    }

    /// The process's id.
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
