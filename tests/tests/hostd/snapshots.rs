//! Snapshots, forks and restores of real sandboxes.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::{fs, path::Path, time::Duration};
use tests::{Caller, Hostd, host::until, scale::scaled};

/// Writes as fast as it can: rows of a database, and numbered lines of a file.
const WRITER: &str = r#"
import sqlite3, itertools
db = sqlite3.connect("rows.db")
db.execute("PRAGMA journal_mode=WAL")
db.execute("CREATE TABLE IF NOT EXISTS rows (n INTEGER PRIMARY KEY, text TEXT)")
log = open("lines", "a", buffering=1)
for n in itertools.count():
    db.execute("INSERT INTO rows (text) VALUES (?)", ("x" * 100,))
    db.commit()
    log.write("%08d\n" % n)
"#;

/// Exits with 0 where the database is whole and each line is the next number.
const CHECK: &str = r#"
import sqlite3
db = sqlite3.connect("rows.db")
assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
rows = db.execute("SELECT count(*), max(n) FROM rows").fetchone()
assert rows[0] == rows[1] and rows[0] > 0, rows
lines = open("lines").read().split("\n")
assert all(line == "%08d" % n for n, line in enumerate(lines[:-1])), lines[-3:]

print("whole", rows[0])
"#;

async fn take(caller: &Caller, sandbox: &str, body: &Value) -> Result<Value> {
    caller.post(&format!("/v1/sandboxes/{sandbox}/snapshots"), body).await?.expect(201)
}

async fn fork(caller: &Caller, snapshot: &Value) -> Result<String> {
    let path = format!("/v1/snapshots/{}/fork?wait=60s", text(&snapshot["id"]));
    let view: Value = caller.post(&path, &json!({})).await?.expect(201)?;
    ensure!(view["status"] == "running", "{view}");
    Ok(text(&view["id"]))
}

async fn restore(caller: &Caller, snapshot: &Value) -> Result<Value> {
    let path = format!("/v1/snapshots/{}/restore", text(&snapshot["id"]));
    caller.post(&path, &json!({})).await?.expect(200)
}

/// Waits for the hashes of a snapshot, and has it read again.
async fn intact(caller: &Caller, id: &str) -> Result<Value> {
    let view = caller.until(&format!("/v1/snapshots/{id}"), |view| !view["content"].is_null()).await?;
    let verified: Value =
        caller.post(&format!("/v1/snapshots/{id}/verify"), &json!({})).await?.expect(200)?;
    ensure!(verified["intact"] == true && verified["content"] == view["content"], "{verified}");
    Ok(view)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn count(dir: &Path) -> Result<usize> {
    Ok(fs::read_dir(dir)?.count())
}

/// The hashes of all files of the app, without those of Python.
async fn tree(caller: &Caller, id: &str) -> Result<String> {
    caller.prints(id, "cd && find . -type f -not -path './.*' | sort | xargs -d '\\n' sha256sum").await
}

#[tokio::test]
async fn a_working_app_is_back_after_everything_in_it_was_destroyed() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("a", "ann", "run").await?;
    let id = ann.create(&json!({"env": {"TOKEN": "of-the-first"}, "name": "first"})).await?;
    ann.prints(&id, &format!("cat > write.py <<'END'\n{WRITER}\nEND\ncat > check.py <<'END'\n{CHECK}\nEND"))
        .await?;
    ann.prints(&id, "setsid python3 write.py >/dev/null 2>&1 & sleep 0.2; echo begun").await?;
    ann.prints(&id, "while [ ! -s lines ]; do sleep 0.05; done").await?;
    let mut taken = vec![];
    for _ in 0..scaled(4, 100) {
        let snapshot = take(&ann, &id, &json!({})).await?;
        intact(&ann, &text(&snapshot["id"])).await?;
        taken.push(snapshot);
    }
    ensure!(ann.prints(&id, "pgrep -fc '[w]rite.py'").await? == "1\n", "the app goes on");
    for snapshot in &taken {
        let forked = fork(&ann, snapshot).await?;
        let said = ann.prints(&forked, "python3 check.py && echo \"[$TOKEN]\"").await?;
        ensure!(said.starts_with("whole") && said.ends_with("[]\n"), "{said}");
        ann.delete(&format!("/v1/sandboxes/{forked}")).await?;
    }
    ann.prints(&id, "pkill -f '[w]rite.py'; cd; rm -rf workspace .local; echo broken > workspace").await?;
    let last = taken.last().expect("some");
    let view = restore(&ann, last).await?;
    ensure!(view["status"] == "running" && view["id"] == id.as_str(), "{view}");
    ensure!(ann.prints(&id, "python3 check.py; echo $TOKEN").await?.starts_with("whole"));
    ensure!(count(&hostd.data().join("replaced"))? == 0, "the old files are gone");
    // The line of descent: the next snapshot comes from the one that was restored.
    let next = take(&ann, &id, &json!({"name": "next"})).await?;
    ensure!(next["parent"] == last["id"] && taken[1]["parent"] == taken[0]["id"], "{next}");
    Ok(())
}

#[tokio::test]
async fn sandboxes_at_rest_are_captured_too_and_forks_share_nothing() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("a", "ann", "run").await?;
    let id = ann.create(&json!({"metadata": {"of": "first"}})).await?;
    ann.prints(
        &id,
        "mkdir -p src node_modules/x; echo one > src/a; echo big > node_modules/x/b; ln -s a src/l",
    )
    .await?;
    let before = tree(&ann, &id).await?;
    for verb in ["pause", "stop"] {
        ann.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect::<Value>(200)?;
        let snapshot = take(&ann, &id, &json!({"name": verb})).await?;
        let status = &ann.sandbox(&id).await?["status"];
        ensure!(status == if verb == "pause" { "paused" } else { "stopped" }, "{status}");
        let forks = scaled(3, 100);
        let mut made = vec![];
        for _ in 0..forks {
            let forked = fork(&ann, &snapshot).await?;
            ensure!(tree(&ann, &forked).await? == before, "{verb}");
            made.push(forked);
        }
        ann.prints(&made[0], "echo changed > src/a; rm -r node_modules").await?;
        ensure!(tree(&ann, &made[1]).await? == before, "{verb}: another fork");
        ensure!(tree(&ann, &id).await? == before, "{verb}: the first one, awake");
        ensure!(ann.sandbox(&made[0]).await?["metadata"] == json!({}), "nothing is carried over");
        intact(&ann, &text(&snapshot["id"])).await?;
        for forked in made {
            ann.delete(&format!("/v1/sandboxes/{forked}?wait=30s")).await?;
        }
    }
    let without = take(&ann, &id, &json!({"excludes": ["node_modules"]})).await?;
    let forked = ann.create(&json!({"seed": {"snapshot": without["id"]}})).await?;
    ensure!(ann.prints(&forked, "ls").await? == "src\n");
    // Files of a stack are within reach while it sleeps.
    ann.post(&format!("/v1/sandboxes/{forked}/stop"), &json!({})).await?;
    let files = tests::host::Files::new(ann.clone(), forked.clone());
    files.put("workspace/app/src/new", b"written asleep").await?;
    ensure!(ann.prints(&forked, "cat src/new src/a").await? == "written asleepone\n");
    Ok(())
}

#[tokio::test]
async fn snapshots_belong_to_their_owner_and_what_is_wrong_is_said() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (ann, eve) = (hostd.caller("a", "ann", "run").await?, hostd.caller("b", "eve", "run").await?);
    let id = ann.create(&json!({})).await?;
    let snapshot = take(&ann, &id, &json!({})).await?;
    let path = format!("/v1/snapshots/{}", text(&snapshot["id"]));
    for reply in [
        eve.get(&path).await?,
        eve.get(&format!("{path}/manifest")).await?,
        eve.delete(&path).await?,
        eve.post(&format!("{path}/restore"), &json!({})).await?,
        eve.post(&format!("{path}/fork"), &json!({})).await?,
        eve.post(&format!("{path}/verify"), &json!({})).await?,
        eve.post("/v1/sandboxes", &json!({"seed": {"snapshot": snapshot["id"]}})).await?,
        eve.post(&format!("/v1/sandboxes/{id}/snapshots"), &json!({})).await?,
        ann.get("/v1/snapshots/01jb9xyzabcdefghjkmnpqrstv").await?,
    ] {
        ensure!(reply.status == 404, "{}", reply.text());
    }
    let listed: Value = eve.get("/v1/snapshots").await?.expect(200)?;
    ensure!(listed["items"] == json!([]), "{listed}");
    for (body, field) in [
        (json!({"excludes": ["["]}), "excludes"),
        (json!({"excludes": ["/etc"]}), "excludes"),
        (json!({"excludes": vec!["x"; 65]}), "excludes"),
        (json!({"name": ""}), "name"),
        (json!({"colour": "red"}), "colour"),
    ] {
        let reply = ann.post(&format!("/v1/sandboxes/{id}/snapshots"), &body).await?;
        ensure!(reply.status == 400 && reply.text().contains(field), "{}", reply.text());
    }
    let both = json!({"seed": {"snapshot": snapshot["id"], "template": "x"}});
    ensure!(ann.post("/v1/sandboxes", &both).await?.status == 400);
    // A sandbox made from it outlives it, and its space comes back with the last user.
    let forked = fork(&ann, &snapshot).await?;
    ann.prints(&forked, "echo mine > file").await?;
    ensure!(ann.delete(&path).await?.status == 204 && ann.get(&path).await?.status == 404);
    ann.post(&format!("/v1/sandboxes/{forked}/stop"), &json!({})).await?;
    ensure!(ann.prints(&forked, "cat file").await? == "mine\n");
    ensure!(ann.post(&format!("{path}/fork"), &json!({})).await?.status == 404);
    for sandbox in [id, forked] {
        ann.delete(&format!("/v1/sandboxes/{sandbox}?wait=30s")).await?;
    }
    let layers = hostd.data().join("workspace-layers");
    until("all layers are removed", async || Ok((count(&layers)? == 1).then_some(()))).await?;
    Ok(())
}

#[tokio::test]
async fn a_snapshot_is_the_same_on_another_host_and_a_damaged_archive_is_refused() -> Result<()> {
    let (here, there) = (Hostd::start().await?, Hostd::start().await?);
    let ann = here.caller("a", "ann", "run").await?;
    let id = ann.create(&json!({"ports": [4000]})).await?;
    let fill = "mkdir -p 'odd dir'; echo one > 'odd dir/.wh.file'; ln 'odd dir/.wh.file' same; ln -s same link; \
        head -c 3000000 /dev/urandom > random; chmod 0700 random; mkfifo fifo; n=$(printf 'long%.0s' $(seq 40)); touch $n";
    ann.prints(&id, fill).await?;
    let before = tree(&ann, &id).await?;
    let snapshot = take(&ann, &id, &json!({"name": "moved"})).await?;
    let exported = intact(&ann, &text(&snapshot["id"])).await?;
    let archive = ann.get(&format!("/v1/snapshots/{}/archive", text(&snapshot["id"]))).await?;
    ensure!(archive.status == 200 && archive.body.len() > 3_000_000, "{}", archive.body.len());

    let bob = there.caller("b", "bob", "run").await?;
    let import = async |bytes: Vec<u8>| bob.send(hyper::Method::POST, "/v1/snapshots", bytes.into()).await;
    let imported: Value = import(archive.body.to_vec()).await?.expect(201)?;
    ensure!(imported["name"] == "moved" && imported["content"] == exported["content"], "{imported}");
    let forked = fork(&bob, &imported).await?;
    ensure!(tree(&bob, &forked).await? == before);
    ensure!(bob.sandbox(&forked).await?["ports"] == json!([4000]));
    let said = bob.prints(&forked, "stat -c '%a %u %h' random same; readlink link").await?;
    ensure!(said == "700 1000 1\n644 1000 2\nsame\n", "{said}");

    let whole = archive.body.to_vec();
    let mut changed = whole.clone();
    changed[1_500_000] ^= 1;
    for bad in [vec![], b"not an archive".to_vec(), whole[..whole.len() / 2].to_vec(), changed] {
        let reply = import(bad).await?;
        ensure!((400..500).contains(&reply.status), "{} {}", reply.status, reply.text());
    }
    let listed: Value = bob.get("/v1/snapshots").await?.expect(200)?;
    ensure!(listed["items"].as_array().is_some_and(|items| items.len() == 1), "{listed}");
    until("nothing is left of them", async || Ok((count(&there.data().join("trash"))? == 0).then_some(())))
        .await
}

#[tokio::test]
async fn a_restore_whose_sandbox_does_not_start_brings_the_old_files_back() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("a", "ann", "run").await?;
    let id = ann.create(&json!({})).await?;
    ann.prints(&id, "echo old > file").await?;
    let snapshot = take(&ann, &id, &json!({})).await?;
    intact(&ann, &text(&snapshot["id"])).await?;
    ann.prints(&id, "echo new > file").await?;
    // The snapshot is damaged: its files cannot be mounted.
    for layer in fs::read_dir(hostd.data().join("workspace-layers"))? {
        let layer = layer?.path();
        if !layer.ends_with(".merged") {
            fs::remove_dir_all(&layer)?;
            fs::write(&layer, "")?;
        }
    }
    let reply = ann.post(&format!("/v1/snapshots/{}/restore", text(&snapshot["id"])), &json!({})).await?;
    ensure!(reply.status >= 400, "{}", reply.text());
    ensure!(ann.prints(&id, "cat file").await? == "new\n");
    let verified = ann.post(&format!("/v1/snapshots/{}/verify", text(&snapshot["id"])), &json!({})).await?;
    ensure!(verified.status >= 400 || verified.json::<Value>()?["intact"] == false, "{}", verified.text());
    Ok(())
}

#[tokio::test]
async fn hostd_killed_at_any_moment_leaves_whole_snapshots_or_none() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let mut ann = hostd.caller("a", "ann", "run").await?;
    let id = ann.create(&json!({})).await?;
    ann.prints(&id, "for n in $(seq 300); do echo $n > file-$n; done").await?;
    let before = tree(&ann, &id).await?;
    for round in 0..scaled(6, 60) {
        let asked = {
            let (ann, id) = (ann.clone(), id.clone());
            let restored: Option<Value> =
                ann.get("/v1/snapshots").await?.expect::<Value>(200)?["items"].get(0).cloned();
            tokio::spawn(async move {
                // Both fail where hostd dies.
                let _ = take(&ann, &id, &json!({})).await;
                if let Some(snapshot) = restored.filter(|_| round % 2 == 1) {
                    let _ = restore(&ann, &snapshot).await;
                }
            })
        };
        tokio::time::sleep(Duration::from_millis(u64::try_from(round)? % 12 * 15)).await;
        hostd.crash().await?;
        asked.abort();
        ann = hostd.caller("a", "ann", "run").await?;
        let listed: Value = ann.get("/v1/snapshots").await?.expect(200)?;
        for snapshot in listed["items"].as_array().into_iter().flatten() {
            intact(&ann, &text(&snapshot["id"])).await?;
        }
        ensure!(tree(&ann, &id).await? == before, "round {round}: the sandbox runs, with its files");
    }
    let listed: Value = ann.get("/v1/snapshots").await?.expect(200)?;
    for snapshot in listed["items"].as_array().into_iter().flatten() {
        ann.delete(&format!("/v1/snapshots/{}", text(&snapshot["id"]))).await?;
    }
    ann.delete(&format!("/v1/sandboxes/{id}?wait=30s")).await?;
    hostd.crash().await?;
    let data = hostd.data().to_owned();
    until("all space comes back", async || {
        let left = count(&data.join("workspace-layers"))? - 1 + count(&data.join("snapshots"))?;
        let left = left
            + count(&data.join("stacks"))?
            + count(&data.join("replaced"))?
            + count(&data.join("trash"))?;
        Ok((left == 0).then_some(()))
    })
    .await
}
