//! Hostile requests: none harms hostd or another client.

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use hyper::{Method, Request};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::path::PathBuf;
use tests::host::{DESCRIPTORS, PAUSE, until};
use tests::output::Followed;
use tests::raw_http::Wire;
use tests::sandbox::PATIENCE;
use tests::{Caller, Feed, Hostd, Random, scaled};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

fn socket(hostd: &Hostd) -> PathBuf {
    hostd.data().join("hostd.sock")
}

/// Pieces that parsers do not like.
const NASTY: &[&str] = &[
    "null",
    "-1",
    "1e999",
    "18446744073709551616",
    "0.1",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "true",
    "{\"a\":{\"a\":[{}]}}",
    "[[[[[[[[[[",
    "\"../../etc/passwd\"",
    "\"\u{202e}\u{feff}\"",
    "//",
    "\u{0}",
];

/// A body that is nearly good.
fn mutated(random: &mut Random, body: &str) -> Vec<u8> {
    let mut bytes = body.as_bytes().to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() as u64) as usize;
        let to = (at + 1 + random.below(12) as usize).min(bytes.len());
        match random.below(5) {
            0 => bytes[at] = random.number() as u8,
            1 => drop(bytes.drain(at..to)),
            2 => {
                let again = bytes[at..to].to_vec();
                drop(bytes.splice(at..at, again));
            }
            3 => {
                let nasty = NASTY[random.below(NASTY.len() as u64) as usize];
                drop(bytes.splice(at..to, nasty.bytes()));
            }
            _ => {
                let deep = "[".repeat(scaled(500, 50_000));
                drop(bytes.splice(at..at, deep.bytes()));
            }
        }
        if bytes.is_empty() {
            bytes.push(b'{');
        }
    }
    bytes
}

#[tokio::test]
async fn no_body_however_wrong_makes_hostd_fail() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let (id, mortal) = (operator.create(&json!({})).await?, operator.create(&json!({})).await?);
    let sandbox = format!("/v1/sandboxes/{id}");
    // Most of these are refused even when they are not mutated: what is tested is how.
    let spec = r#"{"name":"n","network":"open","image":"host","ports":[80],"env":{"A":"b"},"limits":{"memory_mb":64,
        "cpus":0.5,"pids":50},"ttl":"1h","metadata":{"k":"v"},"scope":{"kind":"custom","key":"k"},
        "services":[{"name":"web","command":"true","port":1,"health":{"tcp":1},"depends_on":["db"]}]}"#;
    let table = [
        (Method::POST, "/v1/sandboxes?wait=0".to_owned(), spec),
        (Method::POST, "/v1/sandboxes/ensure".to_owned(), spec),
        (Method::PATCH, sandbox.clone(), r#"{"name":"n","metadata":{"a":"b"}}"#),
        // A unit letter is accepted for seconds.
        (Method::PATCH, format!("/v1/sandboxes/{mortal}/ttl"), r#"{"ttl":"4h"}"#),
        (
            Method::POST,
            format!("{sandbox}/execs"),
            r#"{"argv":["true"],"env":{"A":"b"},"timeout_s":5,"tty":{"cols":9,"rows":9}}"#,
        ),
        (Method::POST, format!("{sandbox}/execs/e/signal"), r#"{"signal":"TERM","scope":"tree"}"#),
        (
            Method::PUT,
            format!("{sandbox}/services"),
            r#"{"services":[{"name":"a","command":"sleep 9","restart":"never"}]}"#,
        ),
        (Method::POST, "/v1/tokens".to_owned(), r#"{"tenant":"t","principal":"p","scope":"run","ttl":"1h"}"#),
        (Method::POST, "/v1/images".to_owned(), r#"{"name":"i","path":"/nowhere"}"#),
    ];
    let mut random = Random::seeded();
    for _ in 0..scaled(40, 2000) {
        for (method, path, body) in &table {
            let bytes = mutated(&mut random, body);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let reply = operator.send(method.clone(), path, Bytes::from(bytes)).await;
            let reply = reply.with_context(|| format!("{method} {path} {text}"))?;
            ensure!(reply.status < 500, "{method} {path} {text}: {} {}", reply.status, reply.text());
        }
    }
    ensure!(operator.prints(&id, "echo well").await? == "well\n");
    Ok(())
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_read() -> Result<()> {
    let hostd = Hostd::start().await?;
    let head = "POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\n";
    let told = Wire::send(&socket(&hostd), format!("{head}Content-Length: 3000000\r\n\r\n")).await?;
    let answer = { told }.until("too_large").await?;
    ensure!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    // A body without a declared length.
    let mut wire = Wire::send(&socket(&hostd), format!("{head}Transfer-Encoding: chunked\r\n\r\n")).await?;
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..40 {
        wire.write(&chunk).await?;
    }
    let answer = wire.until("too_large").await?;
    ensure!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    Ok(())
}

#[tokio::test]
async fn whoever_sends_everything_first_reads_the_refusal_too() -> Result<()> {
    // More than sockets hold, so that it is not all sent when the answer comes.
    const BODY_BYTES: usize = 16 << 20;
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let execs = format!("/v1/sandboxes/{}/execs", operator.create(&json!({})).await?);
    let deaf = json!({"id": "deaf", "shell": "exec sleep 600", "stdin_open": true, "wait": false});
    let _: Value = operator.post(&execs, &deaf).await?.expect(202)?;
    let (to_deaf, to_nobody) = (format!("{execs}/deaf/stdin"), format!("{execs}/unknown/stdin"));
    let token = operator.token().context("a token")?;
    let address = hostd.url().trim_start_matches("http://");
    for (path, token, status, code) in [
        (to_deaf.as_str(), token, 409, "not_running"),
        (&to_nobody, token, 404, "not_found"),
        ("/v1/sandboxes", token, 413, "too_large"),
        ("/v1/sandboxes", "wrong", 401, "unauthorized"),
    ] {
        let mut stream = TcpStream::connect(address).await?;
        let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n");
        stream.write_all(format!("{head}Content-Length: {BODY_BYTES}\r\n\r\nfirst").as_bytes()).await?;
        if path == to_deaf {
            let cancelled = operator.post(&format!("{execs}/deaf/cancel"), &json!({"grace_ms": 0})).await?;
            ensure!(cancelled.status == 204, "{}", cancelled.text());
        }
        // The answer is there, or comes before all is sent.
        stream.write_all(&vec![0; BODY_BYTES - 5]).await.context(code)?;
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer)).await.context(code)??;
        ensure!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(code), "{answer}");
    }
    Ok(())
}

#[tokio::test]
async fn a_malformed_chunk_is_the_mistake_of_the_caller() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    let exec = json!({"argv": ["cat"], "stdin_open": true, "wait": false});
    let exec: Value = operator.post(&format!("/v1/sandboxes/{id}/execs"), &exec).await?.json()?;
    let stdin = format!("/v1/sandboxes/{id}/execs/{}/stdin", exec["id"].as_str().context("an id")?);
    for path in ["/v1/sandboxes", &stdin] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
        let answer = Wire::send(&socket(&hostd), format!("{head}2\r\n{{}}\r\nzz\r\n")).await?.rest().await?;
        let told = answer.starts_with("HTTP/1.1 400") && answer.contains("\"invalid_request\"");
        ensure!(told && answer.contains("malformed"), "{path}: {answer}");
    }
    Ok(())
}

#[tokio::test]
async fn a_head_without_end_is_cut_off() -> Result<()> {
    let hostd = Hostd::start().await?;
    for part in ["X-A: b\r\n".to_owned(), format!("X-{}: b\r\n", "a".repeat(1000)), "x".repeat(1000)] {
        let mut wire = Wire::send(&socket(&hostd), "GET /healthz HTTP/1.1\r\nHost: x\r\n").await?;
        let mut sent = 0;
        while sent < 1 << 20 && wire.write(part.repeat(50)).await.is_ok() {
            sent += part.len() * 50;
        }
        let answer = wire.rest().await?;
        ensure!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    ensure!(hostd.local().get("/healthz").await?.status == 200);
    Ok(())
}

#[tokio::test]
async fn a_client_that_drips_its_head_is_cut_off_and_others_are_served() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let mut wire = Wire::send(&socket(&hostd), "GET /healthz HTTP/1.1\r\n").await?;
    let dripping = async {
        // Never stops by itself: one byte of a header after the other.
        while wire.write("x").await.is_ok() {
            ensure!(operator.get("/healthz").await?.status == 200);
            sleep(PAUSE).await;
        }
        Ok(())
    };
    tokio::time::timeout(tests::sandbox::PATIENCE, dripping).await.context("it may drip for ever")?
}

#[tokio::test]
async fn idle_connections_keep_nobody_from_being_served() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let address = hostd.url().trim_start_matches("http://").to_owned();
    let mut idle = Vec::new();
    for _ in 0..scaled(800, 3000) {
        idle.push(TcpStream::connect(&address).await?);
    }
    let id = operator.create(&json!({})).await?;
    ensure!(operator.prints(&id, "echo served").await? == "served\n");
    drop(idle);
    Ok(())
}

/// Follows an exec to its end; everything must be there.
async fn follow_all(caller: &Caller, path: &str, bytes: usize) -> Result<()> {
    let mut follower = caller.follow(path).await?;
    let mut seen = Followed::default();
    while let Some(chunk) = follower.next().await? {
        seen.add(&chunk)?;
    }
    ensure!(seen.ended && seen.lost == 0 && seen.stdout == tests::seq(bytes), "{} bytes", seen.stdout.len());
    Ok(())
}

#[tokio::test]
async fn a_reader_that_does_not_read_hurts_nobody() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    let bytes = scaled(8_000_000, 40_000_000);
    let body = json!({"id": "big", "shell": format!("seq 99999999 | head -c {bytes}"), "wait": false});
    operator.post(&format!("/v1/sandboxes/{id}/execs"), &body).await?.expect::<Value>(202)?;
    let path = format!("/v1/sandboxes/{id}/execs/big/output?follow=1");
    let mut asleep = Vec::new();
    for _ in 0..20 {
        let request = Request::get(&path).body(http_body_util::Empty::<Bytes>::new())?;
        asleep.push(operator.open(request).await?);
        asleep.push(
            operator.open(Request::get("/v1/events").body(http_body_util::Empty::<Bytes>::new())?).await?,
        );
    }
    let before = resident(&operator).await?;
    follow_all(&operator, &path, bytes).await?;
    ensure!(operator.prints(&id, "echo on").await? == "on\n");
    let after = resident(&operator).await?;
    ensure!(after < before + (64 << 20), "hostd buffers unread output: {before} {after}");
    drop(asleep);
    Ok(())
}

async fn resident(operator: &Caller) -> Result<u64> {
    let host: Value = operator.get("/v1/host").await?.expect(200)?;
    host["hostd_rss_bytes"].as_u64().context("its memory")
}

/// Some of everything.
async fn work(operator: &Caller, id: &str, rounds: usize) -> Result<()> {
    for _ in 0..rounds {
        operator.get("/v1/sandboxes").await?.expect::<Value>(200)?;
        operator.shell(id, "head -c 500000 /dev/zero").await?;
        ensure!(operator.post("/v1/sandboxes", &json!({"name": "x".repeat(1_000_000)})).await?.status == 400);
        let mut feed = Feed::open(operator, "/v1/events", 0).await?;
        feed.next().await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_memory_of_hostd_stays_flat_under_work() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    let rounds = scaled(15, 60);
    work(&operator, &id, rounds).await?;
    let before = resident(&operator).await?;
    for _ in 0..3 {
        work(&operator, &id, rounds).await?;
    }
    let after = resident(&operator).await?;
    ensure!(after < before * 2 + (16 << 20), "from {before} to {after}");
    Ok(())
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_and_garbage_is_hung_up_on() -> Result<()> {
    let hostd = Hostd::start().await?;
    let get = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    let last = "GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answers = Wire::send(&socket(&hostd), format!("{}{last}", get.repeat(20))).await?.rest().await?;
    ensure!(answers.matches("HTTP/1.1 200").count() == 20, "{answers}");
    ensure!(answers.rfind("HTTP/1.1 404") > answers.rfind("HTTP/1.1 200"), "{answers}");
    let mut random = Random::seeded();
    for _ in 0..scaled(50, 2000) {
        let mut bytes = get.as_bytes().to_vec();
        let length = 1 + random.below(300) as usize;
        bytes.extend(random.bytes(length));
        bytes.extend(b"\r\n\r\n");
        let answers = Wire::send(&socket(&hostd), &bytes).await?.rest().await?;
        ensure!(answers.matches("HTTP/1.1 200").count() == 1, "{bytes:?}: {answers}");
    }
    // Of two ways to find the end of a body one may be taken, but nothing behind it is a request.
    let smuggling = "POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n";
    for (request, may_do) in [
        (format!("{smuggling}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), true),
        (format!("{smuggling}Content-Length: 3\r\n\r\n{{}}x"), false),
        ("GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n".to_owned(), false),
        ("GET /health z HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), false),
    ] {
        let answer = Wire::send(&socket(&hostd), format!("{request}{get}{last}")).await?.rest().await?;
        ensure!(
            answer.matches("HTTP/1.1").count() <= 1 && !answer.contains("HTTP/1.1 5"),
            "{request}: {answer}"
        );
        ensure!(may_do || !answer.contains("HTTP/1.1 2"), "{request}: {answer}");
    }
    ensure!(hostd.local().get("/healthz").await?.status == 200);
    Ok(())
}

/// Enough for hostd and few connections, so that a test can take them all.
const FEW: &[(&str, &str)] = &[(DESCRIPTORS, "1024")];

/// A hostd with few places for connections; with all there are, and a flood that fits, when soaking.
async fn small_hostd() -> Result<Hostd> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Hostd::start_with(if scaled(0, 1) == 1 { &[] } else { FEW }).await
}

/// Everybody is served: health checks, the administrator, another token, and the Unix socket; streams too.
async fn all_are_served(hostd: &Hostd, other: &Caller) -> Result<()> {
    for path in ["/healthz", "/readyz"] {
        let reply = Caller::tcp(hostd.url(), None).get(path).await.context(path)?;
        ensure!(reply.status == 200, "{path}: {} {}", reply.status, reply.text());
    }
    for (who, caller) in [("administrator", &hostd.operator()?), ("other", other), ("local", &hostd.local())]
    {
        let reply = caller.get("/v1/sandboxes").await.context(who)?;
        ensure!(reply.status == 200, "{who}: {} {}", reply.status, reply.text());
        Feed::open(caller, "/v1/events", 0).await.context(who)?;
    }
    Ok(())
}

#[tokio::test]
async fn connections_that_ask_nothing_keep_nobody_out() -> Result<()> {
    let hostd = small_hostd().await?;
    let other = hostd.caller("acme", "other", "read").await?;
    let address = hostd.url().trim_start_matches("http://").to_owned();
    let mut half_open = Vec::new();
    for said in
        ["", "GET /healthz HTT", "GET /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n"]
    {
        for _ in 0..scaled(200, 5_000) {
            let mut stream = TcpStream::connect(&address).await?;
            // The connection may be closed already, since later ones came.
            let _ = stream.write_all(said.as_bytes()).await;
            half_open.push(stream);
        }
        all_are_served(&hostd, &other).await.with_context(|| format!("after {said:?}"))?;
    }
    drop(half_open);
    all_are_served(&hostd, &other).await
}

#[tokio::test]
async fn streams_of_one_token_leave_places_for_others() -> Result<()> {
    let hostd = small_hostd().await?;
    let (greedy, other) =
        (hostd.caller("acme", "greedy", "read").await?, hostd.caller("acme", "other", "read").await?);
    let viewer = greedy.viewer("/v1/events");
    let (mut streams, mut refused) = (Vec::new(), Vec::new());
    for number in 0..scaled(200, 12_000) {
        let mut stream = TcpStream::connect(&viewer.address).await?;
        stream.write_all(viewer.request.as_bytes()).await?;
        let mut begin = [0; 12];
        timeout(PATIENCE, stream.read_exact(&mut begin)).await.context("it is never answered")??;
        match &begin[9..] {
            b"200" => streams.push(stream),
            // A refused client keeps its connection open if it can.
            b"429" => refused.push(stream),
            other => bail!("stream {number} got {}", String::from_utf8_lossy(other)),
        }
    }
    ensure!(
        !refused.is_empty() && streams.len() > 30,
        "{} of {}",
        streams.len(),
        streams.len() + refused.len()
    );
    let mut text = String::new();
    refused[0].read_to_string(&mut text).await?;
    ensure!(text.contains("too_many") && text.contains("close some"), "{text}");
    all_are_served(&hostd, &other).await?;
    // The client may still make calls.
    let reply = greedy.get("/v1/sandboxes").await?;
    ensure!(reply.status == 200, "{}", reply.text());
    // Closed streams free their permits.
    drop(streams);
    until("there is room again", async || Ok(Feed::open(&greedy, "/v1/events", 0).await.ok())).await?;
    Ok(())
}
