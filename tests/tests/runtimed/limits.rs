//! Limits: every one of them is reached, said, and left behind again; and strange clients hurt only themselves.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Method;
use protocol::{ErrorCode, ExecView, Exit};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tests::launch::{Launched, directory, script};
use tests::output::Follower;
use tests::raw_http::Wire;
use tests::sandbox::PATIENCE;
use tests::shell::{cancel_now, shell, started, stdout};
use tests::{Client, Followed, Random, Sandbox, follow, scaled, send_input};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::timeout;

const EXITED_0: Option<Exit> = Some(Exit::Exited { code: 0 });
const EXECS_LIVE_MAX: usize = 512;
const FOLLOWERS_MAX: usize = 256;
const CONNECTIONS_MAX: usize = 512;

fn socket(sandbox: &Sandbox) -> PathBuf {
    sandbox.control_dir().join("sock")
}

/// The status, the code and the field of an error, as one line to compare.
async fn refusal(client: &Client, method: Method, path: &str, body: impl Into<Bytes>) -> Result<String> {
    let answer = client.send(method, path, body.into()).await?;
    let error = answer.error()?.error;
    ensure!(!error.message.is_empty() && error.message.len() < 500, "{path}: {}", error.message);
    let code = serde_json::to_string(&error.code)?;
    Ok(format!("{} {} {}", answer.status, code.trim_matches('"'), error.detail.field.unwrap_or_default()))
}

async fn refused_exec(client: &Client, body: &Value) -> Result<String> {
    refusal(client, Method::POST, "/v1/execs", serde_json::to_vec(body)?).await
}

// ---- what a request may be ----

#[tokio::test]
async fn a_request_beyond_a_limit_names_the_field_and_one_at_the_limit_runs() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let env = |count: usize| (0..count).map(|i| (format!("V{i}"), json!(""))).collect::<Value>();
    let text = |bytes: usize| json!("x".repeat(bytes));
    let arg = (128 << 10) - 1;
    for (fits, body) in [
        ("arguments", json!({"argv": vec!["true"; 4096]})),
        ("argument", json!({"argv": ["true", text(arg)]})),
        ("variables", json!({"argv": ["true"], "env": env(1024)})),
        ("variable", json!({"argv": ["true"], "env": {"A": text(arg - 2)}})),
        ("line", json!({"shell": format!("true {}", "x".repeat(arg - 5))})),
        (
            "together",
            json!({"argv": ["true", text(arg), text(arg), text(arg), text(arg), text(arg), text(arg)]}),
        ),
        ("input", json!({"argv": ["true"], "stdin": text(1 << 20)})),
        ("time", json!({"argv": ["true"], "timeout_ms": 7 * 24 * 3600 * 1000})),
    ] {
        let view = client.exec(body).await?;
        ensure!(view.exit == EXITED_0, "{fits}: {:?}", view.exit);
    }
    for (expected, body) in [
        ("413 too_large argv", json!({"argv": vec!["true"; 4097]})),
        ("413 too_large argv", json!({"argv": ["true", text(arg + 1)]})),
        ("413 too_large argv", json!({"argv": vec![text(arg); 9]})),
        ("413 too_large shell", json!({"shell": text(arg + 1)})),
        ("413 too_large env", json!({"argv": ["true"], "env": env(1025)})),
        ("413 too_large env.A", json!({"argv": ["true"], "env": {"A": text(arg - 1)}})),
        ("413 too_large stdin", json!({"argv": ["cat"], "stdin": text((1 << 20) + 1)})),
        ("400 invalid_request cwd", json!({"argv": ["true"], "cwd": text(4096)})),
        ("400 invalid_request cwd", json!({"argv": ["true"], "cwd": ""})),
        ("400 invalid_request argv", json!({"argv": []})),
        ("400 invalid_request argv", json!({"argv": [""]})),
        ("400 invalid_request argv", json!({"argv": ["a\u{0}b"]})),
        ("400 invalid_request argv", json!({})),
        ("400 invalid_request shell", json!({"shell": ""})),
        ("400 invalid_request shell", json!({"shell": "a\u{0}b"})),
        ("400 invalid_request shell", json!({"shell": "true", "argv": ["true"]})),
        ("400 invalid_request env.A=B", json!({"argv": ["true"], "env": {"A=B": ""}})),
        ("400 invalid_request env.", json!({"argv": ["true"], "env": {"": ""}})),
        ("400 invalid_request timeout_ms", json!({"argv": ["true"], "timeout_ms": 0})),
        ("400 invalid_request timeout_ms", json!({"argv": ["true"], "timeout_ms": 604_800_001})),
        ("400 invalid_request tty", json!({"argv": ["true"], "tty": {"cols": 0, "rows": 1}})),
    ] {
        let got = refused_exec(client, &body).await?;
        ensure!(got == expected, "{:.100}: {got}", body.to_string());
    }
    ensure!(client.get("/v1/execs?limit=1000").await?.json::<Vec<ExecView>>()?.len() == 8);
    sandbox.stop().await
}

#[tokio::test]
async fn a_body_that_is_not_as_it_should_be_is_refused_by_the_name_of_its_field() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    for (body, field) in [
        (r#"{"argv":"true"}"#, "argv"),
        (r#"{"argv":["true",1]}"#, "argv[1]"),
        (r#"{"argv":null,"shell":7}"#, "shell"),
        (r#"{"argv":["true"],"env":[]}"#, "env"),
        (r#"{"argv":["true"],"env":{"A":null}}"#, "env.A"),
        (r#"{"argv":["true"],"timeout_ms":"5"}"#, "timeout_ms"),
        (r#"{"argv":["true"],"timeout_ms":1.5}"#, "timeout_ms"),
        (r#"{"argv":["true"],"timeout_ms":99999999999999999999}"#, "timeout_ms"),
        (r#"{"argv":["true"],"tty":true}"#, "tty"),
        (r#"{"argv":["true"],"tty":{"cols":80,"rows":-1}}"#, "tty.rows"),
        (r#"{"argv":["true"],"stdin_open":"yes"}"#, "stdin_open"),
        (r#"{"argv":["true"],"stdin":["a"]}"#, "stdin"),
        (r#"{"id":7,"argv":["true"]}"#, "id"),
        ("", ""),
        ("null", ""),
        ("{", ""),
        ("7", ""),
        ("[true]", "[0]"),
        ("{} {}", ""),
        (r#"{"argv":["true"]}}"#, ""),
        (&deep, "[0]"),
    ] {
        let got = refusal(client, Method::POST, "/v1/execs", body.to_owned()).await?;
        ensure!(got == format!("400 invalid_request {field}"), "{body:.60}: {got}");
    }
    let latin1 = b"{\"shell\":\"caf\xe9\"}".to_vec();
    ensure!(refusal(client, Method::POST, "/v1/execs", latin1).await?.starts_with("400 invalid_request"));
    // Unknown fields of a newer hostd are ignored.
    client.exec(json!({"argv": ["true"], "of_a_newer_version": {"a": 1}})).await?;
    sandbox.stop().await
}

#[tokio::test]
async fn a_request_line_that_means_nothing_is_refused() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    for (method, path, expected) in [
        (Method::GET, "/", "404 not_found "),
        (Method::GET, "/v2/execs", "404 not_found "),
        (Method::GET, "/v1/execs/e/nothing", "404 not_found "),
        (Method::GET, "/v1//execs", "404 not_found "),
        (Method::GET, "/v1/execs/unknown", "404 not_found "),
        (Method::DELETE, "/v1/execs", "405 method_not_allowed "),
        (Method::PATCH, "/v1/execs/e/stdin", "405 method_not_allowed "),
        (Method::GET, "/v1/execs?wait_ms=1", "400 invalid_request wait_ms"),
        (Method::GET, "/v1/execs?limit=0", "400 invalid_request limit"),
        (Method::GET, "/v1/execs?limit=1001", "400 invalid_request limit"),
        (Method::GET, "/v1/execs?after=..", "400 invalid_request id"),
        (Method::GET, "/v1/execs/e?wait_ms=1800001", "400 invalid_request wait_ms"),
        (Method::GET, "/v1/execs/e?wait_ms=-1", "400 invalid_request wait_ms"),
        (Method::GET, "/v1/execs/e?wait_ms=1&wait_ms=1", "400 invalid_request wait_ms"),
        (Method::GET, "/v1/execs/e?wait=1", "400 invalid_request wait"),
        (Method::GET, "/v1/status?pretty", "400 invalid_request pretty"),
        (Method::POST, "/v1/execs?wait_ms=x", "400 invalid_request wait_ms"),
        (Method::POST, "/v1/execs/e/stdin?eof=maybe", "400 invalid_request eof"),
        (Method::GET, "/v1/terminals/e?replay=1048577", "400 invalid_request replay"),
        (Method::POST, "/v1/faults/panic-handler", "404 not_found "),
    ] {
        let got = refusal(sandbox.client(), method.clone(), path, "").await?;
        ensure!(got == expected, "{method} {path}: {got}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_and_costs_no_memory() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let before = client.status().await?.runtimed_rss_bytes;
    let large = vec![b' '; 10 << 20];
    for path in ["/v1/execs", "/v1/execs/e/signal", "/v1/execs/e/cancel", "/v1/execs/e/resize"] {
        let got = refusal(client, Method::POST, path, large.clone()).await?;
        ensure!(got == "413 too_large ", "{path}: {got}");
    }
    // A body that is not waited for, and one without an end.
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(0x10_0000));
    for head in [&format!("content-length: {}", 1u64 << 40), "transfer-encoding: chunked"] {
        let head = format!("POST /v1/execs HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n");
        let mut endless = Wire::send(&socket(&sandbox), head).await?;
        for _ in 0..scaled(40, 1000) {
            // Fails once the other side has heard enough and hung up.
            let _ = endless.write(&chunk).await;
        }
        let answer = endless.until("too_large").await?;
        ensure!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    }
    let grown = client.status().await?.runtimed_rss_bytes.saturating_sub(before);
    ensure!(grown < 16 << 20, "grew by {grown} bytes");
    sandbox.stop().await
}

// ---- how many at once ----

#[tokio::test]
async fn execs_and_followers_have_a_number_they_do_not_exceed() -> Result<()> {
    let dir = directory()?;
    // Few descriptors, as some engines give: PID 1 asks for more, jobs keep what they were given.
    let mut command = Command::new("prlimit");
    command.arg("--nofile=1000:8192").arg(script("pid1")?).arg(dir.path());
    let sandbox = Launched::start(dir, command, "control/sock").await?;
    let client = sandbox.client();
    ensure!(shell(client, "ulimit -n; ulimit -Hn").await? == "1000\n8192\n");
    for i in 0..EXECS_LIVE_MAX {
        let request = json!({"id": format!("e{i}"), "argv": ["sleep", "600"], "stdin_open": true});
        client.start(request).await.with_context(|| format!("exec {i}"))?;
    }
    let one_more = json!({"id": "more", "argv": ["true"]});
    let full = client.post("/v1/execs", &one_more).await?.error()?.error;
    ensure!(full.code == ErrorCode::TooMany && full.retryable, "{full:?}");
    // An exec that already runs does not count again.
    client.start(json!({"id": "e0", "argv": ["sleep", "600"], "stdin_open": true})).await?;

    let mut followers = Vec::new();
    for i in 0..FOLLOWERS_MAX {
        let path = format!("/v1/execs/e{i}/output?follow=1");
        followers.push(Follower::open(client, &path).await.with_context(|| format!("follower {i}"))?);
    }
    for path in ["/v1/execs/e0/output", "/v1/events", "/v1/execs/e0/output?follow=1"] {
        ensure!(client.get(path).await?.code()? == ErrorCode::TooMany, "{path}");
    }
    ensure!(client.status().await?.execs.len() == EXECS_LIVE_MAX);
    drop(followers);
    // Their leaving is noticed without their saying so.
    let free = async {
        while Follower::open(client, "/v1/execs/e0/output").await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, free).await.context("followers that left are still counted")?;

    cancel_now(client, "e7").await?;
    let gone = async {
        while client.post("/v1/execs?wait_ms=60000", &one_more).await?.status != 200 {
            tokio::task::yield_now().await;
        }
        Ok::<_, anyhow::Error>(())
    };
    timeout(PATIENCE, gone).await.context("no exec runs after one ended")??;
    sandbox.stop().await
}

#[tokio::test]
async fn many_short_execs_at_once_each_get_their_own_end() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client().clone();
    let stream = "i=0; while [ $i -lt 1000000 ] && [ ! -e stop ]; do echo $i; i=$((i+1)); done";
    client.start(json!({"id": "stream", "shell": stream})).await?;
    let following = tokio::spawn({
        let client = client.clone();
        async move { follow(&client, "stream", Followed::default()).await }
    });
    let mut running = JoinSet::new();
    for i in 0..scaled(300, 3000) {
        let client = client.clone();
        running.spawn(async move {
            let code = (i % 256) as i32;
            let view = client.exec(json!({"shell": format!("echo {i}; exit {code}")})).await?;
            ensure!(view.exit == Some(Exit::Exited { code }), "{i}: {:?} {:?}", view.exit, view.hints);
            ensure!(stdout(&view)? == format!("{i}\n"), "{i}: {view:?}");
            Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    sandbox.write_app("stop", "")?;
    let seen = following.await??;
    let lines = String::from_utf8(seen.stdout)?;
    ensure!(lines.lines().enumerate().all(|(i, line)| line == i.to_string()), "the stream is not whole");
    sandbox.stop().await
}

#[tokio::test]
async fn more_clients_than_connections_wait_for_their_turn() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut asking = JoinSet::new();
    for i in 0..scaled(CONNECTIONS_MAX + 100, 4 * CONNECTIONS_MAX) {
        let client = sandbox.client().clone();
        asking.spawn(async move { client.get("/healthz").await.with_context(|| format!("client {i}")) });
    }
    while let Some(answered) = asking.join_next().await {
        ensure!(answered??.status == 200);
    }
    sandbox.stop().await
}

/// A random request about one of a few execs, which may or may not exist.
async fn any_request(client: &Client, random: &mut Random) -> Result<u16> {
    let lines = [
        "echo a; exit 3",
        "cat",
        "sleep 600 & echo b",
        "trap '' TERM; sleep 600",
        "setsid sleep 600",
        "yes | head -c 300000",
    ];
    let id = format!("s{}", random.below(200));
    let line = lines[random.below(lines.len() as u64) as usize];
    let tty = (random.below(3) == 0).then(|| json!({"cols": 80, "rows": 24}));
    let start = json!({"id": id, "shell": line, "tty": tty, "stdin_open": true, "timeout_ms": 20_000});
    let about = format!("/v1/execs/{id}");
    let answer = match random.below(9) {
        0..=2 => client.post(&format!("/v1/execs?wait_ms={}", random.below(20)), &start).await?,
        3 => client.post(&format!("{about}/cancel"), &json!({"grace_ms": random.below(50)})).await?,
        4 => client.post(&format!("{about}/signal"), &json!({"signal": "INT", "scope": "tree"})).await?,
        5 => send_input(client, &id, "x\n", if random.below(2) == 0 { "?eof" } else { "" }).await?,
        6 => client.post(&format!("{about}/resize"), &json!({"cols": 10, "rows": 10})).await?,
        7 => client.get(&about).await?,
        _ => {
            // Follows for a moment and leaves without a word.
            let follower = Follower::open(client, &format!("{about}/output?follow=1")).await;
            if let Ok(mut follower) = follower {
                let _ = timeout(Duration::from_millis(random.below(10)), follower.next()).await;
            }
            return Ok(200);
        }
    };
    Ok(answer.status)
}

#[tokio::test]
async fn a_storm_of_requests_is_answered_and_leaves_nothing_behind() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut random = Random::seeded();
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        let (client, mut random) = (sandbox.client().clone(), random.branch());
        clients.spawn(async move {
            for _ in 0..scaled(60, 3000) {
                let status =
                    timeout(PATIENCE, any_request(&client, &mut random)).await.context("no answer")??;
                ensure!([200, 202, 204, 404, 409, 429].contains(&status), "{status}");
            }
            Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    let client = sandbox.client();
    for exec in client.status().await?.execs {
        client.post(&format!("/v1/execs/{}/cancel", exec.id), &json!({"grace_ms": 0})).await?;
    }
    let quiet = async {
        while !client.status().await?.execs.is_empty() {
            tokio::task::yield_now().await;
        }
        Ok::<_, anyhow::Error>(())
    };
    timeout(PATIENCE, quiet).await.context("an exec never goes")??;
    tests::processes::settles(client, 1).await?;
    ensure!(shell(client, "pgrep -c 'sleep|yes|cat' || true").await? == "0\n", "a process is left");
    sandbox.stop().await
}

// ---- strange clients ----

#[tokio::test]
async fn clients_that_say_nothing_do_not_keep_others_from_being_answered() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let mut silent = Vec::new();
    for i in 0..CONNECTIONS_MAX - 2 {
        let said = ["", "G", "GET /healthz HTTP/1.1\r\nhost:", "POST /v1/execs HTTP/1.1\r\n"][i % 4];
        silent.push(Wire::send(&socket(&sandbox), said).await?);
    }
    ensure!(shell(client, "echo here").await? == "here\n");
    // When all places are taken, the silent ones have to go before long.
    for _ in 0..20 {
        silent.push(Wire::connect(&socket(&sandbox)).await?);
    }
    let answer =
        timeout(PATIENCE, client.get("/healthz")).await.context("no reply to the health check")??;
    ensure!(answer.status == 200);
    sandbox.stop().await
}

#[tokio::test]
async fn a_body_that_never_comes_is_not_waited_for() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let mut waiting = Vec::new();
    for body in ["", "{", "{\"id\":\"half\",\"argv\":[\"true\"]}"] {
        let head = "POST /v1/execs HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n";
        waiting.push(Wire::send(&socket(&sandbox), format!("{head}{body}")).await?);
    }
    ensure!(shell(client, "echo here").await? == "here\n");
    // A waiting client disconnects; the others get their reply.
    drop(waiting.pop());
    for mut wire in waiting {
        let answer = wire.until("within").await?;
        ensure!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    ensure!(client.get("/v1/execs/half").await?.status == 404, "half a request was run");
    sandbox.stop().await
}

#[tokio::test]
async fn a_request_that_could_be_read_in_two_ways_is_the_last_of_its_connection() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let inner = "GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n";
    for head in [
        "content-length: 4\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 4",
        "content-length: 4\r\ncontent-length: 5",
        "content-length: 4, 5",
        "content-length: +4",
        "transfer-encoding: chunked, identity",
        "transfer-encoding: gzip",
    ] {
        let request = format!("POST /v1/execs HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n0\r\n\r\n{inner}");
        let answers = Wire::send(&socket(&sandbox), request).await?.rest().await?;
        ensure!(
            answers.starts_with("HTTP/1.1 400") && !answers.contains("HTTP/1.1 200"),
            "{head}: {answers}"
        );
    }
    sandbox.stop().await
}

#[tokio::test]
async fn what_is_not_http_is_hung_up_on() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let many: String = (0..1000).map(|i| format!("h{i}: x\r\n")).collect();
    for request in [
        "\u{16}\u{3}\u{1}\u{2}hello\r\n\r\n".to_owned(),
        "GET\r\n\r\n".to_owned(),
        "GET /healthz HTTP/9.9\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        format!("GET /healthz HTTP/1.1\r\n{many}\r\n"),
        format!("GET /healthz HTTP/1.1\r\nh: {}\r\n\r\n", "x".repeat(1 << 20)),
        format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(1 << 20)),
    ] {
        // Sending may fail half way: the other side has already hung up.
        let mut wire = Wire::connect(&socket(&sandbox)).await?;
        let _ = wire.write(&request).await;
        let answer = wire.rest().await?;
        ensure!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{request:.40}: {answer}");
    }
    started(sandbox.client(), "alive", json!({"shell": "echo up; sleep 600"}), "up").await?;
    cancel_now(sandbox.client(), "alive").await?;
    sandbox.stop().await
}
