//! Sends standard input to an exec, in order.

use crate::{
    client::{ApiRequest, Client, ClientError},
    failure::Failure,
    limits,
    retry::Retry,
};
use bytes::Bytes;
use protocol::api::ApiErrorCode;
use std::{io::Read as _, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// The response comes when the command has read the input, which may take any time.
const STDIN_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Sends until the input or the exec ends. Every chunk carries its position, so that a retried one is read once.
pub async fn pump(client: Arc<Client>, exec_path: String) -> Result<(), Failure> {
    let mut pieces = read();
    let request = ApiRequest::post(format!("{exec_path}/stdin")).timeout(STDIN_TIMEOUT);
    let mut at = 0;
    while let Some(piece) = pieces.recv().await {
        let length = piece.len() as u64;
        match deliver(&client, request.clone().query("at", at).bytes(piece)).await? {
            Delivered::Taken => at += length,
            Delivered::NotWanted => return Ok(()),
        }
    }
    deliver(&client, request.query("at", at).query("eof", 1)).await?;
    Ok(())
}

enum Delivered {
    Taken,
    /// The exec has ended, or has closed its input.
    NotWanted,
}

/// Sends a chunk, with retries while hostd may be restarting.
async fn deliver(client: &Client, request: ApiRequest) -> Result<Delivered, ClientError> {
    let mut retry = Retry::new();
    loop {
        match client.send(request.clone()).await {
            Ok(_) => return Ok(Delivered::Taken),
            Err(error) if error.is(ApiErrorCode::NotRunning) || error.is(ApiErrorCode::Conflict) => {
                return Ok(Delivered::NotWanted);
            }
            Err(error) => retry.backoff(error).await?,
        }
    }
}

/// Reads on a thread: a read of a terminal cannot be cancelled, and ends with the process.
pub fn read() -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(limits::STDIN_PIECES);
    std::thread::spawn(move || {
        let mut buffer = vec![0; limits::STDIN_PIECE_BYTES];
        let mut stdin = std::io::stdin();
        loop {
            let piece = match stdin.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => Bytes::copy_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                // The terminal is gone or not readable: there is no more input.
                Err(_) => return,
            };
            if sender.blocking_send(piece).is_err() {
                return;
            }
        }
    });
    receiver
}
