//! Reverts to the checkpoint of a task: after a sleep, beside other tasks, and for callers that may not.

use anyhow::{Context, Result, ensure};
use http_body_util::Full;
use hyper::Request;
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use tests::host::until;
use tests::{Caller, Hostd, Job, Reply, shell};

/// Every file with its mode and content, and what a revert must leave alone.
const STATE: &str = "cd ~/workspace/app && find . -path ./.git -prune -o -printf '%p %m %l\\n' | sort; \
    find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha1sum; sha1sum .git/index .git/HEAD";

async fn revert(caller: &Caller, job: &Job, body: &Value) -> Result<Reply> {
    caller.post(&format!("{}/revert", job.path()), body).await
}

async fn ran(caller: &Caller, sandbox: &str, line: &str) -> Result<Job> {
    let job = caller.submit(sandbox, &shell(line)).await?;
    caller.result_of(&job).await?;
    Ok(job)
}

fn paths(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|file| file["path"].as_str()).collect()
}

/// Waits for the event that says what was restored.
async fn event_of(caller: &Caller, sandbox: &str, restored: u64) -> Result<Value> {
    let path = format!("/v1/sandboxes/{sandbox}/events?limit=1000&follow=0");
    until("the revert is an event", async || {
        let page: Value = caller.get(&path).await?.expect(200)?;
        let events = page["items"].as_array().into_iter().flatten();
        let mut events = events.filter(|event| event["kind"] == "task.reverted");
        Ok(events.find(|event| event.to_string().contains(&format!("\"restored\":{restored}"))).cloned())
    })
    .await
}

#[tokio::test]
async fn files_are_as_before_the_task_also_after_a_sleep() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    let before = "git init -q; printf 'ignored\\n' > .gitignore; mkdir -p src closed shut; echo 1 > src/a; echo s > run; \
                  chmod 700 run; ln -s src/a link; echo k > closed/kept; echo m > closed/more; chmod 555 closed; \
                  echo x > shut/x; chmod 400 src/a; echo i > ignored; git add .; echo \"$(printf 'caf\\351')\" > \
                  \"$(printf 'caf\\351')\"";
    caller.prints(&sandbox, before).await?;
    let state = caller.prints(&sandbox, STATE).await?;
    let line = "chmod u+w closed src/a; echo 2 > src/a; rm closed/kept; echo l > closed/added; chmod 555 closed; \
                chmod 400 src/a; chmod 600 run; ln -sf run link; echo changed > ignored; rm caf*; mkdir -p new/dir; \
                echo n > new/dir/f; rm -r shut; ln -s ~/.slipway shut; rm .gitignore";
    let job = ran(&caller, &sandbox, line).await?;
    let view: Value = caller.get(&job.path()).await?.expect(200)?;
    ensure!(view["revertible"] == true, "{view}");
    let changed = caller.prints(&sandbox, STATE).await?;
    caller.post(&format!("/v1/sandboxes/{sandbox}/stop"), &json!({})).await?.expect::<Value>(200)?;
    let said: Value = revert(&caller, &job, &json!({"dry_run": true})).await?.expect(200)?;
    ensure!(caller.prints(&sandbox, STATE).await? == changed, "a dry run changed something");
    let mut done: Value = revert(&caller, &job, &json!({})).await?.expect(200)?;
    ensure!(
        said["dry_run"] == true && done["dry_run"] == false && done["truncated"] == false,
        "{said} {done}"
    );
    done["dry_run"] = json!(true);
    let saved = done.as_object_mut().and_then(|done| done.remove("saved")).unwrap_or_default();
    let show =
        format!("git --git-dir ~/.slipway/checkpoints.git show {}:src/a", saved.as_str().unwrap_or_default());
    ensure!(caller.prints(&sandbox, &show).await? == "2\n", "{saved}");
    ensure!(said == done, "{said} {done}");
    let restored = [".gitignore", "caf\u{fffd}", "closed/kept", "link", "run", "shut/x", "src/a"];
    ensure!(paths(&done["restored"]) == restored, "{done}");
    ensure!(done["restored"][1]["path_base64"] == "Y2Fm6Q==", "{done}");
    ensure!(paths(&done["deleted"]) == ["closed/added", "new/dir/f", "shut"], "{done}");
    ensure!(
        done["counts"] == json!({"restored": 7, "deleted": 3, "kept": 0, "not_restored": 0})
            && done["task"] == json!(job.id),
        "{done}"
    );
    let checkpoint = &view["result"]["checkpoint"]["id"];
    ensure!(done["checkpoint"] == *checkpoint, "{done} {checkpoint}");
    // The ignored file is as the task left it.
    ensure!(caller.prints(&sandbox, "cat ignored; echo i > ignored").await? == "changed\n");
    let after = caller.prints(&sandbox, STATE).await?;
    ensure!(after == state, "before:\n{state}\nafter:\n{after}");
    let event = event_of(&caller, &sandbox, 7).await?;
    ensure!(event.to_string().contains("\"complete\":true"), "{event}");
    let again: Value = revert(&caller, &job, &json!({})).await?.expect(200)?;
    ensure!(again["counts"] == json!({"restored": 0, "deleted": 0, "kept": 0, "not_restored": 0}), "{again}");
    Ok(())
}

#[tokio::test]
async fn one_path_and_what_cannot_be_reverted() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    caller.prints(&sandbox, "mkdir src; echo 1 > src/a; echo 1 > b").await?;
    let job = ran(&caller, &sandbox, "echo 2 > src/a; echo 2 > b; echo l > src/added").await?;
    let later = ran(&caller, &sandbox, "echo 3 > b").await?;
    let paused = format!("/v1/sandboxes/{sandbox}/pause");
    caller.post(&paused, &json!({})).await?.expect::<Value>(200)?;
    let one: Value = revert(&caller, &job, &json!({"path": "src/"})).await?.expect(200)?;
    ensure!(paths(&one["restored"]) == ["src/a"] && paths(&one["deleted"]) == ["src/added"], "{one}");
    ensure!(caller.prints(&sandbox, "cat src/a b").await? == "1\n3\n");
    revert(&caller, &later, &json!({})).await?.expect::<Value>(200)?;
    ensure!(
        caller.prints(&sandbox, "cat src/a b").await? == "2\n2\n",
        "that of the second task has the first"
    );
    for (body, status, code) in [
        (json!({"path": "nothing"}), 404, ApiErrorCode::NotFound),
        (json!({"path": "../b"}), 400, ApiErrorCode::InvalidRequest),
        (json!({"path": "/b"}), 400, ApiErrorCode::InvalidRequest),
        (json!({"path": ""}), 400, ApiErrorCode::InvalidRequest),
        (json!({"path_base64": "?"}), 400, ApiErrorCode::InvalidRequest),
        (json!({"other": 1}), 400, ApiErrorCode::InvalidRequest),
    ] {
        let refused = revert(&caller, &job, &body).await?;
        ensure!((refused.status, refused.code()?) == (status, code), "{body}: {}", refused.text());
    }
    let none = Job { id: "none".to_owned(), ..job.clone() };
    ensure!(revert(&caller, &none, &json!({})).await?.status == 404);
    let stranger = hostd.caller("other", "eve", "admin").await?;
    ensure!(revert(&stranger, &job, &json!({})).await?.status == 404);
    let lost = caller.shell(&sandbox, "rm -rf ~/.slipway/checkpoints.git; echo 9 > b").await?;
    ensure!(lost["exit"]["code"] == 0, "{lost}");
    let refused = revert(&caller, &job, &json!({})).await?;
    ensure!(refused.code()? == ApiErrorCode::CheckpointLost, "{}", refused.text());
    ensure!(caller.prints(&sandbox, "cat b").await? == "9\n");
    Ok(())
}

#[tokio::test]
async fn what_could_not_be_recorded_stays_and_what_is_taken_is_saved() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    let before = "mkdir sealed blind; echo x > sealed/x; echo y > blind/y; echo 1 > a; chmod 644 a; \
                  chmod 000 sealed; chmod 400 blind";
    caller.prints(&sandbox, before).await?;
    let line = "chmod 755 sealed blind; echo 2 > a; chmod 000 a; echo e > .env; mkdir new; echo n > new/n; chmod 000 new; \
                truncate -s 70000000 dump";
    let job = ran(&caller, &sandbox, line).await?;
    let said: Value = revert(&caller, &job, &json!({"dry_run": true})).await?.expect(200)?;
    ensure!(paths(&said["deleted"]) == [".env", "new"] && paths(&said["kept"]) == ["dump"], "{said}");
    let keyed = async || {
        let request = Request::post(format!("{}/revert", job.path())).header("idempotency-key", "once");
        caller.call(request.header("content-type", "application/json").body(Full::from("{}"))?).await
    };
    let done: Value = keyed().await?.expect(200)?;
    ensure!(paths(&done["restored"]) == ["a"] && paths(&done["deleted"]) == [".env", "new/n"], "{done}");
    ensure!(paths(&done["kept"]) == ["dump"] && done["counts"]["kept"] == 1, "{done}");
    let state = "cat sealed/x blind/y a; stat -c %a a; ls -A";
    ensure!(
        caller.prints(&sandbox, state).await? == "x\ny\n1\n644\na\nblind\ndump\nsealed\n",
        "{}",
        caller.prints(&sandbox, state).await?
    );
    let saved = done["saved"].as_str().context("saved")?;
    let git = "git --git-dir ~/.slipway/checkpoints.git";
    let show = format!(
        "for f in a .env new/n; do {git} show {saved}:$f; done; {git} archive {saved} | tar -x; cat a .env"
    );
    ensure!(caller.prints(&sandbox, &show).await? == "2\ne\nn\n2\ne\n");
    // A late retry reverts nothing again.
    let replayed = keyed().await?;
    ensure!(
        replayed.status == 200 && caller.prints(&sandbox, "cat a").await? == "2\n",
        "{}",
        replayed.text()
    );
    let discarded: Value = revert(&caller, &job, &json!({"discard": true})).await?.expect(200)?;
    ensure!(paths(&discarded["deleted"]) == [".env", "dump", "new/n"], "{discarded}");
    ensure!(discarded["saved"].is_null() && discarded["counts"]["kept"] == 0, "{discarded}");
    Ok(())
}

#[tokio::test]
async fn no_revert_runs_beside_a_task() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    caller.prints(&sandbox, "seq 1000 | split -l 1 -a 4 - f").await?;
    let job = ran(&caller, &sandbox, "rm f*; seq 500 | split -l 1 -a 4 - added").await?;
    let running = caller.submit(&sandbox, &shell("sleep 600")).await?;
    let queued = caller.submit(&sandbox, &shell("true")).await?;
    for body in [json!({}), json!({"dry_run": true})] {
        let refused = revert(&caller, &job, &body).await?;
        ensure!(refused.status == 409 && refused.code()? == ApiErrorCode::TaskRunning, "{}", refused.text());
    }
    for each in [&queued, &running] {
        caller.post(&format!("{}/cancel", each.path()), &json!({})).await?;
        caller.result_of(each).await?;
    }
    let never = revert(&caller, &queued, &json!({})).await?;
    ensure!(never.status == 409 && never.code()? == ApiErrorCode::NoCheckpoint, "{}", never.text());
    // Whichever comes first: a task sees all files or none of the restored ones, and the revert keeps its files.
    let all = json!({});
    for _ in 0..3 {
        let task = shell(
            "ls | cut -c1 | sort | uniq -c | tr -d ' \\n' > ../seen; echo t > made; sleep 0.2; ls made",
        );
        let (reverted, submitted) = tokio::join!(revert(&caller, &job, &all), caller.submit(&sandbox, &task));
        let (reverted, submitted) = (reverted?, submitted?);
        let result = caller.result_of(&submitted).await?;
        let succeeded = result["status"] == "succeeded";
        ensure!(succeeded, "its file was deleted while it ran: {result} {}", reverted.text());
        let seen = caller.prints(&sandbox, "cat ../seen").await?;
        match reverted.status {
            200 => ensure!(seen == "1000f", "{seen}"),
            409 => ensure!(reverted.code()? == ApiErrorCode::TaskRunning && !seen.is_empty(), "{seen}"),
            _ => ensure!(false, "{}", reverted.text()),
        }
        caller.prints(&sandbox, "rm -f f* made; touch added-again").await?;
    }
    let whole: Value = revert(&caller, &job, &json!({})).await?.expect(200)?;
    ensure!(whole["counts"]["restored"].as_u64().context("a count")? == 1000, "{}", whole["counts"]);
    Ok(())
}

/// A revert that finds no room says so, and loses nothing: neither what the task wrote nor the checkpoint.
#[tokio::test]
async fn a_revert_on_a_full_disk_changes_nothing_that_is_not_saved_and_is_repeated() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({"limits": {"disk_mb": 64}})).await?;
    caller.prints(&sandbox, "for n in $(seq 20); do head -c 100000 /dev/urandom > f$n; done").await?;
    let state = caller.prints(&sandbox, "sha1sum f* | sort").await?;
    let line = "for n in $(seq 20); do head -c 100000 /dev/urandom > f$n; done; head -c 3000000 /dev/urandom > added";
    let job = ran(&caller, &sandbox, line).await?;
    let changed = caller.prints(&sandbox, "sha1sum f* added | sort").await?;
    caller.prints(&sandbox, "head -c 1000000000 /dev/zero > ~/filler 2>/dev/null; test -s ~/filler").await?;
    let refused = revert(&caller, &job, &json!({})).await?;
    ensure!(refused.status >= 400, "{}", refused.text());
    let said = refused.error()?.message;
    ensure!(said.contains("space") || said.contains("full"), "{said}");
    ensure!(caller.prints(&sandbox, "sha1sum f* added | sort").await? == changed, "nothing was changed");
    caller.prints(&sandbox, "rm ~/filler").await?;
    let done: Value = revert(&caller, &job, &json!({})).await?.expect(200)?;
    ensure!(done["counts"]["restored"] == 20 && paths(&done["deleted"]) == ["added"], "{done}");
    ensure!(caller.prints(&sandbox, "sha1sum f* | sort; ls added 2>/dev/null; true").await? == state);
    let saved = done["saved"].as_str().context("saved")?;
    let show = format!("git --git-dir ~/.slipway/checkpoints.git cat-file -s {saved}:added");
    ensure!(caller.prints(&sandbox, &show).await? == "3000000\n");
    Ok(())
}
