//! The least that a frame over a WebSocket costs here: a server that sends every frame back and does nothing else. See
//! `README.md` beside this file.

#![allow(missing_docs, reason = "a program of its own")]

mod support;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use actix_web_actors::ws;
use futures_util::{SinkExt, StreamExt};
use rustix::time::{ClockId, clock_gettime};
use support::{Result, ended};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

/// How long each line is measured.
const MEASURE: Duration = Duration::from_secs(2);
/// About as large as a PUBLISH with a payload of 256 bytes.
const FRAME_BYTES: usize = 350;

struct Echo;

impl actix::Actor for Echo {
    type Context = ws::WebsocketContext<Echo>;
}

impl actix::StreamHandler<std::result::Result<ws::Message, ws::ProtocolError>> for Echo {
    fn handle(&mut self, message: std::result::Result<ws::Message, ws::ProtocolError>, ctx: &mut Self::Context) {
        if let Ok(ws::Message::Text(text)) = message {
            ctx.text(text);
        }
    }
}

async fn echo(request: HttpRequest, payload: web::Payload) -> std::result::Result<HttpResponse, actix_web::Error> {
    ws::start(Echo, &request, payload)
}

/// The server, in a thread of its own: its address.
fn serve() -> Result<std::net::SocketAddr> {
    let (sender, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        actix::System::new().block_on(async move {
            let server = HttpServer::new(|| App::new().route("/ws", web::get().to(echo)));
            let server = server.workers(1).disable_signals().bind("127.0.0.1:0")?;
            let _ = sender.send(server.addrs()[0]);
            server.run().await
        })
    });
    Ok(address.recv()?)
}

fn cpu(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Frames a second, and microseconds of the server's CPU for each, with so many on their way at once.
async fn measure(address: std::net::SocketAddr, window: usize) -> Result<(f64, f64)> {
    let (mut socket, _) = connect_async(format!("ws://{address}/ws")).await?;
    let text = "x".repeat(FRAME_BYTES);
    // This thread is the client; the process's other time is the server's.
    let server_cpu = || cpu(ClockId::ProcessCPUTime) - cpu(ClockId::ThreadCPUTime);
    let (began, cpu_before, mut frames) = (Instant::now(), server_cpu(), 0_u64);
    while began.elapsed() < MEASURE {
        for _ in 0..window {
            socket.feed(Message::text(text.clone())).await?;
        }
        socket.flush().await?;
        for _ in 0..window {
            socket.next().await.ok_or("the server closed")??;
        }
        frames += window as u64;
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok((frames as f64 / seconds, (server_cpu() - cpu_before) / frames as f64))
}

async fn run() -> Result<()> {
    let address = serve()?;
    println!("| frames on their way | round trips a second | us each | server CPU us each |\n|---|---|---|---|");
    for window in [1, 16, 256] {
        let (rate, cpu) = measure(address, window).await?;
        println!("| {window} | {rate:.0} | {:.1} | {cpu:.2} |", 1e6 / rate);
    }
    Ok(())
}

fn main() -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => ended(runtime.block_on(run())),
        Err(error) => ended(Err(error.into())),
    }
}
