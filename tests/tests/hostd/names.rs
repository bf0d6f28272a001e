//! Names: unique among the living sandboxes of an owner, and taken over by `replace`.

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use hostd_store::failpoint::VARIABLE;
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use tests::host::until;
use tests::{Caller, Hostd, Reply};

const REPLACE: &str = "/v1/sandboxes?replace=true";

fn web() -> Value {
    json!({"name": "web", "limits": {"memory_mb": 64}})
}

fn id_of(reply: &Reply) -> Result<String> {
    let view: Value = reply.expect(201)?;
    Ok(view["id"].as_str().context("an id")?.to_owned())
}

/// The sandboxes of a name that are neither destroyed nor on their way there.
async fn living(caller: &Caller, name: &str) -> Result<Vec<String>> {
    let page: Value = caller.get("/v1/sandboxes?limit=1000").await?.expect(200)?;
    let all = page["items"].as_array().context("items")?.iter();
    let lives =
        |one: &&Value| one["name"] == name && one["phase"] != "destroying" && one["replaced_by"].is_null();
    all.filter(lives).map(|one| Ok(one["id"].as_str().context("an id")?.to_owned())).collect()
}

#[tokio::test]
async fn a_name_belongs_to_one_living_sandbox_of_its_owner() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("acme", "ann", "run").await?;
    let first = ann.create(&web()).await?;
    let second = ann.post("/v1/sandboxes", &web()).await?;
    let error = second.error()?;
    ensure!(second.status == 409 && error.code == ApiErrorCode::NameTaken, "{}", second.text());
    ensure!(error.detail.existing.context("which one")?.as_str() == first, "{}", second.text());
    for (tenant, principal) in [("acme", "bob"), ("other", "ann")] {
        hostd.caller(tenant, principal, "run").await?.create(&web()).await?;
    }
    ann.create(&json!({"name": "web", "project": "shop"})).await?;
    let api = ann.create(&json!({"name": "api"})).await?;
    let renamed = ann.patch(&format!("/v1/sandboxes/{api}"), &json!({"name": "web"})).await?;
    ensure!(renamed.code()? == ApiErrorCode::NameTaken, "{}", renamed.text());
    ann.patch(&format!("/v1/sandboxes/{first}"), &json!({"name": "site"})).await?.expect::<Value>(200)?;
    ann.patch(&format!("/v1/sandboxes/{api}"), &json!({"name": "web"})).await?.expect::<Value>(200)?;
    // A destroyed one's name is free at once.
    ann.delete(&format!("/v1/sandboxes/{api}?wait=0")).await?.expect::<Value>(202)?;
    ann.create(&web()).await?;
    // Those that are not named do not collide.
    let none = json!({});
    let unnamed = join_all((0..8).map(|_| ann.post("/v1/sandboxes?wait=0", &none))).await;
    ensure!(unnamed.into_iter().all(|reply| reply.is_ok_and(|reply| reply.status == 201)));
    Ok(())
}

#[tokio::test]
async fn a_replacement_destroys_the_other_and_takes_its_name() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("acme", "ann", "run").await?;
    hostd
        .operator()?
        .put("/v1/quotas/acme", &json!({"sandboxes": 1, "running": 1}))
        .await?
        .expect::<Value>(200)?;
    let first = id_of(&ann.post(REPLACE, &web()).await?)?;
    ann.prints(&first, "echo here > file").await?;
    let second = id_of(&ann.post(REPLACE, &web()).await?).context("the room of the first is enough")?;
    ensure!(living(&ann, "web").await?.iter().eq([&second]));
    let gone = ann.becomes(&first, "destroyed").await?;
    ensure!(gone["replaced_by"] == second && gone["name"] == "web", "{gone}");
    ensure!(!hostd.workspace(&first).exists(), "its files go with it");
    let third = id_of(&ann.post(&format!("{REPLACE}&workspace=keep"), &web()).await?)?;
    ann.becomes(&second, "destroyed").await?;
    ensure!(hostd.workspace(&second).exists(), "unless they are kept");
    // A spec that cannot be made leaves the other alone.
    let wrong = ann.post(REPLACE, &json!({"name": "web", "image": "standard"})).await?;
    ensure!(wrong.status == 422 && living(&ann, "web").await? == [third], "{}", wrong.text());
    let alone = ann.post("/v1/sandboxes?workspace=keep", &web()).await?;
    ensure!(alone.error()?.detail.field.as_deref() == Some("workspace"), "{}", alone.text());
    Ok(())
}

#[tokio::test]
async fn of_many_replacements_at_once_exactly_one_lives() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("acme", "ann", "run").await?;
    ann.create(&web()).await?;
    let web = web();
    let replies = join_all((0..8).map(|_| ann.post(REPLACE, &web))).await;
    let mut made = Vec::new();
    for reply in replies {
        let reply = reply?;
        match reply.status {
            201 => made.push(id_of(&reply)?),
            // Replaced by another one before it was up.
            _ => ensure!(reply.code()? == ApiErrorCode::Gone, "{}", reply.text()),
        }
    }
    let left = living(&ann, "web").await?;
    ensure!(left.len() == 1 && made.contains(&left[0]), "{left:?} of {made:?}");
    ann.prints(&left[0], "true").await?;
    until("the others are gone", async || {
        let page: Value = ann.get("/v1/sandboxes").await?.expect(200)?;
        Ok((page["items"].as_array().map(Vec::len) == Some(1)).then_some(()))
    })
    .await
}

#[tokio::test]
async fn cut_off_in_the_middle_of_a_replacement_one_of_both_lives() -> Result<()> {
    for (point, replaced) in
        [("store.replace_sandbox.before_commit", false), ("store.replace_sandbox.after_commit", true)]
    {
        let mut hostd = Hostd::start().await?;
        let token = hostd.caller("acme", "ann", "run").await?.token().context("a token")?.to_owned();
        let ann = Caller::tcp(hostd.url(), Some(&token));
        let first = ann.create(&web()).await?;
        hostd.again_with(&[(VARIABLE, point)]).await?;
        let ann = Caller::tcp(hostd.url(), Some(&token));
        ensure!(ann.post(REPLACE, &web()).await.is_err(), "{point} is never reached");
        hostd.crash().await?;
        let ann = Caller::tcp(hostd.url(), Some(&token));
        let left = living(&ann, "web").await?;
        ensure!(left.len() == 1 && (left[0] != first) == replaced, "{point}: {left:?}");
        if replaced {
            ann.becomes(&first, "destroyed").await?;
        }
        ann.becomes(&left[0], "running").await?;
        let again = id_of(&ann.post(REPLACE, &web()).await?)?;
        ensure!(living(&ann, "web").await? == [again]);
    }
    Ok(())
}

#[tokio::test]
async fn sandboxes_of_a_lost_database_keep_apart() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let local = hostd.local();
    let first = local.create(&web()).await?;
    // Its name is in its badge, as it was at its launch.
    local.patch(&format!("/v1/sandboxes/{first}"), &json!({"name": "site"})).await?.expect::<Value>(200)?;
    let second = local.create(&web()).await?;
    hostd.kill().await?;
    for name in ["slipway.db", "slipway.db-wal", "slipway.db-shm"] {
        std::fs::remove_file(hostd.data().join(name))?;
    }
    hostd.again_with(&[]).await?;
    let local = hostd.local();
    let name =
        async |id: &str| anyhow::Ok(local.sandbox(id).await?["name"].as_str().context("a name")?.to_owned());
    let mut names = [name(&first).await?, name(&second).await?];
    names.sort();
    ensure!(names[0] == "web" && names[1].starts_with("web-"), "{names:?}");
    local.prints(&first, "true").await?;
    local.prints(&second, "true").await?;
    Ok(())
}

#[tokio::test]
async fn the_command_replaces_and_finds_the_one_that_stays() -> Result<()> {
    let hostd = Hostd::start().await?;
    let first = hostd.ran(&["create", "web"]).await?;
    ensure!(first.code == Some(0), "{}", first.err);
    let taken = hostd.ran(&["create", "web"]).await?;
    let id = first.out.trim();
    ensure!(
        taken.code == Some(1) && taken.err.contains(id) && taken.err.contains("--replace"),
        "{}",
        taken.err
    );
    let second = hostd.ran(&["create", "web", "--replace"]).await?;
    ensure!(second.code == Some(0) && second.out != first.out, "{}", second.err);
    let ran = hostd.ran(&["exec", "web", "--", "true"]).await?;
    ensure!(ran.code == Some(0), "{}", ran.err);
    let got = hostd.ran(&["--json", "get", "web"]).await?;
    ensure!(got.out.contains(second.out.trim()), "{}", got.out);
    let keep = hostd.ran(&["create", "web", "--keep-workspace"]).await?;
    ensure!(keep.code == Some(2), "{}", keep.err);
    Ok(())
}
