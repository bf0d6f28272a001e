//! Shell lines in a sandbox, and waiting for what they print.

use crate::{
    Client,
    output::{Follower, bytes_of},
    sandbox::PATIENCE,
};
use anyhow::{Context, Result, ensure};
use protocol::{Chunk, ExecView, Exit};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Runs a shell line that must exit 0 and returns its standard output.
pub async fn shell(client: &Client, line: &str) -> Result<String> {
    let view = client.exec(json!({"shell": line})).await?;
    ensure!(view.exit == Some(Exit::Exited { code: 0 }), "{line}: {:?}\n{}", view.exit, stderr(&view)?);
    stdout(&view)
}

/// Starts something with this id and comes back once it has printed `sign`.
pub async fn started(client: &Client, id: &str, mut request: Value, sign: &str) -> Result<ExecView> {
    request["id"] = json!(id);
    let view = client.start(request).await?;
    prints(client, id, sign).await?;
    Ok(view)
}

/// Waits until the output of an exec holds `sign`; what it printed until then.
pub async fn prints(client: &Client, id: &str, sign: &str) -> Result<String> {
    let reading = async {
        let mut follower = Follower::open(client, &format!("/v1/execs/{id}/output?follow=1")).await?;
        let mut seen = String::new();
        while !seen.contains(sign) {
            let chunk = follower.next().await?.with_context(|| format!("{id} only printed {seen:?}"))?;
            if let Chunk::Output { payload, .. } = chunk {
                seen += &String::from_utf8_lossy(&bytes_of(&payload)?);
            }
        }
        Ok(seen)
    };
    timeout(PATIENCE, reading).await.with_context(|| format!("{id} never prints {sign:?}"))?
}

/// Asks an exec to end now, with everything below it, and waits until it has.
pub async fn cancel_now(client: &Client, id: &str) -> Result<ExecView> {
    cancel(client, id, 0).await
}

pub async fn cancel(client: &Client, id: &str, grace_ms: u64) -> Result<ExecView> {
    let answer = client.post(&format!("/v1/execs/{id}/cancel"), &json!({"grace_ms": grace_ms})).await?;
    ensure!(answer.status == 204, "cancel answered {} {}", answer.status, answer.text());
    client.ended(id).await
}

pub fn stdout(view: &ExecView) -> Result<String> {
    let payload = view.stdout.as_ref().context("no output in the answer")?;
    Ok(String::from_utf8(bytes_of(payload)?)?)
}

pub fn stderr(view: &ExecView) -> Result<String> {
    let payload = view.stderr.as_ref().context("no output in the answer")?;
    Ok(String::from_utf8(bytes_of(payload)?)?)
}
