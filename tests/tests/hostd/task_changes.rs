//! What a task changed: recorded when it ends, the same for ever after, and never something else.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hostd_store::failpoint::VARIABLE;
use http_body_util::Full;
use hyper::Request;
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use tests::host::until;
use tests::{Caller, Hostd, Job, Reply, shell};

/// More than is recorded of one file.
const LARGE: &str = "seq 100000 > large";

fn changes(job: &Job) -> String {
    format!("{}/changes", job.path())
}

async fn recorded(caller: &Caller, job: &Job) -> Result<Value> {
    let changes: Value = caller.get(&changes(job)).await?.expect(200)?;
    ensure!(changes["state"] == "recorded", "{changes}");
    Ok(changes)
}

async fn plain(caller: &Caller, job: &Job) -> Result<Reply> {
    let request = Request::get(changes(job)).header("accept", "text/x-diff");
    caller.call(request.body(Full::new(Bytes::new()))?).await
}

async fn ran(caller: &Caller, sandbox: &str, line: &str) -> Result<Job> {
    let job = caller.submit(sandbox, &shell(line)).await?;
    caller.result_of(&job).await?;
    Ok(job)
}

fn names(changes: &Value) -> Vec<(&str, &str)> {
    let files = changes["files"].as_array().into_iter().flatten();
    files.filter_map(|file| Some((file["path"].as_str()?, file["kind"].as_str()?))).collect()
}

#[tokio::test]
async fn the_diff_leads_from_the_checkpoint_to_the_end() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    let before = "seq 9 > a; printf 'x\\ny' > end; printf '\\0\\1' > bin; touch empty; echo d > 'to delete'; \
                  echo s > script; ln -s a link; printf 'caf\\351\\n' > latin; cp -a . ../before";
    caller.prints(&sandbox, before).await?;
    let line = "seq 2 10 > a; printf 'x\\nz' > end; printf '\\0\\2' > bin; rm 'to delete' empty; chmod +x script; \
                ln -sf end link; printf 'caf\\350\\n' > latin; mkdir new; echo n > \"new/$(printf 'q\\t\"')\"; \
                echo n > \"$(printf 'caf\\351')\"; rm a; ln -s latin a";
    let job = ran(&caller, &sandbox, line).await?;
    let diff = plain(&caller, &job).await?;
    ensure!(diff.status == 200, "{}", diff.text());
    for (name, value) in [
        ("content-type", "text/x-diff"),
        ("x-content-type-options", "nosniff"),
        ("content-disposition", &format!("attachment; filename=\"{}.diff\"", job.id)),
        ("content-security-policy", "default-src 'none'; sandbox"),
    ] {
        let found = diff.headers.get(name).and_then(|value| value.to_str().ok());
        ensure!(found == Some(value), "{name}: {found:?}");
    }
    let apply = json!({
        "shell": "cd ../before && base64 -d | git apply --whitespace=nowarn - && cd ../app && \
                  diff -r --no-dereference ../before . && [ -x ../before/script ] && echo same",
        "stdin": STANDARD.encode(&diff.body),
    });
    let applied: Value = caller.post(&format!("/v1/sandboxes/{sandbox}/execs"), &apply).await?.expect(200)?;
    ensure!(applied["stdout"] == "same\n", "{applied}");
    let all = recorded(&caller, &job).await?;
    ensure!((&all["added"], &all["modified"], &all["deleted"]) == (&json!(2), &json!(6), &json!(2)), "{all}");
    ensure!(
        all["files"].as_array().is_some_and(|files| files.iter().all(|file| file["whole"] == true)),
        "{all}"
    );
    paged(&caller, &job, &all).await?;
    one_by_one(&caller, &job, &all).await
}

/// All pages together are the list.
async fn paged(caller: &Caller, job: &Job, all: &Value) -> Result<()> {
    let mut files = Vec::new();
    let mut after = "0".to_owned();
    loop {
        let path = format!("{}?limit=3&after={after}", changes(job));
        let mut page: Value = caller.get(&path).await?.expect(200)?;
        files.append(page["files"].as_array_mut().context("files")?);
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    ensure!(json!(files) == all["files"], "{files:?}");
    Ok(())
}

/// Every file by its name, also one that is not UTF-8.
async fn one_by_one(caller: &Caller, job: &Job, all: &Value) -> Result<()> {
    let escaped = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let mut other = 0;
    for file in all["files"].as_array().context("files")? {
        let query = match file["path_base64"].as_str() {
            Some(bytes) => format!("path_base64={}", escaped(bytes)),
            None => format!("path={}", escaped(file["path"].as_str().context("a path")?)),
        };
        other += usize::from(query.starts_with("path_base64"));
        let one: Value = caller.get(&format!("{}?{query}", changes(job))).await?.expect(200)?;
        ensure!(one["files"] == json!([file]), "{one}");
    }
    ensure!(other == 1, "{all}");
    let none = caller.get(&format!("{}?path=unchanged", changes(job))).await?;
    ensure!(none.code()? == ApiErrorCode::NotFound, "{}", none.text());
    Ok(())
}

#[tokio::test]
async fn every_end_of_a_task_has_its_changes_and_no_beginning_has() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    let failed = caller.submit(&sandbox, &shell("echo 1 > failed; exit 3")).await?;
    caller.result_of(&failed).await?;
    let slow = json!({"prompt": "x", "timeout_s": 1, "command": ["sh", "-c", "echo 1 > slow; sleep 600"]});
    let slow = caller.submit(&sandbox, &slow).await?;
    caller.result_of(&slow).await?;
    let cancelled = caller.submit(&sandbox, &shell("echo 1 > cancelled; echo begun; sleep 600")).await?;
    caller.reaches(&cancelled, "agent").await?;
    let early = caller.get(&changes(&cancelled)).await?;
    ensure!(early.code()? == ApiErrorCode::Conflict, "{}", early.text());
    until("the file is there", async || {
        let found = caller.prints(&sandbox, "ls").await?;
        Ok(found.contains("cancelled").then_some(()))
    })
    .await?;
    caller.post(&format!("{}/cancel", cancelled.path()), &json!({})).await?;
    caller.result_of(&cancelled).await?;
    for (job, name) in [(&failed, "failed"), (&slow, "slow"), (&cancelled, "cancelled")] {
        let changes = recorded(&caller, job).await?;
        ensure!(names(&changes) == [(name, "added")], "{changes}");
    }
    // A task that never ran has no checkpoint.
    let running = caller.submit(&sandbox, &shell("sleep 600")).await?;
    let queued = caller.submit(&sandbox, &shell("true")).await?;
    for job in [&queued, &running] {
        caller.post(&format!("{}/cancel", job.path()), &json!({})).await?;
        caller.result_of(job).await?;
    }
    let never: Value = caller.get(&changes(&queued)).await?.expect(200)?;
    ensure!(never["state"] == "unavailable" && never["reason"].is_string(), "{never}");
    ensure!(plain(&caller, &queued).await?.code()? == ApiErrorCode::CheckpointLost);
    Ok(())
}

#[tokio::test]
async fn what_was_recorded_stays_whatever_becomes_of_the_sandbox() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    caller.prints(&sandbox, "echo 1 > small; touch large").await?;
    let job = ran(&caller, &sandbox, &format!("echo 2 > small; {LARGE}")).await?;
    let before = recorded(&caller, &job).await?;
    ensure!(names(&before) == [("large", "modified"), ("small", "modified")], "{before}");
    ensure!(before["files"][0]["whole"] == false && before["files"][1]["whole"] == true, "{before}");
    let large = format!("{}?path=large", changes(&job));
    let asked: Value = caller.get(&large).await?.expect(200)?;
    let diff = asked["files"][0]["diff"]["data"].as_str().context("a diff")?;
    ensure!(diff.contains("\n+100000\n") && diff.len() > 256 << 10, "{} bytes", diff.len());
    // Later work changes neither.
    ran(&caller, &sandbox, "echo later > small; echo later > large").await?;
    ensure!(caller.get(&large).await?.expect::<Value>(200)? == asked);
    // Looking does not wake.
    caller.post(&format!("/v1/sandboxes/{sandbox}/stop"), &json!({})).await?.expect::<Value>(200)?;
    ensure!(recorded(&caller, &job).await? == before);
    let asleep: Value = caller.get(&large).await?.expect(200)?;
    ensure!(asleep["files"][0]["whole"] == false && asleep["files"][0].get("diff").is_none(), "{asleep}");
    ensure!(caller.sandbox(&sandbox).await?["status"] == "stopped");
    caller.post(&format!("/v1/sandboxes/{sandbox}/start"), &json!({})).await?.expect::<Value>(200)?;
    ensure!(caller.get(&large).await?.expect::<Value>(200)? == asked);
    tampered(&caller, &sandbox, &job, &before).await?;
    caller.delete(&format!("/v1/sandboxes/{sandbox}")).await?.expect::<Value>(200)?;
    ensure!(recorded(&caller, &job).await? == before);
    ensure!(plain(&caller, &job).await?.text().contains("+2\n"));
    Ok(())
}

/// The agent's own hands in the repository of checkpoints: never another diff.
async fn tampered(caller: &Caller, sandbox: &str, job: &Job, before: &Value) -> Result<()> {
    const GIT: &str = "export GIT_DIR=$HOME/.slipway/checkpoints.git; cd $GIT_DIR; ";
    let task = &job.id;
    let object = |of: &str| format!("echo objects/$(git rev-parse {of} | sed 's|^..|&/|')");
    let replaced = |of: String| {
        let (file, other) = (object(&of), object(&format!("refs/ends/{task}:small")));
        format!(
            "f=$({file}); [ -f $f ] || exit 1; cp $f ../kept; chmod u+w $f; cat $({other}) > $f; echo $f > ../path"
        )
    };
    let put_back = "cat ../kept > $(cat ../path)";
    for (tamper, repair) in [
        (replaced(format!("refs/checkpoints/{task}:large")), put_back),
        (replaced(format!("refs/ends/{task}:large")), put_back),
        (replaced(format!("refs/checkpoints/{task}^{{tree}}")), put_back),
        (replaced(format!("refs/checkpoints/{task}")), put_back),
        ("mv objects ../objects; mkdir objects".to_owned(), "rmdir objects; mv ../objects objects"),
        ("cd ..; rm -rf checkpoints.git".to_owned(), "true"),
    ] {
        let did = caller.shell(sandbox, &format!("{GIT}{tamper}")).await?;
        ensure!(did["exit"]["code"] == 0, "{tamper}: {did}");
        let lost = caller.get(&format!("{}?path=large", changes(job))).await?;
        ensure!(
            lost.status == 410 && lost.code()? == ApiErrorCode::CheckpointLost,
            "{tamper}: {}",
            lost.text()
        );
        ensure!(recorded(caller, job).await? == *before, "{tamper}");
        caller.shell(sandbox, &format!("{GIT}{repair}")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_task_that_breaks_its_own_checkpoint_has_no_changes() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    caller.prints(&sandbox, "echo secret > a").await?;
    for line in [
        "rm -rf ~/.slipway; echo 2 > a",
        // Another state takes the place of the one before, under the same names.
        "echo 2 > a; cd ~/.slipway/checkpoints.git; o=objects/$(printf 'blob 7\\0secret\\n' | sha1sum | cut -c-40 | sed 's|^..|&/|'); \
         chmod u+w $o; echo x > /tmp/x; git --git-dir=. hash-object -w /tmp/x > /tmp/id; cat objects/$(sed 's|^..|&/|' /tmp/id) > $o",
    ] {
        caller.prints(&sandbox, "echo secret > a").await?;
        let job = ran(&caller, &sandbox, line).await?;
        let lost = caller.get(&changes(&job)).await?;
        ensure!(
            lost.status == 410 && lost.code()? == ApiErrorCode::CheckpointLost,
            "{line}: {}",
            lost.text()
        );
    }
    let fine = ran(&caller, &sandbox, "echo 3 > a").await?;
    ensure!(names(&recorded(&caller, &fine).await?) == [("a", "modified")]);
    Ok(())
}

#[tokio::test]
async fn a_hostd_that_dies_before_it_recorded_them_records_them_later() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    for point in ["store.record_task_changes.before_commit", "store.record_task_changes.after_commit"] {
        let sandbox = hostd.local().create(&json!({})).await?;
        hostd.again_with(&[(VARIABLE, point)]).await?;
        let job = hostd.local().submit(&sandbox, &shell("echo 1 > made")).await?;
        hostd.ended().await?;
        hostd.crash().await?;
        let caller = hostd.local();
        caller.result_of(&job).await?;
        ensure!(names(&recorded(&caller, &job).await?) == [("made", "added")], "{point}");
    }
    // The sandbox dies too: its files have them.
    let sandbox = hostd.local().create(&json!({})).await?;
    let job =
        hostd.local().submit(&sandbox, &shell("until [ -e go ]; do sleep 0.05; done; echo 1 > made")).await?;
    hostd.local().reaches(&job, "agent").await?;
    hostd.kill().await?;
    std::fs::write(hostd.workspace(&sandbox).join("workspace/app/go"), "")?;
    let document = hostd.directory(&sandbox);
    until("the changes are written", async || Ok(written(&document, &job.id)?.then_some(()))).await?;
    hostd.kill_init(&sandbox)?;
    hostd.crash().await?;
    let caller = hostd.local();
    caller.result_of(&job).await?;
    ensure!(names(&recorded(&caller, &job).await?) == [("go", "added"), ("made", "added")]);
    Ok(())
}

/// Whether the sandbox has written both the changes of a task and its end.
fn written(directory: &std::path::Path, task: &str) -> Result<bool> {
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(next)?.flatten() {
            let path = entry.path();
            if path.ends_with(format!("tasks/{task}/{}", protocol::DOCUMENT_OF_CHANGES)) {
                return Ok(!path.with_file_name("../done.room").exists());
            }
            if entry.file_type()?.is_dir() {
                left.push(path);
            }
        }
    }
    Ok(false)
}
