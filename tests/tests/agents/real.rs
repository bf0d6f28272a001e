//! OpenCode itself in a sandbox without a network, its model behind hostd's gateway: what it does, what is told of
//! it, and what is left when it goes wrong.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::agents::{APP, AgentsFixture, EndedTask, KEY, MODEL, Secret};
use tests::host::until;
use tests::model::{Dialect, Fault, Script, Turn};
use tests::{Job, TaskFeed};

/// Writes a file, runs it, edits it, says so. The shell also writes down all that it can see of its surroundings.
fn greeting() -> Script {
    let file = format!("{APP}/greet.sh");
    let look = "env > env.txt; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline > processes.txt 2>&1";
    let mut first = Turn::think("A file comes first.").and_say("I begin. ");
    first.parts.extend(Turn::write(&file, "echo hello world\n").parts);
    Script::new([
        first,
        Turn::shell(&format!("{look}; sh greet.sh; exit 3")),
        Turn::edit(&file, "world", "harbour"),
        Turn::say("The greeting is there."),
    ])
}

fn task(prompt: &str) -> Value {
    json!({"prompt": prompt, "agent": "opencode", "build": ""})
}

#[tokio::test]
async fn opencode_does_a_whole_job_and_what_is_told_is_what_was_seen() -> Result<()> {
    let shop = AgentsFixture::open(Dialect::Messages).await?;
    shop.model.script(greeting());
    let mut body = task("greet whoever comes");
    body["build"] = json!("grep -q harbour greet.sh");
    let seen = shop.done(&body).await?;
    seen.succeeded()?;
    told_as_it_was(&shop, &seen)?;
    counted_at_the_gateway(&shop, &seen)?;
    continued(&shop).await?;
    nowhere_but_sealed(&shop, &seen).await?;
    worth_nothing_afterwards(&shop).await
}

/// Text, thoughts, tools with their beginnings and ends, files and the build.
fn told_as_it_was(shop: &AgentsFixture, seen: &EndedTask) -> Result<()> {
    let text = seen.text("message");
    ensure!(text.contains("I begin. ") && text.contains("The greeting is there."), "{text}");
    ensure!(seen.text("thought").contains("A file comes first."), "{}", seen.story());
    let (write, shell) = (seen.tool_about("echo hello world")?, seen.tool_about("exit 3")?);
    ensure!(write["tool"] == "edit" && write["status"] == "completed", "{write:?}");
    ensure!(shell["tool"] == "execute" && shell["exit_code"] == 3, "{shell:?}");
    ensure!(shell["output"].as_str().is_some_and(|output| output.contains("hello world")), "{shell:?}");
    let edit = seen.tools().into_iter().next_back().context("an edit")?;
    ensure!(edit["tool"] == "edit" && edit["status"] == "completed", "{edit:?}");
    for tool in seen.tools() {
        let states = seen.of_kind("tool").filter(|event| event.fact.get("id") == tool.get("id")).count();
        ensure!(states >= 2, "only the end of {tool:?} was told");
    }
    let result = seen.result();
    let files: Vec<&Value> = result["files_changed"]["files"].as_array().into_iter().flatten().collect();
    ensure!(
        files.iter().any(|file| file["path"]["data"] == "greet.sh" && file["change"] == "added"),
        "{result}"
    );
    ensure!(shop.file("greet.sh")? == "echo hello harbour\n");
    ensure!(result["build"]["status"] == "passed", "{result}");
    ensure!(result["final_message"]["data"] == "The greeting is there.", "{result}");
    ensure!(result["session"].is_string(), "{result}");
    Ok(())
}

/// Usage is what the provider told, not what the agent claims: that has only its last call.
fn counted_at_the_gateway(shop: &AgentsFixture, seen: &EndedTask) -> Result<()> {
    let (usage, told) = (seen.usage()?, shop.model.told());
    ensure!(usage.calls == told.calls && usage.failed_calls == 0, "{usage:?} {told:?}");
    ensure!(
        (usage.input_tokens, usage.output_tokens) == (told.input_tokens, told.output_tokens),
        "{usage:?} {told:?}"
    );
    let cost = 2 * told.input_tokens + 10 * told.output_tokens;
    ensure!(usage.cost_micro_usd == Some(cost) && !usage.estimated, "{usage:?}, not {cost}");
    let calls = seen.calls();
    ensure!(calls.len() as u64 == told.calls, "{}", seen.story());
    ensure!(calls.iter().all(|call| call["state"] == "succeeded" && call["model"] == MODEL), "{calls:?}");
    let last = seen.of_kind("usage").last().context("usage")?;
    ensure!(last.fact["input_tokens"] == told.input_tokens, "{last:?}");
    for heard in shop.model.heard() {
        ensure!(heard.key().as_deref() == Some(KEY), "{}", heard.path);
    }
    Ok(())
}

/// A second task knows what was said in the first.
async fn continued(shop: &AgentsFixture) -> Result<()> {
    shop.model.on("say it again", Script::new([Turn::say("I said it again.")]));
    let mut body = task("say it again");
    body["continue"] = json!(true);
    let seen = shop.done(&body).await?;
    seen.succeeded()?;
    ensure!(seen.text("message").contains("I said it again."), "{}", seen.story());
    let last = shop.model.calls().pop().context("a call")?.text();
    ensure!(last.contains("greet whoever comes") && last.contains("The greeting is there."), "{last}");
    Ok(())
}

/// The provider's key: in no file of hostd or of the sandbox, in no process, event or line of a log.
async fn nowhere_but_sealed(shop: &AgentsFixture, seen: &EndedTask) -> Result<()> {
    let secret = Secret::new(KEY);
    ensure!(shop.file("env.txt")?.contains("127.0.0.1:900"), "what the shell saw is not what was meant");
    ensure!(shop.file("processes.txt")?.contains("opencode"), "the shell did not see the agent");
    // Bundles, logs, workspaces, the database and its write-ahead log.
    let kept = secret.files_with_it(shop.hostd.data())?;
    ensure!(kept.hits.is_empty() && kept.files > 20, "{kept:?}");
    // Files visible only in the sandbox: its temporary files, and mounts over the host's directories.
    let root = format!("/proc/{}/root", shop.hostd.init(&shop.sandbox)?);
    for dir in ["tmp", "var/tmp", "dev/shm", "run", "etc", "home"] {
        let found = secret.files_with_it(&std::path::Path::new(&root).join(dir))?;
        ensure!(found.hits.is_empty(), "{dir}: {found:?}");
    }
    let given = secret.processes_with_it(&shop.hostd.processes()?);
    ensure!(given.hits.is_empty() && given.files > 0, "{given:?}");
    ensure!(!secret.is_in(shop.hostd.said().as_bytes()), "hostd's log has it");
    let shown = [
        seen.job.path(),
        format!("{}?follow=0&limit=1000", seen.job.events()),
        "/v1/events?follow=0&limit=1000".to_owned(),
        format!("/v1/sandboxes/{}", shop.sandbox),
        "/v1/model-providers".to_owned(),
        "/v1/models".to_owned(),
    ];
    for path in shown {
        let reply = shop.caller.get(&path).await?;
        ensure!(reply.status == 200 && !secret.is_in(&reply.body), "{path}: {}", reply.status);
    }
    Ok(())
}

/// The key that the agent had is refused now, and the metadata address always was.
async fn worth_nothing_afterwards(shop: &AgentsFixture) -> Result<()> {
    let env = shop.file("env.txt")?;
    let from = env.find("slw-").context("no placeholder in the environment")?;
    let key: String =
        env[from..].chars().take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
    let calls = shop.model.heard().len();
    let body = json!({"model": MODEL, "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]});
    let line = format!(
        "curl -s -o answer.txt -w '%{{http_code}}' -H 'x-api-key: {key}' -H 'content-type: application/json' \
         -d '{body}' http://127.0.0.1:900/model/anthropic/v1/messages"
    );
    let code = shop.caller.prints(&shop.sandbox, &line).await?;
    ensure!(code == "401", "{code} {}", shop.file("answer.txt")?);
    ensure!(shop.model.heard().len() == calls, "it was passed on");
    let line = "curl -s -o answer.txt -w '%{http_code}' http://169.254.169.254/latest/meta-data/";
    let code = shop.caller.prints(&shop.sandbox, line).await?;
    ensure!(code == "403", "{code} {}", shop.file("answer.txt")?);
    Ok(())
}

#[tokio::test]
async fn whatever_a_provider_does_wrong_is_told_in_its_words_and_ends() -> Result<()> {
    let shop = AgentsFixture::open(Dialect::Messages).await?;
    let broken = Fault::status(500, "the engine is broken");
    for (prompt, turn) in [
        ("case of a wrong key", Turn::always(Fault::EchoKey { code: 401 })),
        ("case of many requests", Turn::say("It went well. ").after(Fault::busy(1))),
        ("case of a broken engine", Turn::always(broken)),
        ("case of a cut stream", Turn::say("one two three four. ").after(Fault::Cut { after: 4 })),
        (
            "case of a slow stream",
            Turn::say("slow but sure. ").after(Fault::Slow { every: Duration::from_millis(50) }),
        ),
        ("case of silence", Turn::always(Fault::Hang)),
    ] {
        shop.model.on(prompt, Script::new([turn]));
    }

    let wrong = shop.done(&task("case of a wrong key")).await?;
    wrong.ended("failed", Some("model_failed"))?;
    ensure!(wrong.message().contains("is not good"), "{}", wrong.message());
    ensure!(
        wrong.message().ends_with("`slipway model add anthropic` replaces the key"),
        "{}",
        wrong.message()
    );
    ensure!(!Secret::new(KEY).is_in(wrong.story().as_bytes()), "the key is told: {}", wrong.story());
    let tries =
        |prompt: &str| shop.model.calls().iter().filter(|heard| heard.text().contains(prompt)).count();
    ensure!(tries("case of a wrong key") == 1, "{} tries", tries("case of a wrong key"));

    let busy = shop.done(&task("case of many requests")).await?;
    busy.succeeded()?;
    let retried = busy.calls().into_iter().any(|call| call["state"] == "retrying" && call["status"] == 429);
    ensure!(retried && busy.usage()?.retries == 1, "{}", busy.story());

    let broken = shop.done(&task("case of a broken engine")).await?;
    broken.ended("failed", Some("model_failed"))?;
    ensure!(broken.message().contains("the engine is broken"), "{}", broken.message());
    ensure!(broken.usage()?.failed_calls >= 1, "{:?}", broken.usage()?);

    let cut = shop.done(&task("case of a cut stream")).await?;
    cut.succeeded()?;
    ensure!(cut.text("message").contains("four."), "{}", cut.story());

    let slow = shop.done(&task("case of a slow stream")).await?;
    slow.succeeded()?;

    let mut body = task("case of silence");
    body["timeout_s"] = json!(12);
    let silent = shop.done(&body).await?;
    silent.ended("failed", Some("timed_out"))?;
    let running = shop.running()?;
    ensure!(running.is_empty(), "{running:?}");
    Ok(())
}

/// A shell that waits, and beside it one in a session of its own.
fn endless() -> Script {
    Script::new([Turn::shell("setsid sleep 1000 & echo > started; sleep 1000"), Turn::say("never")])
}

async fn in_the_middle(shop: &AgentsFixture, body: &Value) -> Result<Job> {
    let job = shop.submit(body).await?;
    until("the shell runs", async || {
        let sleeps = shop.running()?.iter().filter(|command| command.contains("sleep 1000")).count();
        Ok((sleeps >= 2 && shop.file("started").is_ok()).then_some(()))
    })
    .await?;
    Ok(job)
}

#[tokio::test]
async fn nothing_is_alive_after_a_cancel_or_a_timeout_in_the_middle_of_a_tool() -> Result<()> {
    let shop = AgentsFixture::open(Dialect::Messages).await?;
    shop.model.script(endless());
    let begun = Instant::now();
    let job = in_the_middle(&shop, &task("wait for ever")).await?;
    // A busy machine takes long to get there: the timeout must not come before.
    let enough = begun.elapsed() * 2 + Duration::from_secs(5);
    let reply = shop.caller.post(&format!("{}/cancel", job.path()), &json!({})).await?;
    ensure!(reply.status < 300, "{}", reply.text());
    let cancelled = shop.end_of(&job).await?;
    cancelled.ended("cancelled", Some("cancelled"))?;
    ensure!(shop.running()?.is_empty(), "{:?}", shop.running()?);

    shop.caller.prints(&shop.sandbox, &format!("rm {APP}/started")).await?;
    let mut body = task("wait for ever");
    body["timeout_s"] = json!(enough.as_secs_f64());
    let job = in_the_middle(&shop, &body).await?;
    let late = shop.end_of(&job).await?;
    late.ended("failed", Some("timed_out"))?;
    ensure!(shop.running()?.is_empty(), "{:?}", shop.running()?);
    Ok(())
}

#[tokio::test]
async fn a_task_stops_at_its_budget_and_asks_when_it_must() -> Result<()> {
    let shop = AgentsFixture::open(Dialect::Responses).await?;
    shop.model.on("spend it all", Script::new([Turn::shell("echo and again")]));
    let mut body = task("spend it all");
    body["budget"] = json!({"requests": 3});
    let spent = shop.done(&body).await?;
    spent.ended("failed", Some("budget_exceeded"))?;
    ensure!(shop.model.heard().len() == 3, "{} calls were passed on", shop.model.heard().len());
    ensure!(spent.message().contains('3'), "{}", spent.message());

    // After an edit that was allowed OpenCode asks for a method that it was not offered, and complains.
    let script = [
        Turn::write(&format!("{APP}/allowed"), "echo\nharbour\n"),
        Turn::shell("echo denied > denied"),
        Turn::say("So be it."),
    ];
    shop.model.on("ask me first", Script::new(script));
    let mut body = task("ask me first");
    body["permissions"] = json!({"default": "ask"});
    let job = shop.submit(&body).await?;
    let mut feed = TaskFeed::open(&shop.caller, &job, 0).await?.context("a stream")?;
    for decision in ["allow", "deny"] {
        let asked = |event: &protocol::api::TaskEventView| {
            event.kind == "permission" && event.fact["state"] == "asked"
        };
        feed.until(asked).await?;
        let permission = &feed.events.last().context("an event")?.fact;
        ensure!(permission["about"].to_string().contains("echo"), "{permission:?}");
        let waits: Value = shop.caller.get(&job.path()).await?.expect(200)?;
        ensure!(waits["open_permissions"] == json!([permission["id"]]), "{waits}");
        let shown = shop.hostd.ran(&["task", "get", &shop.sandbox, &job.id]).await?;
        let expected = format!("waiting for permission {}", permission["id"].as_str().context("an id")?);
        ensure!(shown.out.contains(&expected), "{shown:?}");
        let path = format!("{}/permissions/{}", job.path(), permission["id"].as_str().context("an id")?);
        let reply = shop.caller.post(&path, &json!({"decision": decision})).await?;
        ensure!(reply.status < 300, "{} {}", reply.status, reply.text());
    }
    feed.rest().await?;
    ensure!(shop.file("allowed").is_ok(), "it was not done");
    ensure!(shop.file("denied").is_err(), "it was done all the same");
    let states = feed.events.iter().filter(|event| event.kind == "permission");
    let states: Vec<&str> = states.filter_map(|event| event.fact["state"].as_str()).collect();
    ensure!(states == ["asked", "allowed", "asked", "denied"], "{states:?}");
    let seen = shop.end_of(&job).await?;
    let told = seen.text("log");
    ensure!(told.is_empty(), "what it complains of is an event: {told}");
    let printed = shop.hostd.ran(&["task", "log", &shop.sandbox, &job.id]).await?;
    ensure!(printed.err.contains("method not found"), "OpenCode does not ask any more: {}", printed.err);
    let shown = shop.hostd.ran(&["task", "follow", &shop.sandbox, &job.id]).await?;
    let question = "? allow: edit allowed\n    @@ -0,0 +1,2 @@\n    +echo\n    +harbour\n  answer with";
    ensure!(shown.out.contains(question), "{}", shown.out);
    ensure!(shown.out.contains(&format!("· model openai/{MODEL}\n")), "{}", shown.out);
    ensure!(seen.result()["models"] == json!([format!("openai/{MODEL}")]), "{}", seen.result());
    Ok(())
}

#[tokio::test]
async fn an_agent_that_was_started_in_advance_does_the_task() -> Result<()> {
    let shop = AgentsFixture::open(Dialect::Messages).await?;
    // Slowly, so that it can be looked at while it speaks.
    let slow = Fault::Slow { every: Duration::from_millis(200) };
    shop.model.script(Script::new([Turn::say("I was here before you came.").after(slow)]));
    shop.warm_up().await?;
    ensure!(shop.model.heard().is_empty(), "nothing was asked, and yet a model was called");
    let before = shop.processes_of("opencode")?;
    ensure!(!before.is_empty(), "nothing was started");
    let job = shop.submit(&task("who is there?")).await?;
    let mut feed = TaskFeed::open(&shop.caller, &job, 0).await?.context("a stream")?;
    feed.until(|event| event.kind == "message").await?;
    ensure!(shop.processes_of("opencode")? == before, "another one was started");
    let seen = shop.end_of(&job).await?;
    seen.succeeded()?;
    ensure!(seen.text("message").contains("I was here before you came."), "{}", seen.story());
    ensure!(seen.usage()?.calls == shop.model.told().calls, "{:?}", seen.usage()?);
    ensure!(shop.running()?.is_empty(), "{:?}", shop.running()?);
    Ok(())
}
