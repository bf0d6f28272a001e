//! The log of an exec in another form than NDJSON.

use crate::{Client, sandbox::PATIENCE};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Incoming;
use tokio::time::timeout;

/// Opens `path` in the form that `accept` names.
pub async fn open(client: &Client, path: &str, accept: &str) -> Result<Incoming> {
    let response =
        client.open(Request::get(path).header("accept", accept).body(Empty::<Bytes>::new())?).await?;
    ensure!(response.status() == 200, "{path} answered {}", response.status());
    ensure!(response.headers()["content-type"] == accept, "{:?}", response.headers());
    Ok(response.into_body())
}

/// All bytes of a log, as they are.
pub async fn raw(client: &Client, path: &str) -> Result<Bytes> {
    let body = open(client, path, "application/octet-stream").await?;
    Ok(timeout(PATIENCE, body.collect()).await.context("the log never ends")??.to_bytes())
}
