//! Snapshots, forks and restores of a workspace with 20,000 files and 200 MB, against `cp -a` of the same files on the
//! same disk.

use crate::{
    host::start_with,
    row::{Goal, Row, median, ms, ratio},
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tests::{Caller, Hostd, scaled};

/// 1,000 directories with 20 files of 10 KB each.
const FILL: &str = "python3 - <<'END'
import os
for d in range(1000):
    os.makedirs('tree/%d' % d)
    for f in range(20):
        open('tree/%d/%d' % (d, f), 'wb').write(os.urandom(10000))
END";

pub async fn rows() -> Result<Vec<Row>> {
    let hostd = start_with(&[("SLIPWAY_LOG", "warn")]).await?;
    let caller = hostd.local();
    let id = caller.create(&json!({})).await?;
    caller.prints(&id, FILL).await?;
    let mut bench = Bench { caller, hostd, id, copy: Duration::ZERO };
    bench.copy = bench.copy()?;
    let mut rows = bench.snapshots().await?;
    rows.extend(bench.forks().await?);
    bench.hostd.stop().await?;
    Ok(rows)
}

struct Bench {
    hostd: Hostd,
    caller: Caller,
    id: String,
    /// The time of a copy of the files.
    copy: Duration,
}

impl Bench {
    /// The median time of `cp -a` and a sync of what it wrote.
    fn copy(&self) -> Result<Duration> {
        let from = self.hostd.data().join("workspaces").join(&self.id);
        let to: PathBuf = self.hostd.data().join("copied");
        let mut times = Vec::new();
        for _ in 0..scaled(3, 10) {
            let started = Instant::now();
            ensure!(Command::new("cp").arg("-a").arg(&from).arg(&to).status()?.success(), "cp failed");
            ensure!(Command::new("sync").arg("-f").arg(&to).status()?.success(), "sync failed");
            times.push(started.elapsed());
            std::fs::remove_dir_all(&to)?;
        }
        Ok(median(times))
    }

    fn against_copy(&self, what: &'static str, ours: Duration, goal: Goal) -> Row {
        let other = format!("cp -a and sync {}", ms(self.copy));
        Row { what: what.into(), ours: ms(ours), other, ratio: ratio(ours, self.copy), goal }
    }

    async fn take(&self) -> Result<(Value, Duration)> {
        let started = Instant::now();
        let path = format!("/v1/sandboxes/{}/snapshots", self.id);
        let snapshot: Value = self.caller.post(&path, &json!({})).await?.expect(201)?;
        Ok((snapshot, started.elapsed()))
    }

    async fn snapshots(&self) -> Result<Vec<Row>> {
        let (first, first_time) = self.take().await?;
        let frozen =
            |snapshot: &Value| Duration::from_millis(snapshot["frozen_ms"].as_u64().unwrap_or_default());
        let mut rows = vec![
            self.against_copy("first snapshot, running", first_time, Goal::AtMost(1.5)),
            self.against_copy("its freeze", frozen(&first), Goal::AtMost(0.25)),
        ];
        let (mut at_rest, mut running, mut freezes) = (vec![], vec![], vec![]);
        for round in 0..scaled(5, 20) {
            self.caller.post(&format!("/v1/sandboxes/{}/stop", self.id), &json!({})).await?;
            let (_, time) = self.take().await?;
            at_rest.push(time);
            let change = format!("for n in $(seq 100); do echo {round} > tree/$n/0; done");
            self.caller.prints(&self.id, &change).await?;
            let (snapshot, time) = self.take().await?;
            running.push(time);
            freezes.push(frozen(&snapshot));
        }
        rows.push(self.against_copy("snapshot at rest", median(at_rest), Goal::AtMost(0.05)));
        rows.push(self.against_copy(
            "snapshot, running, 100 files changed",
            median(running),
            Goal::AtMost(0.2),
        ));
        rows.push(self.against_copy("its freeze", median(freezes), Goal::AtMost(0.05)));
        Ok(rows)
    }

    async fn forks(&self) -> Result<Vec<Row>> {
        let (snapshot, _) = self.take().await?;
        let snapshot = snapshot["id"].as_str().context("an id")?;
        let (mut plain, mut forked) = (vec![], vec![]);
        for _ in 0..scaled(10, 50) {
            plain.push(self.create(&json!({})).await?);
            forked.push(self.create(&json!({"seed": {"snapshot": snapshot}})).await?);
        }
        let (plain, forked) = (median(plain), median(forked));
        let started = Instant::now();
        let restore = format!("/v1/snapshots/{snapshot}/restore");
        self.caller.post(&restore, &json!({})).await?.expect::<Value>(200)?;
        let restored = started.elapsed();
        Ok(vec![
            Row {
                what: "create from a snapshot".into(),
                ours: ms(forked),
                other: format!("plain create {}", ms(plain)),
                ratio: ratio(forked, plain),
                goal: Goal::AtMost(1.3),
            },
            self.against_copy(
                "fork, beyond a plain create",
                forked.saturating_sub(plain),
                Goal::AtMost(0.02),
            ),
            self.against_copy("restore in place, stop and start", restored, Goal::Shown),
            self.space(snapshot).await?,
        ])
    }

    async fn create(&self, spec: &Value) -> Result<Duration> {
        let started = Instant::now();
        let id = self.caller.create(spec).await?;
        let took = started.elapsed();
        self.caller.delete(&format!("/v1/sandboxes/{id}?wait=30s")).await?;
        Ok(took)
    }

    async fn space(&self, snapshot: &str) -> Result<Row> {
        let stacks = self.hostd.data().join("stacks");
        let before = bytes(&stacks)?;
        let forks = scaled(10, 100);
        for _ in 0..forks {
            self.caller.create(&json!({"seed": {"snapshot": snapshot}})).await?;
        }
        let each = (bytes(&stacks)? - before) as f64 / forks as f64;
        let whole = bytes(&self.hostd.data().join("workspaces").join(&self.id))? as f64;
        Ok(Row {
            what: "disk of a fork".into(),
            ours: format!("{:.1} KB", each / 1e3),
            other: format!("the files {:.0} MB", whole / 1e6),
            ratio: each / whole,
            goal: Goal::AtMost(0.002),
        })
    }
}

fn bytes(dir: &std::path::Path) -> Result<u64> {
    let output = Command::new("du").args(["-s", "-B1"]).arg(dir).output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_whitespace().next().context("a size")?.parse()?)
}
