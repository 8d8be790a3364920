//! A disk that fails: what is written to it is not answered, what was answered stays, and reading goes on.
//!
//! The full disk is a file system in memory with little room, which only root may mount; the failing fsync is made by
//! strace, which changes the answer of the system call. Where either cannot be had, the tests say so and fail.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::clients::Caller;
use crate::process::Process;

/// A file system of its own, unmounted at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: u64) -> SmallDisk {
        let folder = tempfile::tempdir().unwrap();
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(folder.path())
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "this test mounts a small tmpfs: run it as root, where mounting is allowed"
        );
        SmallDisk(folder)
    }

    fn grow(&self, bytes: u64) {
        let status = Command::new("mount")
            .args(["-o", &format!("remount,size={bytes}")])
            .arg(self.0.path())
            .status();
        assert!(status.unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Status and body of a GET.
async fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    (text[9..12].parse().unwrap(), text)
}

fn publish(n: u64) -> Value {
    json!({"op": "PUBLISH", "topic": "disk", "payload": format!("{n} {}", "x".repeat(20_000))})
}

/// Publishes until one is not answered OK; gives how many were, and the other answer.
async fn publish_until_refused(caller: &mut Caller) -> (u64, Value) {
    for n in 1..=100_000 {
        let answer = caller.call(publish(n)).await;
        if answer["op"] != "OK" {
            return (n - 1, answer);
        }
        assert_eq!(answer["seq"], n);
    }
    panic!("the disk never failed");
}

/// The events from the first on are those that were answered, and at most one more.
async fn check_kept(address: &str, answered: u64) {
    let mut caller = Caller::connect(address).await;
    let subscribe = json!({"op": "SUBSCRIBE", "topic": "disk", "opts": {"from": "earliest"}});
    assert_eq!(caller.call(subscribe).await["op"], "OK");
    for n in 1..=answered {
        let event = caller.event().await;
        assert_eq!(event["event"]["seq"], n);
        let payload = event["event"]["payload"].as_str().unwrap().to_owned();
        assert!(payload.starts_with(&format!("{n} x")), "{n}: {}", &payload[..20]);
    }
}

/// After the disk failed: no more OK, not ready, and everything can still be read.
async fn check_failed(address: &str, answered: u64, caller: &mut Caller) {
    for n in 0..3 {
        let answer = caller.call(publish(n)).await;
        assert_eq!(answer["code"], "store_unavailable", "{answer}");
    }
    let (status, text) = get(address, "/readyz").await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("store_unavailable"), "{text}");
    assert_eq!(get(address, "/healthz").await.0, 200);
    check_kept(address, answered).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_publishes_and_loses_nothing() {
    let disk = SmallDisk::mount(90 << 20);
    let mut gateway = Process::start(disk.0.path());
    let mut caller = Caller::connect(&gateway.address).await;
    let (answered, refusal) = publish_until_refused(&mut caller).await;
    println!("{answered} publishes were answered before the disk was full, then: {refusal}");
    assert_eq!(refusal["code"], "store_unavailable", "{refusal}");
    assert!(answered > 100);
    check_failed(&gateway.address, answered, &mut caller).await;
    gateway.kill();
    disk.grow(400 << 20);
    let mut gateway = Process::start(disk.0.path());
    check_kept(&gateway.address, answered).await;
    let mut caller = Caller::connect(&gateway.address).await;
    let answer = caller.call(publish(0)).await;
    assert!(
        answer["seq"].as_u64() > Some(answered),
        "publishing goes on with room: {answer}"
    );
    gateway.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_fsync_is_never_answered_ok() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Process::start(folder.path());
    let mut caller = Caller::connect(&gateway.address).await;
    for n in 1..=5 {
        assert_eq!(caller.call(publish(n)).await["op"], "OK");
    }
    let trace = folder.path().join("trace");
    let mut strace = Strace::attach(gateway.id(), &trace, "inject=fdatasync,fsync:error=EIO");
    let answer = caller.call(publish(6)).await;
    assert_eq!(answer["code"], "store_unavailable", "{answer}");
    strace.detach();
    // The disk would answer well again: a sync that failed is not made up for by one that does not.
    check_failed(&gateway.address, 5, &mut caller).await;
    drop(gateway);
    let gateway = Process::start(folder.path());
    check_kept(&gateway.address, 5).await;
    let mut caller = Caller::connect(&gateway.address).await;
    assert_eq!(caller.call(publish(0)).await["op"], "OK");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_ok_has_its_fsync_before_it() {
    const PUBLISHES: usize = 50;
    let folder = tempfile::tempdir().unwrap();
    let gateway = Process::start(folder.path());
    let mut caller = Caller::connect(&gateway.address).await;
    assert_eq!(caller.call(publish(1)).await["op"], "OK");
    let trace = folder.path().join("trace");
    let mut strace = Strace::attach(gateway.id(), &trace, "trace=fdatasync,fsync,writev,write,sendto");
    for n in 0..PUBLISHES as u64 {
        assert_eq!(
            caller
                .call(json!({"op": "PUBLISH", "topic": "disk", "payload": n}))
                .await["op"],
            "OK"
        );
    }
    strace.detach();
    let text = std::fs::read_to_string(&trace).unwrap();
    let (mut synced, mut answers) = (false, 0);
    for line in text.lines() {
        if (line.contains("fdatasync(") || line.contains("fsync(") || line.contains("sync resumed"))
            && line.contains("= 0")
        {
            synced = true;
        } else if line.contains("\\\"op\\\":\\\"OK\\\"") {
            assert!(synced, "an OK left before a sync ended: {line}");
            synced = false;
            answers += 1;
        }
    }
    assert_eq!(answers, PUBLISHES, "{text}");
}

/// strace on a running process.
struct Strace(Option<std::process::Child>);

impl Strace {
    fn attach(process: u32, output: &Path, expression: &str) -> Strace {
        let mut command = Command::new("strace");
        command.args(["-f", "-s", "64", "-p", &process.to_string(), "-e", expression]);
        command.arg("-o").arg(output).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("this test needs strace (Debian: apt-get install strace): {error}");
        });
        // It says on standard error when it is there.
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
        let said = lines.next().and_then(Result::ok).unwrap_or_default();
        assert!(said.contains("attached"), "strace could not attach: {said}");
        std::thread::spawn(move || lines.for_each(drop));
        Strace(Some(child))
    }

    fn detach(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
            child.wait().unwrap();
        }
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        self.detach();
    }
}
