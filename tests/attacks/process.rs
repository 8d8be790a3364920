//! The real binary, whose memory and open files can be read from outside.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::connect_async;

use crate::support::Client;

/// A gateway in a process of its own, killed when it is dropped.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
}

impl Process {
    /// With the memory store and limits off, and what `set` says.
    pub fn start(set: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("serve");
        for set in [
            "gateway.listen=127.0.0.1:0",
            "replay.listen=off",
            "store.kind=memory",
            "limits.connection=off",
            "limits.topic=off",
        ]
        .iter()
        .chain(set)
        {
            command.args(["--set", set]);
        }
        command
            .env("TIDEGATE_LOG", "info")
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                line.split_once("listening on ")
                    .map(|(_, address)| address.trim().to_owned())
            })
            .expect("a gateway that listens");
        // What it logs is read on, so that it never waits for us.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Process {
            child,
            address: address.parse().expect("an address"),
        }
    }

    pub async fn connect(&self) -> Client {
        let (socket, _) = connect_async(format!("ws://{}/ws", self.address))
            .await
            .expect("a gateway that listens");
        Client::over(socket)
    }

    /// Resident memory in KiB: now, and the most so far.
    pub fn memory_kib(&self) -> (u64, u64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("a running process");
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).expect("the field");
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        (field("VmRSS:"), field("VmHWM:"))
    }

    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))
            .expect("a running process")
            .count()
    }

    /// A figure from `/metrics`; 0 where it is not there yet.
    pub async fn figure(&self, name: &str) -> f64 {
        let figures = http_get(self.address, "/metrics").await;
        let line = figures
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
        line.map_or(0.0, |value| value.trim().parse().unwrap())
    }

    /// Waits until it is so.
    pub async fn until(&self, what: &str, is: impl AsyncFn(&Process) -> bool) {
        for _ in 0..400 {
            if is(self).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("not within 20 s: {what}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A whole response over HTTP, head and all.
pub async fn http_get(address: SocketAddr, path: &str) -> String {
    let mut socket = TcpStream::connect(address).await.expect("a gateway that listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).await.unwrap();
    response
}

/// The 99th percentile.
pub fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

/// Lets this process have as many open files as the system allows: thousands of clients need them.
pub fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, limit).expect("a raised limit");
    assert!(
        maximum.is_none_or(|maximum| maximum >= 8_192),
        "needs 8,192 open files: see ulimit -Hn"
    );
}
