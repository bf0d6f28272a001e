//! The gateway to models: what it adds to a request and to a chunk, and how much goes through.

use super::client::{Load, Measured, Route};
use super::fixture::OutgoingFixture;
use crate::{
    idle_machine::calm,
    row::{Goal, Row},
};
use anyhow::Result;
use tests::scaled;

const ADDED_MAX_US: f64 = 500.0;
const RATE_MIN: f64 = 0.8;

pub async fn rows() -> Result<Vec<Row>> {
    let room = OutgoingFixture::open().await?;
    let alone = compare(&room, &ask("", 1, scaled(300, 2_000))).await?;
    let slow = compare(&room, &ask(&note("take your time"), 16, scaled(30, 300))).await?;
    let many = compare(&room, &ask("", 16, scaled(100, 1_000))).await?;
    let chunks = compare(&room, &ask(",\"stream\":true", 4, scaled(3, 20))).await?;
    let rush = format!(",\"stream\":true{}", note("in a rush"));
    let rush = compare(&room, &ask(&rush, 4, scaled(10, 100))).await?;
    room.close().await?;
    let mut rows = vec![
        added("gateway, a request", &alone, |run| run.p50_us),
        added("gateway, a chunk of a stream", &chunks, |run| run.chunk_p50_us),
        rates("  16 connections, 10 ms each", &slow, "/s", per_second).swap_remove(0),
    ];
    rows.extend(rates("  16 connections", &many, "/s", per_second));
    rows.extend(rates("  4 streams in a rush", &rush, " MB/s", megabytes_per_second));
    Ok(rows)
}

fn note(word: &str) -> String {
    format!(",\"metadata\":{{\"user_id\":\"{word}\"}}")
}

fn ask(more: &str, connections: usize, requests: usize) -> Load {
    let body = format!(
        "{{\"model\":\"m\",\"max_tokens\":200,\"messages\":[{{\"role\":\"user\",\"content\":\"hi\"}}]{more}}}"
    );
    Load { way: Route::Gateway, path: "/v1/messages".to_owned(), body: Some(body), connections, requests }
}

/// Several runs of each way.
#[derive(Default)]
pub struct Runs {
    pub ours: Vec<Measured>,
    pub direct: Vec<Measured>,
    pub relay: Vec<Measured>,
}

impl Runs {
    pub fn add(&mut self, ours: Measured, [direct, relay]: [Measured; 2]) {
        self.ours.push(ours);
        self.direct.push(direct);
        self.relay.push(relay);
    }
}

/// Ours and the others in turn, several times; the median of each.
async fn compare(room: &OutgoingFixture, load: &Load) -> Result<Runs> {
    let mut runs = Runs::default();
    for _ in 0..scaled(3, 7) {
        calm().await?;
        runs.add(room.as_task(load).await?, room.others(load).await?);
    }
    Ok(runs)
}

pub fn per_second(run: &Measured) -> f64 {
    run.requests as f64 / run.seconds
}

pub fn megabytes_per_second(run: &Measured) -> f64 {
    run.bytes as f64 / run.seconds / 1e6
}

fn middle(runs: &[Measured], of: fn(&Measured) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The added latency, against its goal.
pub fn added(what: &'static str, runs: &Runs, of: fn(&Measured) -> f64) -> Row {
    let (ours, direct) = (middle(&runs.ours, of), middle(&runs.direct, of));
    Row {
        what: what.into(),
        ours: format!("+{:.3} ms", (ours - direct) / 1e3),
        other: format!("direct {:.3} ms, may add {:.1} ms", direct / 1e3, ADDED_MAX_US / 1e3),
        ratio: (ours - direct) / ADDED_MAX_US,
        goal: Goal::AtMost(1.0),
    }
}

/// The rate against a direct connection and against a plain relay, since any process between two ends that
/// use all cores takes CPU time from them.
pub fn rates(what: &str, runs: &Runs, unit: &str, of: fn(&Measured) -> f64) -> Vec<Row> {
    let ours = middle(&runs.ours, of);
    let others = [("direct", &runs.direct), ("a relay", &runs.relay)];
    let row = |(name, other): (&str, &Vec<Measured>)| {
        let other = middle(other, of);
        Row {
            what: what.to_owned().into(),
            ours: format!("{ours:.0}{unit}"),
            other: format!("{name} {other:.0}{unit}"),
            ratio: ours / other,
            goal: Goal::AtLeast(RATE_MIN),
        }
    };
    others.into_iter().map(row).collect()
}
