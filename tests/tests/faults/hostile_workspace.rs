//! Workspaces that try to lead hostd out: every trick against every endpoint, performed by hostd and inside the
//! sandbox. Nothing outside is read, written, waited for or deleted.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{Method, Request};
use serde_json::json;
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    time::Duration,
};
use tempfile::TempDir;
use tests::host::{Files, encoded};
use tests::{Hostd, Random, scaled};
use tokio::time::timeout;

const MODES: [&str; 2] = ["host", "sandbox"];
/// A bound on hanging.
const PATIENCE: Duration = Duration::from_secs(60);
const CANARY: &str = "the canary outside";

/// A directory of the host that anybody may read and write, with a file: only the workspace's borders protect it.
struct Outside(TempDir);

impl Outside {
    fn new() -> Result<Self> {
        let dir = tempfile::tempdir_in("/var/tmp")?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777))?;
        fs::write(dir.path().join("f"), CANARY)?;
        fs::set_permissions(dir.path().join("f"), Permissions::from_mode(0o666))?;
        Ok(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn unharmed(&self) -> Result<()> {
        let names: Vec<_> = fs::read_dir(self.path())?.flatten().map(|entry| entry.file_name()).collect();
        ensure!(names == ["f"], "{names:?}");
        ensure!(fs::read_to_string(self.path().join("f"))? == CANARY);
        Ok(())
    }
}

async fn start(mode: &str) -> Result<(Hostd, Files)> {
    let hostd = Hostd::start_with(&[("SLIPWAY_FILES", mode)]).await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    Ok((hostd, Files::new(operator, id)))
}

/// Every request about a path, with the path in each place that takes one.
fn requests(path: &str) -> Vec<(Method, String, &'static [u8])> {
    let path = encoded(path);
    let get = ["content", "stat", "archive", "search"]
        .map(|verb| (Method::GET, format!("{verb}?path={path}"), &b""[..]));
    let more = [
        (Method::GET, format!("stat?path={path}&follow=true"), &b""[..]),
        (Method::GET, format!("search?path={path}&name=*"), b""),
        (Method::GET, format!("search?path={path}&content=canary"), b""),
        (Method::GET, format!("archive?path={path}&format=zip"), b""),
        (Method::HEAD, format!("content?path={path}"), b""),
        (Method::PUT, format!("content?path={path}"), b"overwritten"),
        (Method::PUT, format!("content?path={path}/new"), b"overwritten"),
        (Method::PUT, format!("content?path={path}&append=true"), b"overwritten"),
        (Method::POST, format!("mkdir?path={path}/made"), b""),
        (Method::POST, format!("copy?from={path}&to=copied&overwrite=true"), b""),
        (Method::POST, format!("copy?from=plain&to={path}/copied"), b""),
        (Method::POST, format!("copy?from=plain&to={path}&overwrite=true"), b""),
        (Method::POST, format!("move?from=plain&to={path}/moved"), b""),
        (Method::PUT, format!("archive?path={path}"), b"no archive"),
        (Method::DELETE, format!("content?path={path}/f"), b""),
    ];
    get.into_iter().chain(more).collect()
}

/// Makes every trick anew: some requests rightly delete or replace the link itself.
async fn make_tricks(files: &Files, outside: &Path) -> Result<Vec<String>> {
    let outside = outside.display();
    let up = "../".repeat(40);
    let line = format!(
        "cd ~ && rm -rf tricks copied && mkdir -p tricks/real && cd tricks && echo plain > ../plain && \
         ln -s {outside}/f abs-file; ln -s {outside} abs-dir; ln -s {up}{outside}/f up-file; ln -s {up}{outside} up-dir; \
         ln -s / root; ln -s /proc/self/root proc-root; ln -s /proc/1/root init-root; ln -s /proc/self/cwd cwd; \
         ln -s /dev/stdin stdin; ln -s loop loop; ln -s abs-dir chain; ln -s real/../../../../ dots; \
         mkfifo fifo; chmod 666 fifo; echo secret > closed; chmod 000 closed; mkdir closed-dir; chmod 000 closed-dir; \
         ln -s ../tricks/real inside; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'; true"
    );
    files.prints(&files.sandbox, &line).await?;
    let links = [
        "abs-file",
        "abs-dir",
        "up-file",
        "up-dir",
        "root",
        "proc-root",
        "init-root",
        "cwd",
        "stdin",
        "loop",
        "chain",
        "dots",
        "fifo",
        "closed",
        "closed-dir",
        "socket",
        "abs-dir/f",
        "chain/f",
        "up-dir/f",
        "inside/../../../../f",
    ];
    let mut tricks: Vec<String> = links.iter().map(|name| format!("tricks/{name}")).collect();
    let through = outside.to_string();
    tricks.extend([
        format!("tricks/root{through}/f"),
        format!("{up}{through}/f"),
        format!("{through}/f"),
        through,
    ]);
    Ok(tricks)
}

#[tokio::test]
async fn no_trick_leads_any_endpoint_out_of_the_workspace() -> Result<()> {
    for mode in MODES {
        let (hostd, files) = start(mode).await?;
        let outside = Outside::new()?;
        let tricks = make_tricks(&files, outside.path()).await?;
        for trick in &tricks {
            for (method, verb, body) in requests(trick) {
                let what = format!("{mode}: {method} {verb}");
                let reply = timeout(PATIENCE, files.request(method, &verb, &[], body)).await;
                let reply = reply.with_context(|| format!("{what} hangs"))??;
                ensure!(!reply.text().contains(CANARY), "{what} reads outside");
                ensure!(
                    reply.status < 500 || reply.status == 507,
                    "{what}: {} {}",
                    reply.status,
                    reply.text()
                );
                outside.unharmed().context(what)?;
            }
            let many = json!({"files": [{"path": trick, "content": "overwritten"}, {"path": format!("{trick}/new"), "content": "x"}]});
            files.post(&files.path("write-many"), &many).await?;
            outside.unharmed()?;
            watch_briefly(&files, trick).await?;
            make_tricks(&files, outside.path()).await?;
        }
        // Deleting the tree deletes the links, not what they point to.
        files.prints(&files.sandbox, "chmod 755 ~/tricks/closed-dir").await?;
        let deleted = files.request(Method::DELETE, "content?path=tricks&recursive=true", &[], b"").await?;
        ensure!(deleted.status == 204, "{}", deleted.text());
        outside.unharmed()?;
        ensure!(hostd.operator()?.get("/healthz").await?.status == 200);
    }
    Ok(())
}

/// A watch of a trick is refused, or begins without waiting for anything.
async fn watch_briefly(files: &Files, trick: &str) -> Result<()> {
    let request = Request::builder().uri(files.path(&format!("watch?path={}", encoded(trick))));
    let request = request.body(http_body_util::Empty::<Bytes>::new())?;
    let mut response = timeout(PATIENCE, files.open(request)).await.context("the watch hangs")??;
    let first = timeout(PATIENCE, response.body_mut().frame()).await.context("the watch hangs")?;
    ensure!(first.is_some());
    Ok(())
}

#[tokio::test]
async fn a_directory_that_is_swapped_for_a_link_in_a_loop_is_never_left_through() -> Result<()> {
    for mode in MODES {
        let (_hostd, files) = start(mode).await?;
        let outside = Outside::new()?;
        let swap = format!(
            "cd ~ && mkdir d && echo inside > d/f && ln -s {} l && exec python3 -c '
import os
while True:
    os.rename(\"d\", \"x\"); os.rename(\"l\", \"d\"); os.rename(\"d\", \"l\"); os.rename(\"x\", \"d\")
'",
            outside.path().display()
        );
        let exec = json!({"shell": swap, "wait": false});
        let started = files.post(&format!("/v1/sandboxes/{}/execs", files.sandbox), &exec).await?;
        ensure!(started.status == 202, "{}", started.text());
        let verbs = [
            (Method::GET, "content?path=d/f", &b""[..]),
            (Method::PUT, "content?path=d/written", b"by hostd"),
            (Method::PUT, "content?path=d/f&append=true", b"by hostd"),
            (Method::POST, "mkdir?path=d/made/deep", b""),
            (Method::POST, "copy?from=d&to=c&overwrite=true", b""),
            (Method::POST, "move?from=d/written&to=d/moved&overwrite=true", b""),
            (Method::GET, "archive?path=d", b""),
            (Method::GET, "archive?path=", b""),
            (Method::GET, "search?path=&content=canary", b""),
            (Method::DELETE, "content?path=d/moved", b""),
        ];
        for round in 0..scaled(30, 20_000) {
            for (method, verb, body) in &verbs {
                let what = format!("{mode}, round {round}: {method} {verb}");
                let reply = timeout(PATIENCE, files.request(method.clone(), verb, &[], body)).await;
                let reply = reply.with_context(|| format!("{what} hangs"))??;
                ensure!(!reply.text().contains(CANARY), "{what} reads outside");
                outside.unharmed().context(what)?;
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn hostd_that_is_killed_while_it_writes_leaves_the_old_content_or_the_new() -> Result<()> {
    let (mut hostd, files) = start("host").await?;
    let id = files.sandbox.clone();
    let mut random = Random::seeded();
    let content = |byte: u8| vec![byte; 2 << 20];
    files.put("file", &content(b'a')).await?;
    for round in 0..scaled(5, 200) {
        let files = Files::new(hostd.operator()?, id.clone());
        let writing = tokio::spawn(async move {
            for turn in 0_u8.. {
                if files.put("file", &vec![b'a' + turn % 26; 2 << 20]).await.is_err() {
                    break;
                }
            }
        });
        tokio::time::sleep(Duration::from_millis(random.below(60))).await;
        hostd.crash().await?;
        writing.await?;
        let files = Files::new(hostd.operator()?, id.clone());
        let kept = files.content("file").await?;
        let first = *kept.first().context("not empty")?;
        ensure!(kept == content(first), "round {round}: a mixture of {} bytes", kept.len());
    }
    Ok(())
}

#[tokio::test]
async fn a_directory_of_very_many_entries_is_listed_in_pages() -> Result<()> {
    let entries = scaled(20_000, 1_000_000);
    let (hostd, files) = start("host").await?;
    let make = format!(
        "import os\nos.mkdir('many'); os.chdir('many')\nfor i in range({entries}): open(f'{{i:07}}', 'w').close()"
    );
    let made = json!({"argv": ["python3", "-c", make], "cwd": "/home/sandbox"});
    let exec: serde_json::Value =
        files.post(&format!("/v1/sandboxes/{}/execs", files.sandbox), &made).await?.expect(200)?;
    ensure!(exec["exit"]["code"] == 0, "{exec}");
    let (mut seen, mut after) = (0, String::new());
    loop {
        let page = files.list(&format!("path=many&limit=10000{after}")).await?;
        for item in &page.items {
            ensure!(item.path == format!("many/{seen:07}"), "{} after {seen}", item.path);
            seen += 1;
        }
        let Some(next) = page.next else { break };
        after = format!("&after={next}");
    }
    ensure!(seen == entries, "{seen} of {entries}");
    let deleted = files.request(Method::DELETE, "content?path=many&recursive=true", &[], b"").await?;
    ensure!(deleted.status == 204, "{}", deleted.text());
    ensure!(!hostd.workspace(&files.sandbox).join("many").exists());
    Ok(())
}
