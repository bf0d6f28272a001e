//! Creates through the protocol of E2B against creates through Slipway's own API, alone and a hundred at once: what the
//! layer in between costs. Both by the same client, which opens a connection for each request.

use crate::{
    host::start_with,
    idle_machine::calm,
    row::{Goal, Row, median, ms, ratio},
};
use anyhow::{Context, Result};
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
    creator.remove(vec![creator.own().await?, creator.e2b().await?]).await?;
    let rows = vec![alone(&creator).await?, together(&creator).await?];
    hostd.stop().await?;
    Ok(rows)
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

    async fn e2b(&self) -> Result<String> {
        let body = Full::new(Bytes::from_static(br#"{"templateID":"base","timeout":300}"#));
        let request = Request::post("/v2/sandboxes").header("x-api-key", &self.key).body(body)?;
        let created: Value = self.e2b.call(request).await?.expect(201)?;
        Ok(created["sandboxID"].as_str().context("an id")?.to_owned())
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
        creator.remove(vec![first, second]).await?;
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
        let ids = try_join_all((0..AT_ONCE).map(|_| creator.e2b())).await?;
        e2b.push(started.elapsed());
        creator.remove(ids).await?;
    }
    Ok(row("create through E2B, 100 at once", median(e2b), median(own)))
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
