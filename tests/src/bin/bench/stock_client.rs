//! Creates and commands through the protocol of E2B against those through Slipway's own API, creates also a hundred at
//! once: what the layer in between costs. Both by the same client, which opens a connection for each request.

use crate::{
    host::{exec_true, start_with},
    idle_machine::calm,
    row::{Goal, Row, median, ms, ratio},
};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::future::try_join_all;
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::{Caller, Hostd, scaled};

/// What a create through the protocol may take, against one through the API.
const MOST: f64 = 1.3;
const AT_ONCE: usize = 100;

pub async fn rows() -> Result<Vec<Row>> {
    let hostd = start_with(&[("SLIPWAY_LOG", "warn")]).await?;
    let creator = Creator::new(&hostd).await?;
    // The first of each is slower than all others.
    creator.remove(vec![creator.own().await?, creator.e2b().await?.id]).await?;
    let rows = vec![alone(&creator).await?, together(&creator).await?, execs(&creator).await?];
    hostd.stop().await?;
    Ok(rows)
}

struct E2bSandbox {
    id: String,
    /// For what runs in it.
    token: String,
}

struct Creator {
    own: Caller,
    e2b: Caller,
    key: String,
}

impl Creator {
    async fn new(hostd: &Hostd) -> Result<Self> {
        let body = json!({"tenant": "bench", "principal": "bench", "e2b": true});
        let created: Value = hostd.operator()?.post("/v1/tokens", &body).await?.expect(201)?;
        let key = created["token"].as_str().context("a token")?.to_owned();
        let e2b = Caller::tcp(hostd.url(), None);
        Ok(Self { own: e2b.with_token(Some(&key)), e2b, key })
    }

    /// The sandbox that E2B's client gets, asked for in Slipway's own words.
    async fn own(&self) -> Result<String> {
        let spec = json!({"idle_policy": "always_on", "visibility": "public", "ttl": "300s"});
        self.own.create(&spec).await
    }

    async fn e2b(&self) -> Result<E2bSandbox> {
        let body = Full::new(Bytes::from_static(br#"{"templateID":"base","timeout":300}"#));
        let request = Request::post("/v2/sandboxes").header("x-api-key", &self.key).body(body)?;
        let created: Value = self.e2b.call(request).await?.expect(201)?;
        let field =
            |name: &str| created[name].as_str().map(str::to_owned).with_context(|| format!("no {name}"));
        Ok(E2bSandbox { id: field("sandboxID")?, token: field("envdAccessToken")? })
    }

    /// Runs `true` as E2B's SDKs do: by a stream of Connect, read to its end.
    async fn connect_true(&self, sandbox: &E2bSandbox) -> Result<()> {
        let request = Request::post("/process.Process/Start")
            .header("content-type", "application/connect+json")
            .header("e2b-sandbox-id", &sandbox.id)
            .header("e2b-sandbox-port", "49983")
            .header("x-access-token", &sandbox.token);
        let message = br#"{"process":{"cmd":"true"}}"#;
        let length = u32::try_from(message.len())?.to_be_bytes();
        let body = [&[0], length.as_slice(), message].concat();
        let reply = self.e2b.call(request.body(Full::new(Bytes::from(body)))?).await?;
        ensure!(reply.text().contains(r#""exited":true"#), "{} {}", reply.status, reply.text());
        Ok(())
    }

    async fn remove(&self, ids: Vec<String>) -> Result<()> {
        for id in ids {
            self.own.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
        }
        Ok(())
    }
}

async fn alone(creator: &Creator) -> Result<Row> {
    let (mut own, mut e2b) = (Vec::new(), Vec::new());
    for _ in 0..scaled(25, 100) {
        calm().await?;
        let started = Instant::now();
        let first = creator.own().await?;
        own.push(started.elapsed());
        calm().await?;
        let started = Instant::now();
        let second = creator.e2b().await?;
        e2b.push(started.elapsed());
        creator.remove(vec![first, second.id]).await?;
    }
    Ok(row("create through E2B, alone", median(e2b), median(own)))
}

/// The time until the last of them has its response.
async fn together(creator: &Creator) -> Result<Row> {
    let (mut own, mut e2b) = (Vec::new(), Vec::new());
    for _ in 0..scaled(3, 10) {
        calm().await?;
        let started = Instant::now();
        let ids = try_join_all((0..AT_ONCE).map(|_| creator.own())).await?;
        own.push(started.elapsed());
        creator.remove(ids).await?;
        calm().await?;
        let started = Instant::now();
        let made = try_join_all((0..AT_ONCE).map(|_| creator.e2b())).await?;
        e2b.push(started.elapsed());
        creator.remove(made.into_iter().map(|sandbox| sandbox.id).collect()).await?;
    }
    Ok(row("create through E2B, 100 at once", median(e2b), median(own)))
}

async fn execs(creator: &Creator) -> Result<Row> {
    let sandbox = creator.e2b().await?;
    let (mut own, mut e2b) = (Vec::new(), Vec::new());
    for _ in 0..scaled(200, 1_000) {
        let started = Instant::now();
        exec_true(&creator.own, &sandbox.id).await?;
        own.push(started.elapsed());
        let started = Instant::now();
        creator.connect_true(&sandbox).await?;
        e2b.push(started.elapsed());
    }
    creator.remove(vec![sandbox.id]).await?;
    Ok(row("exec `true` through Connect", median(e2b), median(own)))
}

fn row(what: &'static str, e2b: Duration, own: Duration) -> Row {
    Row {
        what: what.into(),
        ours: ms(e2b),
        other: format!("Slipway's own API {}", ms(own)),
        ratio: ratio(e2b, own),
        goal: Goal::AtMost(MOST),
    }
}
