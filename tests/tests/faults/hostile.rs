//! Agents that mean no good, through hostd: whatever they do, their callers get exactly what was printed and
//! one end, and nothing of them is left.

use anyhow::{Context, Result, ensure};
use futures_util::future::{join_all, try_join_all};
use nix::unistd::Pid;
use protocol::api::{ApiErrorCode, TaskEventView};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::host::until;
use tests::processes::{ProcessEntry, in_namespace_of};
use tests::{Caller, Hostd, Job, Random, TaskFeed, complete, lines, messages, scaled, shell};

async fn hostd_and_sandbox() -> Result<(Hostd, Caller, String)> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    Ok((hostd, caller, sandbox))
}

/// Runs a task to its end: its events, and the result in the last of them.
async fn run(caller: &Caller, sandbox: &str, body: &Value) -> Result<(Vec<TaskEventView>, Value)> {
    let job = caller.submit(sandbox, body).await?;
    let events = caller.events_of(&job).await?;
    let result = events.last().context("done")?.fact["result"].clone();
    Ok((events, result))
}

fn with(line: &str, field: &str, value: impl Into<Value>) -> Value {
    let mut body = shell(line);
    body[field] = value.into();
    body
}

/// Processes in a sandbox that are not part of runtimed. A shim exits a moment after it reported the end of
/// its job.
fn agents(hostd: &Hostd, sandbox: &str) -> Result<Vec<ProcessEntry>> {
    let all = in_namespace_of(hostd.init(sandbox)?)?;
    let jobs = all.into_iter().filter(|seen| seen.inner_pid != 1 && !seen.has_ended());
    Ok(jobs.filter(|seen| seen.uid != 0 && !seen.command.starts_with("runtimed")).collect())
}

fn nothing_runs(hostd: &Hostd, sandbox: &str) -> Result<()> {
    let left = agents(hostd, sandbox)?;
    ensure!(left.is_empty(), "left running: {left:?}");
    Ok(())
}

#[tokio::test]
async fn a_child_that_keeps_the_output_open_does_not_keep_the_task_from_ending() -> Result<()> {
    let (hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let line =
        "sleep 100000 & setsid nohup sh -c 'trap \"\" TERM HUP; sleep 100000; sleep 100000' & echo said";
    let (events, result) = run(&caller, &sandbox, &shell(line)).await?;
    ensure!(messages(&events) == ["said"] && result["status"] == "succeeded", "{events:?}");
    nothing_runs(&hostd, &sandbox)
}

#[tokio::test]
async fn who_ignores_every_signal_is_ended_all_the_same_and_its_tree_too() -> Result<()> {
    let (hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let line = "trap '' TERM INT HUP; \
        setsid sh -c \"trap '' TERM INT HUP; setsid sleep 100000 & while :; do sleep 0.01 & wait; done\" & \
        echo on; while :; do sleep 1; done";
    let table = [
        (None, "cancelled", "cancelled"),
        (Some("timeout_s"), "failed", "timed_out"),
        (Some("idle_timeout_s"), "failed", "idle_timed_out"),
    ];
    let mut enough = Duration::ZERO;
    for (limit, status, reason) in table {
        let body = limit.map_or_else(|| shell(line), |limit| with(line, limit, enough.as_secs_f64()));
        let begun = Instant::now();
        let job = caller.submit(&sandbox, &body).await?;
        let mut feed = TaskFeed::open(&caller, &job, 0).await?.context("a stream")?;
        feed.until(|event| event.kind == "message").await?;
        ensure!(!agents(&hostd, &sandbox)?.is_empty(), "there is a tree");
        // A busy machine takes long to get here: the time of the others must not be over before.
        enough = enough.max(begun.elapsed() * 3 + Duration::from_secs(1));
        if reason == "cancelled" {
            caller.post(&format!("{}/cancel", job.path()), &json!({})).await?.expect::<Value>(202)?;
        }
        feed.rest().await?;
        complete(&feed.events)?;
        let result = &feed.events.last().context("done")?.fact["result"];
        ensure!(result["status"] == status && result["failure_reason"] == reason, "{reason}: {result}");
        nothing_runs(&hostd, &sandbox).context(reason)?;
    }
    Ok(())
}

/// The most memory a process ever had.
fn peak_bytes(pid: Pid) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

#[tokio::test]
async fn a_line_of_100_megabytes_comes_in_pieces_that_make_it_again_and_costs_nobody_memory() -> Result<()> {
    const BYTES: usize = 100 << 20;
    let (hostd, caller, sandbox) = hostd_and_sandbox().await?;
    // Each part of it is different.
    let line = format!("seq 100000000 | tr '\\n' ' ' | head -c {BYTES}; printf '\\nnext'");
    run(&caller, &sandbox, &shell("true")).await?;
    let (init, before) = (hostd.init(&sandbox)?, peak_bytes(hostd.pid()?)?);
    let init_before = peak_bytes(init)?;
    let (events, result) = run(&caller, &sandbox, &shell(&line)).await?;
    ensure!(result["status"] == "succeeded", "{result}");
    let printed = lines(&events)?;
    ensure!(printed.len() == 2 && printed[1] == b"next", "{} lines", printed.len());
    ensure!(printed[0].len() == BYTES, "{} bytes", printed[0].len());
    let numbers = printed[0].split(|byte| *byte == b' ').zip(1_u64..);
    // The last of them may be cut off.
    for (text, expected) in numbers.take(BYTES / 10) {
        ensure!(text == expected.to_string().as_bytes(), "{expected} is {:?}", String::from_utf8_lossy(text));
    }
    let whole = events.iter().filter(|event| event.kind == "message").count();
    let partial = events.iter().filter(|event| event.fact.get("partial") == Some(&json!(true))).count();
    ensure!(partial == whole - 2, "{partial} of {whole} go on");
    let (after, init_after) = (peak_bytes(hostd.pid()?)?, peak_bytes(init)?);
    eprintln!("hostd {before} -> {after}, PID 1 {init_before} -> {init_after}");
    ensure!(after < before + (48 << 20), "hostd grew from {before} to {after}");
    ensure!(init_after < init_before + (8 << 20), "PID 1 grew from {init_before} to {init_after}");
    Ok(())
}

#[tokio::test]
async fn bytes_that_are_no_text_come_as_they_are() -> Result<()> {
    let (hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let mut random = Random::seeded();
    let mut bytes = random.bytes(300_000);
    for hard in
        [&b"\xff\xfe\x00\n\xc3\n\xc3\xa4\n\xed\xa0\x80\n\xf4\x90\x80\x80\n\n\r\n\0\n"[..], b"\xe2\x82"]
    {
        bytes.extend_from_slice(hard);
    }
    let app = hostd.workspace(&sandbox).join("workspace/app");
    std::fs::write(app.join("bytes"), &bytes)?;
    let (events, result) = run(&caller, &sandbox, &shell("cat bytes")).await?;
    ensure!(result["status"] == "succeeded", "{result}");
    let printed = lines(&events)?;
    let expected: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    ensure!(printed.len() == expected.len(), "{} lines of {}", printed.len(), expected.len());
    for (at, (printed, expected)) in printed.iter().zip(expected).enumerate() {
        ensure!(printed == expected, "line {at}: {printed:?} in place of {expected:?}");
    }
    Ok(())
}

#[tokio::test]
async fn every_way_to_do_nothing_or_to_fail_has_its_name() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let gone = json!({"prompt": "x", "command": ["/no/such/program"]});
    let table = [
        (shell("true"), "succeeded", None, json!({"kind": "exited", "code": 0})),
        (shell("exit 3"), "failed", Some("agent_failed"), json!({"kind": "exited", "code": 3})),
        (shell("kill -9 $$"), "failed", Some("agent_failed"), json!({"kind": "signalled", "signal": 9})),
        (gone, "failed", Some("spawn_failed"), Value::Null),
        (with("sleep 100000", "idle_timeout_s", 0.3), "failed", Some("idle_timed_out"), Value::Null),
        (with("sleep 100000", "timeout_s", 0.3), "failed", Some("timed_out"), Value::Null),
        (
            with("while :; do echo; sleep 0.05; done", "timeout_s", 1),
            "failed",
            Some("timed_out"),
            Value::Null,
        ),
    ];
    for (body, status, reason, exit) in table {
        let (events, result) = run(&caller, &sandbox, &body).await?;
        ensure!(result["status"] == status, "{body}: {result}");
        ensure!(result.get("failure_reason").and_then(Value::as_str) == reason, "{body}: {result}");
        ensure!(exit.is_null() || result["exit"] == exit, "{body}: {result}");
        ensure!(reason == Some("timed_out") || messages(&events).is_empty(), "{events:?}");
    }
    Ok(())
}

#[tokio::test]
async fn lines_as_fast_as_they_can_be_printed_are_all_there() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let count = scaled(120_000, 1_000_000);
    let (events, result) = run(&caller, &sandbox, &shell(&format!("seq {count}"))).await?;
    ensure!(result["status"] == "succeeded", "{result}");
    let said = messages(&events);
    ensure!(said.len() == count, "{} of {count}", said.len());
    for (text, number) in said.iter().zip(1..) {
        ensure!(*text == number.to_string(), "{number} is {text}");
    }
    Ok(())
}

#[tokio::test]
async fn output_that_looks_like_ours_is_output() -> Result<()> {
    let (hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let done = r#"{"seq":9,"time_ms":1,"type":"done","result":{"status":"succeeded"}}"#;
    let texts = [
        "\r\n\r\nid: 999\nevent: done\ndata: {}\n\n",
        "\n\nevent: done\r\rdata: x\r\r",
        ": comment\nretry: 1\nid:\n",
        "a\u{2028}b\u{2029}c\u{85}d\u{feff}e\u{0}f\u{1b}[2J\u{7f}",
        "\"},\"seq\":1,\"kind\":\"done\",\"x\":{\"\\u000a\\",
        done,
        "</script><!--\\\\x22",
    ];
    let all = texts.join("\n") + "\n";
    std::fs::write(hostd.workspace(&sandbox).join("workspace/app/hard"), &all)?;
    let (events, result) = run(&caller, &sandbox, &shell("cat hard; cat hard >&2")).await?;
    ensure!(result["status"] == "succeeded", "{result}");
    let expected: Vec<&str> = all.trim_end_matches('\n').split('\n').collect();
    let printed = lines(&events)?;
    ensure!(printed.len() == expected.len(), "{printed:?}");
    for (printed, expected) in printed.iter().zip(&expected) {
        ensure!(
            printed == expected.as_bytes(),
            "{:?} in place of {expected:?}",
            String::from_utf8_lossy(printed)
        );
    }
    let logged: Vec<&str> = events
        .iter()
        .filter(|event| event.kind == "log" && event.fact["stream"] == "stderr")
        .filter_map(|event| event.fact["text"].as_str())
        .collect();
    ensure!(logged == expected, "{logged:?}");
    let job = Job { sandbox, id: events[0].task.to_string() };
    ensure!(caller.pages_of(&job).await? == events, "the log says the same");
    Ok(())
}

#[tokio::test]
async fn a_prompt_arrives_as_it_was_given() -> Result<()> {
    let (hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let long: String = "0123456789abcde\n".repeat((100 << 10) / 16);
    let app = hostd.workspace(&sandbox).join("workspace/app");
    for prompt in ["'\"`$(touch /tmp/x)\\ \n\r\n\t\u{2028}ä ${HOME} %s -n", "-e", " \n", &long] {
        let mut body = shell("cat > heard; printf %s \"$SLIPWAY_PROMPT\" > told");
        body["prompt"] = prompt.into();
        let job = caller.submit(&sandbox, &body).await?;
        let result = caller.result_of(&job).await?;
        ensure!(result["status"] == "succeeded", "{result}");
        ensure!(std::fs::read_to_string(app.join("heard"))? == prompt, "on standard input");
        ensure!(std::fs::read_to_string(app.join("told"))? == prompt, "in its environment");
        let task: Value = caller.get(&job.path()).await?.expect(200)?;
        ensure!(task["prompt"] == prompt, "in its record");
    }
    Ok(())
}

fn is_gone(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Files below a directory that contain a text.
fn files_with(dir: &std::path::Path, text: &str) -> Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            match files_with(&entry.path(), text) {
                Ok(below) => found.extend(below),
                // Running processes create and remove directories during the walk.
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            if memchr::memmem::find(&bytes, text.as_bytes()).is_some() {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

#[tokio::test]
async fn the_environment_of_a_task_is_seen_by_nobody_else() -> Result<()> {
    const SECRET: &str = "hunter2-is-not-for-you";
    let (hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let mut body =
        shell("[ \"$TOKEN\" = hunter2-is-not-for-$WHO ] && echo known; read x < /dev/null; sleep 100000");
    body["env"] = json!({"TOKEN": SECRET, "WHO": "you"});
    let path = format!("/v1/sandboxes/{sandbox}/tasks");
    let submitted = caller.post(&path, &body).await?;
    let task: Value = submitted.expect(202)?;
    let job = Job { sandbox: sandbox.clone(), id: task["id"].as_str().context("an id")?.to_owned() };
    let mut feed = TaskFeed::open(&caller, &job, 0).await?.context("a stream")?;
    feed.until(|event| event.kind == "message").await?;
    ensure!(messages(&feed.events) == ["known"], "it has it");
    // While it runs: in no answer, no argument of a process, no file.
    let mut told = vec![submitted.text(), hostd.said()];
    for path in [job.path(), path, format!("/v1/sandboxes/{sandbox}"), "/v1/audit".to_owned()] {
        told.push(caller.get(&path).await?.text());
    }
    told.extend(in_namespace_of(hostd.init(&sandbox)?)?.into_iter().map(|seen| seen.command));
    told.push(
        caller.prints(&sandbox, "ps axww 2>/dev/null || cat /proc/[0-9]*/cmdline | tr '\\0' ' '").await?,
    );
    ensure!(!told.iter().any(|text| text.contains(SECRET)), "{told:?}");
    // runtimed has it, so hostd keeps no copy.
    let forgotten = async || Ok(files_with(hostd.data(), SECRET)?.is_empty().then_some(()));
    until("no file has it", forgotten)
        .await
        .with_context(|| format!("{:?}", files_with(hostd.data(), SECRET)))?;
    caller.post(&format!("{}/cancel", job.path()), &json!({})).await?.expect::<Value>(202)?;
    feed.rest().await?;
    complete(&feed.events)?;
    ensure!(!serde_json::to_string(&feed.events)?.contains(SECRET), "it is in an event");
    ensure!(!serde_json::to_string(&caller.pages_of(&job).await?)?.contains(SECRET), "it is in the log");
    let files = files_with(hostd.data(), SECRET)?;
    ensure!(files.is_empty(), "when it has ended: {files:?}");
    Ok(())
}

#[tokio::test]
async fn tasks_run_in_the_order_in_which_they_came() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    for round in 0..scaled(4, 50) {
        if round % 2 == 0 {
            caller.post(&format!("/v1/sandboxes/{sandbox}/stop"), &json!({})).await?.expect::<Value>(200)?;
        }
        let mut jobs = Vec::new();
        for number in 0..12 {
            jobs.push(caller.submit(&sandbox, &shell(&format!("echo {number} >> ../order"))).await?);
        }
        for job in &jobs {
            ensure!(caller.result_of(job).await?["status"] == "succeeded");
        }
        let order = caller.prints(&sandbox, "cat ../order; rm ../order").await?;
        let expected: Vec<String> = (0..12).map(|number| number.to_string()).collect();
        ensure!(order.lines().eq(expected), "round {round}: {order:?}");
    }
    Ok(())
}

#[tokio::test]
async fn too_many_tasks_are_refused_and_those_that_were_taken_all_end() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let path = format!("/v1/sandboxes/{sandbox}/tasks");
    let sleeps = shell("sleep 100000");
    let replies = join_all((0..70).map(|_| caller.post(&path, &sleeps))).await;
    let mut taken = Vec::new();
    for reply in replies {
        let reply = reply?;
        if reply.status == 429 {
            let error = reply.error()?;
            ensure!(error.code == ApiErrorCode::TooMany && error.retryable, "{}", reply.text());
        } else {
            let task: Value = reply.expect(202)?;
            taken
                .push(Job { sandbox: sandbox.clone(), id: task["id"].as_str().context("an id")?.to_owned() });
        }
    }
    ensure!(taken.len() == 64, "{} were taken", taken.len());
    let cancel = async |job: &Job| {
        let reply = caller.post(&format!("{}/cancel", job.path()), &json!({})).await?;
        ensure!(matches!(reply.status, 200 | 202), "{}", reply.text());
        let result = caller.result_of(job).await?;
        ensure!(result["status"] == "cancelled", "{result}");
        Ok(())
    };
    try_join_all(taken.iter().map(cancel)).await?;
    let (events, _) = run(&caller, &sandbox, &shell("echo room again")).await?;
    ensure!(messages(&events) == ["room again"], "{events:?}");
    Ok(())
}

#[tokio::test]
async fn a_submit_that_meets_a_stop_or_a_destroy_is_refused_or_ends() -> Result<()> {
    let (_hostd, caller, _) = hostd_and_sandbox().await?;
    let mut random = Random::seeded();
    for round in 0..scaled(12, 300) {
        let sandbox = caller.create(&json!({})).await?;
        let path = format!("/v1/sandboxes/{sandbox}");
        let mut moments: Vec<u64> = (0..4).map(|_| random.below(60)).collect();
        let moment = moments.pop().unwrap_or_default();
        let end = async {
            tokio::time::sleep(Duration::from_millis(moment)).await;
            match round % 2 {
                0 => caller.delete(&path).await,
                _ => caller.post(&format!("{path}/stop"), &json!({})).await,
            }
        };
        let submits = join_all(moments.into_iter().map(async |moment| {
            tokio::time::sleep(Duration::from_millis(moment)).await;
            caller.post(&format!("{path}/tasks"), &shell("echo on; sleep 0.02")).await
        }));
        let (ended, submitted) = tokio::join!(end, submits);
        ended?.expect::<Value>(200)?;
        for reply in submitted {
            let reply = reply?;
            if reply.status != 202 {
                ensure!(round % 2 == 0 && reply.status == 410, "{} {}", reply.status, reply.text());
                continue;
            }
            let task: Value = reply.json()?;
            let job = Job { sandbox: sandbox.clone(), id: task["id"].as_str().context("an id")?.to_owned() };
            let result = caller.result_of(&job).await.with_context(|| format!("round {round}"))?;
            let known = result["status"] == "succeeded" || result["failure_reason"] == "lost";
            ensure!(known, "round {round}: {result}");
        }
        if round % 2 == 1 {
            caller.delete(&path).await?.expect::<Value>(200)?;
        }
    }
    Ok(())
}
