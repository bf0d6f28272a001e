//! `slipway backup` and `slipway restore`: the whole way from a lost disk, and everything that must leave nothing behind.

use anyhow::{Context, Result, ensure};
use hostd_store::failpoint::{OF_BACKUPS, OF_HOST_RESTORES, VARIABLE};
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;
use tests::host::{Files, Ran, shell, until, without_settings};
use tests::launch::{directory, program};
use tests::small_disk::SmallDisk;
use tests::{Caller, Hostd};

const PASSPHRASE: &str = "correct horse battery";
/// Writes a database and a file in turn, each before the next of the other, until it is stopped.
const WRITER: &str = r#"
import os, sqlite3
db = sqlite3.connect("/home/sandbox/counter.db", isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, filling TEXT)")
n = 0
while True:
    n += 1
    db.execute("INSERT INTO t VALUES (?, ?)", (n, "x" * 500))
    with open("/home/sandbox/new", "w") as file:
        file.write(str(n))
    os.rename("/home/sandbox/new", "/home/sandbox/count")
"#;
/// Whether both are of one moment.
const LOOK: &str = r#"python3 -c '
import sqlite3
db = sqlite3.connect("/home/sandbox/counter.db")
whole = db.execute("PRAGMA integrity_check").fetchone()[0]
most = db.execute("SELECT max(n) FROM t").fetchone()[0]
count = int(open("/home/sandbox/count").read())
print(whole, most - count in (0, 1), most > 0)
'"#;

/// Where backups are, with the file of the passphrase.
struct Shelf {
    dir: TempDir,
}

impl Shelf {
    fn new() -> Result<Self> {
        let shelf = Self { dir: directory()? };
        std::fs::write(shelf.passphrase(), format!("{PASSPHRASE}\n"))?;
        Ok(shelf)
    }

    fn passphrase(&self) -> PathBuf {
        self.dir.path().join("passphrase")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn back_up(&self, hostd: &Hostd, name: &str, flags: &[&str]) -> Result<Ran> {
        let (file, passphrase) = (text(&self.file(name)), text(&self.passphrase()));
        let words = [&["backup", &file, "--passphrase-file", &passphrase], flags].concat();
        hostd.ran(&words).await
    }

    /// A backup that must be made.
    async fn backed_up(&self, hostd: &Hostd, flags: &[&str]) -> Result<PathBuf> {
        let ran = self.back_up(hostd, "backup.age", flags).await?;
        ensure!(ran.code == Some(0), "{ran:?}\n{}", hostd.said());
        Ok(self.file("backup.age"))
    }

    /// `slipway restore`, with a variable of its environment.
    async fn restore(&self, file: &Path, data: &Path, flags: &[&str], point: &str) -> Result<Ran> {
        let mut command = tokio::process::Command::new(program("slipway")?);
        command.arg("restore").arg(file).arg("--passphrase-file").arg(self.passphrase());
        command.arg("--data-dir").arg(data).args(flags);
        without_settings(&mut command, &self.dir.path().join("config"));
        command.env("SLIPWAY_CONFIG", "/dev/null").env(VARIABLE, point).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ran::of(command.spawn()?).await
    }

    /// The names of what is here beside the passphrase.
    fn names(&self) -> Result<Vec<String>> {
        let mut names = names(self.dir.path())?;
        names.retain(|name| name != "passphrase");
        Ok(names)
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let names = std::fs::read_dir(dir).with_context(|| format!("{}", dir.display()))?;
    Ok(names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

async fn host(caller: &Caller) -> Result<Value> {
    caller.get("/v1/host").await?.expect(200)
}

async fn stopped(caller: &Caller, id: &str) -> Result<Value> {
    caller.post(&format!("/v1/sandboxes/{id}/stop"), &json!({})).await?.expect(200)
}

/// What a host has before its disk is lost.
struct Before {
    token: String,
    admin: String,
    instance: String,
    writing: String,
    resting: String,
    job: tests::host::Job,
    events: usize,
    snapshot: String,
    link: String,
}

async fn fill(hostd: &Hostd) -> Result<Before> {
    let ann = hostd.caller("acme", "ann", "run").await?;
    let resting = ann.create(&json!({"name": "rests", "env": {"GREETING": "hello"}})).await?;
    ann.prints(&resting, "cd; echo first > note; mkdir -p deep/er; ln -s ../note deep/link; head -c 3000000 /dev/urandom > deep/er/large").await?;
    let job = ann.submit(&resting, &shell("echo one; echo two")).await?;
    let events = ann.events_of(&job).await?.len();
    let taken = ann.post(&format!("/v1/sandboxes/{resting}/snapshots"), &json!({"name": "kept"})).await?;
    let snapshot = taken.expect::<Value>(201)?["id"].as_str().context("an id")?.to_owned();
    ann.prints(&resting, "cd; echo second > note").await?;
    let link = json!({"method": "GET", "path": "note", "ttl": "1h"});
    let link = ann.post(&format!("/v1/sandboxes/{resting}/file-links"), &link).await?.expect::<Value>(201)?;
    stopped(&ann, &resting).await?;
    let writing = ann.create(&json!({"name": "writes"})).await?;
    Files::new(ann.clone(), writing.clone()).put("writer.py", WRITER.as_bytes()).await?;
    let exec = json!({"argv": ["python3", "/home/sandbox/writer.py"], "wait": false});
    ann.post(&format!("/v1/sandboxes/{writing}/execs"), &exec).await?.expect::<Value>(202)?;
    until("it writes", async || Ok(ann.prints(&writing, "test -e ~/count && echo yes").await.ok())).await?;
    Ok(Before {
        token: ann.token().context("a token")?.to_owned(),
        admin: std::fs::read_to_string(hostd.data().join("token"))?.trim().to_owned(),
        instance: host(&hostd.local()).await?["instance"].as_str().context("an id")?.to_owned(),
        writing,
        resting,
        job,
        events,
        snapshot,
        link: link["url"].as_str().context("a URL")?.to_owned(),
    })
}

#[tokio::test]
async fn a_host_whose_disk_was_lost_is_there_again() -> Result<()> {
    let shelf = Shelf::new()?;
    let hostd = Hostd::start().await?;
    let before = fill(&hostd).await?;
    let file = shelf.backed_up(&hostd, &["--snapshots"]).await?;
    ensure!(shelf.names()? == ["backup.age"], "{:?}", shelf.names()?);
    let listed: Value = hostd.local().get("/v1/snapshots").await?.expect(200)?;
    ensure!(
        listed["items"].as_array().map(Vec::len) == Some(1),
        "the snapshots of a backup are its own: {listed}"
    );
    drop(hostd);

    let dir = directory()?;
    let data = dir.path().join("data");
    let verified = shelf.restore(&file, &data, &["--verify-only"], "").await?;
    ensure!(verified.code == Some(0) && !data.exists(), "{verified:?}");
    let restored = shelf.restore(&file, &data, &["--json"], "").await?;
    ensure!(restored.code == Some(0), "{restored:?}");
    let said: Value = serde_json::from_str(&restored.out)?;
    ensure!(
        said["sandboxes"] == 2 && said["snapshots"] == 1 && said["sandboxes_without_files"] == 0,
        "{said}"
    );
    ensure!(names(dir.path())? == ["data"], "{:?}", names(dir.path())?);

    let hostd = Hostd::start_in(dir, data, vec![]).await?;
    let ann = Caller::tcp(hostd.url(), Some(&before.token));
    is_there(&hostd, &ann, &before).await?;
    is_new(&hostd, &before).await?;
    hostd.stop().await
}

/// What people had.
async fn is_there(hostd: &Hostd, ann: &Caller, before: &Before) -> Result<()> {
    for id in [&before.writing, &before.resting] {
        let view = ann.sandbox(id).await?;
        ensure!(view["status"] == "stopped" && view["phase"].is_null(), "{view}");
    }
    let files = Files::new(ann.clone(), before.resting.clone());
    ensure!(files.content("note").await? == "second\n", "its files are read while it is stopped");
    let events = ann.pages_of(&before.job).await?;
    ensure!(events.len() == before.events, "{events:?}");
    ensure!(ann.events_of(&before.job).await?.len() == before.events);
    let printed = ann
        .prints(&before.resting, "cd; echo $GREETING; cat note deep/link; stat -c '%u %s' deep/er/large")
        .await?;
    ensure!(printed == "hello\nsecond\nsecond\n1000 3000000\n", "{printed}");
    ensure!(ann.prints(&before.writing, LOOK).await? == "ok True True\n");
    let snapshot = format!("/v1/snapshots/{}", before.snapshot);
    ann.until(&snapshot, |view| !view["content"].is_null()).await?;
    let verified = ann.post(&format!("{snapshot}/verify"), &json!({})).await?;
    ensure!(verified.expect::<Value>(200)?["intact"] == true);
    ann.post(&format!("{snapshot}/restore"), &json!({})).await?.expect::<Value>(200)?;
    ensure!(ann.prints(&before.resting, "cd; cat note").await? == "first\n");
    // Sandboxes work on: a task, a stop, the end.
    let job = ann.submit(&before.writing, &shell("echo again")).await?;
    ann.events_of(&job).await?;
    stopped(ann, &before.writing).await?;
    ensure!(ann.prints(&before.writing, LOOK).await? == "ok True True\n");
    for id in [&before.writing, &before.resting] {
        ensure!(ann.delete(&format!("/v1/sandboxes/{id}")).await?.status == 200);
    }
    let left = |dir: &str| names(&hostd.data().join(dir));
    ensure!(left("restored-workspaces")?.is_empty() && left("stacks")?.is_empty(), "{:?}", left("stacks")?);
    Ok(())
}

/// What the other host handed out is not valid any more.
async fn is_new(hostd: &Hostd, before: &Before) -> Result<()> {
    let old = Caller::tcp(hostd.url(), Some(&before.admin));
    ensure!(old.get("/v1/host").await?.status == 401);
    ensure!(host(&hostd.operator()?).await?["instance"] != before.instance.as_str());
    let path = before.link.find("/v1/").map(|at| &before.link[at..]).context("a path")?;
    let refused = hostd.operator()?.with_token(None).get(path).await?;
    ensure!(refused.status == 401 || refused.status == 404, "{}", refused.text());
    let audits = std::fs::read_to_string(hostd.data().join("restored-configuration/values.json"))?;
    ensure!(serde_json::from_str::<Value>(&audits)?["driver"]["value"] == "oci", "{audits}");
    Ok(())
}

#[tokio::test]
async fn what_is_no_whole_backup_is_refused_before_anything_is_written() -> Result<()> {
    let shelf = Shelf::new()?;
    let hostd = Hostd::start().await?;
    let file = shelf.backed_up(&hostd, &["--workspaces", "none"]).await?;
    let bytes = std::fs::read(&file)?;
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    let dir = directory()?;
    let data = dir.path().join("data");
    let cases = [
        ("cut", bytes[..bytes.len() - 1].to_vec(), "damaged or cut short"),
        ("flipped", flipped, "damaged or cut short"),
        ("no backup", b"x".repeat(4096), "not encrypted"),
    ];
    for (name, content, expected) in cases {
        std::fs::write(shelf.file(name), content)?;
        let ran = shelf.restore(&shelf.file(name), &data, &[], "").await?;
        ensure!(ran.code == Some(1) && ran.err.contains(expected), "{name}: {ran:?}");
        ensure!(names(dir.path())?.is_empty(), "{name}");
    }
    // The directory of a hostd that runs, one with a file in it, and one that is empty.
    let ran = shelf.restore(&file, hostd.data(), &[], "").await?;
    ensure!(ran.code == Some(64) && ran.err.contains("a hostd runs on"), "{ran:?}");
    std::fs::create_dir(&data)?;
    std::fs::write(data.join("mine"), "x")?;
    let ran = shelf.restore(&file, &data, &[], "").await?;
    ensure!(ran.code == Some(64) && ran.err.contains("is not empty"), "{ran:?}");
    ensure!(names(&data)? == ["mine"]);
    std::fs::remove_file(data.join("mine"))?;
    std::fs::write(shelf.passphrase(), "another one")?;
    let ran = shelf.restore(&file, &data, &[], "").await?;
    ensure!(ran.code == Some(1) && ran.err.contains("the passphrase is wrong"), "{ran:?}");
    ensure!(names(&data)?.is_empty() && names(dir.path())? == ["data"]);
    std::fs::write(shelf.passphrase(), PASSPHRASE)?;
    let ran = shelf.restore(&file, &data, &["--revoke-tokens"], "").await?;
    ensure!(ran.code == Some(0) && data.join("slipway.db").exists(), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn only_the_operator_backs_up_and_only_encrypted() -> Result<()> {
    let hostd = Hostd::start().await?;
    let body = json!({"passphrase": PASSPHRASE, "workspaces": "none"});
    for scope in ["run", "admin"] {
        let caller = hostd.caller("acme", "ann", scope).await?;
        ensure!(caller.post("/v1/host/backup", &body).await?.code()? == ApiErrorCode::Forbidden, "{scope}");
    }
    let operator = hostd.operator()?;
    let id = "01jb9xyzabcdefghjkmnpqrstv";
    let wrong = [
        json!({}),
        json!({"passphrase": "short"}),
        json!({"recipients": ["age1x"]}),
        json!({"passphrase": PASSPHRASE, "recipients": ["age1x"]}),
        json!({"passphrase": PASSPHRASE, "workspaces": "some"}),
        json!({"passphrase": PASSPHRASE, "sandboxes": [id]}),
    ];
    for body in wrong {
        let refused = operator.post("/v1/host/backup", &body).await?;
        ensure!(refused.status == 400, "{body}: {}", refused.text());
        ensure!(!refused.text().contains(PASSPHRASE));
    }
    let missing = json!({"passphrase": PASSPHRASE, "workspaces": "some", "sandboxes": [id]});
    ensure!(operator.post("/v1/host/backup", &missing).await?.status == 404);
    let made = operator.post("/v1/host/backup", &body).await?;
    ensure!(made.status == 200 && made.body.starts_with(b"age-encryption.org/v1"), "{}", made.status);
    ensure!(!hostd.said().contains(PASSPHRASE), "a log has it");
    Ok(())
}

#[tokio::test]
async fn a_backup_whose_hostd_is_killed_leaves_nothing() -> Result<()> {
    let shelf = Shelf::new()?;
    let mut hostd = Hostd::start().await?;
    let operator = hostd.local();
    let id = operator.create(&json!({})).await?;
    operator.prints(&id, "cd; echo kept > note").await?;
    for point in OF_BACKUPS {
        hostd.again_with(&[(VARIABLE, point)]).await?;
        let ran = shelf.back_up(&hostd, "backup.age", &[]).await?;
        ensure!(ran.code == Some(1), "{point}: {ran:?}");
        hostd.ended().await.with_context(|| format!("{point} is never reached"))?;
        ensure!(shelf.names()?.is_empty(), "{point}: {:?}", shelf.names()?);
        hostd.again_with(&[(VARIABLE, "none")]).await?;
        until("all of it is gone", async || {
            let left =
                [names(&hostd.data().join("trash"))?, names(&hostd.data().join("snapshots"))?].concat();
            Ok(left.is_empty().then_some(()))
        })
        .await
        .with_context(|| format!("{point}: {:?}", names(&hostd.data().join("snapshots"))))?;
    }
    ensure!(hostd.local().prints(&id, "cd; cat note").await? == "kept\n");
    shelf.backed_up(&hostd, &[]).await?;
    Ok(())
}

#[tokio::test]
async fn a_restore_that_is_killed_or_runs_out_of_space_leaves_no_data_directory() -> Result<()> {
    let shelf = Shelf::new()?;
    let hostd = Hostd::start().await?;
    let operator = hostd.local();
    let id = operator.create(&json!({})).await?;
    operator.prints(&id, "cd; echo kept > note; head -c 12000000 /dev/urandom > large").await?;
    let file = shelf.backed_up(&hostd, &["--workspaces", &id]).await?;
    drop(hostd);
    let dir = directory()?;
    let data = dir.path().join("data");
    let (last, before) = OF_HOST_RESTORES.split_last().context("points")?;
    for point in before {
        let ran = shelf.restore(&file, &data, &[], point).await?;
        ensure!(ran.code == Some(1), "{point}: {ran:?}");
        ensure!(!data.exists(), "{point}");
    }
    let small = dir.path().join("small");
    let disk = SmallDisk::mount(&small, 8)?;
    let ran = shelf.restore(&file, &small.join("data"), &[], "").await?;
    ensure!(ran.code == Some(1) && ran.err.contains("the disk is full"), "{ran:?}");
    ensure!(names(&small)?.is_empty(), "{:?}", names(&small)?);
    let ran = shelf.restore(&file, &small, &[], "").await?;
    ensure!(ran.code == Some(64) && ran.err.contains("is a mount point"), "{ran:?}");
    drop(disk);
    std::fs::remove_dir(&small)?;
    // After the rename it is whole, whatever becomes of the rest.
    shelf.restore(&file, &data, &[], last).await?;
    ensure!(data.exists());
    let hostd = Hostd::start_in(dir, data, vec![]).await?;
    let printed = hostd.local().prints(&id, "cd; cat note; stat -c %s large").await?;
    ensure!(printed == "kept\n12000000\n", "{printed}");
    Ok(())
}

#[tokio::test]
async fn a_disk_without_room_for_the_copy_is_told() -> Result<()> {
    let shelf = Shelf::new()?;
    let outside = directory()?;
    let data = outside.path().join("data");
    let disk = SmallDisk::mount(&data, 24)?;
    let hostd = Hostd::start_in(directory()?, data, vec![]).await?;
    disk.fill()?;
    let ran = shelf.back_up(&hostd, "backup.age", &["--workspaces", "none"]).await?;
    ensure!(ran.code == Some(1) && ran.err.contains("disk is"), "{ran:?}");
    ensure!(shelf.names()?.is_empty());
    disk.empty()?;
    until("there is room", async || {
        let ran = shelf.back_up(&hostd, "backup.age", &["--workspaces", "none"]).await?;
        Ok((ran.code == Some(0)).then_some(()))
    })
    .await
}

#[tokio::test]
async fn old_history_goes_and_who_resumes_before_it_is_told() -> Result<()> {
    let hostd = Hostd::start_with(&[("SLIPWAY_HISTORY_KEEP", "1s")]).await?;
    let operator = hostd.local();
    let id = operator.create(&json!({})).await?;
    let living = operator.create(&json!({})).await?;
    ensure!(operator.delete(&format!("/v1/sandboxes/{id}")).await?.status == 200);
    until("the record is gone", async || {
        Ok((operator.get(&format!("/v1/sandboxes/{id}")).await?.status == 404).then_some(()))
    })
    .await?;
    let refused = operator.get("/v1/events?after=1").await?;
    ensure!(refused.code()? == ApiErrorCode::HistoryGone, "{}", refused.text());
    ensure!(refused.error()?.detail.oldest.is_some());
    ensure!(operator.sandbox(&living).await?["status"] == "running");
    ensure!(operator.prints(&living, "echo still here").await? == "still here\n");
    Ok(())
}
