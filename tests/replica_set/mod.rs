//! Real MongoDB replica sets for tests: in temporary folders, on free ports, gone with the test.
//!
//! The server is the one named by `MONGOD`, or the one that `tests/run` has put into `target/mongod`, or the one on the
//! PATH. Where there is none the tests fail, and say how to get it.

#![allow(dead_code, reason = "each of the test programs that share this uses a part of it")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use mongodb::Client;
use mongodb::bson::{Bson, Document, doc};
use rustix::process::{Pid, Signal, kill_process};

/// How long anything here may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Ends the server with whoever started it, however that ended: then the pipe that it reads from is closed.
const KEEPER: &str = r#"folder="$1"; shift; "$@" </dev/null >/dev/null 2>&1 & pid=$!; echo $pid
cat >/dev/null; kill -9 $pid 2>/dev/null; wait $pid 2>/dev/null; rm -rf "$folder""#;

fn mongod() -> PathBuf {
    if let Some(path) = std::env::var_os("MONGOD") {
        return path.into();
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let fetched = target.join("mongod/mongod");
    if fetched.is_file() {
        return fetched;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("mongod"));
    let found = on_path.into_iter().find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "there is no mongod. tests/run fetches one into {}; or name one with MONGOD=/path/to/mongod (6.0 or newer)",
            fetched.display()
        )
    })
}

/// One server.
pub struct Node {
    pub port: u16,
    folder: PathBuf,
    pid: Pid,
    /// The server lives for as long as this is open.
    _keepers: Vec<(Child, ChildStdin)>,
}

impl Node {
    fn start(folder: PathBuf, port: u16) -> Node {
        std::fs::create_dir_all(folder.join("db")).unwrap();
        let (pid, keeper) = run(&folder, port);
        Node {
            port,
            folder,
            pid,
            _keepers: vec![keeper],
        }
    }

    pub fn signal(&self, signal: Signal) {
        // It may be gone already.
        let _ = kill_process(self.pid, signal);
    }

    /// `kill -9`, and started again on what it left.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub fn restart(&mut self) {
        self.kill();
        let (pid, keeper) = run(&self.folder, self.port);
        self.pid = pid;
        self._keepers.push(keeper);
    }

    /// Talks to this server, whatever its part in the set.
    pub async fn client(&self) -> Client {
        let url = format!(
            "mongodb://127.0.0.1:{}/?directConnection=true&serverSelectionTimeoutMS=2000&connectTimeoutMS=2000",
            self.port
        );
        Client::with_uri_str(url).await.unwrap()
    }

    /// What the server wrote last, for a failing test.
    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

fn run(folder: &Path, port: u16) -> (Pid, (Child, ChildStdin)) {
    let mut command = Command::new("sh");
    command.args(["-c", KEEPER, "sh"]).arg(folder).arg(mongod());
    command.args([
        "--replSet",
        "rs0",
        "--bind_ip",
        "127.0.0.1",
        "--nounixsocket",
        "--quiet",
    ]);
    command.args([
        "--wiredTigerCacheSizeGB",
        "0.25",
        "--oplogSize",
        "128",
        "--port",
        &port.to_string(),
    ]);
    command.args(["--setParameter", "diagnosticDataCollectionEnabled=false"]);
    // The suite has clocks of its own, and marks that ended long ago by the server's.
    command.args(["--setParameter", "ttlMonitorEnabled=false"]);
    command.arg("--dbpath").arg(folder.join("db"));
    command.arg("--logappend").arg("--logpath").arg(folder.join("log"));
    let mut keeper = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(keeper.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let pid = Pid::from_raw(line.trim().parse().expect("the server's process id")).unwrap();
    let stdin = keeper.stdin.take().unwrap();
    (pid, (keeper, stdin))
}

/// A replica set; its servers and folders end with it.
pub struct ReplicaSet {
    pub nodes: Vec<Node>,
    _folder: Option<tempfile::TempDir>,
}

impl ReplicaSet {
    /// Starts so many servers and waits until one of them is the primary. Elections begin after `election_ms` without
    /// word from it.
    pub async fn start(members: usize, election_ms: i32) -> ReplicaSet {
        let folder = tempfile::tempdir().unwrap();
        // All ports are taken before the first is given back: no two are the same.
        let taken: Vec<TcpListener> = (0..members)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let ports: Vec<u16> = taken.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
        drop(taken);
        let node = |(number, port): (usize, &u16)| Node::start(folder.path().join(number.to_string()), *port);
        let nodes: Vec<Node> = ports.iter().enumerate().map(node).collect();
        let set = ReplicaSet {
            nodes,
            _folder: Some(folder),
        };
        let members: Vec<Bson> = (0..)
            .zip(&set.nodes)
            .map(|(id, node)| doc! { "_id": id, "host": format!("127.0.0.1:{}", node.port) }.into())
            .collect();
        let config = doc! {
            "_id": "rs0",
            "members": members,
            "settings": { "electionTimeoutMillis": election_ms, "heartbeatIntervalMillis": (election_ms / 4).max(100) },
        };
        let client = set.nodes[0].client().await;
        let began = Instant::now();
        loop {
            let answer = client
                .database("admin")
                .run_command(doc! { "replSetInitiate": config.clone() })
                .await;
            match answer {
                Ok(_) => break,
                Err(error) if error.to_string().contains("AlreadyInitialized") => break,
                Err(error) if began.elapsed() > DEADLINE => {
                    panic!("no replica set: {error}\n{}", set.nodes[0].last_words())
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        set.primary().await;
        set
    }

    /// The address that a gateway is given.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port))
            .collect();
        format!("mongodb://{}/?replicaSet=rs0", hosts.join(","))
    }

    /// A client of the whole set.
    pub async fn client(&self) -> Client {
        Client::with_uri_str(self.url()).await.unwrap()
    }

    /// Waits until some server says that it is the primary and that a majority follows it; gives its place in `nodes`.
    pub async fn primary(&self) -> usize {
        let began = Instant::now();
        loop {
            for (number, node) in self.nodes.iter().enumerate() {
                if is_primary(node).await {
                    return number;
                }
            }
            assert!(began.elapsed() < DEADLINE, "no primary: {}", self.nodes[0].last_words());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until another server than this one is the primary.
    pub async fn other_primary(&self, lost: usize) -> usize {
        let began = Instant::now();
        loop {
            for (number, node) in self.nodes.iter().enumerate().filter(|(number, _)| *number != lost) {
                if is_primary(node).await {
                    return number;
                }
            }
            assert!(began.elapsed() < DEADLINE, "no other primary");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until all servers are primary or secondary again.
    pub async fn healthy(&self) {
        let began = Instant::now();
        loop {
            let primary = self.primary().await;
            let status = ask(&self.nodes[primary], doc! { "replSetGetStatus": 1 }).await;
            let states = status
                .and_then(|status| status.get_array("members").cloned().ok())
                .unwrap_or_default();
            let good = |member: &&Bson| {
                let state = member.as_document().and_then(|member| member.get_i32("state").ok());
                matches!(state, Some(1 | 2))
            };
            if states.iter().filter(good).count() == self.nodes.len() {
                return;
            }
            assert!(began.elapsed() < DEADLINE, "the set does not become whole: {states:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn ask(node: &Node, command: Document) -> Option<Document> {
    let client = node.client().await;
    let database = client.database("admin");
    let asking = tokio::spawn(async move { database.run_command(command).await });
    tokio::time::timeout(Duration::from_secs(3), asking)
        .await
        .ok()?
        .ok()?
        .ok()
}

async fn is_primary(node: &Node) -> bool {
    let hello = ask(node, doc! { "hello": 1 }).await;
    hello.is_some_and(|hello| hello.get_bool("isWritablePrimary").is_ok_and(|primary| primary))
}

/// One server that all tests of a program share, each in a database of its own: its address.
pub fn shared() -> &'static str {
    static SHARED: OnceLock<(ReplicaSet, String)> = OnceLock::new();
    let start = || {
        // Tests have runtimes of their own, which end; this one must not be in any of them.
        let starting = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(ReplicaSet::start(1, 1_000))
        });
        let mut set = starting.join().unwrap();
        // Never dropped: the keeper removes the folder.
        let _ = set._folder.take().map(tempfile::TempDir::keep);
        let url = set.url();
        (set, url)
    };
    &SHARED.get_or_init(start).1
}

/// The name of a database that nobody else uses.
pub fn new_database() -> String {
    format!("t{}", uuid::Uuid::now_v7().simple())
}
