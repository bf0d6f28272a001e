//! Agents that print lines of JSON: what is told of them, what their word counts for, and what they cannot break.

use anyhow::{Context, Result, ensure};
use protocol::{
    ErrorCode, Exit, FailureReason, ProgramsView, Stream, TaskEvent, TaskFact, TaskResult, TaskStatus,
    ToolStatus,
};
use serde_json::{Value, json};
use std::path::Path;
use tests::Sandbox;
use tests::output::{Followed, Follower, of_task};
use tests::tasks::{TaskStream, cancel, ended, run, said, story, submit, task};

/// The words that end a run of each.
const GOOD: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"x"}"#;
const BAD: &str = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"Invalid API key"}"#;
const SAYS: &str = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"All done."}]}}"#;

/// A task whose agent is a shell line that prints the lines of `dialect`.
fn json_task(id: &str, dialect: &str, line: &str) -> Value {
    let mut request = task(id, "true");
    request["agent"] = json!({"kind": "stream_json", "name": format!("{dialect}-cli"), "dialect": dialect,
        "argv": ["bash", "-c", line]});
    request
}

fn with(mut request: Value, field: &str, value: Value) -> Value {
    request[field] = value;
    request
}

fn transcript(name: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("transcripts/{name}.jsonl"));
    Ok(std::fs::read_to_string(path)?)
}

/// Reads the log of a task's agent.
async fn log(sandbox: &Sandbox, id: &str, query: &str) -> Result<Followed> {
    of_task(sandbox.client(), id, query, Followed::default()).await
}

fn text_of(result: &TaskResult) -> Option<&str> {
    result.final_message.as_ref().map(|message| message.data.as_str())
}

fn kinds(events: &[TaskEvent]) -> Vec<&'static str> {
    events.iter().map(|event| event.fact.kind()).filter(|kind| *kind != "status").collect()
}

#[tokio::test]
async fn a_run_of_claude_is_told_and_its_lines_are_kept() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let printed = transcript("claude/streamed")?;
    sandbox.write_app("lines", &printed)?;
    let line = "cat lines; echo warning >&2; cat > given";
    let mut request = json_task("t", "claude", line);
    request["agent"]["briefing"] = json!("You are in a sandbox.");
    let result = run(sandbox.client(), request).await?;
    ensure!(result.status == TaskStatus::Succeeded && result.failure_reason.is_none(), "{result:?}");
    ensure!(text_of(&result) == Some("The page is **there**.\nIt says Hello."), "{result:?}");
    ensure!(result.session.as_ref().is_some_and(|session| printed.contains(session)), "{result:?}");
    let given = std::fs::read_to_string(sandbox.app().join("given"))?;
    ensure!(given == "You are in a sandbox.\n\ndo it", "{given}");
    let events = story(sandbox.client(), "t").await?;
    let messages: Vec<_> = events.iter().filter(|event| matches!(event.fact, TaskFact::Message(_))).collect();
    ensure!(messages.len() == 4, "{messages:?}");
    let failed = events.iter().find_map(|event| match &event.fact {
        TaskFact::Tool(tool) if tool.status == ToolStatus::Failed => Some(tool),
        _ => None,
    });
    ensure!(failed.is_some_and(|tool| tool.exit_code == Some(7)), "{failed:?}");
    ensure!(kinds(&events).contains(&"plan") && kinds(&events).contains(&"model"), "{:?}", kinds(&events));
    ensure!(said(&events, Stream::Stderr)?.is_empty() && result.agent_stderr.is_none(), "{result:?}");
    for query in ["", "?follow=1"] {
        let kept = log(&sandbox, "t", query).await?;
        ensure!(kept.stdout == printed.as_bytes() && kept.stderr == b"warning\n" && kept.ended, "{kept:?}");
    }
    // The log survives a boot and is removed with its task.
    let sandbox = sandbox.crash_and_boot().await?;
    ensure!(log(&sandbox, "t", "?follow=1").await?.stdout == printed.as_bytes());
    let none = sandbox.client().get("/v1/tasks/none/output").await?;
    ensure!(none.code()? == ErrorCode::NotFound, "{}", none.text());
    run(sandbox.client(), task("c", "echo hi")).await?;
    let command = sandbox.client().get("/v1/tasks/c/output").await?;
    ensure!(command.code()? == ErrorCode::Conflict, "{}", command.text());
    sandbox.stop().await
}

#[tokio::test]
async fn a_run_of_codex_is_told() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    sandbox.write_app("lines", &transcript("codex/done")?)?;
    let result = run(sandbox.client(), json_task("t", "codex", "cat lines")).await?;
    ensure!(result.status == TaskStatus::Succeeded, "{result:?}");
    ensure!(text_of(&result) == Some("All is done.\nSee made.txt."), "{result:?}");
    let kinds = kinds(&story(sandbox.client(), "t").await?);
    let expected = [
        "log", "thought", "message", "tool", "tool", "tool", "tool", "tool", "tool", "message", "message",
        "done",
    ];
    ensure!(kinds == expected, "{kinds:?}");
    sandbox.stop().await
}

/// Success is a good word and the code 0; in everything else the words of the agent are the reason.
#[tokio::test]
async fn an_agent_succeeds_by_its_word_and_its_exit_together() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    sandbox.write_app("good", GOOD)?;
    sandbox.write_app("bad", BAD)?;
    sandbox.write_app("refused", &transcript("codex/refused")?)?;
    let silent = "the agent exited without reporting a result";
    for (id, dialect, line, message, exit) in [
        ("fine", "claude", "cat good", "", 0),
        ("liar", "claude", "cat good; exit 1", "the agent reported success, but exited with 1", 1),
        ("honest", "claude", "cat bad; exit 1", "Invalid API key", 1),
        ("bad-and-0", "claude", "cat bad", "Invalid API key", 0),
        ("mute", "claude", "true", silent, 0),
        ("mute-and-1", "claude", "exit 3", "the agent exited with 3", 3),
        ("complains", "claude", "echo first >&2; echo 'no such option' >&2; exit 1", "no such option", 1),
        ("garbage", "claude", "echo '{\"type\":'; echo nonsense; printf '\\xff\\xfe'", silent, 0),
        ("half", "claude", "cat good | head -c 40", silent, 0),
        ("wrong-tongue", "codex", "cat good", silent, 0),
        ("refused", "codex", "cat refused", "unexpected status 401 Unauthorized", 0),
    ] {
        let result = run(sandbox.client(), json_task(id, dialect, line)).await?;
        ensure!(result.exit == Some(Exit::Exited { code: exit }), "{id}: {result:?}");
        if message.is_empty() {
            ensure!(result.status == TaskStatus::Succeeded, "{id}: {result:?}");
            continue;
        }
        ensure!(result.failure_reason == Some(FailureReason::AgentFailed), "{id}: {result:?}");
        ensure!(result.message.as_deref().unwrap_or_default().starts_with(message), "{id}: {result:?}");
    }
    // Lines that are no messages are no events: they are in the log, and in the result of one that failed.
    let events = story(sandbox.client(), "garbage").await?;
    ensure!(said(&events, Stream::Stdout)?.is_empty(), "{events:?}");
    let kept = log(&sandbox, "garbage", "").await?;
    ensure!(kept.stdout == b"{\"type\":\nnonsense\n\xff\xfe", "{kept:?}");
    let printed = ended(sandbox.client(), "garbage").await?.agent_stderr.context("what it printed")?;
    ensure!(tests::output::bytes_of(&printed)? == b"{\"type\":\nnonsense\n\xff\xfe", "{printed:?}");
    let printed = ended(sandbox.client(), "complains").await?.agent_stderr.context("what it printed")?;
    ensure!(printed.data == "first\nno such option", "{printed:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn a_line_of_100_megabytes_costs_that_line() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let before = client.status().await?.runtimed_rss_bytes;
    sandbox.write_app("end", &format!("{SAYS}\n{GOOD}\n"))?;
    let line = "head -c 100000000 /dev/zero | tr '\\0' x; echo; cat end";
    let result = run(client, json_task("t", "claude", line)).await?;
    ensure!(result.status == TaskStatus::Succeeded && text_of(&result) == Some("All done."), "{result:?}");
    let events = story(client, "t").await?;
    let lines = said(&events, Stream::Stdout)?;
    let about = String::from_utf8(lines.first().context("a word about it")?.clone())?;
    ensure!(about.starts_with("a line of 100000000 bytes is too long to be read"), "{about}");
    // The kept part begins somewhere in the middle.
    let kept = of_task(client, "t", "", Followed { lost: 1, ..Followed::default() }).await?;
    ensure!(kept.stdout.ends_with(format!("{GOOD}\n").as_bytes()), "no end");
    ensure!((4 << 20..=8 << 20).contains(&kept.stdout.len()), "{} bytes are kept", kept.stdout.len());
    let gone = client.get("/v1/tasks/t/output?after=0").await?;
    ensure!(gone.code()? == ErrorCode::HistoryGone, "{}", gone.text());
    let after = client.status().await?.runtimed_rss_bytes;
    ensure!(after < before + (8 << 20), "memory grew from {before} to {after}");
    sandbox.stop().await
}

/// Messages and output of an agent are published while it runs.
#[tokio::test]
async fn half_a_line_is_told_before_the_rest_of_it_comes() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let delta = |text: &str| {
        let delta = json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}});
        format!("{}\n", json!({"type": "stream_event", "event": delta}))
    };
    sandbox.write_app("one", &delta("I am thi"))?;
    sandbox.write_app("two", &delta("nking\n"))?;
    sandbox.write_app("good", GOOD)?;
    let line = "cat one; until [ -e go ]; do sleep 0.01; done; cat two good";
    // A follower connects before there is any output.
    submit(client, task("before", "until [ -e begin ]; do sleep 0.01; done")).await?;
    submit(client, json_task("t", "claude", line)).await?;
    let mut follower = Follower::open(client, "/v1/tasks/t/output?follow=1").await?;
    let mut stream = TaskStream::open(client, "t", 0, true).await?;
    sandbox.write_app("begin", "")?;
    let message = |fact: &TaskFact| matches!(fact, TaskFact::Message(_));
    let TaskFact::Message(half) = stream.until(message).await?.fact else { unreachable!("it is one") };
    ensure!(half.text == "I am thi" && half.partial, "{half:?}");
    let mut seen = Followed::default();
    seen.add(&follower.next().await?.context("what it printed")?)?;
    ensure!(seen.stdout == delta("I am thi").as_bytes(), "{seen:?}");
    sandbox.write_app("go", "")?;
    let TaskFact::Message(rest) = stream.until(message).await?.fact else { unreachable!("it is one") };
    ensure!(rest.text == "nking" && !rest.partial, "{rest:?}");
    while let Some(chunk) = follower.next().await? {
        seen.add(&chunk)?;
    }
    ensure!(seen.ended && seen.stdout.ends_with(GOOD.as_bytes()), "{seen:?}");
    ensure!(ended(client, "t").await?.status == TaskStatus::Succeeded);
    sandbox.stop().await
}

#[tokio::test]
async fn silence_and_cancel_end_an_agent_whatever_it_claimed() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    sandbox.write_app("good", &format!("{SAYS}\n{GOOD}\n"))?;
    let idle = with(json_task("idle", "claude", "cat good; sleep 1000"), "idle_timeout_ms", json!(3000));
    let result = run(client, idle).await?;
    ensure!(result.failure_reason == Some(FailureReason::IdleTimedOut), "{result:?}");
    ensure!(text_of(&result) == Some("All done."), "{result:?}");
    submit(client, json_task("long", "claude", "cat good; sleep 1000")).await?;
    let mut stream = TaskStream::open(client, "long", 0, false).await?;
    stream.until(|fact| matches!(fact, TaskFact::Message(_))).await?;
    let result = cancel(client, "long", 100).await?;
    ensure!(result.status == TaskStatus::Cancelled, "{result:?}");
    // Followers of one that never ran come to an end too.
    submit(client, json_task("first", "claude", "sleep 1000")).await?;
    submit(client, json_task("never", "claude", "cat good")).await?;
    let mut follower = Follower::open(client, "/v1/tasks/never/output?follow=1").await?;
    cancel(client, "never", 0).await?;
    while follower.next().await?.is_some() {}
    cancel(client, "first", 0).await?;
    sandbox.stop().await
}

#[tokio::test]
async fn a_conversation_goes_on_and_one_that_is_gone_is_begun_anew() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let init =
        |session: &str| format!("{}\n", json!({"type": "system", "subtype": "init", "session_id": session}));
    sandbox.write_app("new", &format!("{}{SAYS}\n{GOOD}\n", init("s-1")))?;
    sandbox.write_app("bad", BAD)?;
    sandbox.write_app("says", &format!("{SAYS}\n"))?;
    let request = |id: &str, goes_on: bool, resumed: &str| {
        let mut request = json_task(id, "claude", "echo new >> runs; cat > input-new; cat new");
        request["agent"]["briefing"] = json!("About.");
        request["agent"]["continues"] = json!(goes_on);
        request["agent"]["argv_to_continue"] = json!(["bash", "-c", resumed, "{session}", "-r={session}"]);
        request
    };
    let resumed = "echo $0 $1 >> runs; cat > input-resumed; cat new";
    for (id, goes_on) in [("a", true), ("b", true), ("c", false)] {
        let result = run(client, request(id, goes_on, resumed)).await?;
        ensure!(result.status == TaskStatus::Succeeded, "{id}: {result:?}");
        ensure!(result.session.as_deref() == Some("s-1"), "{id}: {result:?}");
    }
    let read = |name: &str| std::fs::read_to_string(sandbox.app().join(name));
    ensure!(read("runs")? == "new\ns-1 -r=s-1\nnew\n", "{}", read("runs")?);
    ensure!(read("input-new")? == "About.\n\ndo it" && read("input-resumed")? == "do it");
    let sandbox = sandbox.crash_and_boot().await?;
    let client = sandbox.client();
    // The session is still known after a boot and after a task that was stopped, and unknown once the agent
    // reports that it does not exist.
    submit(client, request("stopped", true, "cat says; sleep 1000")).await?;
    let mut stream = TaskStream::open(client, "stopped", 0, false).await?;
    stream.until(|fact| matches!(fact, TaskFact::Message(_))).await?;
    ensure!(cancel(client, "stopped", 1000).await?.status == TaskStatus::Cancelled);
    let result = run(client, request("d", true, "cat bad; exit 1")).await?;
    ensure!(result.message.as_deref() == Some("Invalid API key") && result.session.is_none(), "{result:?}");
    let result = run(client, request("e", true, "exit 9")).await?;
    ensure!(result.status == TaskStatus::Succeeded, "{result:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn programs_are_found_as_the_user_would() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    sandbox.write_app("plain", "")?;
    let plain = sandbox.app().join("plain").display().to_string();
    let ask = json!({"programs": ["bash", "no-such-program", "/bin/sh", "/etc/passwd", "/tmp", plain]});
    let found: ProgramsView = sandbox.client().post("/v1/programs", &ask).await?.json()?;
    ensure!(found.found.keys().eq(["/bin/sh", "bash"]), "{found:?}");
    ensure!(found.found["bash"].ends_with("/bash"), "{found:?}");
    let many = json!({"programs": vec!["x"; 65]});
    let refused = sandbox.client().post("/v1/programs", &many).await?;
    ensure!(refused.code()? == ErrorCode::TooLarge, "{}", refused.text());
    sandbox.stop().await
}
