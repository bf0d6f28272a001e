//! The socket of the sandboxed code: its own status and holds, nothing else, and never at the cost of control.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Method;
use nix::sys::socket::{SockaddrLike, UnixAddr};
use protocol::{ErrorCode, Fact, HoldView};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;
use tests::events::EventStream;
use tests::raw_http::Wire;
use tests::sandbox::PATIENCE;
use tests::shell::{shell, started};
use tests::{Client, ClientReply, Sandbox};
use tokio::task::JoinSet;

fn socket(sandbox: &Sandbox) -> Result<PathBuf> {
    let path = sandbox.control_dir().parent().context("the sandbox's directory")?.join("public/sock");
    // The path must fit into an address, else nothing below is about what it says.
    ensure!(UnixAddr::new(&path)?.len() > 0);
    Ok(path)
}

/// A request from inside, by the sandbox's user, as a shell script would make it.
async fn curl(sandbox: &Sandbox, arguments: &str) -> Result<(u16, String)> {
    let socket = socket(sandbox)?;
    let line = format!("curl -s -w '\\n%{{http_code}}' --unix-socket {} {arguments}", socket.display());
    let printed = shell(sandbox.client(), &line).await?;
    let (body, status) = printed.rsplit_once('\n').context("no status")?;
    Ok((status.parse()?, body.to_owned()))
}

#[tokio::test]
async fn the_sandboxed_code_asks_its_own_status_and_takes_and_releases_holds() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let (status, body) = curl(&sandbox, "http://x/v1/status").await?;
    ensure!(status == 200, "{body}");
    let own: Value = serde_json::from_str(&body)?;
    let mut fields: Vec<&String> = own.as_object().context("an object")?.keys().collect();
    fields.sort();
    ensure!(fields == ["activity", "boot_ms", "holds", "services", "version"], "{fields:?}");

    let hold = "-X PUT http://x/v1/holds/build -d '{\"ttl_s\": 600, \"reason\": \"compiling\"}'";
    let (status, body) = curl(&sandbox, hold).await?;
    ensure!(status == 200, "{body}");
    let view: HoldView = serde_json::from_str(&body)?;
    ensure!(view.name.as_str() == "build" && view.reason == "compiling", "{view:?}");
    let holds: Vec<HoldView> = sandbox.client().get("/v1/holds").await?.json()?;
    ensure!(holds == [view], "control sees {holds:?}");
    let (status, body) = curl(&sandbox, "http://x/v1/holds").await?;
    ensure!(status == 200 && serde_json::from_str::<Vec<HoldView>>(&body)? == holds, "{body}");

    let (status, _) = curl(&sandbox, "-X DELETE http://x/v1/holds/build").await?;
    ensure!(status == 204, "{status}");
    let (status, body) = curl(&sandbox, "-X DELETE http://x/v1/holds/build").await?;
    ensure!(status == 404, "{status} {body}");
    // A hold needs nothing but its name.
    let (status, _) = curl(&sandbox, "-X PUT http://x/v1/holds/short").await?;
    ensure!(status == 200, "{status}");
    sandbox.stop().await
}

async fn take(client: &Client, name: &str, ttl_s: u64) -> Result<HoldView> {
    let answer = client.put(&format!("/v1/holds/{name}"), &json!({"ttl_s": ttl_s})).await?;
    ensure!(answer.status == 200, "{}", answer.text());
    answer.json()
}

#[tokio::test]
async fn a_hold_ends_when_it_is_released_or_its_time_is_up_and_renewing_it_counts() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let (public, mut events) = (sandbox.public(), EventStream::open(sandbox.client()).await?);
    let taken = take(&public, "released", 60).await?;
    public.send(Method::DELETE, "/v1/holds/released", Bytes::new()).await?;
    let first = take(&public, "renewed", 3).await?;
    let second = take(&public, "renewed", 600).await?;
    ensure!(second.expires_ms > first.expires_ms + 500_000, "{first:?} {second:?}");
    let short = take(&public, "short", 3).await?;
    let mut told = Vec::new();
    while !told.iter().any(|fact| matches!(fact, Fact::HoldReleased { expired: true, .. })) {
        let event = events.next().await?.context("the stream ended")?;
        told.push(event.fact);
    }
    let name = |view: &HoldView| view.name.clone();
    let taken_fact = |view: &HoldView| Fact::HoldTaken { hold: name(view), expires_ms: view.expires_ms };
    let expected = [
        taken_fact(&taken),
        Fact::HoldReleased { hold: name(&taken), expired: false },
        taken_fact(&first),
        taken_fact(&second),
        taken_fact(&short),
        Fact::HoldReleased { hold: name(&short), expired: true },
    ];
    ensure!(told[1..] == expected, "{told:#?}");
    let left: Vec<HoldView> = public.get("/v1/holds").await?.json()?;
    ensure!(left == [second], "{left:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn a_wrong_hold_is_refused_by_the_name_of_what_is_wrong() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let public = sandbox.public();
    for (name, body, field) in [
        ("h", json!({"ttl_s": 0}), "ttl_s"),
        ("h", json!({"ttl_s": 86_401}), "ttl_s"),
        ("h", json!({"ttl_s": -1}), "ttl_s"),
        ("h", json!({"ttl_s": "long"}), "ttl_s"),
        ("h", json!({"reason": "x".repeat(201)}), "reason"),
        (".h", json!({}), "name"),
        ("%2e%2e", json!({}), "name"),
        ("", json!({}), "name"),
    ] {
        let answer = public.put(&format!("/v1/holds/{name}"), &body).await?;
        let error = answer.error()?.error;
        ensure!(
            answer.status == 400 && error.detail.field.as_deref() == Some(field),
            "{name} {body}: {error:?}"
        );
    }
    let holds: Vec<HoldView> = public.get("/v1/holds").await?.json()?;
    ensure!(holds.is_empty(), "{holds:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn there_is_nothing_else_on_it() -> Result<()> {
    let sandbox = Sandbox::start_with(&["RUNTIMED_FAULTS=1"]).await?;
    started(sandbox.client(), "e", json!({"shell": "echo here; sleep 1000"}), "here").await?;
    let public = sandbox.public();
    for (method, path) in [
        (Method::GET, "/"),
        (Method::GET, "/healthz"),
        (Method::GET, "/v1/ports"),
        (Method::GET, "/v1/execs"),
        (Method::POST, "/v1/execs"),
        (Method::GET, "/v1/execs/e"),
        (Method::GET, "/v1/execs/e/output"),
        (Method::POST, "/v1/execs/e/stdin"),
        (Method::POST, "/v1/execs/e/signal"),
        (Method::POST, "/v1/execs/e/cancel"),
        (Method::GET, "/v1/terminals/e"),
        (Method::GET, "/v1/services"),
        (Method::PUT, "/v1/services"),
        (Method::POST, "/v1/services/web/start"),
        (Method::GET, "/v1/events"),
        (Method::GET, "/v1/tunnel/80"),
        (Method::POST, "/v1/faults/panic-handler"),
        (Method::POST, "/v1/faults/panic-supervisor"),
        (Method::POST, "/v1/status"),
        (Method::GET, "/v1/holds/h"),
        (Method::GET, "/v1/holds/../execs"),
        (Method::GET, "//v1/status"),
        (Method::GET, "/v1/status/"),
    ] {
        let answer = public.send(method.clone(), path, Bytes::from_static(b"{}")).await?;
        ensure!(
            answer.code()? == ErrorCode::NotFound,
            "{method} {path}: {} {}",
            answer.status,
            answer.text()
        );
    }
    ensure!(shell(sandbox.client(), "echo on").await? == "on\n");
    sandbox.stop().await
}

#[tokio::test]
async fn a_body_may_be_small_only() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let body = |bytes: usize| Bytes::from(format!("{:<bytes$}", "{}"));
    let fits = sandbox.public().send(Method::PUT, "/v1/holds/h", body(4096)).await?;
    ensure!(fits.status == 200, "{}", fits.text());
    let large = sandbox.public().send(Method::PUT, "/v1/holds/h", body(4097)).await?;
    ensure!(large.status == 413 && large.code()? == ErrorCode::TooLarge, "{}", large.text());
    sandbox.stop().await
}

#[tokio::test]
async fn a_flood_is_limited_and_control_does_not_notice() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let flooded = Instant::now();
    let mut flood = JoinSet::new();
    for _ in 0..12 {
        let public = sandbox.public();
        flood.spawn(async move {
            let mut answers: Vec<ClientReply> = Vec::new();
            for _ in 0..60 {
                answers.push(public.get("/v1/status").await?);
            }
            anyhow::Ok(answers)
        });
    }
    let mut slowest = std::time::Duration::ZERO;
    for _ in 0..20 {
        let begun = Instant::now();
        ensure!(shell(sandbox.client(), "echo on").await? == "on\n");
        slowest = slowest.max(begun.elapsed());
    }
    let mut answers = Vec::new();
    while let Some(done) = flood.join_next().await {
        answers.extend(done??);
    }
    let granted = answers.iter().filter(|answer| answer.status == 200).count();
    // A burst of 100, and 50 a second.
    let most = 100 + 50 * (flooded.elapsed().as_secs() as usize + 1);
    ensure!((100..=most).contains(&granted), "{granted} of {}, {most} at most", answers.len());
    let refused = answers.iter().find(|answer| answer.status != 200).context("a refusal")?;
    ensure!(refused.status == 429 && refused.code()? == ErrorCode::RateLimited, "{}", refused.text());
    ensure!(refused.error()?.error.retryable, "{}", refused.text());
    // A bound on starving, not a measurement.
    ensure!(slowest < PATIENCE / 10, "{slowest:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn connections_that_say_nothing_fill_their_own_places_only() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let path = socket(&sandbox)?;
    let mut silent = Vec::new();
    for _ in 0..16 {
        silent.push(Wire::send(&path, "GET /v1/sta").await?);
    }
    let mut waiting = Wire::send(&path, "GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n").await?;
    for _ in 0..20 {
        ensure!(shell(sandbox.client(), "echo on").await? == "on\n", "control is answered meanwhile");
    }
    drop(silent.pop());
    let answer = waiting.until("\r\n\r\n").await?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    sandbox.stop().await
}

#[tokio::test]
async fn the_user_cannot_put_another_socket_in_its_place() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let path = socket(&sandbox)?;
    let path = path.display();
    for line in [
        format!("rm -f {path}"),
        format!("mv {path} {path}.old"),
        format!("ln -sf /tmp/x {path}"),
        format!("ln -sfT /tmp/x $(dirname {path})"),
        format!("mv $(dirname {path}) /tmp/x"),
        format!("touch {path}.new"),
        format!("chmod 777 $(dirname {path})"),
        format!("chmod 000 {path}"),
        format!("/usr/bin/python3 -c 'import socket; socket.socket(1).bind(\"{path}\")'"),
    ] {
        let view = sandbox.client().exec(json!({"shell": line})).await?;
        ensure!(matches!(view.exit, Some(protocol::Exit::Exited { code: 1.. })), "{line}: {view:?}");
    }
    let (status, _) = curl(&sandbox, "http://x/v1/status").await?;
    ensure!(status == 200, "{status}");
    sandbox.stop().await
}

#[tokio::test]
async fn holds_have_a_number_they_do_not_exceed() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    for number in 0..32 {
        take(client, &format!("h{number}"), 60).await?;
    }
    let answer = client.put("/v1/holds/one-more", &json!({})).await?;
    ensure!(answer.status == 429 && answer.code()? == ErrorCode::TooMany, "{}", answer.text());
    take(client, "h7", 120).await.context("renewing one needs no room")?;
    client.send(Method::DELETE, "/v1/holds/h0", Bytes::new()).await?;
    take(client, "one-more", 60).await?;
    sandbox.stop().await
}

#[tokio::test]
async fn the_sandboxed_code_cannot_take_all_holds_away_from_control() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let public = sandbox.public();
    for number in 0..16 {
        take(&public, &format!("h{number}"), 60).await?;
    }
    let answer = public.put("/v1/holds/one-more", &json!({})).await?;
    ensure!(answer.status == 429 && answer.code()? == ErrorCode::TooMany, "{}", answer.text());
    for number in 0..16 {
        take(sandbox.client(), &format!("control-{number}"), 60).await?;
    }
    sandbox.stop().await
}

#[tokio::test]
async fn holds_do_not_outlive_the_boot_they_were_taken_in() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    take(&sandbox.public(), "h", 600).await?;
    let sandbox = sandbox.crash_and_boot().await?;
    let holds: Vec<HoldView> = sandbox.client().get("/v1/holds").await?.json()?;
    ensure!(holds.is_empty() && sandbox.public().get("/v1/status").await?.status == 200, "{holds:?}");
    sandbox.stop().await
}
