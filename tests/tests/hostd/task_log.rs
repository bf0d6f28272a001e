//! The output of a task's agent, byte for byte, through hostd and slipway.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use protocol::api::ApiErrorCode;
use serde_json::json;
use tests::output::{Followed, Follower};
use tests::{Hostd, messages};

/// An agent that prints lines of JSON, and waits in their middle until it is let go on.
const CONFIG: &str = r#"
[agents.liner]
speaks = "stream-json:claude"
find = ["sh"]
args = ["-c", '''
echo '{"type":"assistant","message":{"content":[{"type":"text","text":"first"}]}}'
echo odd >&2
until [ -e go ]; do sleep 0.01; done
echo '{"type":"result","is_error":false,"result":"first"}'
''']
"#;
const FIRST: &str =
    "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"first\"}]}}\n";
const LAST: &str = "{\"type\":\"result\",\"is_error\":false,\"result\":\"first\"}\n";

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_printed_is_read_and_followed() -> Result<()> {
    let place = tempfile::tempdir()?;
    let config = place.path().join("slipway.toml");
    std::fs::write(&config, CONFIG)?;
    let hostd = Hostd::start_with(&[("SLIPWAY_CONFIG", config.to_str().context("text")?)]).await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    let job = caller.submit(&sandbox, &json!({"prompt": "p", "agent": "liner"})).await?;
    caller.reaches(&job, "agent").await?;
    let path = format!("{}/log", job.path());
    let request = Request::get(format!("{path}?follow=1")).body(Empty::<Bytes>::new())?;
    let mut follower = Follower::of(caller.open(request).await?).await?;
    let mut seen = Followed::default();
    while seen.stdout.len() < FIRST.len() || seen.stderr.is_empty() {
        seen.add(&follower.next().await?.context("it ended")?)?;
    }
    let watching = hostd.slipway(&["task", "log", "--follow", &sandbox, &job.id])?.spawn()?;
    caller.shell(&sandbox, "touch go").await?;
    while let Some(chunk) = follower.next().await? {
        seen.add(&chunk)?;
    }
    let whole = format!("{FIRST}{LAST}");
    ensure!(seen.ended && seen.stdout == whole.as_bytes() && seen.stderr == b"odd\n", "{seen:?}");
    let events = caller.events_of(&job).await?;
    ensure!(messages(&events) == ["first"], "{events:?}");
    let watched = tests::host::Ran::of(watching).await?;
    ensure!(watched.code == Some(0) && watched.out == whole && watched.err == "odd\n", "{watched:?}");
    let tail = hostd.ran(&["task", "log", "-n", "1", &sandbox, &job.id]).await?;
    ensure!(tail.code == Some(0) && tail.out == LAST, "{tail:?}");
    // A command has none, and what does not exist neither.
    let command = caller.submit(&sandbox, &json!({"prompt": "p", "command": ["true"]})).await?;
    let refused = caller.get(&format!("{}/log", command.path())).await?;
    ensure!(refused.code()? == ApiErrorCode::Conflict, "{}", refused.text());
    let none = caller.get(&format!("/v1/sandboxes/{sandbox}/tasks/none/log")).await?;
    ensure!(none.code()? == ApiErrorCode::NotFound, "{}", none.text());
    Ok(())
}
