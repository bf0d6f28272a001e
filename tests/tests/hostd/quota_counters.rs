//! Random verbs of two tenants: after them every counter of a quota is what is really there.

use super::quotas::{id_of, list, set, small, used};
use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tests::host::until;
use tests::{Caller, Hostd, Random, scaled, shell};

/// A tenant of the random test.
struct Tenant {
    name: &'static str,
    caller: Caller,
    random: Random,
}

impl Tenant {
    /// One verb that chance picks. Every refusal is one of those that its state or its quota explains.
    async fn act(&mut self) -> Result<()> {
        let mine = list(&self.caller).await?;
        let pick = self.random.below(mine.len().max(1) as u64) as usize;
        let some =
            mine.get(pick).map(id_of).transpose()?.unwrap_or_else(|| "01jb9xyzabcdefghjkmnpqrstv".to_owned());
        let path = format!("/v1/sandboxes/{some}");
        let name = format!("n{}", self.random.below(3));
        let mut spec = small();
        let reply = match self.random.below(13) {
            0..3 => self.caller.post("/v1/sandboxes", &spec).await?,
            3 => {
                spec["name"] = json!(name);
                self.caller.post("/v1/sandboxes", &spec).await?
            }
            4 => {
                spec["name"] = json!(name);
                self.caller.post("/v1/sandboxes?replace=true", &spec).await?
            }
            5 => self.caller.post(&format!("{path}/stop"), &json!({})).await?,
            6 => self.caller.post(&format!("{path}/start"), &json!({})).await?,
            7 => self.caller.post(&format!("{path}/pause"), &json!({})).await?,
            8 => self.caller.post(&format!("{path}/resume"), &json!({})).await?,
            9 => self.caller.delete(&path).await?,
            10 => self.caller.post(&format!("{path}/recreate?wait=0"), &json!({})).await?,
            11 => self.caller.post(&format!("{path}/tasks"), &shell("sleep 0.1")).await?,
            _ => self.caller.post(&format!("{path}/execs"), &json!({"argv": ["true"]})).await?,
        };
        if reply.status >= 400 {
            use ApiErrorCode::{
                Capacity, DiskFull, Gone, NameTaken, NotFound, NotRunning, QuotaExceeded, TooMany,
            };
            // The machine may be short of memory or disk because of others.
            let of_machine = [Capacity, DiskFull, TooMany];
            let explained = [Gone, NameTaken, NotFound, NotRunning, QuotaExceeded];
            let code = reply.code()?;
            ensure!(explained.contains(&code) || of_machine.contains(&code), "{}", reply.text());
        }
        Ok(())
    }

    /// Cancels all tasks: one of a sandbox that the quota keeps down would wait until another one sleeps.
    async fn cancel_tasks(&self) -> Result<()> {
        for id in list(&self.caller).await?.iter().map(id_of) {
            let path = format!("/v1/sandboxes/{}/tasks", id?);
            let tasks: Value = self.caller.get(&path).await?.expect(200)?;
            for task in tasks["items"].as_array().into_iter().flatten() {
                let cancel = format!("{path}/{}/cancel", task["id"].as_str().context("an id")?);
                self.caller.post(&cancel, &json!({})).await?;
            }
        }
        Ok(())
    }

    /// Returns what the API lists, counted by hand.
    async fn counted(&self) -> Result<Value> {
        let mine = list(&self.caller).await?;
        let is_up = |one: &&Value| one["status"] == "running" || one["status"] == "paused";
        let memory = |one: &Value| one["limits"]["memory_mb"].as_u64().unwrap_or(0);
        let (mut queued, mut running) = (0, 0);
        for id in mine.iter().map(id_of) {
            let tasks: Value = self.caller.get(&format!("/v1/sandboxes/{}/tasks", id?)).await?.expect(200)?;
            let open = |status| {
                tasks["items"].as_array().into_iter().flatten().filter(|one| one["status"] == status).count()
            };
            queued += open("queued");
            running += open("running");
        }
        Ok(json!({
            "sandboxes": mine.len(),
            "running": mine.iter().filter(is_up).count(),
            "memory_mb": mine.iter().filter(is_up).map(memory).sum::<u64>(),
            "tasks_queued": queued,
            "tasks_running": running,
        }))
    }
}

#[tokio::test]
async fn after_random_verbs_every_counter_is_what_is_really_there() -> Result<()> {
    let mut random = Random::seeded();
    let mut hostd = Hostd::start().await?;
    let mut tenants = Vec::new();
    for name in ["acme", "other"] {
        set(&hostd, name, &json!({"sandboxes": 5, "running": 3, "memory_mb": 160, "tasks_queued": 4}))
            .await?;
        tenants.push(Tenant {
            name,
            caller: hostd.caller(name, "ann", "run").await?,
            random: random.branch(),
        });
    }
    for round in 0..scaled(3, 20) {
        let acts = tenants.iter_mut().map(|tenant| async move {
            for _ in 0..scaled(15, 50) {
                tenant.act().await.with_context(|| tenant.name)?;
            }
            anyhow::Ok(())
        });
        join_all(acts).await.into_iter().collect::<Result<Vec<()>>>()?;
        if round % 2 == 1 {
            hostd.crash().await?;
            for tenant in &mut tenants {
                tenant.caller = Caller::tcp(hostd.url(), tenant.caller.token());
            }
        }
        let (mut alive, mut up) = (BTreeSet::new(), BTreeSet::new());
        for tenant in &tenants {
            tenant.cancel_tasks().await?;
            until("all is settled", async || {
                let busy = |one: &Value| !one["phase"].is_null();
                let idle = !list(&tenant.caller).await?.iter().any(busy);
                let counted = tenant.counted().await?;
                Ok((idle && counted["tasks_queued"] == 0 && counted["tasks_running"] == 0).then_some(()))
            })
            .await?;
            let (counted, used) = (tenant.counted().await?, used(&hostd, tenant.name).await?);
            for (resource, count) in counted.as_object().context("counters")? {
                ensure!(used[resource] == *count, "{} of {}: {used} and {counted}", resource, tenant.name);
            }
            for one in list(&tenant.caller).await? {
                alive.insert(id_of(&one)?);
                if one["status"] == "running" || one["status"] == "paused" {
                    up.insert(id_of(&one)?);
                }
            }
            ensure!(
                used["memory_mb"].as_u64() <= Some(160) && used["sandboxes"].as_u64() <= Some(5),
                "{used}"
            );
        }
        // The record of a sandbox is settled a moment before the kernel has removed its group.
        let mut last = None;
        let settled = until("only what is listed is there", async || {
            let traces = hostd.traces()?;
            let is_so = traces.trash.is_empty() && traces.groups == up && traces.workspaces.is_subset(&alive);
            last = Some(traces);
            Ok(is_so.then_some(()))
        });
        settled.await.with_context(|| format!("{last:?} in place of {up:?}"))?;
    }
    Ok(())
}
