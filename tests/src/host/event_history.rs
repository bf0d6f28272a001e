//! The event log of hostd, read whole and checked for gaps.

use super::Caller;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::ACCEPT;
use serde_json::Value;
use std::collections::BTreeMap;

/// Every event the caller may see, oldest first.
pub async fn all_events(caller: &Caller) -> Result<Vec<Value>> {
    let (mut events, mut after) = (Vec::new(), "0".to_owned());
    loop {
        let path = format!("/v1/events?limit=1000&after={after}");
        let request = Request::get(path).header(ACCEPT, "application/json").body(Full::new(Bytes::new()))?;
        let page: Value = caller.call(request).await?.expect(200)?;
        events.extend(page["items"].as_array().context("items")?.iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return Ok(events),
        }
    }
}

/// That nothing is missing and nothing is there twice: neither in hostd's own numbers, which an operator
/// sees all of, nor in those of each sandbox's runtimed.
pub fn whole(events: &[Value]) -> Result<()> {
    let mut origins: BTreeMap<(String, u64), Vec<u64>> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        ensure!(event["seq"] == at as u64 + 1, "event {} stands at {}", event["seq"], at + 1);
        ensure!(event["kind"] != "gap", "{event}");
        let Some(origin) = event["origin"].as_str() else { continue };
        let (epoch, seq) = origin.split_once('.').context("epoch.seq")?;
        let sandbox = event["sandbox"].as_str().context("a sandbox")?.to_owned();
        origins.entry((sandbox, epoch.parse()?)).or_default().push(seq.parse()?);
    }
    for (of, seqs) in origins {
        let expected: Vec<u64> = (1..=seqs.len() as u64).collect();
        ensure!(seqs == expected, "{of:?}: {seqs:?}");
    }
    Ok(())
}
