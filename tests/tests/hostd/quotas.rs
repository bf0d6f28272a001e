//! Quotas of tenants and principals: kept under races, crashes and random verbs, and each tenant for itself.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::future::try_join_all;
use hostd_store::failpoint::VARIABLE;
use hyper::Method;
use protocol::api::{ApiErrorCode, QuotaResource};
use serde_json::{Value, json};
use tests::host::until;
use tests::{Caller, Hostd, Job, Reply, shell};

/// Small ones: many of them are up at once.
pub(super) fn small() -> Value {
    json!({"limits": {"memory_mb": 64, "cpus": 0.25}})
}

pub(super) async fn set(hostd: &Hostd, tenant: &str, quota: &Value) -> Result<Value> {
    hostd.operator()?.put(&format!("/v1/quotas/{tenant}"), quota).await?.expect(200)
}

pub(super) async fn used(hostd: &Hostd, tenant: &str) -> Result<Value> {
    let view: Value = hostd.operator()?.get(&format!("/v1/quotas/{tenant}")).await?.expect(200)?;
    Ok(view["used"].clone())
}

pub(super) fn id_of(view: &Value) -> Result<String> {
    Ok(view["id"].as_str().with_context(|| format!("an id in {view}"))?.to_owned())
}

/// The resource that a quota refuses; none where it does not.
fn refused(reply: &Reply) -> Result<Option<QuotaResource>> {
    if reply.status < 400 {
        return Ok(None);
    }
    let error = reply.error()?;
    ensure!(reply.status == 429 && error.code == ApiErrorCode::QuotaExceeded, "{}", reply.text());
    ensure!(!error.retryable && !reply.headers.contains_key("retry-after"), "{}", reply.text());
    Ok(Some(error.detail.quota.context("the numbers")?.resource))
}

async fn verb(caller: &Caller, id: &str, verb: &str) -> Result<Reply> {
    caller.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await
}

async fn destroy(caller: &Caller, id: &str) -> Result<()> {
    caller.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200).map(drop)
}

pub(super) async fn list(caller: &Caller) -> Result<Vec<Value>> {
    let page: Value = caller.get("/v1/sandboxes?limit=1000").await?.expect(200)?;
    Ok(page["items"].as_array().context("items")?.clone())
}

#[tokio::test]
async fn of_a_hundred_creates_and_wakes_at_once_as_many_succeed_as_there_is_room_for() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("acme", "ann", "run").await?;
    set(&hostd, "acme", &json!({"sandboxes": 7})).await?;
    let spec = small();
    let replies = try_join_all((0..100).map(|_| ann.post("/v1/sandboxes", &spec))).await?;
    let (mut made, mut not_made) = (Vec::new(), 0);
    for reply in &replies {
        match refused(reply)? {
            None => made.push(id_of(&reply.expect(201)?)?),
            Some(resource) => {
                let detail = reply.error()?.detail.quota.context("the numbers")?;
                ensure!(resource == QuotaResource::Sandboxes, "{detail:?}");
                ensure!((detail.limit, detail.used, detail.requested) == (7.0, 7.0, 1.0), "{detail:?}");
                ensure!(detail.by.len() == 7 && detail.others == 0, "{detail:?}");
                not_made += 1;
            }
        }
    }
    ensure!(made.len() == 7 && list(&ann).await?.len() == 7, "{made:?}");
    ensure!(used(&hostd, "acme").await?["sandboxes"] == 7);

    set(&hostd, "acme", &json!({"running": 3})).await?;
    try_join_all(made.iter().map(|id| verb(&ann, id, "stop"))).await?;
    ensure!(used(&hostd, "acme").await?["running"] == 0, "{}", used(&hostd, "acme").await?);
    let wakes = (0..100).map(|at| {
        let (id, ann) = (&made[at % made.len()], &ann);
        async move {
            match at % 2 {
                0 => verb(ann, id, "start").await,
                _ => ann.post(&format!("/v1/sandboxes/{id}/execs"), &json!({"argv": ["true"]})).await,
            }
        }
    });
    let replies = try_join_all(wakes).await?;
    let refusals = replies.iter().map(refused).collect::<Result<Vec<_>>>()?;
    ensure!(refusals.iter().flatten().all(|resource| *resource == QuotaResource::Running));
    let up = list(&ann).await?.iter().filter(|one| one["status"] == "running").count();
    ensure!(up == 3 && used(&hostd, "acme").await?["running"] == 3, "{up} are up");
    let metrics = hostd.operator()?.get("/metrics").await?.text();
    let counted = format!(r#"slipway_quota_refusals_total{{resource="sandboxes"}} {not_made}"#);
    ensure!(metrics.lines().any(|line| line == counted), "{counted}: {metrics}");
    Ok(())
}

#[tokio::test]
async fn every_way_to_wake_a_sandbox_is_refused_alike() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("acme", "ann", "run").await?;
    let spec = json!({"ports": [8000], "limits": {"memory_mb": 64}, "visibility": "public", "name": "app"});
    let app = ann.create(&spec).await?;
    verb(&ann, &app, "stop").await?.expect::<Value>(200)?;
    set(&hostd, "acme", &json!({"memory_mb": 64})).await?;
    let other = ann.create(&json!({"name": "other", "limits": {"memory_mb": 64}})).await?;
    let path = |rest: &str| format!("/v1/sandboxes/{app}/{rest}");
    let calls = [
        ann.post(&path("start"), &json!({})).await?,
        ann.post(&path("recreate"), &json!({})).await?,
        ann.post(&path("execs"), &json!({"argv": ["true"]})).await?,
        ann.post(&path("tasks"), &shell("true")).await?,
        ann.post("/v1/sandboxes", &small()).await?,
    ];
    for reply in calls {
        ensure!(refused(&reply)? == Some(QuotaResource::MemoryMb), "{}", reply.text());
        let error = reply.error()?;
        let detail = error.detail.quota.context("the numbers")?;
        ensure!(
            detail.by.len() == 1 && detail.by[0].name == "other" && detail.by[0].used == 64.0,
            "{detail:?}"
        );
        ensure!(error.message.contains("slipway stop"), "{}", error.message);
    }
    let view = ann.sandbox(&app).await?;
    let url = view["previews"]["8000"].as_str().context("a preview")?;
    let name = url.strip_prefix("http://").context("a name")?;
    let door = Caller::tcp(&format!("127.0.0.1:{}", name.rsplit_once(':').context("a port")?.1), None);
    let visit = async |accept: &str| {
        let request = hyper::Request::get("/").header("host", name).header("accept", accept);
        door.call(request.body(Bytes::new().into())?).await
    };
    let page = visit("text/html").await?;
    ensure!(page.status == 429 && page.text().contains("The quota has no room left"), "{}", page.text());
    ensure!(visit("application/json").await?.code()? == ApiErrorCode::QuotaExceeded);
    ensure!(ann.sandbox(&app).await?["status"] == "stopped", "a refusal changes nothing");
    // What is up pauses and resumes without asking.
    verb(&ann, &other, "pause").await?.expect::<Value>(200)?;
    ensure!(refused(&verb(&ann, &app, "start").await?)?.is_some(), "a paused one holds its memory");
    verb(&ann, &other, "resume").await?.expect::<Value>(200)?;
    verb(&ann, &other, "stop").await?.expect::<Value>(200)?;
    verb(&ann, &app, "start").await?.expect::<Value>(200)?;
    Ok(())
}

#[tokio::test]
async fn a_principal_and_its_tenant_have_quotas_and_the_other_tenant_does_not_notice() -> Result<()> {
    let hostd = Hostd::start_with(&[
        ("SLIPWAY_TENANT_QUOTA", "sandboxes=3,memory=1g"),
        ("SLIPWAY_PRINCIPAL_QUOTA", "sandboxes=2"),
    ])
    .await?;
    let admin = hostd.caller("acme", "carl", "admin").await?;
    let (ann, bob) = (hostd.caller("acme", "ann", "run").await?, hostd.caller("acme", "bob", "run").await?);
    let stranger = hostd.caller("other", "ann", "run").await?;
    let own: Value = ann.get("/v1/quota").await?.expect(200)?;
    ensure!(
        own["tenant"]["source"] == "default" && own["principal"]["quota"] == json!({"sandboxes": 2}),
        "{own}"
    );
    for _ in 0..2 {
        ann.create(&small()).await?;
    }
    let detail = |reply: &Reply| anyhow::Ok(serde_json::to_value(reply.error()?.detail.quota)?);
    let third = ann.post("/v1/sandboxes", &small()).await?;
    ensure!(detail(&third)?["scope"] == "principal", "{}", third.text());
    // The administrator of the tenant gives principals more or less, within what the tenant has.
    let path = "/v1/quotas/acme/principals/ann";
    admin.put(path, &json!({"sandboxes": 9})).await?.expect::<Value>(200)?;
    ann.create(&small()).await?;
    let fourth = bob.post("/v1/sandboxes", &small()).await?;
    let told = detail(&fourth)?;
    ensure!(told["scope"] == "tenant" && told["by"].is_null() && told["others"] == 3, "{told}");
    ensure!(admin.put("/v1/quotas/acme", &json!({})).await?.status == 403, "but not itself");
    ensure!(admin.get("/v1/quotas/other").await?.status == 404);
    let all: Value = admin.get("/v1/quotas").await?.expect(200)?;
    let owners: Vec<(&Value, &Value)> = all["items"]
        .as_array()
        .context("items")?
        .iter()
        .map(|one| (&one["principal"], &one["used"]["sandboxes"]))
        .collect();
    ensure!(owners == [(&Value::Null, &json!(3)), (&json!("ann"), &json!(3))], "{all}");
    ensure!(
        used(&hostd, "acme").await?["memory_mb"] == 3 * 64 && used(&hostd, "acme").await?["cpus"] == 0.75
    );
    for _ in 0..2 {
        stranger.create(&small()).await?;
    }
    ensure!(admin.delete(path).await?.status == 204 && admin.delete(path).await?.status == 404);
    ensure!(ann.post("/v1/sandboxes", &small()).await?.status == 429);
    let wrong = hostd.operator()?.put("/v1/quotas/acme", &json!({"cpus": -1})).await?;
    ensure!(wrong.error()?.detail.field.as_deref() == Some("cpus"), "{}", wrong.text());
    Ok(())
}

#[tokio::test]
async fn cut_off_between_the_count_and_the_deed_the_numbers_are_right() -> Result<()> {
    for (point, exists) in
        [("store.insert_sandbox.before_commit", false), ("store.insert_sandbox.after_commit", true)]
    {
        let mut hostd = Hostd::start().await?;
        set(&hostd, "acme", &json!({"sandboxes": 1, "running": 1})).await?;
        let token = hostd.caller("acme", "ann", "run").await?.token().context("a token")?.to_owned();
        hostd.again_with(&[(VARIABLE, point)]).await?;
        let ann = Caller::tcp(hostd.url(), Some(&token));
        ensure!(ann.post("/v1/sandboxes", &small()).await.is_err(), "{point} is never reached");
        hostd.crash().await?;
        let ann = Caller::tcp(hostd.url(), Some(&token));
        ensure!(used(&hostd, "acme").await?["sandboxes"] == u64::from(exists), "{point}");
        let next = ann.post("/v1/sandboxes", &small()).await?;
        ensure!(refused(&next)?.is_some() == exists, "{point}: {}", next.text());
        for view in list(&ann).await? {
            destroy(&ann, &id_of(&view)?).await?;
        }
        let numbers = used(&hostd, "acme").await?;
        ensure!(
            numbers["sandboxes"] == 0 && numbers["running"] == 0 && numbers["memory_mb"] == 0,
            "{numbers}"
        );
        ann.create(&small()).await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_is_destroyed_in_the_middle_makes_room_once() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("acme", "ann", "run").await?;
    set(&hostd, "acme", &json!({"sandboxes": 3, "running": 2})).await?;
    let rounds = (0..24).map(|at| {
        let ann = &ann;
        async move {
            let wait = if at % 2 == 0 { "0" } else { "30s" };
            let reply = ann.post(&format!("/v1/sandboxes?wait={wait}"), &small()).await?;
            if refused(&reply)?.is_none() {
                destroy(ann, &id_of(&reply.expect(201)?)?).await?;
            }
            let numbers: Value = ann.get("/v1/quota").await?.expect(200)?;
            let (sandboxes, running) =
                (&numbers["tenant"]["used"]["sandboxes"], &numbers["tenant"]["used"]["running"]);
            ensure!(sandboxes.as_u64() <= Some(3) && running.as_u64() <= Some(2), "{numbers}");
            Ok(())
        }
    });
    try_join_all(rounds).await?;
    ensure!(used(&hostd, "acme").await?["sandboxes"] == 0 && used(&hostd, "acme").await?["running"] == 0);
    Ok(())
}

#[tokio::test]
async fn tasks_wait_for_their_turn_and_for_no_longer() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("acme", "ann", "run").await?;
    let (one, two) = (ann.create(&small()).await?, ann.create(&small()).await?);
    set(&hostd, "acme", &json!({"tasks_running": 1, "tasks_queued": 2})).await?;
    let first = ann.submit(&one, &shell("until [ -e go ]; do sleep 0.02; done")).await?;
    ann.reaches(&first, "agent").await?;
    let (second, third) = (ann.submit(&two, &shell("true")).await?, ann.submit(&one, &shell("true")).await?);
    let fourth = ann.post(&format!("/v1/sandboxes/{two}/tasks"), &shell("true")).await?;
    ensure!(refused(&fourth)? == Some(QuotaResource::TasksQueued), "{}", fourth.text());
    let numbers = used(&hostd, "acme").await?;
    ensure!(numbers["tasks_running"] == 1 && numbers["tasks_queued"] == 2, "{numbers}");
    let waits: Value = ann.get(&second.path()).await?.expect(200)?;
    ensure!(waits["status"] == "queued", "{waits}");
    ann.prints(&one, "touch go").await?;
    for job in [&first, &second, &third] {
        ensure!(ann.result_of(job).await?["status"] == "succeeded");
    }
    let numbers = used(&hostd, "acme").await?;
    ensure!(numbers["tasks_running"] == 0 && numbers["tasks_queued"] == 0, "{numbers}");
    // One that waits can be cancelled, and a larger quota lets it begin.
    let first = ann.submit(&one, &shell("until [ -e stop ]; do sleep 0.02; done")).await?;
    ann.reaches(&first, "agent").await?;
    let (second, third) = (ann.submit(&two, &shell("true")).await?, ann.submit(&two, &shell("true")).await?);
    ann.post(&format!("{}/cancel", second.path()), &json!({})).await?.expect::<Value>(200)?;
    set(&hostd, "acme", &json!({})).await?;
    ensure!(ann.result_of(&third).await?["status"] == "succeeded");
    ann.prints(&one, "touch stop").await?;
    ann.result_of(&first).await?;
    Ok(())
}

#[tokio::test]
async fn a_tenant_over_its_disk_quota_can_delete_and_nothing_else() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("acme", "ann", "run").await?;
    let id = ann.create(&small()).await?;
    let before = used(&hostd, "acme").await?;
    ensure!(before["disk_mb"].is_null(), "nothing is measured without a quota: {before}");
    set(&hostd, "acme", &json!({"disk_mb": 8})).await?;
    let content = |name: &str| format!("/v1/sandboxes/{id}/files/content?path={name}");
    let megabytes = |count: usize| Bytes::from(vec![b'x'; count << 20]);
    ann.prints(&id, "head -c 5M /dev/zero > ~/half").await?;
    let written = ann.send(Method::PUT, &content("large"), megabytes(9)).await?;
    ensure!(written.status == 201, "{}", written.text());
    let over = |view: &Value| view["used"]["disk_mb"].as_u64() >= Some(14);
    hostd.operator()?.until("/v1/quotas/acme", over).await?;
    for reply in [
        ann.send(Method::PUT, &content("more"), Bytes::from_static(b"x")).await?,
        ann.post("/v1/sandboxes", &small()).await?,
        ann.post(&format!("/v1/sandboxes/{id}/tasks"), &shell("true")).await?,
    ] {
        ensure!(refused(&reply)? == Some(QuotaResource::DiskMb), "{}", reply.text());
    }
    ann.prints(&id, "true").await.context("what runs goes on")?;
    verb(&ann, &id, "stop").await?.expect::<Value>(200)?;
    ensure!(refused(&verb(&ann, &id, "start").await?)? == Some(QuotaResource::DiskMb));
    // It is measured when it is stopped, so each of the deletes must be noticed by itself.
    for (name, left_mb) in [("half", 12), ("large", 8)] {
        ensure!(ann.delete(&content(name)).await?.status == 204);
        let under = |view: &Value| view["used"]["disk_mb"].as_u64() < Some(left_mb);
        hostd.operator()?.until("/v1/quotas/acme", under).await?;
    }
    verb(&ann, &id, "start").await?.expect::<Value>(200)?;
    Ok(())
}

#[tokio::test]
async fn the_oldest_events_beyond_a_quota_go_and_a_reader_that_resumes_there_is_told() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (ann, stranger) =
        (hostd.caller("acme", "ann", "run").await?, hostd.caller("other", "ann", "run").await?);
    let (id, theirs) = (ann.create(&small()).await?, stranger.create(&small()).await?);
    let other = ann.create(&small()).await?;
    let print =
        "i=0; while [ $i -lt 30000 ]; do echo 0123456789012345678901234567890123456789; i=$((i+1)); done";
    let run = async |caller: &Caller, sandbox: &str, line: &str| -> Result<Job> {
        let job = caller.submit(sandbox, &shell(line)).await?;
        ensure!(caller.result_of(&job).await?["status"] == "succeeded");
        Ok(job)
    };
    let done = run(&ann, &id, print).await?;
    let first = ann.events_of(&done).await?[0].seq;
    let of_stranger = run(&stranger, &theirs, print).await?;
    let open = ann.submit(&other, &shell(&format!("{print}; until [ -e go ]; do sleep 0.02; done"))).await?;
    ann.reaches(&open, "agent").await?;
    until("the output is there", async || {
        let page: Value = ann.get(&format!("{}?follow=0&limit=1000", open.events())).await?.expect(200)?;
        Ok((page["items"].as_array().map(Vec::len) > Some(20)).then_some(()))
    })
    .await?;
    set(&hostd, "acme", &json!({"events_mb": 0})).await?;
    // It goes in parts.
    until("the history is gone up to its end", async || {
        let reply = ann.get(&format!("{}?follow=0&since={first}", done.events())).await?;
        if reply.status != 410 {
            return Ok(None);
        }
        let error = reply.error()?;
        ensure!(error.code == ApiErrorCode::HistoryGone, "{}", reply.text());
        let oldest: u64 = error.detail.oldest.context("where it begins")?.parse()?;
        let rest = ann.get(&format!("{}?follow=0&since={oldest}", done.events())).await?;
        // What was the oldest may be gone by now.
        let rest: Value = if rest.status == 410 { return Ok(None) } else { rest.expect(200)? };
        let last = rest["items"].as_array().and_then(|all| all.last());
        Ok(last.is_some_and(|last| last["kind"] == "done").then_some(()))
    })
    .await?;
    // One that reads from the beginning gets what is kept, to its end.
    let followed = ann.get(&done.events()).await?.text();
    ensure!(followed.contains("event: done") && !followed.contains("event: log"), "{followed}");
    ensure!(ann.get(&format!("/v1/sandboxes/{id}/events?since=1")).await?.status == 410);
    // The task that runs has lost nothing, and neither has the other tenant.
    ann.prints(&other, "touch go").await?;
    ann.events_of(&open).await?;
    stranger.events_of(&of_stranger).await?;
    Ok(())
}

#[tokio::test]
async fn connections_to_previews_have_a_quota() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = tests::apps::RAW.launch(&hostd).await?;
    let tenant =
        hostd.operator()?.sandbox(&app.sandbox).await?["tenant"].as_str().context("a tenant")?.to_owned();
    set(&hostd, &tenant, &json!({"preview_connections": 1})).await?;
    ensure!(app.get("/", &[]).await?.status == 200);
    let held = tokio::spawn({
        let app = app.clone();
        async move { app.get("/never", &[]).await }
    });
    hostd
        .operator()?
        .until(&format!("/v1/quotas/{tenant}"), |view| view["used"]["preview_connections"] == 1)
        .await?;
    let page = app.get("/", &[("accept", "text/html")]).await?;
    ensure!(
        page.status == 429 && page.text().contains("as its quota allows"),
        "{} {}",
        page.status,
        page.text()
    );
    ensure!(page.headers.contains_key("retry-after"), "{:?}", page.headers);
    held.abort();
    hostd
        .operator()?
        .until(&format!("/v1/quotas/{tenant}"), |view| view["used"]["preview_connections"] == 0)
        .await?;
    ensure!(app.get("/", &[]).await?.status == 200);
    Ok(())
}

#[tokio::test]
async fn the_command_sets_shows_and_removes_quotas() -> Result<()> {
    let hostd = Hostd::start().await?;
    let run = async |arguments: &[&str]| {
        let ran = hostd.ran(arguments).await?;
        ensure!(ran.code == Some(0), "{arguments:?}: {}", ran.err);
        anyhow::Ok(ran.out)
    };
    run(&["quota", "set", "acme", "--sandboxes", "20", "--running", "5", "--memory", "8g", "--cpus", "1.5"])
        .await?;
    let shown = run(&["quota", "set", "acme", "--running", "none", "--disk", "50g"]).await?;
    ensure!(shown.contains("memory") && shown.contains("8192 MB") && shown.contains("51200 MB"), "{shown}");
    run(&["quota", "set", "acme", "--principal", "ann", "--tasks-running", "2"]).await?;
    let view: Value = serde_json::from_str(&run(&["--json", "quota", "show", "acme"]).await?)?;
    let expected = json!({"sandboxes": 20, "memory_mb": 8192, "cpus": 1.5, "disk_mb": 51200});
    ensure!(view["quota"] == expected && view["source"] == "set", "{view}");
    let listed = run(&["quota", "ls"]).await?;
    ensure!(listed.lines().count() == 3 && listed.contains("ann"), "{listed}");
    ensure!(run(&["quota", "show"]).await?.contains("unlimited"));
    run(&["quota", "rm", "acme", "--principal", "ann"]).await?;
    run(&["quota", "rm", "acme"]).await?;
    let missing = hostd.ran(&["quota", "rm", "acme"]).await?;
    ensure!(missing.code == Some(1) && missing.err.contains("slipway quota ls"), "{}", missing.err);
    let none = hostd.ran(&["quota", "set", "acme"]).await?;
    ensure!(none.code == Some(2), "{none:?}");
    run(&["quota", "set", "default", "--sandboxes", "1"]).await?;
    run(&["create", "web"]).await?;
    let full = hostd.ran(&["create", "api"]).await?;
    ensure!(
        full.code == Some(1) && full.err.contains("allows 1 sandbox,") && full.err.contains("used by web"),
        "{}",
        full.err
    );
    Ok(())
}
