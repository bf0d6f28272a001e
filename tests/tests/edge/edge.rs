//! HTTP through the edge, byte for byte: an app that answers what it likes, and a client that says what it
//! likes.

use anyhow::{Context, Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use sha2::{Digest, Sha256};
use std::process::Stdio;
use tests::apps::{RAW, Running};
use tests::{Hostd, Random, scaled};
use tokio::process::Command;
use tokio::task::JoinSet;

async fn raw() -> Result<(Hostd, Running)> {
    let hostd = Hostd::start().await?;
    let app = RAW.launch(&hostd).await?;
    Ok((hostd, app))
}

/// How many connections the app has taken, and how many requests that count.
async fn counts(app: &Running) -> Result<(u64, u64)> {
    let counts = app.get("/counts", &[]).await?.text();
    let (connections, posts) = counts.split_once(' ').context("two numbers")?;
    Ok((connections.parse()?, posts.parse()?))
}

#[tokio::test]
async fn a_preview_is_found_by_its_name_in_every_form() -> Result<()> {
    let (hostd, app) = raw().await?;
    let id = &app.sandbox;
    let (_, port) = app.name()?.rsplit_once(':').context("a port")?;
    for host in [
        format!("s-{id}-8000.preview.localhost:{port}"),
        format!("S-{}-8000.PREVIEW.LOCALHOST", id.to_ascii_uppercase()),
        format!("8000-{id}.localhost:1"),
    ] {
        let mut line = app.line().await?;
        line.say(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await?;
        let answer = line.rest().await?;
        ensure!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello from raw"), "{host}: {answer}");
    }
    let unknown = id.replace(&id[20..], "000000");
    for (host, wanted) in [
        (format!("s-{unknown}-8000.preview.localhost"), "There is no such sandbox"),
        (format!("s-{id}-900.preview.localhost"), "There is no preview"),
        ("localhost".to_owned(), "There is no preview"),
        (format!("127.0.0.1:{port}"), "There is no preview"),
    ] {
        let mut line = app.line().await?;
        line.say(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await?;
        let answer = line.rest().await?;
        ensure!(answer.starts_with("HTTP/1.1 404") && answer.contains(wanted), "{host}: {answer}");
        ensure!(answer.contains("application/json"), "{answer}");
    }
    hostd.stop().await
}

#[tokio::test]
async fn a_program_may_name_the_sandbox_by_headers_with_a_token() -> Result<()> {
    let (hostd, app) = raw().await?;
    let token = std::fs::read_to_string(hostd.data().join("token"))?;
    let named = format!("X-Sandbox-Id: {}\r\nX-Sandbox-Port: 8000\r\n", app.sandbox);
    let ask = async |more: String| -> Result<String> {
        let mut line = app.line().await?;
        line.say(&format!("GET /head HTTP/1.1\r\nHost: edge\r\nConnection: close\r\n{more}\r\n")).await?;
        line.rest().await
    };
    let answer = ask(format!("{named}Authorization: Bearer {}\r\n", token.trim())).await?;
    ensure!(answer.starts_with("HTTP/1.1 200") && answer.contains("host: localhost:8000"), "{answer}");
    ensure!(!answer.contains(token.trim()), "the app sees the token: {answer}");
    let answer = ask(named.clone()).await?;
    ensure!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let stranger = hostd.caller("acme", "eve", "run").await?;
    let other = stranger.token().context("a token")?;
    let answer = ask(format!("{named}X-Slipway-Token: {other}\r\n")).await?;
    ensure!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    hostd.stop().await
}

#[tokio::test]
async fn what_could_be_read_in_two_ways_is_refused() -> Result<()> {
    let (hostd, app) = raw().await?;
    let smuggled = "GET /once HTTP/1.1\r\nHost: {host}\r\n\r\n";
    let table = [
        ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", "400"),
        ("Content-Length: 0\r\nContent-Length: 44\r\n\r\n", "400"),
        ("Content-Length: +4\r\n\r\nabcd", "400"),
        ("Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "400"),
        ("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400"),
        ("Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400"),
        ("Host: other.example\r\n\r\n", "400"),
        ("X: a\r\n b: folded\r\n\r\n", "400"),
        ("X: a\0b\r\n\r\n", "400"),
    ];
    for (rest, status) in table {
        let mut line = app.line().await?;
        line.say(&format!("POST /body HTTP/1.1\r\nHost: {{host}}\r\n{rest}{smuggled}")).await?;
        let answer = line.rest().await?;
        ensure!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{rest:?}: {answer}");
        ensure!(!answer.contains("once"), "{rest:?} let a second request through: {answer}");
    }
    for (first, status) in [
        ("GET http://other.example/ HTTP/1.1", "400"),
        ("CONNECT localhost:22 HTTP/1.1", "405"),
        ("TRACE / HTTP/1.1", "405"),
    ] {
        let mut line = app.line().await?;
        line.say(&format!("{first}\r\nHost: {{host}}\r\nConnection: close\r\n\r\n")).await?;
        let answer = line.rest().await?;
        let wanted = format!("HTTP/1.1 {status}");
        ensure!(answer.starts_with(&wanted) || answer.starts_with("HTTP/1.1 400"), "{first}: {answer}");
    }
    ensure!(counts(&app).await?.1 == 0, "something was smuggled");
    let mut line = app.line().await?;
    // The request may be refused before all of it was sent, and the connection is closed then.
    let _ =
        line.say(&format!("GET / HTTP/1.1\r\nHost: {{host}}\r\nX: {}\r\n\r\n", "x".repeat(100_000))).await;
    ensure!(line.hear("\r\n").await?.starts_with("HTTP/1.1 431"), "a head may have any size");
    hostd.stop().await
}

/// The app has the head already when a chunk turns out to be none.
#[tokio::test]
async fn a_malformed_body_is_the_mistake_of_the_client() -> Result<()> {
    let (hostd, app) = raw().await?;
    let head = "HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let smuggled = "GET /once HTTP/1.1\r\nHost: {host}\r\n\r\n";
    let extension = format!("3;{}\r\nabc\r\n", "x".repeat(20_000));
    let chunks = ["zz\r\n", "fffffffffffffffffff\r\n", "3\r\nabcd\r\n", "0\r\nno colon\r\n\r\n", &extension];
    for wrong in chunks {
        let mut line = app.line().await?;
        line.say(&format!("POST /body {head}3\r\nabc\r\n{wrong}{smuggled}")).await?;
        let answer = line.rest().await?;
        let told = answer.starts_with("HTTP/1.1 400") && answer.contains("invalid_request");
        ensure!(told && answer.contains("connection: close"), "{wrong:?}: {answer}");
        // A response that has begun is cut off and does not look complete.
        let mut line = app.line().await?;
        line.say(&format!("POST /pieces {head}5\r\nfirst\r\n")).await?;
        line.hear("first").await?;
        line.say(&format!("{wrong}{smuggled}")).await?;
        let answer = line.rest().await?;
        ensure!(!answer.contains("0\r\n\r\n") && !answer.contains("HTTP/1.1"), "{wrong:?}: {answer}");
    }
    ensure!(counts(&app).await?.1 == 0, "something was smuggled");
    hostd.stop().await
}

/// Wherever a client puts them.
#[tokio::test]
async fn no_token_and_no_pass_reaches_the_app() -> Result<()> {
    let (hostd, app) = raw().await?;
    let admin = std::fs::read_to_string(hostd.data().join("token"))?.trim().to_owned();
    let token = hostd.caller("acme", "ann", "run").await?.token().context("a token")?.to_owned();
    let link = app.link().await?;
    let pass = link.split_once("slipway_pass=").context("a pass")?.1.to_owned();
    for secret in [admin, token, pass] {
        let basic = BASE64_STANDARD.encode(format!("x:{secret}"));
        let referer = format!("Referer: http://{{host}}/a?slipway_pass={secret}&b=c");
        let table = [
            (format!("Authorization: Bearer {secret}"), ""),
            (format!("Authorization: Bearer  {secret}"), ""),
            (format!("Authorization: Basic {basic}"), ""),
            (format!("Authorization: Token {secret}"), ""),
            (format!("Sec-WebSocket-Protocol: chat, slipway.token.{secret}"), "sec-websocket-protocol: chat"),
            (referer, "referer: http://localhost:8000/a?b=c"),
            (format!("Cookie: a=b; c={secret}"), "cookie: a=b"),
            (format!("Link: <http://x/%73{}>", &secret[1..]), ""),
            (format!("X-Slipway-Token: {secret}"), ""),
        ];
        for (header, kept) in table {
            let mut line = app.line().await?;
            line.say(&format!(
                "GET /head HTTP/1.1\r\nHost: {{host}}\r\nConnection: close\r\n{header}\r\n\r\n"
            ))
            .await?;
            let seen = line.rest().await?;
            ensure!(seen.starts_with("HTTP/1.1 200"), "{header}: {seen}");
            let carries = [&secret[1..], &basic].iter().any(|carried| seen.contains(carried));
            ensure!(!carries && seen.contains(kept), "the app sees it of {header}: {seen}");
        }
        let answer = app.get(&format!("/head?a=b&token={secret}"), &[]).await?.text();
        ensure!(answer.contains("/head?a=b ") && !answer.contains(&secret), "{answer}");
        let answer = app.get(&format!("/head/{secret}"), &[]).await?;
        ensure!(answer.status == 400 && !answer.text().contains(&secret), "{}", answer.text());
        let mut line = app.line().await?;
        let trailer = format!("X-End: {secret}\r\nX-Other: kept");
        line.say("POST /body HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nTrailer: X-End, X-Other\r\n\r\n")
            .await?;
        line.say(&format!("3\r\nabc\r\n0\r\n{trailer}\r\n\r\n")).await?;
        let answer = line.hear("]").await?.to_ascii_lowercase();
        ensure!(answer.contains("x-other: kept") && !answer.contains("x-end"), "{answer}");
    }
    hostd.stop().await
}

/// A head is judged by itself, whatever came with it in one piece.
#[tokio::test]
async fn what_comes_together_is_told_apart() -> Result<()> {
    let (hostd, app) = raw().await?;
    let post = |rest: &str| format!("POST /body HTTP/1.1\r\nHost: {{host}}\r\n{rest}");
    let get = "GET /once HTTP/1.1\r\nHost: {host}\r\n\r\n";
    let both = post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    let chunked = post("Transfer-Encoding: chunked\r\n\r\n13\r\n\nContent-Length: 5\n\r\n0\r\n\r\n");
    let ended = post("Connection: close\r\nContent-Length: 0\r\n\r\n");
    let table = [
        (vec![format!("{get}{both}{get}")], vec!["200", "400"]),
        // Read by its chunks, and the last of its connection.
        (vec![post("Content-Length: 1\r\n\r\n"), format!("x{both}{get}")], vec!["200", "200"]),
        (vec![format!("{chunked}{ended}")], vec!["200", "200"]),
        (vec![format!("{get}{chunked}{ended}")], vec!["200", "200", "200"]),
    ];
    for (pieces, wanted) in table {
        let mut line = app.line().await?;
        for piece in &pieces {
            line.say(piece).await?;
        }
        let answer = line.rest().await?;
        let answers = answer.split("HTTP/1.1 ").skip(1).map(|said| &said[..3]);
        ensure!(answers.collect::<Vec<_>>() == wanted, "{pieces:?}: {answer}");
    }
    hostd.stop().await
}

#[tokio::test]
async fn bodies_pass_as_they_come_in_both_directions() -> Result<()> {
    let (hostd, app) = raw().await?;
    let body = Bytes::from(Random::seeded().bytes(3 << 20));
    let answer = app.post("/body", &[], body.clone()).await?.text();
    let wanted: String = Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(answer == format!("POST {} {wanted} []", body.len()), "{answer}");

    let mut line = app.line().await?;
    let head = "POST /pieces HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n";
    line.say(head).await?;
    for piece in ["first", "second", "third"] {
        line.say(&format!("{:x}\r\n{piece}\r\n", piece.len())).await?;
        // Each piece arrives before the next one is sent: there is no buffering.
        line.hear(piece).await?;
    }
    line.say("0\r\n\r\n").await?;
    line.hear("0\r\n\r\n").await?;

    let mut line = app.line().await?;
    line.say("POST /body HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n")
        .await?;
    line.say("3\r\nabc\r\n0\r\nX-End: yes\r\n\r\n").await?;
    let answer = line.hear("]").await?.to_ascii_lowercase();
    ensure!(answer.contains("x-end: yes"), "the trailers of a request are lost: {answer}");

    let mut line = app.line().await?;
    line.say("GET /trailers HTTP/1.1\r\nHost: {host}\r\nTE: trailers\r\nConnection: close, TE\r\n\r\n")
        .await?;
    let answer = line.rest().await?.to_ascii_lowercase();
    ensure!(answer.contains("x-sum: 42"), "the trailers of an answer are lost: {answer}");

    let mut line = app.line().await?;
    line.say("POST /body HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        .await?;
    line.hear("100 Continue\r\n\r\n").await?;
    line.say("abc").await?;
    line.hear("POST 3 ").await?;

    let mut line = app.line().await?;
    line.say("HEAD / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").await?;
    let answer = line.rest().await?.to_ascii_lowercase();
    ensure!(answer.contains("content-length: 14") && answer.ends_with("\r\n\r\n"), "{answer}");
    hostd.stop().await
}

#[tokio::test]
async fn http_2_in_clear_text_is_spoken() -> Result<()> {
    let (hostd, app) = raw().await?;
    let name = app.name()?;
    let (_, port) = name.rsplit_once(':').context("a port")?;
    let curl = async |arguments: &[&str]| -> Result<String> {
        let host = format!("Host: {name}");
        let url = format!("http://127.0.0.1:{port}/body");
        let output = Command::new("curl")
            .args(["-s", "-m", "30", "--http2-prior-knowledge", "-w", " %{http_version} %{http_code}", "-H"])
            .args([&host, &url])
            .args(arguments)
            .stderr(Stdio::inherit())
            .output()
            .await?;
        Ok(String::from_utf8(output.stdout)?)
    };
    let answer = curl(&["-d", "abc", "-H", "Cookie: a=1"]).await?;
    ensure!(answer.starts_with("POST 3 ") && answer.ends_with(" 2 200"), "{answer}");
    let answer = curl(&[]).await?;
    ensure!(answer.starts_with("GET 0 ") && answer.ends_with(" 2 200"), "{answer}");
    hostd.stop().await
}

#[tokio::test]
async fn upgrades_are_spliced_whatever_the_app_answers() -> Result<()> {
    let (hostd, app) = raw().await?;
    let ask = "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n";
    let mut line = app.line().await?;
    // Bytes after the head belong to the stream.
    line.say(&format!("{}early ", ask.replace("{path}", "/"))).await?;
    let answer = line.hear("hello early ").await?;
    ensure!(answer.starts_with("HTTP/1.1 101") && answer.to_lowercase().contains("upgrade: raw"), "{answer}");
    for word in ["one", "two", "three"] {
        line.say(word).await?;
        line.hear(word).await?;
    }
    let mut line = app.line().await?;
    line.say(&ask.replace("{path}", "/odd")).await?;
    ensure!(line.rest().await? == "Unauthorized", "what is not HTTP passes as it is");
    let mut line = app.line().await?;
    line.say(&ask.replace("{path}", "/refused")).await?;
    let answer = line.hear("no sockets today").await?;
    ensure!(answer.starts_with("HTTP/1.1 403"), "{answer}");

    // Asleep: held like everything else.
    app.verb("stop").await?;
    let mut line = app.line().await?;
    line.say(&ask.replace("{path}", "/")).await?;
    line.hear("hello ").await?;
    line.say("still here").await?;
    line.hear("still here").await?;
    hostd.stop().await
}

#[tokio::test]
async fn connections_to_the_app_are_kept_and_let_go() -> Result<()> {
    let (hostd, app) = raw().await?;
    for _ in 0..20 {
        ensure!(app.get("/", &[]).await?.status == 200);
    }
    let (before, _) = counts(&app).await?;
    for _ in 0..20 {
        app.get("/", &[]).await?;
    }
    let (after, _) = counts(&app).await?;
    ensure!(after == before, "40 requests, {before} and then {after} connections");

    // The app closes a kept connection at the next request: what may be repeated is, once.
    for round in 0..5 {
        let answer = app.get("/once", &[]).await?;
        ensure!(answer.status == 200, "round {round}: {} {}", answer.status, answer.text());
    }
    // A non-idempotent request is not repeated: it fails, and the app has seen it once.
    app.get("/", &[]).await?;
    let (_, before) = counts(&app).await?;
    let answer = app.post("/once", &[], "x").await?;
    let (_, after) = counts(&app).await?;
    ensure!(after == before + 1, "sent {} times", after - before);
    // On a new connection it is answered; on a pooled one that the app closed, the outcome is open.
    ensure!(matches!(answer.status, 200 | 502), "{} {}", answer.status, answer.text());

    // Nothing of one life is used in the next.
    app.verb("stop").await?;
    ensure!(app.get("/", &[]).await?.status == 200);
    ensure!(counts(&app).await?.0 <= 2, "a new app");
    hostd.stop().await
}

#[tokio::test]
async fn an_app_that_fails_is_told_apart() -> Result<()> {
    let (hostd, app) = raw().await?;
    for (path, word) in [("/closes", "closed"), ("/garbage", "HTTP")] {
        let answer = app.get(path, &[]).await?;
        ensure!(answer.status == 502 && answer.text().contains(word), "{path}: {}", answer.text());
        let page = app.get(path, &[("accept", "text/html")]).await?;
        ensure!(
            page.text().starts_with("<!doctype html>") || page.text().starts_with("<!DOCTYPE html>"),
            "{}",
            page.text()
        );
    }
    let cut = app.get("/short", &[]).await;
    ensure!(cut.is_err(), "an answer that was cut off must not look whole");
    let moved = app.get("/moved", &[]).await?;
    ensure!(moved.headers["location"] == format!("{}/there", app.url), "{:?}", moved.headers);
    ensure!(moved.headers["set-cookie"] == "a=1", "{:?}", moved.headers);
    let commands = app.get("/commands", &[]).await?.headers;
    let obeyed = ["x-slipway-error", "x-accel-redirect", "x-sendfile"];
    ensure!(!obeyed.iter().any(|name| commands.contains_key(*name)), "{commands:?}");
    let clears: Vec<_> = commands.get_all("clear-site-data").iter().collect();
    ensure!(clears == ["\"storage\""], "{clears:?}");
    hostd.stop().await
}

/// The promise is about a thousand; here are fewer.
#[tokio::test]
async fn many_requests_to_a_sleeping_sandbox_start_it_once_and_all_are_served() -> Result<()> {
    let (hostd, app) = raw().await?;
    app.verb("stop").await?;
    let before = app.attempts().await?;
    let app = std::sync::Arc::new(app);
    let mut visits = JoinSet::new();
    for number in 0..scaled(100, 1000) {
        let app = app.clone();
        visits.spawn(async move {
            let body = format!("body of {number}");
            let answer = app.post("/body", &[], body.clone()).await?;
            ensure!(answer.status == 200, "{number}: {} {}", answer.status, answer.text());
            ensure!(answer.text().starts_with(&format!("POST {} ", body.len())), "{}", answer.text());
            Ok(())
        });
    }
    while let Some(visit) = visits.join_next().await {
        visit??;
    }
    let started = app.attempts().await? - before;
    ensure!(started == 1, "started {started} times");
    hostd.stop().await
}

#[tokio::test]
async fn who_floods_one_sandbox_does_not_keep_others_waiting() -> Result<()> {
    let (hostd, flooded) = raw().await?;
    let other = RAW.launch(&hostd).await?;
    let flooded = std::sync::Arc::new(flooded);
    let mut flood = JoinSet::new();
    for _ in 0..300 {
        let flooded = flooded.clone();
        flood.spawn(async move { flooded.get("/never", &[]).await });
    }
    for _ in 0..10 {
        ensure!(other.get("/", &[]).await?.text() == "hello from raw");
    }
    // Nor does one slow path of the same app for ever.
    ensure!(flooded.get("/", &[]).await?.text() == "hello from raw");
    flood.shutdown().await;
    hostd.stop().await
}

#[tokio::test]
async fn pages_of_a_preview_cannot_drive_the_api() -> Result<()> {
    let (hostd, app) = raw().await?;
    let operator = hostd.operator()?;
    let request = Request::post("/v1/sandboxes").header("origin", &app.url);
    let answer = operator.call(request.body(Full::new(Bytes::from("{}")))?).await?;
    ensure!(answer.status == 403, "{}", answer.text());
    // The edge does not serve the API.
    let page = app.get("/v1/sandboxes", &[]).await?.text();
    ensure!(page == "hello from raw", "{page}");
    hostd.stop().await
}
