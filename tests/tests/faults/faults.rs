//! Faults around hostd: dead sandboxes, missing files, a full disk, a runtime that hangs, fails or lies. Each
//! is reported by name, stays local, and can be recovered from.

mod disk;
mod disk_limit;

use anyhow::{Context, Result, ensure};
use http_body_util::Full;
use hyper::Request;
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tests::host::{Feed, until};
use tests::launch::directory;
use tests::small_disk::SmallDisk;
use tests::{Caller, Hostd};
use tokio::time::timeout;

/// Less than the time between two inspections of an untouched sandbox.
const AT_ONCE: Duration = Duration::from_secs(30);

async fn asked(caller: &Caller, id: &str, verb: &str) -> Result<Value> {
    caller.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect(200)
}

async fn destroyed(caller: &Caller, id: &str) -> Result<()> {
    let view: Value = caller.delete(&format!("/v1/sandboxes/{id}")).await?.expect(200)?;
    ensure!(view["status"] == "destroyed", "{view}");
    Ok(())
}

fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[tokio::test]
async fn the_death_of_pid_1_is_noticed_at_once_and_it_can_be_started_again() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.local();
    let id = caller.create(&json!({})).await?;
    caller.prints(&id, "echo kept > /home/sandbox/kept").await?;
    let mut feed = Feed::open(&caller, &format!("/v1/sandboxes/{id}/events"), 0).await?;
    hostd.kill_init(&id)?;
    let noticed = timeout(AT_ONCE, feed.until(|event| event.kind == "sandbox.error")).await;
    let events = noticed.context("the death was not noticed")??;
    let problem = &events.last().context("an event")?.data["problem"];
    ensure!(problem["code"] == "died", "{problem}");
    // The event is out a moment before the answers know.
    let view = caller.becomes(&id, "error").await?;
    ensure!(view["problem"]["code"] == "died", "{view}");
    let refused = caller.post(&format!("/v1/sandboxes/{id}/execs"), &json!({"argv": ["true"]})).await?;
    let error = refused.error()?;
    ensure!(error.code == ApiErrorCode::SandboxFailed && error.detail.problem.is_some(), "{error:?}");
    ensure!(asked(&caller, &id, "start").await?["status"] == "running");
    ensure!(caller.prints(&id, "cat /home/sandbox/kept").await? == "kept\n");
    hostd.holds_only(&set(&[&id]), &set(&[&id]))
}

#[tokio::test]
async fn a_bundle_that_is_gone_is_made_again() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.local();
    let id = caller.create(&json!({})).await?;
    let bundle = hostd.data().join("oci").join(&id).join("bundle");
    std::fs::remove_dir_all(&bundle)?;
    ensure!(caller.prints(&id, "echo alive").await? == "alive\n", "it does not need it while it runs");
    asked(&caller, &id, "stop").await?;
    std::fs::remove_dir_all(&bundle).or_else(|error| if bundle.exists() { Err(error) } else { Ok(()) })?;
    asked(&caller, &id, "start").await?;
    ensure!(caller.prints(&id, "echo alive").await? == "alive\n");
    Ok(())
}

#[tokio::test]
async fn a_running_sandbox_whose_directory_vanishes_can_be_started_again_or_destroyed() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.local();
    let [again, away] = [caller.create(&json!({})).await?, caller.create(&json!({})).await?];
    caller.prints(&again, "echo kept > /home/sandbox/kept").await?;
    for id in [&again, &away] {
        let directory = hostd.data().join("oci").join(id);
        // A process in it may still write.
        until("it vanishes", async || {
            let removed = std::fs::remove_dir_all(&directory);
            Ok((removed.is_ok() || !directory.exists()).then_some(()))
        })
        .await?;
    }
    destroyed(&caller, &away).await?;
    asked(&caller, &again, "stop").await?;
    asked(&caller, &again, "start").await?;
    ensure!(caller.prints(&again, "cat /home/sandbox/kept").await? == "kept\n");
    hostd.holds_only(&set(&[&again]), &set(&[&again]))
}

#[tokio::test]
async fn a_stopped_sandbox_whose_directory_vanishes_can_be_started_or_destroyed() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.local();
    let [again, away] = [caller.create(&json!({})).await?, caller.create(&json!({})).await?];
    caller.prints(&again, "echo kept > /home/sandbox/kept").await?;
    for id in [&again, &away] {
        asked(&caller, id, "stop").await?;
        std::fs::remove_dir_all(hostd.data().join("oci").join(id))?;
    }
    destroyed(&caller, &away).await?;
    ensure!(caller.prints(&again, "cat /home/sandbox/kept").await? == "kept\n", "an exec wakes it");
    hostd.holds_only(&set(&[&again]), &set(&[&again]))
}

#[tokio::test]
async fn a_full_disk_is_told_reads_go_on_and_so_does_everything_once_there_is_space() -> Result<()> {
    // Dropped last, after hostd and the mount.
    let outside = directory()?;
    let data = outside.path().join("data");
    let disk = SmallDisk::mount(&data, 24)?;
    let hostd = Hostd::start_in(directory()?, data, vec![]).await?;
    let caller = hostd.local();
    let id = caller.create(&json!({})).await?;
    disk.fill()?;
    let reply = caller.post("/v1/sandboxes", &json!({"name": "too-much"})).await?;
    let error = reply.error()?;
    let full = match error.code {
        ApiErrorCode::DiskFull => reply.status == 507 && error.retryable,
        ApiErrorCode::SandboxFailed => error
            .detail
            .problem
            .as_ref()
            .is_some_and(|problem| problem.code == protocol::api::ProblemCode::DiskFull),
        _ => false,
    };
    ensure!(full, "{} {}", reply.status, reply.text());
    ensure!(caller.sandbox(&id).await?["status"] == "running");
    let listed: Value = caller.get("/v1/sandboxes").await?.expect(200)?;
    ensure!(listed["items"].as_array().is_some_and(|items| items.iter().any(|one| one["id"] == id.as_str())));
    caller.get(&format!("/v1/sandboxes/{id}/events")).await?.expect::<Value>(200)?;
    caller.get("/v1/host").await?.expect::<Value>(200)?;

    disk.empty()?;
    ensure!(caller.prints(&id, "echo alive").await? == "alive\n");
    let more = caller.create(&json!({"name": "enough"})).await?;
    ensure!(caller.prints(&more, "echo alive").await? == "alive\n");
    for one in listed["items"].as_array().context("items")?.iter().filter(|one| one["id"] != id.as_str()) {
        destroyed(&caller, one["id"].as_str().context("an id")?).await?;
    }
    destroyed(&caller, &id).await?;
    destroyed(&caller, &more).await?;
    hostd.holds_only(&set(&[]), &set(&[]))
}

/// crun, behind a script that goes wrong while a file says so.
struct Moody {
    hostd: Hostd,
    moods: PathBuf,
}

impl Moody {
    async fn start() -> Result<Self> {
        let dir = directory()?;
        let (moods, script) = (dir.path().join("moods"), dir.path().join("crun"));
        std::fs::create_dir(&moods)?;
        std::fs::write(&script, script_for(&moods))?;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
        let runtime = ("SLIPWAY_OCI_RUNTIME".to_owned(), script.to_string_lossy().into_owned());
        let data = dir.path().join("data");
        let hostd = Hostd::start_in(dir, data, vec![runtime]).await?;
        Ok(Self { hostd, moods })
    }

    fn set(&self, mood: &str) -> Result<()> {
        Ok(std::fs::write(self.moods.join(mood), "")?)
    }

    fn calm(&self, mood: &str) -> Result<()> {
        Ok(std::fs::remove_file(self.moods.join(mood))?)
    }

    /// Waits until the script stands still.
    async fn hangs(&self) -> Result<()> {
        let sign = self.moods.join("hangs");
        until("the runtime hangs", async || Ok(sign.exists().then_some(()))).await
    }
}

fn script_for(moods: &Path) -> String {
    let moods = moods.display();
    format!(
        "#!/bin/sh\n\
         if [ -e {moods}/hang ]; then : > {moods}/hangs; exec sleep 100000; fi\n\
         if [ -e {moods}/fail ]; then echo 'the moon is full' >&2; exit 3; fi\n\
         if [ -e {moods}/pretend ]; then exit 0; fi\n\
         if [ -e {moods}/deny ]; then crun \"$@\"; echo 'it went wrong, honestly' >&2; exit 1; fi\n\
         exec crun \"$@\"\n"
    )
}

/// A create that fails: its problem.
async fn problem(caller: &Caller) -> Result<(String, Value)> {
    let reply = caller.post("/v1/sandboxes", &json!({})).await?;
    let error = reply.error()?;
    ensure!(error.code == ApiErrorCode::SandboxFailed, "{error:?}");
    let id = error.detail.existing.context("which one")?.to_string();
    let view = caller.sandbox(&id).await?;
    ensure!(view["status"] == "error", "{view}");
    Ok((id, view["problem"].clone()))
}

#[tokio::test]
async fn a_runtime_that_fails_or_lies_is_told_with_what_it_printed_and_leaves_nothing() -> Result<()> {
    let moody = Moody::start().await?;
    let caller = moody.hostd.local();
    let table = [("fail", "the moon is full"), ("pretend", ""), ("deny", "it went wrong, honestly")];
    for (mood, printed) in table {
        moody.set(mood)?;
        let (id, problem) = problem(&caller).await.context(mood)?;
        ensure!(problem["code"] == "launch_failed", "{mood}: {problem}");
        let output = problem["output"].as_array().cloned().unwrap_or_default();
        let has = output.iter().any(|line| line.as_str().is_some_and(|line| line.contains(printed)));
        ensure!(has || printed.is_empty(), "{mood}: {problem}");
        moody.calm(mood)?;
        until("nothing of it runs", async || Ok(moody.hostd.processes()?.is_empty().then_some(()))).await?;
        asked(&caller, &id, "start").await.context(mood)?;
        ensure!(caller.prints(&id, "echo alive").await? == "alive\n");
        destroyed(&caller, &id).await?;
        moody.hostd.holds_only(&set(&[]), &set(&[]))?;
    }
    Ok(())
}

#[tokio::test]
async fn a_runtime_that_hangs_does_not_keep_its_sandbox_from_being_destroyed() -> Result<()> {
    let moody = Moody::start().await?;
    let caller = moody.hostd.local();
    moody.set("hang")?;
    let view: Value = caller.post("/v1/sandboxes?wait=0", &json!({})).await?.expect(201)?;
    let id = view["id"].as_str().context("an id")?;
    ensure!(view["status"] == "creating", "{view}");
    moody.hangs().await?;
    destroyed(&caller, id).await?;
    ensure!(moody.hostd.processes()?.is_empty(), "{:?}", moody.hostd.processes()?);
    moody.hostd.holds_only(&set(&[]), &set(&[]))?;
    moody.calm("hang")?;
    let next = caller.create(&json!({})).await?;
    ensure!(caller.prints(&next, "echo alive").await? == "alive\n");
    Ok(())
}

#[tokio::test]
async fn a_hanging_runtime_keeps_nobody_else_waiting_and_ends_with_a_stop() -> Result<()> {
    let moody = Moody::start().await?;
    let caller = moody.hostd.local();
    moody.set("hang")?;
    let view: Value = caller.post("/v1/sandboxes?wait=0", &json!({})).await?.expect(201)?;
    let id = view["id"].as_str().context("an id")?;
    moody.hangs().await?;
    moody.calm("hang")?;
    let other = caller.create(&json!({})).await?;
    ensure!(caller.prints(&other, "echo alive").await? == "alive\n");
    ensure!(asked(&caller, id, "stop").await?["status"] == "stopped");
    ensure!(asked(&caller, id, "start").await?["status"] == "running");
    moody.hostd.holds_only(&set(&[id, &other]), &set(&[id, &other]))
}

#[tokio::test]
async fn a_runtime_left_hanging_by_a_hostd_that_was_killed_is_ended_by_the_next_one() -> Result<()> {
    let mut moody = Moody::start().await?;
    moody.set("hang")?;
    let view: Value = moody.hostd.local().post("/v1/sandboxes?wait=0", &json!({})).await?.expect(201)?;
    let id = view["id"].as_str().context("an id")?;
    moody.hangs().await?;
    moody.hostd.kill().await?;
    moody.calm("hang")?;
    moody.hostd.crash().await?;
    destroyed(&moody.hostd.local(), id).await?;
    ensure!(moody.hostd.processes()?.is_empty(), "{:?}", moody.hostd.processes()?);
    moody.hostd.holds_only(&set(&[]), &set(&[]))
}

/// Runs hostd on the data of one that does not run; how it ended, and what it printed on both.
fn run_hostd(data: &Path, arguments: &[&str]) -> Result<(Option<i32>, String, String)> {
    let mut command = std::process::Command::new(tests::launch::program("hostd")?);
    command.args(arguments).env("SLIPWAY_CONFIG", "/dev/null").env("SLIPWAY_DATA_DIR", data);
    let output = command.env("SLIPWAY_API_BIND", "127.0.0.1:0").output()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((output.status.code(), text(output.stdout), text(output.stderr)))
}

/// Takes the database away, with what SQLite keeps beside it.
fn lose_database(data: &Path) -> Result<()> {
    for end in ["", "-wal", "-shm"] {
        let path = data.join(format!("slipway.db{end}"));
        if path.exists() {
            std::fs::rename(&path, data.join(format!("lost.db{end}")))?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn sandboxes_of_a_lost_database_are_taken_in_with_their_owner_and_still_answer() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let ann = hostd.caller("acme", "ann", "run").await?;
    let id = ann.create(&json!({"name": "precious", "project": "site"})).await?;
    ann.prints(&id, "echo kept > /home/sandbox/kept").await?;
    let init = hostd.init(&id)?;
    hostd.kill().await?;
    lose_database(hostd.data())?;
    hostd.crash().await?;
    let view = hostd.local().sandbox(&id).await?;
    let found = [&view["status"], &view["name"], &view["tenant"], &view["principal"], &view["project"]];
    ensure!(found == ["running", "precious", "acme", "ann", "site"], "{view}");
    let ann = hostd.caller("acme", "ann", "run").await?;
    ensure!(ann.prints(&id, "cat /home/sandbox/kept").await? == "kept\n");
    ensure!(hostd.init(&id)? == init, "it was not started anew");
    let bob = hostd.caller("acme", "bob", "run").await?;
    ensure!(bob.get(&format!("/v1/sandboxes/{id}")).await?.status == 404, "it is still ann's alone");
    Ok(())
}

#[tokio::test]
async fn a_sandbox_with_a_forged_badge_is_reported_and_not_touched() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let id = hostd.caller("acme", "ann", "run").await?.create(&json!({})).await?;
    let (init, badge) = (hostd.init(&id)?, hostd.data().join("oci").join(&id).join("badge.json"));
    let genuine = std::fs::read_to_string(&badge)?;
    hostd.kill().await?;
    lose_database(hostd.data())?;
    ensure!(genuine.contains("acme"), "{genuine}");
    std::fs::write(&badge, genuine.replace("acme", "evil"))?;
    hostd.crash().await?;
    let listed: Value = hostd.local().get("/v1/sandboxes?all=1").await?.expect(200)?;
    ensure!(listed["items"] == json!([]), "{listed}");
    ensure!(hostd.local().delete(&format!("/v1/sandboxes/{id}")).await?.status == 404);
    ensure!(hostd.processes()?.contains(&init.as_raw()), "its processes live on");
    let said = hostd.said();
    let told = said.lines().any(|line| line.contains(&id) && line.contains("not authentic"));
    ensure!(told, "{said}");
    std::fs::write(&badge, genuine)?;
    hostd.crash().await?;
    ensure!(hostd.local().prints(&id, "echo alive").await? == "alive\n");
    Ok(())
}

#[tokio::test]
async fn a_key_whose_create_failed_finds_that_sandbox_again() -> Result<()> {
    let moody = Moody::start().await?;
    let caller = moody.hostd.local();
    moody.set("fail")?;
    let mut ids = BTreeSet::new();
    for _ in 0..3 {
        let request = Request::post("/v1/sandboxes").header("idempotency-key", "once");
        let error = caller.call(request.body(Full::new("{}".into()))?).await?.error()?;
        ensure!(error.code == ApiErrorCode::SandboxFailed, "{error:?}");
        ids.insert(error.detail.existing.context("which one")?.to_string());
    }
    let listed: Value = caller.get("/v1/sandboxes").await?.expect(200)?;
    ensure!(
        ids.len() == 1 && listed["items"].as_array().is_some_and(|all| all.len() == 1),
        "{ids:?} {listed}"
    );
    Ok(())
}

#[tokio::test]
async fn what_a_killed_probe_left_does_not_keep_hostd_from_starting() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let id = hostd.local().create(&json!({})).await?;
    hostd.kill().await?;
    // Control groups are made and removed one after the other: some of them are there.
    let instance = std::fs::read_to_string(hostd.data().join("instance"))?;
    let probe = format!("slipway-{}/{}", instance.trim(), "0".repeat(26));
    for controller in std::fs::read_dir("/sys/fs/cgroup")? {
        let controller = controller?;
        // Without the one that freezes.
        if controller.file_name() != "freezer"
            && controller.path().join(&probe).parent().is_some_and(Path::is_dir)
        {
            std::fs::create_dir(controller.path().join(&probe))?;
        }
    }
    hostd.crash().await?;
    ensure!(hostd.local().prints(&id, "echo alive").await? == "alive\n");
    destroyed(&hostd.local(), &id).await?;
    hostd.holds_only(&set(&[]), &set(&[]))
}

#[tokio::test]
async fn a_badge_forged_under_a_running_hostd_keeps_the_sandbox_from_being_erased() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.local();
    let id = caller.create(&json!({})).await?;
    caller.prints(&id, "echo kept > /home/sandbox/kept").await?;
    let badge = hostd.data().join("oci").join(&id).join("badge.json");
    let genuine = std::fs::read_to_string(&badge)?;
    std::fs::write(&badge, genuine.replace("sandbox", "sandbag"))?;
    let reply = caller.delete(&format!("/v1/sandboxes/{id}?wait=1s")).await?;
    ensure!(reply.status == 202, "accepted, and not done: {} {}", reply.status, reply.text());
    ensure!(hostd.workspace(&id).join("kept").exists(), "what is not known to be ours was taken away");
    std::fs::write(&badge, genuine)?;
    caller.becomes(&id, "destroyed").await?;
    hostd.holds_only(&set(&[]), &set(&[]))
}

#[tokio::test]
async fn a_damaged_database_is_refused_with_the_way_out_and_repair_moves_it_aside() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let id = hostd.local().create(&json!({"name": "survivor"})).await?;
    ensure!(hostd.terminate().await?.success());
    let database = hostd.data().join("slipway.db");
    let mut bytes = std::fs::read(&database)?;
    bytes[..4096].fill(0xa5);
    std::fs::write(&database, &bytes)?;
    let (code, _, said) = run_hostd(hostd.data(), &[])?;
    ensure!(
        code == Some(1) && said.lines().count() == 1 && said.contains("`hostd repair`"),
        "{code:?} {said}"
    );
    ensure!(std::fs::read(&database)? == bytes, "it was left as it is");
    let (code, printed, said) = run_hostd(hostd.data(), &["repair"])?;
    ensure!(code == Some(0) && printed.contains("slipway.db.corrupt-"), "{code:?} {printed} {said}");
    hostd.crash().await?;
    ensure!(hostd.local().sandbox(&id).await?["name"] == "survivor");
    ensure!(hostd.local().prints(&id, "echo alive").await? == "alive\n");
    Ok(())
}

#[tokio::test]
async fn a_database_of_a_newer_hostd_is_refused_and_left_alone() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    ensure!(hostd.terminate().await?.success());
    let database = hostd.data().join("slipway.db");
    let mut bytes = std::fs::read(&database)?;
    // Where SQLite keeps the number of the schema.
    bytes[60..64].copy_from_slice(&4711_u32.to_be_bytes());
    std::fs::write(&database, &bytes)?;
    let (code, _, said) = run_hostd(hostd.data(), &[])?;
    ensure!(code == Some(1) && said.lines().count() == 1 && said.contains("newer hostd"), "{code:?} {said}");
    ensure!(std::fs::read(&database)? == bytes, "it was left as it is");
    Ok(())
}
