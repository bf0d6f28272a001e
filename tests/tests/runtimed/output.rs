//! Output: every byte in its place, for every reader, at its own pace, for as long as the budget keeps it.

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Incoming;
use protocol::{Chunk, Encoding, ErrorCode, Exit, Stream};
use serde_json::json;
use std::sync::Arc;
use tests::output::{Follower, bytes_of};
use tests::raw_output::{open, raw};
use tests::sandbox::PATIENCE;
use tests::shell::{cancel_now, prints, shell, started};
use tests::{Client, Followed, Random, Sandbox, follow, scaled, seq, type_in};
use tokio::task::JoinSet;
use tokio::time::timeout;

const EXITED_0: Option<Exit> = Some(Exit::Exited { code: 0 });

async fn chunks(client: &Client, path: &str) -> Result<Vec<Chunk>> {
    let mut follower = Follower::open(client, path).await?;
    let mut chunks = Vec::new();
    while let Some(chunk) = timeout(PATIENCE, follower.next()).await.context("the log never ends")?? {
        chunks.push(chunk);
    }
    Ok(chunks)
}

/// The bytes of all chunks, whatever their stream.
fn joined(chunks: &[Chunk]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for chunk in chunks {
        if let Chunk::Output { payload, .. } = chunk {
            bytes.extend(bytes_of(payload)?);
        }
    }
    Ok(bytes)
}

// ---- positions ----

#[tokio::test]
async fn streams_take_turns_and_each_counts_its_own_bytes() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let line = "printf ab; read x; printf CDE >&2; read x; printf f; read x; printf G >&2";
    client.start(json!({"id": "turns", "shell": line, "stdin_open": true})).await?;
    let mut follower = Follower::open(client, "/v1/execs/turns/output?follow=1").await?;
    for (cursor, stream, offset, data) in [
        (2, Stream::Stdout, 0, "ab"),
        (5, Stream::Stderr, 0, "CDE"),
        (6, Stream::Stdout, 2, "f"),
        (7, Stream::Stderr, 3, "G"),
    ] {
        let got = timeout(PATIENCE, follower.next()).await??.context("the log ended")?;
        let payload = protocol::Payload { data: data.to_owned(), encoding: Encoding::Utf8 };
        ensure!(got == Chunk::Output { cursor, stream, offset, payload }, "{got:?}");
        if cursor < 7 {
            type_in(client, "turns", "\n").await?;
        }
    }
    ensure!(follower.next().await? == Some(Chunk::End { cursor: 7, ended: true }));
    ensure!(follower.next().await?.is_none(), "something came after the end");
    sandbox.stop().await
}

#[tokio::test]
async fn a_reader_may_begin_anywhere() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let line = "for i in $(seq 20); do echo out é $i; echo err $i >&2; done";
    let end = client.exec(json!({"id": "any", "shell": line})).await?.output_end.context("ended")?;
    let whole = raw(client, "/v1/execs/any/output").await?;
    ensure!(whole.len() as u64 == end, "{} of {end}", whole.len());
    for after in 0..=end {
        let from = &whole[after as usize..];
        let path = format!("/v1/execs/any/output?after={after}");
        ensure!(raw(client, &path).await? == from, "raw after {after}");
        let read = chunks(client, &format!("{path}&follow=1")).await?;
        ensure!(joined(&read)? == from, "after {after}: {read:?}");
        ensure!(read.last() == Some(&Chunk::End { cursor: end, ended: true }), "after {after}: {read:?}");
    }
    let beyond = client.get(&format!("/v1/execs/any/output?after={}", end + 1)).await?.error()?.error;
    ensure!(beyond.code == ErrorCode::InvalidRequest && beyond.detail.field.as_deref() == Some("after"));
    sandbox.stop().await
}

#[tokio::test]
async fn a_part_of_the_log_can_be_asked_for() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let line = "seq 1 9; read x; echo E1 >&2; echo E2 >&2; read x; printf 10";
    client.start(json!({"id": "part", "shell": line, "stdin_open": true})).await?;
    for sign in ["9\n", "E2\n"] {
        prints(client, "part", sign).await?;
        type_in(client, "part", "\n").await?;
    }
    client.ended("part").await?;
    let all = "1\n2\n3\n4\n5\n6\n7\n8\n9\nE1\nE2\n10";
    for (query, expected) in [
        ("", all),
        ("tail=0", ""),
        ("tail=1", "10"),
        ("tail=3", "E1\nE2\n10"),
        ("tail=100", all),
        ("last=0", ""),
        ("last=5", "E2\n10"),
        ("last=18446744073709551615", all),
        ("stream=stdout", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10"),
        ("stream=stderr", "E1\nE2\n"),
        ("stream=stderr&after=21", "E2\n"),
        ("stream=all&tail=1&follow=1", "10"),
    ] {
        let got = raw(client, &format!("/v1/execs/part/output?{query}")).await?;
        ensure!(got == expected, "{query}: {got:?}");
    }
    for query in
        ["after=0&tail=1", "tail=1&last=1", "tail=-1", "tail=10001", "stream=pty", "follow=yes", "folow=1"]
    {
        let answer = client.get(&format!("/v1/execs/part/output?{query}")).await?;
        ensure!(
            answer.status == 400 && answer.error()?.error.detail.field.is_some(),
            "{query}: {}",
            answer.text()
        );
    }
    ensure!(client.get("/v1/execs/unknown/output").await?.code()? == ErrorCode::NotFound);
    sandbox.stop().await
}

#[tokio::test]
async fn the_last_lines_are_lines() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    for (id, line, tail, expected) in [
        ("ended", "seq 1 20000", 3, "19998\n19999\n20000\n"),
        ("open", "seq 1 5; printf 6", 2, "5\n6"),
        ("empty", "printf '\\n\\n\\n'", 2, "\n\n"),
        ("one", "printf x", 5, "x"),
        ("none", "true", 5, ""),
        // Far longer than one looks back: as much as that.
        ("long", "head -c 3000000 /dev/zero | tr '\\0' y", 1, ""),
    ] {
        client.exec(json!({"id": id, "shell": line})).await?;
        let got = raw(client, &format!("/v1/execs/{id}/output?tail={tail}")).await?;
        let right = if id == "long" { got.len() == 1 << 20 } else { got == expected };
        ensure!(right, "{id}: {} bytes", got.len());
    }
    sandbox.stop().await
}

// ---- bytes ----

#[tokio::test]
async fn bytes_that_are_no_text_come_as_base64_and_are_never_altered() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let all: Vec<u8> = (0..=255).collect();
    for (id, printed, encoding) in [
        ("text", "déjà\u{0}\u{1b}[1m\r\n€𝄞".as_bytes().to_vec(), Encoding::Utf8),
        ("bytes", all, Encoding::Base64),
        ("overlong", vec![0xc0, 0x80, 0xed, 0xa0, 0x80, 0xf5], Encoding::Base64),
        ("cut", b"ok\xe2\x82".to_vec(), Encoding::Base64),
        ("lone", vec![0x80], Encoding::Base64),
    ] {
        sandbox.write_app(id, "")?;
        std::fs::write(sandbox.app().join(id), &printed)?;
        let view = client.exec(json!({"id": id, "argv": ["cat", id]})).await?;
        let stdout = view.stdout.context("no output")?;
        ensure!(stdout.encoding == encoding && bytes_of(&stdout)? == printed, "{id}: {stdout:?}");
        ensure!(joined(&chunks(client, &format!("/v1/execs/{id}/output")).await?)? == printed, "{id}");
        ensure!(raw(client, &format!("/v1/execs/{id}/output")).await? == printed, "{id}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_character_written_in_pieces_is_still_that_character() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let line = r"printf 'a\xe2'; read x; printf '\x82'; read x; printf '\xacz'";
    client.start(json!({"id": "euro", "shell": line, "stdin_open": true})).await?;
    let mut follower = Follower::open(client, "/v1/execs/euro/output?follow=1").await?;
    let mut seen = Followed::default();
    for expected in [&b"a\xe2"[..], b"a\xe2\x82", "a€z".as_bytes()] {
        while seen.stdout != expected {
            seen.add(&timeout(PATIENCE, follower.next()).await??.context("the log ended")?)?;
        }
        if seen.stdout.len() < 5 {
            type_in(client, "euro", "\n").await?;
        }
    }
    ensure!(client.ended("euro").await?.stdout.context("output")?.data == "a€z");
    sandbox.stop().await
}

#[tokio::test]
async fn long_text_stays_text() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    // More than one segment, with characters that no power of two divides: the border cuts one.
    let line = "printf abc; yes '€uro 𝄞' | head -c 5999997";
    client.exec(json!({"id": "text", "shell": line})).await?;
    let read = chunks(client, "/v1/execs/text/output").await?;
    let strange: usize = read
        .iter()
        .filter_map(|chunk| match chunk {
            Chunk::Output { payload, .. } if payload.encoding == Encoding::Base64 => Some(payload.data.len()),
            _ => None,
        })
        .sum();
    // Only a character that two segments share cannot be shown as one.
    ensure!(strange <= 64, "{strange} characters of base64 for plain text");
    ensure!(joined(&read)?.len() == 6_000_000);
    // Where the answer cuts it short, it is cut between two characters.
    let stdout = client.ended("text").await?.stdout.context("output")?;
    ensure!(stdout.encoding == Encoding::Utf8 && stdout.data.len() > (1 << 20) - 4, "{}", stdout.data.len());
    sandbox.stop().await
}

#[tokio::test]
async fn a_line_of_many_megabytes_hurts_nobody() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client().clone();
    let bytes = scaled(8, 100) << 20;
    let line = format!("head -c {bytes} /dev/zero | tr '\\0' x");
    client.start(json!({"id": "long", "shell": line})).await?;
    let following = tokio::spawn({
        let client = client.clone();
        async move { follow(&client, "long", Followed::default()).await }
    });
    let mut answered = 0;
    while !following.is_finished() {
        ensure!(shell(&client, "echo here").await? == "here\n");
        answered += 1;
    }
    let seen = following.await??;
    ensure!(seen.ended && seen.lost == 0 && seen.stdout.len() == bytes, "{} bytes", seen.stdout.len());
    ensure!(seen.stdout.iter().all(|byte| *byte == b'x'));
    ensure!(answered > 0, "no other request was answered meanwhile");
    let view = client.ended("long").await?;
    ensure!(view.exit == EXITED_0 && view.truncated, "{:?}", view.exit);
    ensure!(view.stdout.context("output")?.data.len() == 1 << 20);
    sandbox.stop().await
}

#[tokio::test]
async fn server_sent_events_carry_the_cursor_to_go_on_from() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    client.exec(json!({"id": "sse", "shell": "echo one; sleep 0; echo two"})).await?;
    let body = open(client, "/v1/execs/sse/output?follow=1", "text/event-stream").await?;
    let text = String::from_utf8(body.collect().await?.to_bytes().to_vec())?;
    let mut seen = Followed::default();
    let mut names = Vec::new();
    for frame in text.split_terminator("\n\n") {
        let [id, event, data] = frame.split('\n').collect::<Vec<_>>()[..] else {
            anyhow::bail!("not three lines: {frame:?}")
        };
        seen.add(&serde_json::from_str(data.strip_prefix("data: ").context("data")?)?)?;
        ensure!(id == format!("id: {}", seen.cursor), "{frame:?}");
        names.push(event.strip_prefix("event: ").context("event")?);
    }
    ensure!(seen.stdout == b"one\ntwo\n" && seen.ended, "{text}");
    let (end, output) = names.split_last().context("no frame")?;
    ensure!(*end == "end" && output.iter().all(|name| *name == "output"), "{names:?}");
    // The header of a reconnecting browser.
    for (last, expected) in [("4", 200), ("8", 200), ("9", 400), ("x", 400)] {
        let request = Request::get("/v1/execs/sse/output?follow=1")
            .header("accept", "text/event-stream")
            .header("last-event-id", last)
            .body(Empty::<bytes::Bytes>::new())?;
        let response = client.open(request).await?;
        ensure!(response.status() == expected, "{last}: {}", response.status());
        let text = String::from_utf8(response.into_body().collect().await?.to_bytes().to_vec())?;
        ensure!(!text.contains("one") && text.contains("two") == (last == "4"), "{last}: {text}");
    }
    sandbox.stop().await
}

// ---- followers ----

#[tokio::test]
async fn a_follower_ends_exactly_where_the_exec_ended() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    shell(client, "mkfifo go never").await?;
    let line = "(read x <go; echo late 1; read x <never; echo late 2) & echo done";
    let end = client.exec(json!({"id": "late", "shell": line})).await?.output_end;
    ensure!(end == Some(5));
    shell(client, "echo >go").await?;
    // The log itself can be read on; following it comes to an end.
    let later = async {
        loop {
            let log = joined(&chunks(client, "/v1/execs/late/output").await?)?;
            if log == b"done\nlate 1\n" {
                return Ok::<_, anyhow::Error>(());
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, later).await.context("what came late is not in the log")??;
    for after in 0..=5 {
        let read = chunks(client, &format!("/v1/execs/late/output?follow=1&after={after}")).await?;
        ensure!(joined(&read)? == b"done\n"[after..], "after {after}: {read:?}");
        ensure!(read.last() == Some(&Chunk::End { cursor: 5, ended: true }), "after {after}: {read:?}");
    }
    cancel_now(client, "late").await?;
    sandbox.stop().await
}

#[tokio::test]
async fn a_reader_that_does_not_follow_is_told_that_more_may_come() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    started(client, "runs", json!({"shell": "echo up; sleep 600"}), "up").await?;
    let read = chunks(client, "/v1/execs/runs/output").await?;
    ensure!(read.last() == Some(&Chunk::End { cursor: 3, ended: false }), "{read:?}");
    let silent = chunks(client, "/v1/execs/runs/output?after=3").await?;
    ensure!(silent == [Chunk::End { cursor: 3, ended: false }], "{silent:?}");
    cancel_now(client, "runs").await?;
    sandbox.stop().await
}

#[tokio::test]
async fn a_follower_that_reads_nothing_slows_nobody_down() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let bytes = scaled(20, 200) << 20;
    let line = format!("read x; seq 1 1000000000 | head -c {bytes}");
    client.start(json!({"id": "fast", "shell": line, "stdin_open": true})).await?;
    let mut lazy = Vec::new();
    for _ in 0..20 {
        lazy.push(open(client, "/v1/execs/fast/output?follow=1", "application/octet-stream").await?);
    }
    type_in(client, "fast", "\n").await?;
    ensure!(client.ended("fast").await?.exit == EXITED_0);
    // The followers find everything when they read at last.
    let expected = seq(bytes);
    for body in lazy.drain(..3) {
        let late = timeout(PATIENCE, body.collect()).await.context("hangs")??.to_bytes();
        ensure!(late == expected, "{} bytes", late.len());
    }
    sandbox.stop().await
}

/// Data for both streams, and a shell line that prints it in pieces that take turns.
fn two_streams(random: &mut Random, pieces: usize) -> (Vec<u8>, Vec<u8>, String) {
    let (mut out, mut err, mut line) = (Vec::new(), Vec::new(), String::from("exec 3<out 4<err"));
    for _ in 0..pieces {
        let length = random.below(3000) as usize + 1;
        let bytes = random.bytes(length);
        if random.below(2) == 0 {
            out.extend(bytes);
            line += &format!("; head -c {length} <&3");
        } else {
            err.extend(bytes);
            line += &format!("; head -c {length} <&4 >&2");
        }
    }
    (out, err, line)
}

#[tokio::test]
async fn followers_that_come_and_go_lose_no_byte() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut random = Random::seeded();
    let (followers, disconnects) = (scaled(10, 50), scaled(20, 200));
    let (out, err, line) = two_streams(&mut random, scaled(300, 2000));
    for (name, bytes) in [("out", &out), ("err", &err)] {
        std::fs::write(sandbox.app().join(name), bytes)?;
    }
    sandbox.client().start(json!({"id": "chaos", "argv": ["bash", "-c", line]})).await?;
    let expected = Arc::new((out, err));
    let mut running = JoinSet::new();
    for _ in 0..followers {
        let (client, random, expected) = (sandbox.client().clone(), random.branch(), Arc::clone(&expected));
        running.spawn(async move { restless(&client, random, disconnects, &expected).await });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    sandbox.stop().await
}

/// Follows, hangs up after some bytes, goes on from its cursor; after the end it begins again, until it
/// has hung up so many times and seen the whole at least once.
async fn restless(
    client: &Client,
    mut random: Random,
    disconnects: usize,
    expected: &(Vec<u8>, Vec<u8>),
) -> Result<()> {
    let mut seen = Followed::default();
    let mut hung_up = 0;
    while hung_up < disconnects || !seen.ended {
        if seen.ended {
            seen = Followed::default();
        }
        let path = format!("/v1/execs/chaos/output?follow=1&after={}", seen.cursor);
        let body = open(client, &path, "application/x-ndjson").await?;
        let limit = if hung_up < disconnects { random.below(200_000) as usize } else { usize::MAX };
        hung_up += usize::from(read_some(body, limit, &mut seen).await?);
        if seen.ended {
            ensure!(seen.stdout == expected.0 && seen.stderr == expected.1, "other bytes than were written");
            ensure!(seen.lost == 0);
        }
    }
    Ok(())
}

/// Reads whole lines until `limit` bytes have come, then hangs up; whether that was before the end.
async fn read_some(mut body: Incoming, limit: usize, seen: &mut Followed) -> Result<bool> {
    let mut buffer: Vec<u8> = Vec::new();
    let mut came = 0;
    while came < limit {
        let Some(frame) = timeout(PATIENCE, body.frame()).await.context("a follower hangs")? else {
            ensure!(seen.ended && buffer.is_empty(), "the answer ended without an end");
            return Ok(false);
        };
        let bytes = frame?.into_data().unwrap_or_default();
        came += bytes.len();
        buffer.extend(&bytes);
        while let Some(at) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=at).collect();
            seen.add(&serde_json::from_slice(&line)?)?;
        }
    }
    Ok(!seen.ended)
}
