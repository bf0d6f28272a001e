//! An agent that speaks the Agent Client Protocol, and every way in which one goes wrong.

use anyhow::{Context, Result, ensure};
use protocol::{
    Exit, FailureReason, ModelFact, Stream, TaskEvent, TaskFact, TaskPhase, TaskStatus, Tool, ToolStatus,
};
use serde_json::{Value, json};
use tests::Sandbox;
use tests::acp::{agent, heard_once, logs, methods, task, words};
use tests::output::{Followed, of_task};
use tests::shell::shell;
use tests::tasks::{TaskStream, cancel, ended, run, story, submit};

const EXITED_0: Option<Exit> = Some(Exit::Exited { code: 0 });

fn tools(events: &[TaskEvent]) -> Vec<&Tool> {
    let tool = |event: &'_ TaskEvent| matches!(event.fact, TaskFact::Tool(_));
    let tools = events.iter().filter(|event| tool(event));
    tools
        .filter_map(|event| if let TaskFact::Tool(tool) = &event.fact { Some(&**tool) } else { None })
        .collect()
}

#[tokio::test]
async fn a_turn_becomes_events_and_a_result() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let fields = json!({
        "briefing": "you are in a sandbox", "mode": "yolo", "options": {"model": "two", "effort": "high"},
        "authenticate": "key", "files": {".fake/settings": "from the request"},
    });
    let fake = agent(&sandbox, &["file=.fake/settings"], fields)?;
    let steps = json!([
        ["think", "let me"], ["think", " see\n"], ["say", "Hel"], ["say", "lo\nthere"],
        ["update", {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "make", "kind": "execute",
            "status": "in_progress", "rawInput": {"command": "make"}}],
        ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "failed",
            "rawOutput": {"output": "no rule", "metadata": {"exit": 2}}}],
        ["update", {"sessionUpdate": "plan", "entries": [{"content": "a", "status": "pending", "priority": "high"}]}],
        ["update", {"sessionUpdate": "usage_update", "used": 1, "size": 2}],
        ["update", {"sessionUpdate": "something_new", "x": 1}],
        ["print", "a warning"], ["env", "SECRET"], ["env", "SLIPWAY_TASK"], ["write", "made", "x"], ["say", "done"],
    ]);
    let result = run(client, task("t1", &fake, &steps, json!({"env": {"SECRET": "s3"}}))).await?;
    ensure!((result.status, &result.exit) == (TaskStatus::Succeeded, &EXITED_0), "{result:?}");
    ensure!(result.files_changed.as_ref().is_some_and(|changes| changes.added == 1), "{result:?}");
    ensure!(result.session.as_deref().is_some_and(|name| name.starts_with("session-")), "{result:?}");
    let last = result.final_message.as_ref().map(|text| text.data.as_str());
    ensure!(last == Some("SECRET=s3\nSLIPWAY_TASK=t1\ndone"), "{last:?}");

    let events = story(client, "t1").await?;
    ensure!(words(&events) == "Hello\nthere\nSECRET=s3\nSLIPWAY_TASK=t1\ndone\n", "{events:?}");
    let (begins, ends) = match tools(&events)[..] {
        [begins, ends] => (begins, ends),
        ref other => anyhow::bail!("{other:?}"),
    };
    ensure!(begins.status == ToolStatus::Running && begins.tool.as_deref() == Some("execute"), "{begins:?}");
    ensure!(begins.input == Some(json!({"command": "make"})), "{begins:?}");
    ensure!(ends.status == ToolStatus::Failed && ends.exit_code == Some(2), "{ends:?}");
    ensure!(
        ends.output.as_deref() == Some("no rule") && ends.title.is_none() && ends.input.is_none(),
        "{ends:?}"
    );
    let has = |wanted: &dyn Fn(&TaskFact) -> bool| events.iter().any(|event| wanted(&event.fact));
    ensure!(has(&|fact| matches!(fact, TaskFact::Thought(text) if text.text == "let me see")));
    ensure!(has(&|fact| matches!(fact, TaskFact::Plan { entries } if entries[0].content == "a")));
    let claimed = |fact: &TaskFact| matches!(fact, TaskFact::Model(model) if **model == ModelFact::Claimed { name: "a/two".to_owned() });
    ensure!(has(&claimed), "{events:?}");
    let (printed, said) = (logs(&events, Stream::Stdout), logs(&events, Stream::Stderr));
    ensure!(printed.is_empty(), "{printed:?}");
    ensure!(said == ["effort \"high\" is not offered by the agent: left out"], "{said:?}");
    // Output beside its messages is in its log, and not in the result of a successful task.
    let kept = of_task(client, "t1", "", Followed::default()).await?;
    ensure!(String::from_utf8_lossy(&kept.stdout).contains("something_new"), "{kept:?}");
    ensure!(kept.stderr == b"a warning\n" && result.agent_stderr.is_none(), "{kept:?} {result:?}");

    let expected =
        ["initialize", "authenticate", "session/new", "session/set_mode", "session/set_config_option"];
    let heard = methods(&sandbox)?;
    ensure!(heard[..5] == expected && heard[5..] == ["session/prompt"], "{heard:?}");
    let hello = heard_once(&sandbox, "initialize")?;
    ensure!(hello["protocolVersion"] == 1 && hello["clientCapabilities"]["terminal"] == false, "{hello}");
    ensure!(
        hello["clientCapabilities"]["fs"] == json!({"readTextFile": false, "writeTextFile": false}),
        "{hello}"
    );
    let opened = heard_once(&sandbox, "session/new")?;
    ensure!(opened == json!({"cwd": sandbox.app(), "mcpServers": []}), "{opened}");
    let prompt = heard_once(&sandbox, "session/prompt")?;
    ensure!(prompt["prompt"][0] == json!({"type": "text", "text": "you are in a sandbox"}), "{prompt}");
    let log = std::fs::read_to_string(sandbox.home().join("acp.log"))?;
    ensure!(log.contains(r#"{"file": "from the request"}"#), "{log}");
    sandbox.stop().await
}

/// The name of a task, words and steps of its agent, more fields, how it ends and what is said of that.
type Claim = (
    &'static str,
    &'static [&'static str],
    Value,
    Value,
    (TaskStatus, Option<FailureReason>),
    Option<Exit>,
    &'static str,
);

fn claims() -> Vec<Claim> {
    let failed = |reason| (TaskStatus::Failed, Some(reason));
    let agent_failed = failed(FailureReason::AgentFailed);
    let killed = Some(Exit::Signalled { signal: 9 });
    let idle = json!({"idle_timeout_ms": 400});
    let says = |name, steps, message| (name, &[][..], steps, json!({}), agent_failed, EXITED_0, message);
    vec![
        says("tokens", json!([["stop", "max_tokens"]]), "limit of tokens"),
        says("turns", json!([["stop", "max_turn_requests"]]), "in one turn"),
        says("refuses", json!([["stop", "refusal"]]), "refused"),
        says("new-words", json!([["stop", "bored"]]), "bored"),
        says("error", json!([["fail", "401 bad key"]]), "401 bad key"),
        says("leaves", json!([["say", "hm"], ["exit", 0]]), "without reporting a result"),
        (
            "crashes",
            &[],
            json!([["exit", 3]]),
            json!({}),
            agent_failed,
            Some(Exit::Exited { code: 3 }),
            "exited with 3",
        ),
        ("stays", &["stays"], json!([["say", "hm"]]), json!({}), (TaskStatus::Succeeded, None), killed, ""),
        (
            "mute",
            &["mute"],
            json!([]),
            idle.clone(),
            failed(FailureReason::IdleTimedOut),
            Some(Exit::TimedOut),
            "",
        ),
        (
            "silent",
            &[],
            json!([["hang"]]),
            idle,
            failed(FailureReason::IdleTimedOut),
            Some(Exit::TimedOut),
            "",
        ),
        (
            "slow",
            &[],
            json!([["hang"]]),
            json!({"timeout_ms": 5000}),
            failed(FailureReason::TimedOut),
            Some(Exit::Cancelled),
            "",
        ),
    ]
}

#[tokio::test]
async fn what_an_agent_claims_decides_and_how_it_went_is_told() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    for (name, words, steps, fields, expected, exit, message) in claims() {
        let fake = agent(&sandbox, words, json!({}))?;
        let result = run(client, task(name, &fake, &steps, fields)).await.with_context(|| name.to_owned())?;
        ensure!((result.status, result.failure_reason) == expected, "{name}: {result:?}");
        ensure!(result.exit == exit, "{name}: {result:?}");
        ensure!(result.message.as_deref().unwrap_or_default().contains(message), "{name}: {result:?}");
        story(client, name).await.with_context(|| name.to_owned())?;
    }
    sandbox.stop().await
}

#[tokio::test]
async fn an_agent_that_cannot_be_set_up_is_not_started() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    std::os::unix::fs::symlink("/tmp", sandbox.home().join("linked"))?;
    let fake = agent(&sandbox, &[], json!({"files": {"linked/settings": "x"}}))?;
    let result = run(client, task("linked", &fake, &json!([]), json!({}))).await?;
    ensure!(result.failure_reason == Some(FailureReason::SpawnFailed), "{result:?}");
    let message = result.message.context("words")?;
    ensure!(message.starts_with("could not write \"linked/settings\" for the agent"), "{message}");
    let gone = json!({"kind": "acp", "name": "fake", "argv": ["/no/such/agent"]});
    let result = run(client, task("gone", &gone, &json!([]), json!({}))).await?;
    ensure!(result.failure_reason == Some(FailureReason::SpawnFailed), "{result:?}");
    for (field, fields) in [
        ("agent.name", json!({"name": ""})),
        ("agent.files./etc/x", json!({"files": {"/etc/x": ""}})),
        ("agent.briefing", json!({"briefing": "a\u{0}b"})),
    ] {
        let bad = task("bad", &agent(&sandbox, &[], fields)?, &json!([]), json!({}));
        let answer = client.post("/v1/tasks", &bad).await?;
        let error = answer.error()?.error;
        ensure!(answer.status == 400 && error.detail.field.as_deref() == Some(field), "{field}: {error:?}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn what_is_no_message_is_no_event_and_nothing_breaks() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let fake = agent(&sandbox, &[], json!({}))?;
    let steps = json!([
        ["raw", "not json"], ["raw", "[1]"], ["raw", "{\"id\": 99, \"result\": {\"stopReason\": \"end_turn\"}}"],
        ["raw", ""], ["huge", 9 << 20], ["request", "fs/read_text_file"], ["raw", "{\"method\": \"odd/notice\"}"],
        ["update", {"sessionUpdate": "tool_call", "toolCallId": 7}], ["say", "still here"],
    ]);
    let result = run(client, task("t1", &fake, &steps, json!({}))).await?;
    ensure!(result.status == TaskStatus::Succeeded, "{result:?}");
    let events = story(client, "t1").await?;
    ensure!(words(&events) == "answer: -32601\nstill here\n", "{:?}", words(&events));
    let (printed, said) = (logs(&events, Stream::Stdout), logs(&events, Stream::Stderr));
    ensure!(printed.is_empty(), "{printed:?}");
    ensure!(
        matches!(&said[..], [line] if line.starts_with("a line of 9437") && line.ends_with("too long")),
        "{said:?}"
    );
    let kept = of_task(client, "t1", "", Followed { lost: 1, ..Followed::default() }).await?;
    ensure!(kept.stdout.ends_with(b"\n") && kept.ended, "its end is kept");
    sandbox.stop().await
}

#[tokio::test]
async fn what_a_failing_agent_printed_last_is_in_the_result() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let fake = agent(&sandbox, &[], json!({}))?;
    let noise = "x".repeat(64 << 10);
    for (id, steps, last) in [
        ("t1", json!([["print", noise], ["print", "Error: no key"], ["exit", 3]]), "Error: no key"),
        ("t3", json!([["raw", noise], ["raw", "no message"], ["exit", 3]]), "no message"),
    ] {
        let result = run(client, task(id, &fake, &steps, json!({}))).await?;
        ensure!(result.failure_reason == Some(FailureReason::AgentFailed), "{result:?}");
        let printed = result.agent_stderr.map(|printed| printed.data).context("what it printed")?;
        ensure!(printed == last, "whole lines of the end: {printed}");
    }
    let events = story(client, "t1").await?;
    ensure!(logs(&events, Stream::Stderr).is_empty() && logs(&events, Stream::Stdout).is_empty());
    // Of one that a person stopped it says nothing.
    let steps = json!([["print", "Error: no key"], ["say", "here\n"], ["hang"]]);
    submit(client, task("t2", &fake, &steps, json!({}))).await?;
    TaskStream::open(client, "t2", 0, true).await?.until(|fact| matches!(fact, TaskFact::Message(_))).await?;
    let result = cancel(client, "t2", 1000).await?;
    ensure!(result.status == TaskStatus::Cancelled && result.agent_stderr.is_none(), "{result:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn an_agent_that_does_not_read_fails_and_holds_up_nobody() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let fake = agent(&sandbox, &[], json!({}))?;
    let result = run(client, task("t1", &fake, &json!([["flood", 60_000]]), json!({}))).await?;
    ensure!(result.failure_reason == Some(FailureReason::AgentFailed), "{result:?}");
    ensure!(result.message.as_deref() == Some("the agent does not read its input"), "{result:?}");
    sandbox.stop().await
}

/// Nothing runs but what has to.
async fn nothing_is_left(sandbox: &Sandbox) -> Result<()> {
    let left = shell(sandbox.client(), "pgrep -fa 'acp.py|sleep 54321' | grep -v pgrep || true").await?;
    ensure!(left.trim().is_empty(), "{left}");
    Ok(())
}

async fn until_it_hangs(sandbox: &Sandbox, id: &str) -> Result<()> {
    let mut stream = TaskStream::open(sandbox.client(), id, 0, true).await?;
    stream.until(|fact| matches!(fact, TaskFact::Message(text) if text.text == "hanging")).await?;
    Ok(())
}

#[tokio::test]
async fn stopping_is_asked_for_first_and_leaves_nothing_alive() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let steps = json!([["spawn", ["sleep", "54321"]], ["say", "hanging\n"], ["hang"]]);
    for (id, words) in
        [("obeys", vec![]), ("stubborn", vec!["stubborn"]), ("deaf", vec!["stubborn", "stays"])]
    {
        submit(client, task(id, &agent(&sandbox, &words, json!({}))?, &steps, json!({}))).await?;
        until_it_hangs(&sandbox, id).await?;
        let result = cancel(client, id, 3000).await?;
        ensure!(
            (result.status, &result.exit) == (TaskStatus::Cancelled, &Some(Exit::Cancelled)),
            "{result:?}"
        );
        ensure!(result.session.is_some(), "{result:?}");
        nothing_is_left(&sandbox).await?;
        story(client, id).await?;
    }
    let asked = methods(&sandbox)?.iter().filter(|method| *method == "session/cancel").count();
    ensure!(asked == 3, "asked {asked} times");
    // An agent that ends well leaves no process either.
    let steps = json!([["spawn", ["sleep", "54321"]], ["say", "done"]]);
    let result = run(client, task("well", &agent(&sandbox, &[], json!({}))?, &steps, json!({}))).await?;
    ensure!((result.status, &result.exit) == (TaskStatus::Succeeded, &EXITED_0), "{result:?}");
    nothing_is_left(&sandbox).await?;
    sandbox.stop().await
}

#[tokio::test]
async fn what_an_agent_started_is_kept_where_that_is_asked_for_whether_it_goes_or_not() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let steps = json!([["spawn", ["sleep", "54321"]], ["say", "done"]]);
    for (id, words) in [("goes", vec![]), ("stays", vec!["stays"])] {
        let fields = json!({"keep_processes": true});
        let result = run(client, task(id, &agent(&sandbox, &words, json!({}))?, &steps, fields)).await?;
        ensure!(result.status == TaskStatus::Succeeded, "{id}: {result:?}");
        let left = shell(client, "pgrep -fa '[a]cp.py|^sleep 54321' | cut -d' ' -f2-").await?;
        ensure!(left.trim() == "sleep 54321", "{id}: {left}");
        shell(client, "pkill -f '^sleep 54321'").await?;
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_session_is_taken_up_again_in_the_way_the_agent_can() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    let fields = |continues: bool| json!({"briefing": "once", "continues": continues});
    let say = json!([["say", "now\n"]]);
    let first = task("first", &agent(&sandbox, &[], fields(false))?, &say, json!({}));
    let session = run(sandbox.client(), first).await?.session.context("a session")?;
    sandbox = sandbox.crash_and_boot().await?;
    for (id, flags, expected, same) in [
        ("resumes", vec!["resume", "load"], vec!["session/resume"], true),
        ("loads", vec!["load"], vec!["session/load"], true),
        (
            "forgets",
            vec!["resume", "load", "forgetful"],
            vec!["session/resume", "session/load", "session/new"],
            false,
        ),
    ] {
        std::fs::remove_file(sandbox.home().join("acp.log"))?;
        let again = task(id, &agent(&sandbox, &flags, fields(true))?, &say, json!({}));
        let result = run(sandbox.client(), again).await?;
        ensure!(result.status == TaskStatus::Succeeded, "{id}: {result:?}");
        ensure!((result.session.as_ref() == Some(&session)) == same, "{id}: {result:?}");
        let opening: Vec<String> = methods(&sandbox)?
            .into_iter()
            .filter(|method| method.starts_with("session/") && method != "session/prompt")
            .collect();
        ensure!(opening == expected, "{id}: {opening:?}");
        let blocks = heard_once(&sandbox, "session/prompt")?["prompt"].as_array().map_or(0, Vec::len);
        ensure!(blocks == if same { 1 } else { 2 }, "{id}: {blocks} blocks");
        let events = story(sandbox.client(), id).await?;
        ensure!(words(&events) == "now\n", "{id}: {:?}", words(&events));
    }
    // An agent that supports neither starts a new session, with a log event.
    let again = task("cannot", &agent(&sandbox, &[], fields(true))?, &say, json!({}));
    run(sandbox.client(), again).await?;
    let said = logs(&story(sandbox.client(), "cannot").await?, Stream::Stderr);
    ensure!(said.iter().any(|line| line.contains("this one is new")), "{said:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn a_session_outlives_a_task_that_was_stopped_before_it_had_one() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let fields = || json!({"continues": true});
    let say = json!([["say", "now"]]);
    let first = task("first", &agent(&sandbox, &[], fields())?, &say, json!({}));
    let session = run(client, first).await?.session.context("a session")?;
    let mute = agent(&sandbox, &["mute"], fields())?;
    submit(client, task("cancelled", &mute, &say, json!({}))).await?;
    let mut stream = TaskStream::open(client, "cancelled", 0, true).await?;
    stream.until(|fact| matches!(fact, TaskFact::Status { phase, .. } if *phase == TaskPhase::Agent)).await?;
    let result = cancel(client, "cancelled", 1000).await?;
    ensure!(result.status == TaskStatus::Cancelled && result.session.is_none(), "{result:?}");
    let result = run(client, task("late", &mute, &say, json!({"timeout_ms": 500}))).await?;
    ensure!(result.failure_reason == Some(FailureReason::TimedOut), "{result:?}");
    let result =
        run(client, task("again", &agent(&sandbox, &["resume"], fields())?, &say, json!({}))).await?;
    ensure!(result.session.as_ref() == Some(&session), "{session}: {result:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn an_agent_that_ends_early_is_seen_by_those_who_wait() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let fake = agent(&sandbox, &[], json!({}))?;
    let steps = json!([["say", "half a li"], ["exit", 0]]);
    submit(client, task("t1", &fake, &steps, json!({}))).await?;
    let result = ended(client, "t1").await?;
    ensure!(result.final_message.as_ref().is_some_and(|text| text.data == "half a li"), "{result:?}");
    ensure!(words(&story(client, "t1").await?) == "half a li\n");
    sandbox.stop().await
}
