//! Verbs on files over the control socket: each in a process of its own, as the sandbox's user.

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use hostd_drivers::control::{FilesConnection, FilesConnectionError};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::TokioIo;
use nix::sys::signal::{Signal, kill};
use protocol::ErrorCode;
use protocol::Reason;
use protocol::files::{
    FilePath, FileType, FilesErrorCode, FilesReply, FilesRequest, ListRequest, Selection, WatchLine,
    WriteRequest,
};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use tests::processes::{self, ProcessEntry};
use tests::sandbox::PATIENCE;
use tests::{Client, ClientReply, Random, Sandbox};
use tokio::time::timeout;

/// Opens a connection for a verb, or gives the answer that refused it.
async fn try_open(client: &Client, request: &FilesRequest) -> Result<Result<FilesConnection, ClientReply>> {
    let path = if matches!(request, FilesRequest::Watch { .. }) { "/v1/files?watch=1" } else { "/v1/files" };
    let upgrade = Request::get(path)
        .header("connection", "Upgrade")
        .header("upgrade", "slipway-files")
        .body(Empty::<Bytes>::new())?;
    let response = client.open(upgrade).await?;
    if response.status() == 101 {
        let stream = TokioIo::new(hyper::upgrade::on(response).await?);
        return Ok(Ok(FilesConnection::open(stream, request).await?));
    }
    let status = response.status().as_u16();
    Ok(Err(ClientReply { status, body: response.into_body().collect().await?.to_bytes() }))
}

async fn open(client: &Client, request: &FilesRequest) -> Result<FilesConnection> {
    match try_open(client, request).await? {
        Ok(connection) => Ok(connection),
        Err(answer) => bail!("{} {}", answer.status, answer.text()),
    }
}

/// The reply of a verb that succeeds, and all that follows it.
async fn perform(client: &Client, request: &FilesRequest, body: &[u8]) -> Result<(FilesReply, Vec<u8>)> {
    let whole = async {
        let mut connection = open(client, request).await?;
        for chunk in body.chunks(100_000) {
            connection.send(Bytes::copy_from_slice(chunk)).await?;
        }
        connection.finish().await?;
        let reply = connection.reply().await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = connection.next().await? {
            bytes.extend_from_slice(&chunk);
        }
        anyhow::Ok((reply, bytes))
    };
    timeout(PATIENCE, whole).await.context("the verb never ends")?
}

async fn failure(client: &Client, request: &FilesRequest) -> Result<FilesErrorCode> {
    let mut connection = open(client, request).await?;
    match timeout(PATIENCE, connection.reply()).await.context("the verb never ends")? {
        Err(FilesConnectionError::Failed(failure)) => Ok(failure.code),
        other => bail!("{request:?}: {other:?}"),
    }
}

fn write(path: &str) -> FilesRequest {
    FilesRequest::Write(WriteRequest { path: path.into(), ..WriteRequest::default() })
}

fn read(path: &str) -> FilesRequest {
    FilesRequest::Read { path: path.into(), range: None, unless_etag: vec![] }
}

fn watch(path: &str) -> FilesRequest {
    FilesRequest::Watch { path: path.into(), recursive: true }
}

/// The processes of verbs.
fn verbs(sandbox: &Sandbox) -> Result<Vec<ProcessEntry>> {
    let all = processes::in_namespace_of(sandbox.pid()?)?;
    Ok(all.into_iter().filter(|seen| seen.command.starts_with("runtimed files")).collect())
}

#[tokio::test]
async fn files_are_written_read_and_listed_as_the_user_of_the_sandbox() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let content = Random::seeded().bytes(1 << 20);
    let (reply, _) = perform(client, &write("workspace/new/large"), &content).await?;
    ensure!(matches!(reply, FilesReply::Entry { created: true, .. }), "{reply:?}");
    let stat = fs::metadata(sandbox.home().join("workspace/new/large"))?;
    ensure!((stat.uid(), stat.gid(), stat.mode() & 0o7777) == (1000, 1000, 0o644), "{stat:?}");
    let (reply, bytes) = perform(client, &read("workspace/new/large"), b"").await?;
    ensure!(matches!(reply, FilesReply::Content { bytes: 1_048_576, .. }), "{reply:?}");
    ensure!(bytes == content, "{} bytes came back", bytes.len());
    let stat = FilesRequest::Stat { path: "workspace/new".into(), follow: true };
    let FilesReply::Entry { entry, .. } = perform(client, &stat, b"").await?.0 else { bail!("no entry") };
    ensure!(entry.kind == FileType::Directory, "{entry:?}");
    let list = ListRequest {
        path: "workspace/new".into(),
        depth: 1,
        limit: 10,
        after: None,
        select: Selection::default(),
    };
    let FilesReply::Page { items, .. } = perform(client, &FilesRequest::List(list), b"").await?.0 else {
        bail!("no page")
    };
    ensure!(items.len() == 1 && items[0].path == FilePath::from("workspace/new/large"), "{items:?}");
    processes::settles(client, 1).await?;
    sandbox.stop().await
}

#[tokio::test]
async fn a_verb_that_fails_says_why_and_reaches_nothing_else() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let secret = sandbox.home().join("secret");
    fs::write(&secret, "of root")?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
    chown(&secret, Some(0), Some(0))?;
    symlink("/etc/passwd", sandbox.home().join("out"))?;
    for (request, expected) in [
        (read("absent"), FilesErrorCode::NotFound),
        (read("secret"), FilesErrorCode::AccessDenied),
        (read("out"), FilesErrorCode::Outside),
        (read("../etc/passwd"), FilesErrorCode::Outside),
        (read("workspace"), FilesErrorCode::NotAFile),
        (watch("absent"), FilesErrorCode::NotFound),
    ] {
        let code = failure(sandbox.client(), &request).await?;
        ensure!(code == expected, "{request:?}: {code:?}");
    }
    processes::settles(sandbox.client(), 1).await?;
    sandbox.stop().await
}

#[tokio::test]
async fn a_client_that_hangs_up_leaves_the_old_content_and_no_process() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    perform(client, &write("f"), b"old").await?;
    processes::settles(client, 1).await?;
    let mut connection = open(client, &write("f")).await?;
    connection.send(Bytes::from_static(b"new")).await?;
    let verb = one_verb(&sandbox).await?;
    drop(connection);
    processes::gone(&verb).await?;
    processes::settles(client, 1).await?;
    ensure!(fs::read(sandbox.home().join("f"))? == b"old");
    let names = fs::read_dir(sandbox.home())?.flatten().map(|entry| entry.file_name());
    let names: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(".slipway-")).collect();
    ensure!(names.is_empty(), "{names:?}");
    sandbox.stop().await
}

/// Waits for the one process of a verb, until it has become the sandbox's user.
async fn one_verb(sandbox: &Sandbox) -> Result<ProcessEntry> {
    let looking = async {
        loop {
            match verbs(sandbox)?.as_slice() {
                [verb] if verb.uid == 1000 && !verb.has_ended() => return anyhow::Ok(verb.clone()),
                // One of an earlier verb may still end.
                _ => tokio::task::yield_now().await,
            }
        }
    };
    timeout(PATIENCE, looking).await.context("no process")?
}

#[tokio::test]
async fn a_verb_has_the_rights_of_a_job_and_keeps_the_sandbox_awake_but_a_watch_does_not() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    for (request, busy) in [(write("f"), true), (watch(""), false)] {
        let mut connection = open(client, &request).await?;
        if busy {
            connection.send(Bytes::from_static(b"x")).await?;
        } else {
            ensure!(timeout(PATIENCE, connection.reply()).await?? == FilesReply::Watching);
        }
        let verb = one_verb(&sandbox).await?;
        let status = fs::read_to_string(format!("/proc/{}/status", verb.pid))?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        for (name, expected) in [
            ("CapPrm:", "0000000000000000"),
            ("CapEff:", "0000000000000000"),
            ("NoNewPrivs:", "1"),
            ("Groups:", ""),
        ] {
            ensure!(field(name) == Some(expected), "{name} {:?}", field(name));
        }
        ensure!(fs::read_to_string(format!("/proc/{}/oom_score_adj", verb.pid))?.trim() == "500");
        ensure!(fs::read(format!("/proc/{}/environ", verb.pid))?.is_empty());
        let reasons = client.status().await?.activity.reasons;
        let awake = reasons.contains(&Reason::Files { count: 1 });
        ensure!(awake == busy, "{request:?}: {reasons:?}");
        drop(connection);
        processes::gone(&verb).await?;
    }
    processes::settles(client, 1).await?;
    sandbox.stop().await
}

#[tokio::test]
async fn a_watch_reports_changes_of_others() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut connection = open(sandbox.client(), &watch("")).await?;
    ensure!(timeout(PATIENCE, connection.reply()).await?? == FilesReply::Watching);
    let mut text = Vec::new();
    let mut until = async |wanted: &str| {
        while !String::from_utf8_lossy(&text).contains(wanted) {
            let piece = timeout(PATIENCE, connection.next()).await.context("no line")??;
            text.extend_from_slice(&piece.context("the watch ended")?);
        }
        anyhow::Ok(())
    };
    until(&serde_json::to_string(&WatchLine::Ready)?).await?;
    perform(sandbox.client(), &write("deep/down/f"), b"x").await?;
    until(r#""change":"created","path":"deep/down/f","directory":false"#).await?;
    // A watch does not delay the end of the sandbox.
    sandbox.stop().await
}

#[tokio::test]
async fn too_many_at_once_are_refused_and_the_others_go_on() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let mut held = Vec::new();
    let refused = loop {
        match try_open(client, &write("f")).await? {
            Ok(connection) => held.push(connection),
            Err(refused) => break refused,
        }
        ensure!(held.len() <= 32, "no limit");
    };
    ensure!(refused.status == 429 && refused.code()? == ErrorCode::TooMany, "{}", refused.text());
    ensure!(held.len() == 32, "{}", held.len());
    // Watches have room of their own, and PID 1 answers.
    let mut watching = open(client, &watch("")).await?;
    ensure!(timeout(PATIENCE, watching.reply()).await?? == FilesReply::Watching);
    for connection in &mut held {
        connection.send(Bytes::from_static(b"one of many")).await?;
        connection.finish().await?;
        timeout(PATIENCE, connection.reply()).await??;
    }
    drop((held, watching));
    processes::settles(client, 1).await?;
    ensure!(perform(client, &read("f"), b"").await?.1 == b"one of many");
    sandbox.stop().await
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let plain = client.get("/v1/files").await?;
    ensure!(plain.status == 400 && plain.code()? == ErrorCode::InvalidRequest, "{}", plain.text());
    // A watch on a connection for other verbs would keep the sandbox awake.
    let upgrade = Request::get("/v1/files")
        .header("connection", "Upgrade")
        .header("upgrade", "slipway-files")
        .body(Empty::<Bytes>::new())?;
    let stream = TokioIo::new(hyper::upgrade::on(client.open(upgrade).await?).await?);
    let mut connection = FilesConnection::open(stream, &watch("")).await?;
    match timeout(PATIENCE, connection.reply()).await? {
        Err(FilesConnectionError::Failed(failure)) => {
            ensure!(failure.code == FilesErrorCode::InvalidRequest, "{failure:?}");
        }
        other => bail!("{other:?}"),
    }
    processes::settles(client, 1).await?;
    sandbox.stop().await
}

#[tokio::test]
async fn a_shim_that_is_killed_takes_no_verb_along() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let mut connection = open(client, &write("f")).await?;
    connection.send(Bytes::from_static(b"whole")).await?;
    one_verb(&sandbox).await?;
    let exec = serde_json::json!({"shell": "echo here; exec sleep 1000"});
    tests::shell::started(client, "job", exec, "here").await?;
    processes::appear(sandbox.pid()?, "sleep 1000", 1).await?;
    let below = processes::below(sandbox.pid()?);
    let sleep = below.iter().find(|seen| seen.command == "sleep 1000").context("a job")?;
    let parents: Vec<_> = below.iter().filter(|seen| seen.is_shim()).collect();
    let is_above = |shim: &ProcessEntry| processes::below(shim.pid).iter().any(|seen| seen.pid == sleep.pid);
    let shim = parents.into_iter().find(|shim| is_above(shim)).context("its shim")?;
    kill(shim.pid, Signal::SIGKILL)?;
    processes::gone(sleep).await?;
    connection.finish().await?;
    timeout(PATIENCE, connection.reply()).await??;
    ensure!(fs::read(sandbox.home().join("f"))? == b"whole");
    sandbox.stop().await
}
