//! A byte stream to a port inside, as `GET /v1/tunnel/{port}` becomes.

use crate::{Client, ClientReply};
use anyhow::{Result, bail};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;

pub type Tunnel = TokioIo<Upgraded>;

/// Opens a tunnel, or gives the answer that refused it.
pub async fn try_open(client: &Client, port: u16) -> Result<Result<Tunnel, ClientReply>> {
    let request = Request::get(format!("/v1/tunnel/{port}"))
        .header("connection", "Upgrade")
        .header("upgrade", "slipway-tunnel")
        .body(Empty::<bytes::Bytes>::new())?;
    let response = client.open(request).await?;
    if response.status() == 101 {
        return Ok(Ok(TokioIo::new(hyper::upgrade::on(response).await?)));
    }
    let status = response.status().as_u16();
    Ok(Err(ClientReply { status, body: response.into_body().collect().await?.to_bytes() }))
}

pub async fn open(client: &Client, port: u16) -> Result<Tunnel> {
    match try_open(client, port).await? {
        Ok(tunnel) => Ok(tunnel),
        Err(answer) => bail!("port {port}: {} {}", answer.status, answer.text()),
    }
}
