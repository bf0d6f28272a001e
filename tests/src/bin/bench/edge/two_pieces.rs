//! A dev server that writes head and body of a response in two pieces, with Nagle's algorithm: Python's `http.server`.
//! Seen through the edge on the connection that the edge keeps, and on a new one for each request.

use super::probe;
use crate::{
    host::start_with,
    row::{Goal, Row, median, ms, ratio},
};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{
    Request,
    client::conn::http1::{self, SendRequest},
    header::HOST,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::{sandbox::PATIENCE, scaled};
use tokio::{net::TcpStream, time::timeout};

/// In a row.
const REQUESTS: u32 = 100;
/// Where it speaks HTTP/1.1, and keeps its connections.
const KEPT: u16 = 3000;
/// Where it speaks HTTP/1.0, and closes them.
const CLOSED: u16 = 3001;
const SLOWER_MAX: f64 = 1.5;

pub async fn rows() -> Result<Vec<Row>> {
    let hostd = start_with(&[("SLIPWAY_LOG", "warn")]).await?;
    let caller = hostd.local();
    let service = |name: &str, port: u16, protocol: &str| {
        let command = format!("exec python3 -m http.server --bind 127.0.0.1 --protocol {protocol} {port}");
        json!({"name": name, "port": port, "command": command})
    };
    let services = [service("kept", KEPT, "HTTP/1.1"), service("closed", CLOSED, "HTTP/1.0")];
    let id = caller.create(&json!({"ports": [KEPT, CLOSED], "services": services})).await?;
    let view = caller.sandbox(&id).await?;
    let (mut kept, mut closed) = (client(&view, KEPT).await?, client(&view, CLOSED).await?);
    let (mut kept_times, mut closed_times) = (Vec::new(), Vec::new());
    for _ in 0..scaled(5, 15) {
        kept_times.push(kept.request_in_a_row().await?);
        closed_times.push(closed.request_in_a_row().await?);
    }
    hostd.stop().await?;
    let (kept, closed) = (median(kept_times), median(closed_times));
    Ok(vec![Row {
        what: "response in two pieces, kept connection".into(),
        ours: ms(kept),
        other: format!("a new connection each time {}", ms(closed)),
        ratio: ratio(kept, closed),
        goal: Goal::AtMost(SLOWER_MAX),
    }])
}

/// A client with one connection to the edge.
struct Client {
    sender: SendRequest<Empty<Bytes>>,
    host: String,
}

/// Connects to the preview of a port, once its app answers.
async fn client(view: &Value, port: u16) -> Result<Client> {
    let url = view["previews"][port.to_string()].as_str().context("a preview")?;
    let host = url.strip_prefix("http://").context("http")?.to_owned();
    let address = format!("127.0.0.1:{}", host.rsplit_once(':').context("a port")?.1);
    probe::until_it_answers(&address, &host).await?;
    let stream = TcpStream::connect(&address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(Client { sender, host })
}

impl Client {
    /// The time of one of the requests.
    async fn request_in_a_row(&mut self) -> Result<Duration> {
        let started = Instant::now();
        for _ in 0..REQUESTS {
            timeout(PATIENCE, self.request()).await.context("it is never answered")??;
        }
        Ok(started.elapsed() / REQUESTS)
    }

    async fn request(&mut self) -> Result<()> {
        self.sender.ready().await?;
        let request = Request::get("/").header(HOST, &self.host).body(Empty::new())?;
        let response = self.sender.send_request(request).await?;
        ensure!(response.status() == 200, "answered {}", response.status());
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(!body.is_empty(), "no body");
        Ok(())
    }
}
