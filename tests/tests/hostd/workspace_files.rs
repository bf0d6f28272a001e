//! The files API, performed by hostd and performed inside the sandbox: the same requests have the same answers.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use hyper::{Method, Request, body::Frame};
use protocol::api::{ApiErrorCode, FileLinkCreated, FileView, FilesWritten, SearchView, UnpackView};
use serde_json::{Value, json};
use std::{collections::HashSet, convert::Infallible, os::unix::fs::MetadataExt, time::Duration};
use tests::host::{Files, encoded, until};
use tests::{Caller, Hostd, scaled};
use tokio::time::timeout;

/// A bound on hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where verbs are performed.
const HOST: &[(&str, &str)] = &[("SLIPWAY_FILES", "host")];
const SANDBOX: &[(&str, &str)] = &[("SLIPWAY_FILES", "sandbox")];

async fn start(variables: &[(&str, &str)]) -> Result<(Hostd, Files)> {
    let hostd = Hostd::start_with(variables).await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    Ok((hostd, Files::new(operator, id)))
}

async fn verb(caller: &Caller, id: &str, verb: &str) -> Result<Value> {
    caller.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect(200)
}

#[tokio::test]
async fn files_are_read_and_written_by_hostd() -> Result<()> {
    let (_hostd, files) = start(HOST).await?;
    everything(&files).await
}

#[tokio::test]
async fn files_are_read_and_written_inside_the_sandbox() -> Result<()> {
    let (_hostd, files) = start(SANDBOX).await?;
    everything(&files).await
}

async fn everything(files: &Files) -> Result<()> {
    content(files).await.context("content")?;
    conditions(files).await.context("conditions")?;
    entries(files).await.context("entries")?;
    many(files).await.context("many")?;
    trees(files).await.context("trees")?;
    archives(files).await.context("archives")?;
    signed(files).await.context("signed URLs")?;
    watched(files).await.context("watch")
}

async fn content(files: &Files) -> Result<()> {
    let made = files.write("workspace/app/src/main.txt", &[], b"hello").await?;
    ensure!(made.status == 201, "{}", made.text());
    // As the sandbox sees it: its own file, beside its own parents.
    let seen = files
        .prints(&files.sandbox, "cd ~/workspace/app && stat -c '%U %a' src src/main.txt && cat src/main.txt")
        .await?;
    ensure!(seen == "sandbox 755\nsandbox 644\nhello", "{seen}");
    let reply = files.read("/home/sandbox/workspace/app/src/main.txt", &[]).await?;
    ensure!(reply.body == "hello" && reply.status == 200);
    for (name, value) in [
        ("content-type", "text/plain; charset=utf-8"),
        ("content-length", "5"),
        ("accept-ranges", "bytes"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox; default-src 'none'; frame-ancestors 'none'"),
        ("content-disposition", "attachment; filename*=UTF-8''main.txt"),
        ("x-file-mode", "0644"),
    ] {
        let found = reply.headers.get(name).and_then(|value| value.to_str().ok());
        ensure!(found == Some(value), "{name}: {found:?}");
    }
    let part = files.read("workspace/app/src/main.txt", &[("range", "bytes=1-3")]).await?;
    ensure!(part.status == 206 && part.body == "ell" && part.headers["content-range"] == "bytes 1-3/5");
    let beyond = files.read("workspace/app/src/main.txt", &[("range", "bytes=9-")]).await?;
    ensure!(beyond.status == 416 && beyond.code()? == ApiErrorCode::RangeNotSatisfiable);
    let head = files.request(Method::HEAD, "content?path=workspace/app/src/main.txt", &[], b"").await?;
    ensure!(head.status == 200 && head.headers["content-length"] == "5" && head.body.is_empty());
    let mode =
        files.request(Method::PUT, "content?path=run.sh&mode=0755", &[], b"#!/bin/sh\necho ran\n").await?;
    ensure!(mode.status == 201);
    ensure!(files.prints(&files.sandbox, "~/run.sh").await? == "ran\n");
    for line in ["one\n", "two\n"] {
        let added = files.request(Method::PUT, "content?path=log&append=true", &[], line.as_bytes()).await?;
        ensure!(added.status < 300, "{}", added.text());
    }
    ensure!(files.content("log").await? == "one\ntwo\n");
    // Larger than any buffer on the way.
    let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    files.put("large", &large).await?;
    ensure!(files.content("large").await? == large);
    Ok(())
}

async fn conditions(files: &Files) -> Result<()> {
    let first = files.put("notes", b"first").await?;
    let same = files.read("notes", &[("if-none-match", &first.etag)]).await?;
    ensure!(same.status == 304 && same.body.is_empty(), "{}", same.status);
    let second: FileView =
        files.write("notes", &[("if-match", &first.etag)], b"second").await?.expect(200)?;
    ensure!(second.etag != first.etag);
    let late = files.write("notes", &[("if-match", &first.etag)], b"late").await?;
    ensure!(late.status == 412 && late.code()? == ApiErrorCode::PreconditionFailed, "{}", late.text());
    let range = [("range", "bytes=0-0"), ("if-range", first.etag.as_str())];
    ensure!(files.read("notes", &range).await?.status == 200, "the range was for another content");
    let new = [("if-none-match", "*")];
    ensure!(files.write("notes", &new, b"x").await?.status == 412);
    ensure!(files.write("fresh", &new, b"x").await?.status == 201);
    ensure!(files.content("notes").await? == "second");
    // Of many writes of what all of them have read, one succeeds.
    let tries = (0..16).map(|number| {
        let (tag, body) = (second.etag.clone(), format!("by {number}"));
        async move {
            Ok::<_, anyhow::Error>(files.write("notes", &[("if-match", &tag)], body.as_bytes()).await?.status)
        }
    });
    let statuses: Vec<u16> =
        futures_util::future::join_all(tries).await.into_iter().collect::<Result<_>>()?;
    ensure!(statuses.iter().filter(|status| **status == 200).count() == 1, "{statuses:?}");
    Ok(())
}

async fn entries(files: &Files) -> Result<()> {
    let made = files.request(Method::POST, "mkdir?path=d/e&mode=0700", &[], b"").await?;
    ensure!(made.status == 201 && made.json::<FileView>()?.mode == "0700", "{}", made.text());
    ensure!(files.request(Method::POST, "mkdir?path=d/e", &[], b"").await?.status == 200);
    files.put("d/e/f", b"content").await?;
    let copied = files.request(Method::POST, "copy?from=d&to=copy", &[], b"").await?;
    ensure!(copied.status == 200, "{}", copied.text());
    files.refused(Method::POST, "copy?from=d&to=copy", ApiErrorCode::FileExists).await?;
    let moved = files.request(Method::POST, "move?from=copy/e&to=moved", &[], b"").await?;
    ensure!(moved.status == 200 && moved.json::<FileView>()?.path == "moved", "{}", moved.text());
    ensure!(files.content("moved/f").await? == "content");
    files.refused(Method::DELETE, "content?path=moved", ApiErrorCode::NotEmpty).await?;
    ensure!(
        files.request(Method::DELETE, "content?path=moved&recursive=true", &[], b"").await?.status == 204
    );
    for (method, verb, code) in [
        (Method::GET, "content?path=moved", ApiErrorCode::NotFound),
        (Method::GET, "content?path=d", ApiErrorCode::NotAFile),
        (Method::GET, "content?path=d/e/f/g", ApiErrorCode::NotADirectory),
        (Method::GET, "content?path=/etc/passwd", ApiErrorCode::OutsideWorkspace),
        (Method::GET, "content?path=../../etc/passwd", ApiErrorCode::OutsideWorkspace),
        (Method::GET, "content?path=%zz", ApiErrorCode::InvalidRequest),
        (Method::GET, "content", ApiErrorCode::InvalidRequest),
        (Method::DELETE, "content?path=", ApiErrorCode::InvalidRequest),
        (Method::POST, "mkdir?path=d/e/f", ApiErrorCode::FileExists),
        (Method::POST, "move?from=none&to=x", ApiErrorCode::NotFound),
        (Method::PUT, "content?path=d", ApiErrorCode::NotAFile),
        (Method::PUT, "content?path=x&mode=4755", ApiErrorCode::InvalidRequest),
    ] {
        files.refused(method, verb, code).await?;
    }
    let long = "n".repeat(255);
    files.put(&long, b"long").await?;
    ensure!(files.content(&long).await? == "long");
    files.refused(Method::GET, &format!("stat?path={long}n"), ApiErrorCode::InvalidRequest).await?;
    // A name that is no text.
    let odd = files.request(Method::PUT, "content?path=d/%ff%fe", &[], b"odd").await?;
    let view: FileView = odd.expect(201)?;
    ensure!(view.path_base64.as_deref() == Some("ZC///g=="), "{view:?}");
    ensure!(files.request(Method::GET, "content?path=d/%ff%fe", &[], b"").await?.body == "odd");
    Ok(())
}

async fn many(files: &Files) -> Result<()> {
    let body = json!({"files": [
        {"path": "many/a.txt", "content": "grün"},
        {"path": "many/b.bin", "content": "AAEC/w==", "encoding": "base64", "mode": "0600"},
    ]});
    let written: FilesWritten = files.post(&files.path("write-many"), &body).await?.expect(200)?;
    ensure!(written.updated == 2);
    ensure!(files.content("many/a.txt").await? == "grün".as_bytes());
    ensure!(files.content("many/b.bin").await? == [0, 1, 2, 255].as_slice());
    let wrong = json!({"files": [{"path": "x", "content": "!", "encoding": "base64"}]});
    let refused = files.post(&files.path("write-many"), &wrong).await?;
    ensure!(refused.error()?.detail.field.as_deref() == Some("files[0].content"), "{}", refused.text());
    Ok(())
}

async fn trees(files: &Files) -> Result<()> {
    files.prints(&files.sandbox, "mkdir -p ~/t/src ~/t/node_modules/x && cd ~/t && echo needle > src/a.rs && echo hay > src/b.rs && echo needle > node_modules/x/i.js && echo node_modules > .gitignore && ln -s src/a.rs link && mkfifo fifo").await?;
    ensure!(files.names("path=t").await? == ["t/.gitignore", "t/fifo", "t/link", "t/node_modules", "t/src"]);
    let all = files.names("path=t&recursive=true&ignore=true").await?;
    ensure!(all == ["t/.gitignore", "t/fifo", "t/link", "t/src", "t/src/a.rs", "t/src/b.rs"], "{all:?}");
    let (mut joined, mut after) = (vec![], String::new());
    loop {
        let page = files.list(&format!("path=t&recursive=true&limit=2{after}")).await?;
        joined.extend(page.items.into_iter().map(|item| item.path));
        let Some(next) = page.next else { break };
        after = format!("&after={next}");
    }
    ensure!(joined == files.names("path=t&recursive=true").await?, "{joined:?}");
    let found: SearchView =
        files.get(&files.path("search?path=t&content=need.e&ignore=true")).await?.expect(200)?;
    let hits: Vec<_> =
        found.items.iter().map(|hit| (hit.path.as_str(), hit.line, hit.text.as_deref())).collect();
    ensure!(hits == [("t/src/a.rs", Some(1), Some("needle"))], "{found:?}");
    let named: SearchView = files.get(&files.path("search?path=t&name=*.rs")).await?.expect(200)?;
    ensure!(named.items.len() == 2, "{named:?}");
    files.refused(Method::GET, "search?path=t&content=(", ApiErrorCode::InvalidRequest).await?;
    files.refused(Method::GET, "search?path=t", ApiErrorCode::InvalidRequest).await
}

async fn archives(files: &Files) -> Result<()> {
    for format in ["tar", "tar.gz", "zip"] {
        let archive =
            files.request(Method::GET, &format!("archive?path=t&format={format}"), &[], b"").await?;
        ensure!(archive.status == 200, "{format}: {}", archive.text());
        let to = format!("archive?path=unpacked-{}&format={format}", format.replace('.', "-"));
        let report: UnpackView = files.request(Method::PUT, &to, &[], &archive.body).await?.expect(200)?;
        ensure!((report.files, report.symlinks, report.skipped_count) == (4, 1, 0), "{format}: {report:?}");
        let line = format!("cd ~/unpacked-{} && cat link src/b.rs", format.replace('.', "-"));
        ensure!(files.prints(&files.sandbox, &line).await? == "needle\nhay\n", "{format}");
    }
    let nonsense = files.request(Method::PUT, "archive?path=n&format=zip", &[], b"no archive").await?;
    ensure!(nonsense.status == 400, "{}", nonsense.text());
    Ok(())
}

async fn signed(files: &Files) -> Result<()> {
    let anonymous = files.with_token(None);
    let links = format!("/v1/sandboxes/{}/file-links", files.sandbox);
    let create = async |body: Value| -> Result<FileLinkCreated> {
        let mut created: FileLinkCreated = files.post(&links, &body).await?.expect(201)?;
        let path = created.url.find("/v1/").context("a URL of the API")?;
        created.url = created.url.split_off(path);
        Ok(created)
    };
    let get = create(json!({"method": "GET", "path": "notes"})).await?;
    ensure!(anonymous.get(&get.url).await?.body == files.content("notes").await?);
    let put = create(json!({"method": "PUT", "path": "signed/up", "max_bytes": 10})).await?;
    let up = async |url: &str, body: &'static [u8]| {
        anonymous.send(Method::PUT, url, Bytes::from_static(body)).await
    };
    ensure!(up(&put.url, b"ten bytes!").await?.status == 201);
    ensure!(up(&put.url, b"more than ten").await?.code()? == ApiErrorCode::TooLarge);
    ensure!(files.content("signed/up").await? == "ten bytes!");
    let forged = get.url.replace(&get.view.id, &put.view.id);
    for (method, url) in [(Method::PUT, &get.url), (Method::GET, &put.url), (Method::GET, &forged)] {
        let refused = anonymous.send(method, url, Bytes::new()).await?;
        ensure!(refused.code()? == ApiErrorCode::Unauthorized, "{url}: {}", refused.text());
    }
    ensure!(files.delete(&format!("{links}/{}", get.view.id)).await?.status == 204);
    ensure!(anonymous.get(&get.url).await?.status == 401, "revoked");
    let listed: Value = files.get(&links).await?.expect(200)?;
    ensure!(listed["items"].as_array().map(Vec::len) == Some(2) && !listed.to_string().contains("signature"));
    Ok(())
}

async fn watched(files: &Files) -> Result<()> {
    ensure!(Changes::open(files, "watch?path=w", None).await.is_err(), "there is nothing to watch");
    ensure!(files.request(Method::POST, "mkdir?path=w", &[], b"").await?.status == 201);
    let mut feed = Changes::open(files, "watch?path=w", None).await?;
    feed.until("ready", "").await?;
    files.prints(&files.sandbox, "mkdir -p ~/w/deep/er && echo x > ~/w/deep/er/file").await?;
    feed.until("created", "w/deep/er/file").await?;
    let last = feed.last.clone();
    drop(feed);
    files.put("w/while-away", b"x").await?;
    let mut feed = Changes::open(files, "watch?path=w", Some(&last)).await?;
    feed.until("created", "w/while-away").await?;
    files.request(Method::POST, "move?from=w/while-away&to=w/back", &[], b"").await?;
    feed.until("moved", "w/back").await?;
    let mut stranger = Changes::open(files, "watch?path=w", Some("01arz3ndektsv4rrffq69g5fav-7")).await?;
    stranger.until("overflow", "").await
}

/// A subscriber of a watch.
struct Changes {
    body: hyper::body::Incoming,
    rest: String,
    /// The id of the last event.
    last: String,
}

impl Changes {
    async fn open(files: &Files, verb: &str, last: Option<&str>) -> Result<Self> {
        let mut request = Request::builder().uri(files.path(verb));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = files.open(request.body(http_body_util::Empty::<Bytes>::new())?).await?;
        ensure!(response.status() == 200, "{}", response.status());
        Ok(Self { body: response.into_body(), rest: String::new(), last: String::new() })
    }

    /// The next event: its kind and the path it is about.
    async fn next(&mut self) -> Result<(String, String)> {
        loop {
            if let Some((frame, rest)) = self.rest.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.rest = rest;
                let field = |name| frame.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
                if field("event: ").is_empty() {
                    continue;
                }
                self.last = field("id: ").to_owned();
                let data: Value = serde_json::from_str(field("data: "))?;
                return Ok((
                    field("event: ").to_owned(),
                    data["path"].as_str().unwrap_or_default().to_owned(),
                ));
            }
            let frame = timeout(PATIENCE, self.body.frame()).await.context("no event comes")?;
            let frame = frame.context("the stream ended")??;
            self.rest.push_str(std::str::from_utf8(frame.data_ref().context("data")?)?);
        }
    }

    /// Reads on until an event of this kind about this path.
    async fn until(&mut self, event: &str, path: &str) -> Result<()> {
        loop {
            let (kind, about) = self.next().await.with_context(|| format!("{event} of {path}"))?;
            if kind == event && (path.is_empty() || about == path) {
                return Ok(());
            }
        }
    }
}

#[tokio::test]
async fn no_change_of_a_storm_is_lost_without_an_overflow() -> Result<()> {
    let changes = scaled(5_000, 100_000);
    let (_hostd, files) = start(HOST).await?;
    ensure!(files.request(Method::POST, "mkdir?path=storm", &[], b"").await?.status == 201);
    let mut feed = Changes::open(&files, "watch?path=storm", None).await?;
    feed.until("ready", "").await?;
    let storm = format!("for i in range({changes}): open(f'{{i}}', 'w').close()\nopen('last', 'w').close()");
    let exec = json!({"argv": ["python3", "-c", storm], "cwd": "/home/sandbox/storm"});
    let exec: Value =
        files.post(&format!("/v1/sandboxes/{}/execs", files.sandbox), &exec).await?.expect(200)?;
    ensure!(exec["exit"]["code"] == 0, "{exec}");
    let mut seen = HashSet::new();
    loop {
        let (kind, path) = feed.next().await?;
        match kind.as_str() {
            // The client lists again: nothing is lost for it.
            "overflow" => return Ok(()),
            "created" if path == "storm/last" => break,
            _ => drop(seen.insert(path)),
        }
    }
    ensure!(
        (0..changes).all(|number| seen.contains(&format!("storm/{number}"))),
        "{} of {changes}",
        seen.len()
    );
    Ok(())
}

#[tokio::test]
async fn files_of_a_sleeping_sandbox_are_served_without_waking_it() -> Result<()> {
    let (hostd, files) = start(HOST).await?;
    for (state, done) in [("pause", "paused"), ("stop", "stopped")] {
        verb(&files, &files.sandbox, state).await?;
        files.put(&format!("while-{done}"), b"asleep").await?;
        ensure!(files.content(&format!("while-{done}")).await? == "asleep");
        ensure!(files.names("").await?.contains(&format!("while-{done}")));
        ensure!(files.sandbox(&files.sandbox).await?["status"] == done, "it was not woken");
    }
    let owner = std::fs::metadata(hostd.workspace(&files.sandbox))?;
    let file = std::fs::metadata(hostd.workspace(&files.sandbox).join("while-stopped"))?;
    ensure!((file.uid(), file.gid(), file.mode() & 0o7777) == (owner.uid(), owner.gid(), 0o644));
    ensure!(files.prints(&files.sandbox, "cat ~/while-stopped").await? == "asleep");
    ensure!(files.delete(&format!("/v1/sandboxes/{}", files.sandbox)).await?.status == 200);
    files.refused(Method::GET, "stat?path=while-stopped", ApiErrorCode::Gone).await
}

#[tokio::test]
async fn files_of_the_whole_sandbox_are_reached_as_its_user_while_it_runs() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let id = caller.create(&json!({})).await?;
    let path = |name: &str, path: &str| format!("/v1/sandboxes/{id}/files/{name}?anywhere=true&path={path}");
    let put = caller.send(Method::PUT, &path("content", "/tmp/new/x"), Bytes::from_static(b"there")).await?;
    ensure!(put.status == 201, "{}", put.text());
    ensure!(caller.prints(&id, "cat /tmp/new/x").await? == "there");
    ensure!(caller.get(&path("content", "/home/user/../../tmp/new/x")).await?.text() == "there");
    let stat: Value = caller.get(&path("stat", "/tmp/new/x")).await?.expect(200)?;
    ensure!(stat["uid"] == 1000 && stat["path"] == "/tmp/new/x", "{stat}");
    for (method, at, expected) in [
        // As its user, nothing more.
        (Method::GET, "/etc/shadow", 404),
        (Method::GET, "/proc/1/environ", 403),
        (Method::GET, "/run/runtimed/control.sock", 403),
        (Method::PUT, "/usr/x", 403),
        (Method::PUT, "/etc/hosts", 403),
        (Method::GET, "/dev/null", 409),
    ] {
        let body = if method == Method::PUT { Bytes::from_static(b"x") } else { Bytes::new() };
        let reply = caller.send(method.clone(), &path("content", at), body).await?;
        ensure!(reply.status == expected, "{method} {at}: {} {}", reply.status, reply.text());
    }
    verb(&caller, &id, "stop").await?;
    ensure!(caller.get(&path("stat", "/tmp")).await?.status == 409);
    Ok(())
}

#[tokio::test]
async fn a_sandbox_whose_files_are_inside_is_asleep_when_it_is() -> Result<()> {
    let (_hostd, files) = start(SANDBOX).await?;
    files.put("kept", b"kept").await?;
    verb(&files, &files.sandbox, "pause").await?;
    ensure!(files.content("kept").await? == "kept", "a frozen one is thawed");
    verb(&files, &files.sandbox, "stop").await?;
    files.refused(Method::GET, "content?path=kept", ApiErrorCode::Asleep).await?;
    ensure!(files.sandbox(&files.sandbox).await?["status"] == "stopped");
    Ok(())
}

#[tokio::test]
async fn an_upload_that_is_cut_off_leaves_the_old_content() -> Result<()> {
    for variables in [HOST, SANDBOX] {
        let (mut hostd, files) = start(variables).await?;
        files.put("precious", b"old").await?;
        let halves = futures_util::stream::iter([b"half ".as_slice(), b"of it "])
            .map(|part| Ok::<_, Infallible>(Frame::data(Bytes::from_static(part))))
            .chain(futures_util::stream::pending());
        let request = Request::builder()
            .method(Method::PUT)
            .uri(files.path("content?path=precious"))
            .body(StreamBody::new(halves))?;
        let sending = files.open(request);
        let cut = timeout(Duration::from_millis(300), sending).await;
        ensure!(cut.is_err(), "it waits for the rest");
        ensure!(files.content("precious").await? == "old");
        until("nothing is left of it", async || {
            let left = files.names("").await?.iter().any(|name| name.contains("slipway"));
            Ok((!left).then_some(()))
        })
        .await?;
        hostd.crash().await?;
        let files = Files::new(hostd.operator()?, files.sandbox.clone());
        ensure!(files.content("precious").await? == "old");
    }
    Ok(())
}

#[tokio::test]
async fn files_belong_to_the_owner_of_the_sandbox() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (ann, bob) = (hostd.caller("acme", "ann", "run").await?, hostd.caller("acme", "bob", "run").await?);
    let reader = hostd.caller("acme", "ann", "read").await?;
    let id = ann.create(&json!({})).await?;
    let (mine, foreign) = (Files::new(ann, id.clone()), Files::new(bob, id.clone()));
    let read_only = Files::new(reader, id);
    mine.put("secret", b"ann's").await?;
    ensure!(read_only.content("secret").await? == "ann's");
    ensure!(read_only.write("secret", &[], b"x").await?.code()? == ApiErrorCode::Forbidden);
    for verb in ["content?path=secret", "stat?path=secret", "archive", "search?name=*", "watch"] {
        foreign.refused(Method::GET, verb, ApiErrorCode::NotFound).await?;
    }
    ensure!(foreign.write(&encoded("secret"), &[], b"x").await?.code()? == ApiErrorCode::NotFound);
    Ok(())
}
