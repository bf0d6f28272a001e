//! An upgrade in the middle of everything: the previous release is stopped or killed, and this one takes its sandboxes
//! over. They are served with the runtimed that they have, until they are started again.

use anyhow::{Context, Result, ensure};
use http_body_util::Full;
use hyper::Request;
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};
use std::path::PathBuf;
use tests::host::{Files, Job, PROGRAMS, TaskFeed, TerminalViewer, complete, messages, shell, until};
use tests::launch::program;
use tests::{Caller, Hostd};

/// Prints numbers until it is told to end.
const COUNT: &str = "n=0; while [ ! -e ~/end ]; do n=$((n+1)); echo $n; sleep 0.02; done; echo the end";
const SERVER: &str = "python3 -m http.server 8000 --bind 127.0.0.1";

/// The programs of the previous release; `None` where its commit is not in this clone, as `scripts/previous` says.
fn previous() -> Result<Option<PathBuf>> {
    let named = std::env::var_os("SLIPWAY_PREVIOUS");
    let named = named.context("SLIPWAY_PREVIOUS must name what `scripts/previous` prints")?;
    if named.is_empty() {
        eprintln!("SKIPPED: the previous release is not in this clone, so that no upgrade was tried");
    }
    Ok(Some(PathBuf::from(named)).filter(|path| !path.as_os_str().is_empty()))
}

/// A sandbox of the previous release with all that goes on in it.
struct Busy {
    id: String,
    job: Job,
    feed: TaskFeed,
}

async fn busy(hostd: &Hostd) -> Result<Busy> {
    let caller = hostd.operator()?;
    let services = json!([{"name": "web", "command": SERVER, "port": 8000}]);
    let id = caller.create(&json!({"ports": [8000], "services": services})).await?;
    let job = caller.submit(&id, &shell(COUNT)).await?;
    let mut feed = TaskFeed::open(&caller, &job, 0).await?.context("a stream")?;
    feed.until(|event| event.kind == "message").await?;
    let execs = format!("/v1/sandboxes/{id}/execs");
    let exec = json!({"id": "counter", "shell": COUNT, "wait": false});
    caller.post(&execs, &exec).await?.expect::<Value>(202)?;
    let terminal = json!({"id": "t", "shell": "exec sh", "tty": {"cols": 80, "rows": 24}});
    caller.post(&execs, &terminal).await?.expect::<Value>(202)?;
    let mut viewer: TerminalViewer = caller.attach(&id, "t", "").await?;
    viewer.types("x=before\r").await?;
    viewer.sees("x=before").await?;
    serves(hostd, &id).await?;
    Ok(Busy { id, job, feed })
}

/// The preview answers.
async fn serves(hostd: &Hostd, id: &str) -> Result<()> {
    let view = hostd.operator()?.sandbox(id).await?;
    let url = view["previews"]["8000"].as_str().context("a preview")?;
    let host = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let port = host.rsplit(':').next().context("a port")?;
    let edge = Caller::tcp(&format!("http://127.0.0.1:{port}"), None);
    until("the preview answers", async || {
        let request = Request::get("/").header("host", &host).body(Full::default())?;
        Ok((edge.call(request).await?.status == 200).then_some(()))
    })
    .await
}

/// What began with the previous release goes on, without a gap and without a repetition.
async fn goes_on(hostd: &Hostd, busy: Busy) -> Result<()> {
    let Busy { id, job, mut feed } = busy;
    let caller = hostd.operator()?;
    // To where the stream broke off.
    while feed.next().await.is_ok_and(|event| event.is_some()) {}
    let mut later = TaskFeed::open(&caller, &job, feed.seen).await?.context("the rest")?;
    later.until(|event| event.kind == "message").await?;
    let mut viewer = caller.attach(&id, "t", "").await?;
    viewer.types("echo $x-after\r").await?;
    viewer.sees("before-after").await?;
    serves(hostd, &id).await?;
    caller.prints(&id, "touch ~/end").await?;
    later.rest().await?;
    let events: Vec<_> = feed.events.into_iter().chain(later.events).collect();
    complete(&events)?;
    ensure!(caller.pages_of(&job).await? == events, "the log says the same as the streams");
    let said = messages(&events);
    let counted = (1..said.len()).map(|n| n.to_string()).chain(["the end".to_owned()]);
    ensure!(said.iter().copied().eq(counted), "{said:?}");
    let counter = format!("/v1/sandboxes/{id}/execs/counter");
    let exec = caller.until(&counter, |exec| exec["state"] != "running").await?;
    ensure!(exec["exit"] == json!({"kind": "exited", "code": 0}), "{exec}");
    serves_old_runtimed(&caller, &id).await
}

/// Everything else that is asked of a PID 1 of the previous release, and then of one of this.
async fn serves_old_runtimed(caller: &Caller, id: &str) -> Result<()> {
    for round in ["with the old runtimed", "with the new one"] {
        ensure!(caller.prints(id, "echo here").await? == "here\n", "{round}");
        let files = Files::new(caller.clone(), id.to_owned());
        files.put("note", round.as_bytes()).await?;
        ensure!(files.content("note").await? == round.as_bytes(), "{round}");
        let job = caller.submit(id, &shell("cat ~/note")).await?;
        ensure!(messages(&caller.events_of(&job).await?) == [round], "{round}");
        let taken = caller.post(&format!("/v1/sandboxes/{id}/snapshots"), &json!({})).await?;
        taken.expect::<Value>(201).context(round)?;
        for verb in ["stop", "start"] {
            caller.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect::<Value>(200)?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn sandboxes_of_the_previous_release_go_on_with_this_one() -> Result<()> {
    let Some(old) = previous()? else { return Ok(()) };
    let old = old.to_string_lossy().into_owned();
    let new = program("hostd")?.parent().context("a directory")?.to_string_lossy().into_owned();
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let mut hostd = Hostd::start_with(&[(PROGRAMS, &old)]).await?;
        let busy = busy(&hostd).await?;
        kill(hostd.pid()?, signal)?;
        let ended = hostd.ended().await?;
        ensure!(signal != Signal::SIGTERM || ended.success(), "{ended}: {}", hostd.said());
        hostd.again_with(&[(PROGRAMS, &new)]).await?;
        goes_on(&hostd, busy).await.with_context(|| format!("after {signal}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn the_previous_release_refuses_the_database_of_this_one() -> Result<()> {
    let Some(old) = previous()? else { return Ok(()) };
    let mut hostd = Hostd::start().await?;
    let database = hostd.data().join("slipway.db");
    ensure!(hostd.terminate().await?.success());
    let before = std::fs::read(&database)?;
    let mut command = tokio::process::Command::new(old.join("hostd"));
    command.env("SLIPWAY_CONFIG", "/dev/null").env("SLIPWAY_DATA_DIR", hostd.data());
    command.env("SLIPWAY_API_BIND", "127.0.0.1:0").env("SLIPWAY_PREVIEW_BIND", "127.0.0.1:0");
    let ran = command.kill_on_drop(true).output().await?;
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    ensure!(ran.status.code() == Some(1) && said.contains("use the newer hostd"), "{}: {said}", ran.status);
    ensure!(std::fs::read(&database)? == before, "the database was changed");
    Ok(())
}
