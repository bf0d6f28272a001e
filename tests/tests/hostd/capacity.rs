//! Capacity of the host: memory that really runs out, and what destroyed sandboxes left. Live limits are a row of the
//! conformance suite.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hostd_store::failpoint::VARIABLE as FAILPOINT;
use http_body_util::Full;
use hyper::Request;
use protocol::api::{ApiErrorCode, CapacityDetail, MemoryLevel};
use serde_json::{Value, json};
use std::path::Path;
use tests::host::{all_events, until};
use tests::{Caller, Hostd, Reply, shell};

const MB: u64 = 1 << 20;
/// All sandboxes together may use so much, and so much of it is kept free.
const TOTAL_MB: u64 = 900;
const RESERVE_MB: u64 = 300;
/// Available memory at which the level is `tight`, and `critical`. What is left is enough for commands beside the task.
const TIGHT_MB: u64 = 220;
const CRITICAL_MB: u64 = 90;

/// Uses as many megabytes as a file says, until it says `end`.
const USE_MEMORY: &str = r"exec python3 - <<'END'
import os, time
path = os.path.expanduser('~/wanted')
now, held = '', b''
while now != 'end':
    wanted = open(path).read().strip()
    if wanted and wanted != now:
        held = b''
        held = b'x' * (int(wanted) << 20) if wanted.isdigit() else b''
        now = wanted
        print('uses', now, flush=True)
    time.sleep(0.05)
END
";

/// A host with little memory, and three sandboxes on it.
struct SmallHost {
    hostd: Hostd,
    operator: Caller,
    /// Runs a task that uses as much memory as it is told to.
    working: String,
    idle: String,
    always_on: String,
}

impl SmallHost {
    async fn start() -> Result<Self> {
        let (total, reserve) = (TOTAL_MB.to_string(), RESERVE_MB.to_string());
        let hostd = Hostd::start_with(&[
            ("SLIPWAY_MEMORY_TOTAL_MB", total.as_str()),
            ("SLIPWAY_MEMORY_RESERVE_MB", reserve.as_str()),
        ])
        .await?;
        let operator = hostd.operator()?;
        let working = operator.create(&json!({"name": "working", "limits": {"memory_mb": TOTAL_MB}})).await?;
        let idle = operator.create(&json!({"name": "idle"})).await?;
        let always_on = operator.create(&json!({"name": "always", "idle_policy": "always_on"})).await?;
        operator.prints(&idle, "echo kept > ~/note").await?;
        operator.prints(&working, "touch ~/wanted").await?;
        Ok(Self { hostd, operator, working, idle, always_on })
    }

    async fn host(&self) -> Result<Value> {
        self.operator.get("/v1/host").await?.expect(200)
    }

    async fn tell(&self, wanted: &str) -> Result<()> {
        self.operator
            .prints(&self.working, &format!("echo {wanted} > ~/wanted.new && mv ~/wanted.new ~/wanted"))
            .await?;
        Ok(())
    }

    /// Makes the task use all but so much of what is available, and waits until that is seen.
    async fn leave(&self, left_mb: u64, used_mb: u64) -> Result<u64> {
        let available = self.host().await?["memory_available_bytes"].as_u64().context("available")? / MB;
        let wanted_mb = (available + used_mb).saturating_sub(left_mb);
        self.tell(&wanted_mb.to_string()).await?;
        let seen = |host: &Value| {
            host["memory_available_bytes"].as_u64().is_some_and(|bytes| bytes < (left_mb + 30) * MB)
        };
        self.operator.until("/v1/host", seen).await?;
        Ok(wanted_mb)
    }

    async fn status(&self, id: &str) -> Result<Value> {
        Ok(self.operator.sandbox(id).await?["status"].clone())
    }

    async fn evicted(&self, id: &str) -> Result<()> {
        let view = self.operator.becomes(id, "stopped").await?;
        ensure!(view["problem"]["code"] == "memory_pressure", "{view}");
        Ok(())
    }

    /// Repeats a call while it is refused for lack of memory: the level is left only well above its mark.
    async fn admitted(&self, what: &str, mut call: impl AsyncFnMut() -> Result<Reply>) -> Result<Reply> {
        until(what, async || {
            let reply = call().await?;
            let refused = reply.status >= 400 && reply.code()? == ApiErrorCode::Capacity;
            Ok((!refused).then_some(reply))
        })
        .await
    }

    async fn verb(&self, id: &str, verb: &str, body: &Value) -> Result<Reply> {
        self.operator.post(&format!("/v1/sandboxes/{id}/{verb}"), body).await
    }
}

/// The numbers of a refusal for lack of memory.
fn refused(reply: &Reply) -> Result<CapacityDetail> {
    let error = reply.error()?;
    ensure!(
        reply.status == 503 && error.code == ApiErrorCode::Capacity && error.retryable,
        "{}",
        reply.text()
    );
    let detail = *error.detail.capacity.context("the numbers")?;
    ensure!(detail.level != MemoryLevel::Ok && detail.needed_bytes >= 32 * MB, "{detail:?}");
    ensure!(detail.reserve_bytes == RESERVE_MB * MB && detail.available_bytes < TOTAL_MB * MB, "{detail:?}");
    let header = reply.headers.get("retry-after").context("Retry-After")?.to_str()?;
    ensure!(header == detail.retry_after_s.to_string(), "{header} and {detail:?}");
    Ok(detail)
}

#[tokio::test]
async fn idle_sandboxes_give_way_to_a_task_that_uses_the_memory_and_come_back() -> Result<()> {
    let host = SmallHost::start().await?;
    let operator = &host.operator;
    let limit = host.host().await?["memory_limit_bytes"].clone();
    ensure!(limit == TOTAL_MB * MB, "{limit}: the group of all sandboxes is not limited");
    let init = host.hostd.init(&host.working)?;
    let job = operator.submit(&host.working, &shell(USE_MEMORY)).await?;
    operator.reaches(&job, "agent").await?;

    let used_mb = host.leave(TIGHT_MB, 0).await?;
    // Stalls of other programs on this machine double the marks: then it is stopped at once.
    operator.until(&format!("/v1/sandboxes/{}", host.idle), |view| view["status"] != "running").await?;
    refused(&operator.post("/v1/sandboxes", &json!({})).await?)?;
    let ready: Value = operator.get("/readyz").await?.expect(200)?;
    ensure!(ready["memory"] != "ok", "{ready}");

    host.leave(CRITICAL_MB, used_mb).await?;
    host.evicted(&host.idle).await?;
    host.evicted(&host.always_on).await?;
    refused(&operator.post("/v1/sandboxes", &json!({})).await?)?;
    refused(&host.verb(&host.idle, "execs", &json!({"shell": "true"})).await?)?;
    refused(&host.verb(&host.always_on, "start", &json!({})).await?)?;
    let create = host.hostd.ran(&["create", "one-more"]).await?;
    ensure!(create.code == Some(1) && create.err.contains("slipway host"), "{create:?}");
    let shown = host.hostd.ran(&["host"]).await?;
    ensure!(shown.code == Some(0) && shown.out.contains("critical: idle sandboxes are stopped"), "{shown:?}");
    ensure!(host.status(&host.working).await? == "running" && host.hostd.init(&host.working)? == init);

    host.tell("end").await?;
    ensure!(operator.result_of(&job).await?["exit"]["code"] == 0);
    operator.becomes(&host.always_on, "running").await?;
    ensure!(host.status(&host.idle).await? == "stopped", "it wakes when it is used");
    let note = host
        .admitted("a wake", async || host.verb(&host.idle, "execs", &json!({"shell": "cat ~/note"})).await);
    let note: Value = note.await?.expect(200)?;
    ensure!(note["stdout"] == "kept\n", "{note}");
    let view = operator.sandbox(&host.idle).await?;
    ensure!(view["problem"].is_null(), "{view}");
    let create = host.admitted("a create", async || operator.post("/v1/sandboxes", &json!({})).await);
    create.await?.expect::<Value>(201)?;

    let evicted: Vec<Value> =
        all_events(operator).await?.into_iter().filter(|event| event["kind"] == "sandbox.evicted").collect();
    let order: Vec<&str> = evicted.iter().filter_map(|event| event["sandbox"].as_str()).collect();
    ensure!(order == [&host.idle, &host.always_on], "{evicted:?}");
    Ok(())
}

/// A file of a size that is easy to recognise.
fn leave_file(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    Ok(std::fs::write(directory.join("left"), vec![b'x'; 1 << 20])?)
}

#[tokio::test]
async fn what_a_destroyed_sandbox_left_is_listed_then_removed_and_a_suspect_never() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let mut ids = Vec::new();
    for name in ["gone", "kept", "suspect", "live"] {
        ids.push(operator.create(&json!({"name": name})).await?);
    }
    let [gone, kept, suspect, live] = ids.as_slice() else { unreachable!("four were made") };
    let badge = |id: &str| std::fs::read_to_string(hostd.directory(id).join("badge.json"));
    let (of_gone, of_suspect) = (badge(gone)?, badge(suspect)?);
    operator.prints(live, "echo mine > ~/note").await?;
    operator.prints(kept, "echo mine > ~/note").await?;
    for (id, query) in [(gone, ""), (kept, "?workspace=keep"), (suspect, "")] {
        let view: Value = operator.delete(&format!("/v1/sandboxes/{id}{query}")).await?.expect(200)?;
        ensure!(view["status"] == "destroyed", "{view}");
    }
    let nothing = hostd.ran(&["host", "reap"]).await?;
    ensure!(
        nothing.code == Some(0) && nothing.out == "nothing left by destroyed sandboxes was found\n",
        "{nothing:?}"
    );

    // As a hostd leaves them that is killed while it removes them.
    leave_file(&hostd.data().join("workspaces").join(gone))?;
    for (id, text) in [(gone, of_gone), (suspect, of_suspect.replace("suspect", "another"))] {
        let directory = hostd.data().join("oci").join(id);
        leave_file(&directory)?;
        std::fs::write(directory.join("badge.json"), text)?;
    }
    let before = hostd.traces()?;
    let dry: Value = operator.post("/v1/host/reap", &json!({})).await?.expect(200)?;
    let mut found = Vec::new();
    for item in dry["items"].as_array().context("items")? {
        ensure!(item["name"] == **gone && item["bytes"].as_u64() >= Some(1 << 20), "{item}");
        found.push(item["kind"].as_str().context("a kind")?);
    }
    found.sort_unstable();
    ensure!(found == ["sandbox_directory", "workspace"] && dry["applied"] == false, "{dry}");
    ensure!(hostd.traces()? == before, "a dry reap changes something");

    let applied = hostd.ran(&["host", "reap", "--apply"]).await?;
    ensure!(applied.code == Some(0) && applied.out.contains("2 removed"), "{applied:?}");
    let mut after = before.clone();
    after.directories.remove(gone);
    after.workspaces.remove(gone);
    until("it is removed", async || Ok((hostd.traces()? == after).then_some(()))).await?;
    ensure!(after.directories.contains(suspect) && after.workspaces.contains(kept), "{after:?}");
    let stale: Value = operator.get("/v1/host/stale").await?.expect(200)?;
    ensure!(stale["items"][0]["name"] == **suspect, "{stale}");
    ensure!(std::fs::read_to_string(hostd.workspace(kept).join("note"))? == "mine\n");
    ensure!(operator.prints(live, "cat ~/note").await? == "mine\n");
    ensure!(
        hostd.ran(&["host", "reap", "--apply"]).await?.out
            == "nothing left by destroyed sandboxes was found\n"
    );
    Ok(())
}

#[tokio::test]
async fn a_repeated_create_finds_its_sandbox_on_a_host_that_is_full_by_now() -> Result<()> {
    let mut hostd = Hostd::start_with(&[(FAILPOINT, "store.idempotency_finish.before_commit")]).await?;
    let create = async |hostd: &Hostd| {
        let request = Request::post("/v1/sandboxes").header("idempotency-key", "once");
        hostd.local().call(request.body(Full::new(Bytes::from_static(b"{}")))?).await
    };
    ensure!(create(&hostd).await.is_err(), "hostd dies before it answers");
    hostd.ended().await?;
    // More than there is.
    hostd.again_with(&[(FAILPOINT, ""), ("SLIPWAY_MEMORY_RESERVE_MB", "100000000")]).await?;
    let refused = hostd.local().post("/v1/sandboxes", &json!({})).await?;
    ensure!(refused.code()? == ApiErrorCode::Capacity, "{}", refused.text());
    let found: Value = create(&hostd).await?.expect(201)?;
    let all: Value = hostd.local().get("/v1/sandboxes").await?.expect(200)?;
    let ids: Vec<&Value> = all["items"].as_array().context("items")?.iter().map(|one| &one["id"]).collect();
    ensure!(ids == [&found["id"]], "{all}");
    Ok(())
}
