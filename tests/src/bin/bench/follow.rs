//! How fast one follower reads a log, against the same bytes from a file through a plain Unix socket.

use crate::row::{Goal, Row, mb_per_s, median, ratio};
use anyhow::{Result, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tests::{Sandbox, scaled};

pub async fn rows() -> Result<Vec<Row>> {
    let sandbox = Sandbox::start_with(&["RUNTIMED_LOG_BUDGET_MB=4096"]).await?;
    let bytes = 256u64 << 20;
    let line = format!("head -c {bytes} /dev/zero | tee file");
    sandbox.client().exec(json!({"id": "full", "shell": line})).await?;
    let file = sandbox.app().join("file");
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..scaled(3, 9) {
        ours.push(follow(&sandbox, bytes).await?);
        plain.push(copy(&file, bytes)?);
    }
    let (ours, plain) = (median(ours), median(plain));
    sandbox.stop().await?;
    Ok(vec![Row {
        what: "one follower, 256 MiB raw".into(),
        ours: mb_per_s(bytes, ours),
        other: format!("file through a socket {}", mb_per_s(bytes, plain)),
        ratio: ratio(plain, ours),
        goal: Goal::Shown,
    }])
}

async fn follow(sandbox: &Sandbox, bytes: u64) -> Result<Duration> {
    let request = Request::get("/v1/execs/full/output?follow=1")
        .header("accept", "application/octet-stream")
        .body(Empty::new())?;
    let started = Instant::now();
    let mut body = sandbox.client().open(request).await?.into_body();
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        seen += frame?.data_ref().map_or(0, |data| data.len() as u64);
    }
    ensure!(seen == bytes, "{seen} bytes of {bytes}");
    Ok(started.elapsed())
}

/// The simplest server: copies a file to a socket.
fn copy(file: &std::path::Path, bytes: u64) -> Result<Duration> {
    let mut file = std::fs::File::open(file)?;
    let (mut from, mut to) = UnixStream::pair()?;
    let started = Instant::now();
    let writer = std::thread::spawn(move || -> std::io::Result<()> {
        let mut buffer = vec![0; 128 << 10];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(()),
                length => to.write_all(&buffer[..length])?,
            }
        }
    });
    let mut buffer = vec![0; 128 << 10];
    let mut seen = 0;
    while let length @ 1.. = from.read(&mut buffer)? {
        seen += length as u64;
    }
    ensure!(writer.join().is_ok_and(|copied| copied.is_ok()) && seen == bytes, "{seen} bytes of {bytes}");
    Ok(started.elapsed())
}
