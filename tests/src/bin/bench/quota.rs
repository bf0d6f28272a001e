//! The cost of quotas, and of lists with many tenants: writes and reads of the store, without a sandbox behind them.

use crate::row::{Goal, Row, median, ms, ratio};
use anyhow::{Context, Result};
use hostd_core::{Blueprint, State};
use hostd_store::{NewSandbox, SandboxFilter, Secret, Store};
use protocol::api::{AttemptRelation, Label, Limits, Owner, Quota, SandboxId};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use tests::scaled;

const TENANTS: usize = 50;
const SANDBOXES: usize = 1_000;
const OF_TENANT: usize = SANDBOXES / TENANTS;
/// What the check may add to a create.
const CHECK_MAX: Duration = Duration::from_micros(100);

pub async fn rows() -> Result<Vec<Row>> {
    Ok(vec![check().await?, list().await?])
}

fn label(text: &str) -> Result<Label> {
    Label::parse(text).ok().context("a label")
}

fn sandbox(number: usize, tenant: usize) -> Result<NewSandbox> {
    let id: SandboxId = format!("{number:026}").parse().ok().context("an id")?;
    let owner = Owner { tenant: label(&format!("t{tenant}"))?, principal: label("p")?, project: label("q")? };
    let limits = Limits { memory_mb: 512, cpus: 0.5, pids: 256, disk_mb: None };
    Ok(NewSandbox {
        id,
        name: format!("box-{number}"),
        owner,
        scope: None,
        blueprint: Blueprint::bare("oci", limits).into(),
        metadata: BTreeMap::new(),
        env: Secret::default(),
        dotfiles: None,
        provisioning: hostd_core::Provisioning::default(),
        state: State::new(1),
        created_ms: 1,
        expires_ms: None,
    })
}

async fn filled(path: &Path, sandboxes: usize) -> Result<Store> {
    let store = Store::open(path)?;
    for number in 0..sandboxes {
        store.insert_sandbox(sandbox(number, number % TENANTS)?, AttemptRelation::Create).await?;
    }
    Ok(store)
}

/// Large enough for all, so that nothing is refused and everything is summed up.
fn quota() -> Quota {
    let most = Some(1 << 40);
    Quota {
        sandboxes: most,
        running: most,
        memory_mb: most,
        cpus: Some(1e6),
        disk_mb: most,
        ..Quota::default()
    }
}

/// A create among 1,000 sandboxes of 50 tenants, with a quota of tenant and principal and without, in turns: two stores
/// that differ in nothing else. In memory, so that the disk does not hide the check.
async fn check() -> Result<Row> {
    let dir = tempfile::Builder::new().prefix("bench-quota-").tempdir_in("/dev/shm")?;
    let free = filled(&dir.path().join("free"), SANDBOXES).await?;
    let bound = filled(&dir.path().join("bound"), SANDBOXES).await?;
    bound.set_default_quotas(Some(quota()), Some(quota())).await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for number in SANDBOXES..SANDBOXES + scaled(400, 2_000) {
        for (store, times) in [(&free, &mut without), (&bound, &mut with)] {
            let new = sandbox(number, number % TENANTS)?;
            let started = Instant::now();
            store.insert_sandbox(new, AttemptRelation::Create).await?;
            times.push(started.elapsed());
        }
    }
    free.close().await;
    bound.close().await;
    let (with, without) = (median(with), median(without));
    let added = with.saturating_sub(without);
    Ok(Row {
        what: "quota check of a create".into(),
        ours: format!("{:.0} µs", added.as_secs_f64() * 1e6),
        other: format!("bound of 100 µs ({} without)", ms(without)),
        ratio: ratio(added, CHECK_MAX),
        goal: Goal::AtMost(1.0),
    })
}

/// The list of a tenant of 20 sandboxes: in a store where 49 other tenants have as many, and in one where it is alone.
async fn list() -> Result<Row> {
    let dir = tempfile::Builder::new().prefix("bench-quota-").tempdir_in("/dev/shm")?;
    let many = filled(&dir.path().join("many"), SANDBOXES).await?;
    let alone = Store::open(&dir.path().join("alone"))?;
    for number in 0..OF_TENANT {
        alone.insert_sandbox(sandbox(number * TENANTS, 0)?, AttemptRelation::Create).await?;
    }
    let filter = SandboxFilter { tenant: Some(label("t0")?), ..SandboxFilter::default() };
    let (mut ours, mut other) = (Vec::new(), Vec::new());
    for _ in 0..scaled(400, 2_000) {
        for (store, times) in [(&alone, &mut other), (&many, &mut ours)] {
            let started = Instant::now();
            let found = store.sandboxes(filter.clone(), None, 100).await?;
            times.push(started.elapsed());
            anyhow::ensure!(found.len() == OF_TENANT, "{} found", found.len());
        }
    }
    many.close().await;
    alone.close().await;
    let (ours, other) = (median(ours), median(other));
    Ok(Row {
        what: "list 20 of 1,000 sandboxes, 50 tenants".into(),
        ours: ms(ours),
        other: format!("20 of 20 {}", ms(other)),
        ratio: ratio(ours, other),
        goal: Goal::AtMost(1.5),
    })
}
