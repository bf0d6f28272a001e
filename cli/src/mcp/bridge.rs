//! Reads lines of the client and starts an exchange for each; one writer puts whole lines on standard output.

use super::{
    exchange::Shared,
    message::{self, ClientLine},
    session::Session,
};
use crate::{client::Client, failure::Failure, limits, output::Output, stdin};
use bytes::{Bytes, BytesMut};
use serde_json::Value;
use std::{collections::HashMap, sync::Arc};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};

/// Serves the client until its input ends.
pub async fn serve(client: Arc<Client>, output: Output) -> Result<(), Failure> {
    let (sender, lines) = mpsc::channel(limits::MCP_LINES_QUEUED);
    let shared = Arc::new(Shared { client, session: Session::default(), lines: sender });
    let writer = tokio::spawn(write(lines, output));
    let mut bridge = Bridge { shared, exchanges: JoinSet::new(), begun: HashMap::new() };
    let mut input = stdin::read();
    let mut rest = BytesMut::new();
    while let Some(piece) = input.recv().await {
        if writer.is_finished() {
            break;
        }
        rest.extend_from_slice(&piece);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = rest.split_to(end + 1).freeze();
            bridge.take(line).await;
        }
        if rest.len() > limits::LINE_MAX_BYTES {
            return Err(Failure::new(format!("a line is longer than {} MiB", limits::LINE_MAX_BYTES >> 20)));
        }
    }
    // The client has said all; what hostd answers soon is still written.
    let Bridge { shared, mut exchanges, .. } = bridge;
    let answered = async { while exchanges.join_next().await.is_some() {} };
    let _ = timeout(limits::MCP_END_TIMEOUT, answered).await;
    exchanges.abort_all();
    while exchanges.join_next().await.is_some() {}
    drop(shared);
    writer.await.map_err(|error| Failure::new(error.to_string()))?
}

async fn write(mut lines: mpsc::Receiver<String>, output: Output) -> Result<(), Failure> {
    while let Some(line) = lines.recv().await {
        // For a program: not sanitized, JSON has no raw control characters.
        output.bytes(format!("{line}\n").as_bytes())?;
    }
    Ok(())
}

struct Bridge {
    shared: Arc<Shared>,
    exchanges: JoinSet<()>,
    /// Requests that hostd may not have yet: their cancellation waits for it. By id.
    begun: HashMap<String, watch::Receiver<bool>>,
}

impl Bridge {
    async fn take(&mut self, line: Bytes) {
        while self.exchanges.try_join_next().is_some() {}
        if line.trim_ascii().is_empty() {
            return;
        }
        while self.exchanges.len() >= limits::MCP_EXCHANGES_MAX {
            self.exchanges.join_next().await;
        }
        self.begun.retain(|_, begun| begun.has_changed().is_ok() && !*begun.borrow());
        let shared = Arc::clone(&self.shared);
        match ClientLine::parse(&line) {
            Err(error) => shared.write(message::parse_error(&error.to_string())).await,
            Ok(ClientLine::Initialize(message)) => shared.initialize(message).await,
            Ok(ClientLine::Request(id)) => {
                let (sender, begun) = watch::channel(false);
                self.begun.insert(key(&id), begun);
                self.exchanges.spawn(async move { shared.request(id, &line, sender).await });
            }
            Ok(ClientLine::Cancelled(id)) => {
                let begun = self.begun.get(&key(&id)).cloned();
                self.exchanges.spawn(async move {
                    if let Some(mut begun) = begun {
                        // An exchange that is over drops its end: then nothing is to be waited for.
                        let _ = begun.wait_for(|begun| *begun).await;
                    }
                    shared.notify(&line).await;
                });
            }
            Ok(ClientLine::Other) => {
                self.exchanges.spawn(async move { shared.notify(&line).await });
            }
        }
    }
}

fn key(id: &Value) -> String {
    id.to_string()
}
