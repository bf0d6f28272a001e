//! Input of an exec, sent in one request.

use crate::{Client, ClientReply, sandbox::PATIENCE};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Method;
use tokio::time::timeout;

/// Sends input; `query` is what stands after the path. The answer must come, whatever it is.
pub async fn send_input(
    client: &Client,
    id: &str,
    bytes: impl Into<Bytes>,
    query: &str,
) -> Result<ClientReply> {
    let path = format!("/v1/execs/{id}/stdin{query}");
    timeout(PATIENCE, client.send(Method::POST, &path, bytes.into())).await.context("input hangs")?
}

/// Types keys, which must be taken.
pub async fn type_in(client: &Client, id: &str, keys: &str) -> Result<()> {
    let answer = send_input(client, id, keys.to_owned(), "").await?;
    ensure!(answer.status == 204, "{}", answer.text());
    Ok(())
}
