//! Followers of output, as clients write them.

use crate::Client;
use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::{Request, Response};
use protocol::{Chunk, Encoding, Payload, Stream};

/// The bytes of a payload.
pub fn bytes_of(payload: &Payload) -> Result<Vec<u8>> {
    Ok(match payload.encoding {
        Encoding::Utf8 => payload.data.clone().into_bytes(),
        Encoding::Base64 => base64::engine::general_purpose::STANDARD.decode(&payload.data)?,
    })
}

/// The output that a follower has seen so far, across any number of connections.
#[derive(Debug, Default, Clone)]
pub struct Followed {
    pub cursor: u64,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub lost: u64,
    pub ended: bool,
}

impl Followed {
    /// Adds a chunk. A byte that comes twice, or not in its place, is an error.
    pub fn add(&mut self, chunk: &Chunk) -> Result<()> {
        match chunk {
            Chunk::Output { cursor, stream, offset, payload } => {
                let bytes = bytes_of(payload)?;
                let own = if *stream == Stream::Stderr { &mut self.stderr } else { &mut self.stdout };
                if self.lost == 0 {
                    ensure!(own.len() as u64 == *offset, "{stream:?} at {} got {offset}", own.len());
                    ensure!(
                        self.cursor + bytes.len() as u64 == *cursor,
                        "cursor {} got {cursor}",
                        self.cursor
                    );
                }
                own.extend(bytes);
                self.cursor = *cursor;
            }
            Chunk::Gap { cursor, lost } => {
                self.lost += lost;
                self.cursor = *cursor;
            }
            Chunk::End { cursor, ended } => {
                ensure!(*cursor == self.cursor, "ends at {cursor}, seen {}", self.cursor);
                self.ended = *ended;
            }
        }
        Ok(())
    }
}

/// An open connection that follows a log.
pub struct Follower {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Follower {
    /// Opens `path`, which must be one that answers NDJSON.
    pub async fn open(client: &Client, path: &str) -> Result<Self> {
        Self::of(client.open(Request::get(path).body(Empty::new())?).await?).await.context(path.to_owned())
    }

    /// The follower of an answer, which must be 200.
    pub async fn of(response: Response<Incoming>) -> Result<Self> {
        if response.status() != 200 {
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            bail!("answered {status} {}", String::from_utf8_lossy(&body));
        }
        Ok(Self { body: response.into_body(), buffer: Vec::new() })
    }

    /// The next chunk; nothing when the answer is complete.
    pub async fn next(&mut self) -> Result<Option<Chunk>> {
        loop {
            if let Some(at) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=at).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            match self.body.frame().await {
                Some(frame) => self.buffer.extend(frame?.into_data().unwrap_or_default()),
                None => return Ok(None),
            }
        }
    }
}

/// Follows an exec from `seen.cursor` to its end on one connection.
pub async fn follow(client: &Client, id: &str, mut seen: Followed) -> Result<Followed> {
    let path = format!("/v1/execs/{id}/output?follow=1&after={}", seen.cursor);
    let mut follower = Follower::open(client, &path).await?;
    while let Some(chunk) = follower.next().await? {
        seen.add(&chunk)?;
    }
    Ok(seen)
}

/// Follows the log of a task's agent; `query` is the query string.
pub async fn of_task(client: &Client, id: &str, query: &str, mut seen: Followed) -> Result<Followed> {
    let mut follower = Follower::open(client, &format!("/v1/tasks/{id}/output{query}")).await?;
    while let Some(chunk) = follower.next().await? {
        seen.add(&chunk)?;
    }
    Ok(seen)
}
