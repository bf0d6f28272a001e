//! The alternative without Slipway: a hyper server that sends the output of a program as server-sent events
//! to connected clients. It keeps nothing and cannot resume.

use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::stream::unfold;
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::convert::Infallible;
use std::process::Stdio;
use std::thread::JoinHandle;
use tests::TcpViewer;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::{broadcast, oneshot};

/// Large enough that no connected client misses an event.
const EVENTS_MAX: usize = 1 << 17;

pub struct PlainSse {
    address: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    lines: broadcast::Sender<Bytes>,
}

impl PlainSse {
    pub fn start() -> Result<Self> {
        let (lines, _) = broadcast::channel(EVENTS_MAX);
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?.to_string();
        let (stop, stopped) = oneshot::channel();
        let events = lines.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    _ = serve(listener, events) => {}
                }
            });
        });
        Ok(Self { address, stop: Some(stop), thread: Some(thread), lines })
    }

    pub fn viewer(&self) -> TcpViewer {
        let request = format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", self.address);
        TcpViewer { address: self.address.clone(), request }
    }

    /// Runs a program to its end; each line that it prints is an event.
    pub async fn run(&self, argv: &[&str]) -> Result<()> {
        let mut child = Command::new(argv[0]).args(&argv[1..]).stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        let events = self.lines.clone();
        let mut number = 0_u64;
        let reading = std::thread::spawn(move || -> Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let _inside = runtime.enter();
            runtime.block_on(async {
                while let Some(line) = lines.next_line().await? {
                    number += 1;
                    let data = json!({"kind": "message", "text": line});
                    let frame = format!("id: {number}\nevent: message\ndata: {data}\n\n");
                    let _ = events.send(frame.into());
                }
                Ok(())
            })
        });
        child.wait().await?;
        tokio::task::spawn_blocking(move || reading.join()).await?.ok().context("the reader panicked")?
    }
}

impl Drop for PlainSse {
    fn drop(&mut self) {
        self.stop.take();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn serve(listener: std::net::TcpListener, events: broadcast::Sender<Bytes>) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let events = events.clone();
        let answer = service_fn(move |_: Request<Incoming>| {
            let greeting = Some(Bytes::from_static(b"retry: 1000\n\n"));
            let frames = unfold((greeting, events.subscribe()), |(greeting, mut events)| async {
                let bytes = match greeting {
                    Some(greeting) => greeting,
                    None => events.recv().await.ok()?,
                };
                Some((Ok::<_, Infallible>(Frame::data(bytes)), (None, events)))
            });
            let response = Response::builder().header("content-type", "text/event-stream");
            std::future::ready(response.body(StreamBody::new(frames)))
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}
