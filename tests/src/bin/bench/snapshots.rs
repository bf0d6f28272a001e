//! Snapshots, forks and restores of a workspace with 20,000 files and 200 MB, against `cp -a` and `tar` of the same files
//! on the same disk.

use crate::{
    host::start_with,
    row::{Goal, Row, median, ms, ratio},
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
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

/// Shell commands that copy a directory to another, which is on the disk afterwards.
const CP: &str = "cp -a \"$0\" \"$1\" && sync -f \"$1\"";
const TAR: &str = "mkdir \"$1\" && tar -C \"$0\" -cf - . | tar -C \"$1\" -xf - && sync -f \"$1\"";
/// Sandboxes made to measure the disk of a fork.
const FORKS: usize = 100;

pub async fn rows() -> Result<Vec<Row>> {
    let hostd = start_with(&[("SLIPWAY_LOG", "warn")]).await?;
    let caller = hostd.local();
    let id = caller.create(&json!({})).await?;
    caller.prints(&id, FILL).await?;
    let mut bench = Bench { caller, hostd, id, copy: Duration::ZERO };
    let mut rows = bench.first_snapshots().await?;
    rows.extend(bench.snapshots().await?);
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
    /// Copies all files by a shell command; how long that took. The copy stays: ext4 takes up to a millisecond to create
    /// a file for minutes after many were removed.
    fn copy(&self, command: &str, name: &str) -> Result<Duration> {
        let from = self.hostd.data().join("workspaces").join(&self.id);
        let to = self.hostd.data().join(name);
        let started = Instant::now();
        ensure!(
            Command::new("sh").arg("-c").arg(command).args([&from, &to]).status()?.success(),
            "{command}"
        );
        Ok(started.elapsed())
    }

    /// Snapshots that copy everything, and copies by `cp -a` and `tar`, in turns.
    async fn first_snapshots(&mut self) -> Result<Vec<Row>> {
        let (mut copies, mut tars, mut taken, mut freezes) = (vec![], vec![], vec![], vec![]);
        for number in 0..scaled(3, 10) {
            copies.push(self.copy(CP, &format!("copied-{number}"))?);
            tars.push(self.copy(TAR, &format!("unpacked-{number}"))?);
            let (snapshot, time) = self.take().await?;
            // Its files are hashed meanwhile, which is no part of it.
            let id = snapshot["id"].as_str().context("an id")?;
            self.caller.until(&format!("/v1/snapshots/{id}"), |view| !view["content"].is_null()).await?;
            taken.push(time);
            freezes.push(frozen(&snapshot));
        }
        self.copy = median(copies);
        let (taken, tar) = (median(taken), median(tars));
        Ok(vec![
            self.against_copy("first snapshot, running", taken, Goal::AtMost(1.5)),
            Row {
                what: "the same".into(),
                ours: ms(taken),
                other: format!("tar and sync {}", ms(tar)),
                ratio: ratio(taken, tar),
                goal: Goal::Shown,
            },
            self.against_copy("its freeze", median(freezes), Goal::AtMost(0.25)),
        ])
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
        let mut rows = vec![];
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
                Goal::AtMost(0.002),
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
        for _ in 0..FORKS {
            self.caller.create(&json!({"seed": {"snapshot": snapshot}})).await?;
        }
        let each = (bytes(&stacks)? - before) as f64 / FORKS as f64;
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

fn frozen(snapshot: &Value) -> Duration {
    Duration::from_millis(snapshot["frozen_ms"].as_u64().unwrap_or_default())
}

fn bytes(dir: &std::path::Path) -> Result<u64> {
    let output = Command::new("du").args(["-s", "-B1"]).arg(dir).output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_whitespace().next().context("a size")?.parse()?)
}
