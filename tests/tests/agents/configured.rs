//! Agents that the configuration names, from the file to what they do in a sandbox.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tests::host::until;
use tests::{Caller, Hostd, Job, messages};

const SMALL: &str = include_str!("../../agents/small.py");
const CONFIG: &str = r#"
agent = "small"

[agents.small]
title = "A small one"
speaks = "acp"
find = ["not-there", "small-agent"]
args = ["--acp"]
version_args = ["--version"]

[agents.gone]
speaks = "acp"
find = ["gone-agent"]

[agents.teller]
speaks = "command"
find = ["sh"]
args = ["-c", "env | grep ^TOLD_ | sort; cat"]
dialects = ["openai"]
env = { TOLD_SOFT = "agent" }
env_for.openai = { TOLD_URL = "{base_url}/v1", TOLD_KEY = "{key}", TOLD_MODEL = "{model}", TOLD_HOME = "{home}" }
"#;

/// A hostd with these agents, and the directory they are in.
async fn hostd() -> Result<(Hostd, TempDir)> {
    let place = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir()?;
    let agents = place.path().join("agents");
    for dir in ["bin", "small"] {
        fs::create_dir_all(agents.join(dir))?;
    }
    let program = agents.join("small/agent.py");
    fs::write(&program, SMALL)?;
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    symlink("../small/agent.py", agents.join("bin/small-agent"))?;
    let config = write(place.path(), "slipway.toml", CONFIG)?;
    let variables = [("SLIPWAY_CONFIG", text(&config)?), ("SLIPWAY_AGENTS_DIR", text(&agents)?)];
    Ok((Hostd::start_with(&variables).await?, place))
}

fn write(dir: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = dir.join(name);
    fs::write(&path, text)?;
    Ok(path)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("text")
}

async fn agent_of(caller: &Caller, query: &str, name: &str) -> Result<Value> {
    let page: Value = caller.get(&format!("/v1/agents{query}")).await?.expect(200)?;
    let agents = page["items"].as_array().context("items")?;
    agents.iter().find(|agent| agent["name"] == name).cloned().with_context(|| format!("no {name} in {page}"))
}

#[tokio::test]
async fn an_agent_of_a_few_lines_does_a_task() -> Result<()> {
    let (hostd, _place) = hostd().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    // No agent is named, so the default is used.
    let job = caller.submit(&sandbox, &json!({"prompt": "hello"})).await?;
    let events = caller.events_of(&job).await?;
    let said = messages(&events);
    let told = said.first().context("it says something")?;
    ensure!(told.starts_with("told: You work in a sandbox") && told.ends_with("| hello"), "{said:?}");
    ensure!(said[1] == "arguments: --acp, in /home/sandbox/workspace/app", "{said:?}");
    let result = &events.last().context("done")?.fact["result"];
    ensure!(result["status"] == "succeeded", "{result}");
    let task: Value = caller.get(&job.path()).await?.expect(200)?;
    ensure!(task["agent"] == "small", "{task}");
    // Told nothing but the prompt.
    let bare = caller.submit(&sandbox, &json!({"prompt": "hello", "briefing": "", "cwd": "/tmp"})).await?;
    let events = caller.events_of(&bare).await?;
    let said = messages(&events);
    ensure!(said == ["told: hello", "arguments: --acp, in /tmp"], "{said:?}");
    Ok(())
}

#[tokio::test]
async fn what_is_installed_is_told_and_sandboxes_only_read_it() -> Result<()> {
    let (hostd, _place) = hostd().await?;
    let caller = hostd.operator()?;
    let small = agent_of(&caller, "", "small").await?;
    ensure!(small["installed"] == true && small["connected"] == true && small["default"] == true, "{small}");
    ensure!(small["path"] == "/opt/slipway/agents/bin/small-agent", "{small}");
    let gone = agent_of(&caller, "", "gone").await?;
    ensure!(gone["installed"] == false && gone["how_to_connect"][0].is_string(), "{gone}");
    let sandbox = caller.create(&json!({})).await?;
    let line =
        "command -v small-agent; touch /opt/slipway/agents/bin/x 2>&1; rm -rf /opt/slipway/agents 2>&1; true";
    let body = json!({"shell": line});
    let path = format!("/v1/sandboxes/{sandbox}/execs");
    let ran: Value = caller.post(&path, &body).await?.expect(200)?;
    let out = ran["stdout"].as_str().context("output")?;
    ensure!(out.starts_with("/opt/slipway/agents/bin/small-agent\n"), "{ran}");
    ensure!(out.contains("Read-only file system"), "{ran}");
    ensure!(agent_of(&caller, "", "small").await?["installed"] == true, "it is still there");
    let shown = hostd.ran(&["agents"]).await?;
    ensure!(shown.code == Some(0) && shown.out.contains("\nsmall *     ready"), "{shown:?}");
    Ok(())
}

/// Waits until the task has asked for something; its id.
async fn asked(caller: &Caller, job: &Job) -> Result<String> {
    until("it asks", async || {
        let page: Value =
            caller.get(&format!("{}?follow=0&kind=permission", job.events())).await?.expect(200)?;
        let asked = page["items"].as_array().and_then(|items| items.first());
        Ok(asked.and_then(|event| event["id"].as_str()).map(str::to_owned))
    })
    .await
}

#[tokio::test]
async fn what_an_agent_asks_for_is_answered_by_whoever_may() -> Result<()> {
    let (hostd, _place) = hostd().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    let body = json!({"prompt": "run: echo done > made.txt; echo fine", "permissions": {"default": "ask"}});
    let job = caller.submit(&sandbox, &body).await?;
    let path = format!("{}/permissions/{}", job.path(), asked(&caller, &job).await?);
    let stranger = hostd.caller("other", "stranger", "run").await?;
    ensure!(stranger.post(&path, &json!({"decision": "allow"})).await?.status == 404);
    ensure!(caller.post(&path, &json!({"decision": "allow", "option": "nothing"})).await?.status >= 400);
    let allowed = caller.post(&path, &json!({"decision": "allow"})).await?;
    ensure!(allowed.status == 204, "{}", allowed.text());
    let events = caller.events_of(&job).await?;
    let result = &events.last().context("done")?.fact["result"];
    ensure!(result["status"] == "succeeded" && result["files_changed"]["added"] == 1, "{result}");
    let tool = events.iter().rev().find(|event| event.kind == "tool").context("a tool")?;
    ensure!(tool.fact["status"] == "completed" && tool.fact["exit_code"] == 0, "{tool:?}");

    // By the command, this time not.
    let body = json!({"prompt": "run: touch no.txt", "permissions": {"default": "ask"}});
    let job = caller.submit(&sandbox, &body).await?;
    let id = asked(&caller, &job).await?;
    let listed = hostd.ran(&["task", "ls", &sandbox]).await?;
    ensure!(listed.out.contains(&format!("waiting for permission {id}")), "{listed:?}");
    let denied = hostd.ran(&["task", "deny", &sandbox, &job.id, &id]).await?;
    ensure!(denied.code == Some(0), "{denied:?}");
    ensure!(messages(&caller.events_of(&job).await?).contains(&"not allowed"));
    // A deny rule decides without a request to a client.
    let rules = json!({"rules": [{"about": "touch *", "then": "deny"}]});
    let job = caller.submit(&sandbox, &json!({"prompt": "run: touch no.txt", "permissions": rules})).await?;
    ensure!(messages(&caller.events_of(&job).await?).contains(&"not allowed"));
    Ok(())
}

#[tokio::test]
async fn an_agent_that_is_not_there_says_how_to_install_it() -> Result<()> {
    let (hostd, _place) = hostd().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    let job = caller.submit(&sandbox, &json!({"prompt": "hello", "agent": "gone"})).await?;
    let result = caller.result_of(&job).await?;
    ensure!(result["failure_reason"] == "spawn_failed", "{result}");
    let message = result["message"].as_str().context("a message")?;
    ensure!(message.contains("put `gone-agent` on the PATH"), "{message}");
    let small = agent_of(&caller, &format!("?sandbox={sandbox}"), "small").await?;
    ensure!(small["installed"] == true && small["path"] == "/opt/slipway/agents/bin/small-agent", "{small}");
    let gone = agent_of(&caller, &format!("?sandbox={sandbox}"), "gone").await?;
    ensure!(gone["installed"] == false, "{gone}");
    Ok(())
}

#[tokio::test]
async fn an_agent_is_told_the_way_to_its_model_and_no_key_of_ours() -> Result<()> {
    let (hostd, _place) = hostd().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    let body = json!({"prompt": "hello", "agent": "teller"});
    let refused = caller.post(&format!("/v1/sandboxes/{sandbox}/tasks"), &body).await?;
    ensure!(refused.status == 422 && refused.text().contains("slipway model add"), "{}", refused.text());
    let said = hostd.ran(&["run", "--agent", "teller", "hello"]).await?;
    ensure!(said.code == Some(125) && said.err.contains("slipway model add openai"), "{said:?}");
    let provider = json!({"dialect": "openai", "base_url": "http://127.0.0.1:9/v1", "key": "the-real-key",
        "models": [{"name": "model-1"}], "default": "model-1"});
    caller.put("/v1/model-providers/local", &provider).await?.expect::<Value>(200)?;
    let env = json!({"TOLD_URL": "mine", "TOLD_SOFT": "mine", "TOLD_OWN": "mine"});
    let job = caller.submit(&sandbox, &json!({"prompt": "hello", "agent": "teller", "env": env})).await?;
    let events = caller.events_of(&job).await?;
    let said = messages(&events);
    let find = |name: &str| {
        said.iter()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .with_context(|| format!("no {name}: {said:?}"))
    };
    ensure!(find("TOLD_URL")? == "http://127.0.0.1:900/model/openai/v1");
    ensure!(find("TOLD_MODEL")? == "model-1" && find("TOLD_HOME")? == "/home/sandbox");
    ensure!(find("TOLD_SOFT")? == "mine" && find("TOLD_OWN")? == "mine");
    ensure!(find("TOLD_KEY")?.starts_with("slw-") && !format!("{said:?}").contains("the-real-key"));
    ensure!(said.last().is_some_and(|line| *line == "hello"), "the prompt is its input: {said:?}");
    Ok(())
}

#[tokio::test]
async fn a_task_gets_the_agent_that_was_started_for_it() -> Result<()> {
    let (hostd, _place) = hostd().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    let warm = format!("/v1/sandboxes/{sandbox}/warm");
    let starts = async || caller.prints(&sandbox, "cat ~/starts").await;
    ensure!(caller.get(&warm).await?.status == 404, "no agent was started");
    let answer: Value = caller.post(&warm, &json!({})).await?.expect(202)?;
    ensure!(answer["agent"] == "small", "{answer}");
    until("it is ready", async || {
        let there: Value = caller.get(&warm).await?.expect(200)?;
        Ok((there["ready"] == true).then_some(()))
    })
    .await?;
    // Asked for again, by its name or without, it is the one that is there.
    for again in [json!({}), json!({"agent": "small"})] {
        let answer: Value = caller.post(&warm, &again).await?.expect(202)?;
        ensure!(answer["ready"] == true && answer["agent"] == "small", "{answer}");
    }
    ensure!(starts().await? == "x", "{}", starts().await?);
    // Another directory is another session: it starts one of its own, and leaves this one alone.
    let other = caller.submit(&sandbox, &json!({"prompt": "hello", "cwd": "/tmp"})).await?;
    ensure!(caller.result_of(&other).await?["status"] == "succeeded");
    ensure!(starts().await? == "xx", "{}", starts().await?);
    let job = caller.submit(&sandbox, &json!({"prompt": "hello"})).await?;
    let events = caller.events_of(&job).await?;
    let said = messages(&events);
    ensure!(said[0].ends_with("| hello"), "it is told as any other: {said:?}");
    ensure!(starts().await? == "xx", "nothing was started for it");
    // The warm agent is used up.
    ensure!(caller.get(&warm).await?.status == 404, "it has had its task");
    let next = caller.submit(&sandbox, &json!({"prompt": "hello"})).await?;
    ensure!(caller.result_of(&next).await?["status"] == "succeeded");
    ensure!(starts().await? == "xxx");
    // Another wish is another agent, and takes the place of the one before.
    for (cwd, count) in [("/tmp", "xxxx"), ("/home/sandbox", "xxxxx")] {
        caller.post(&warm, &json!({"cwd": cwd})).await?.expect::<Value>(202)?;
        until("it starts", async || Ok((starts().await? == count).then_some(()))).await?;
    }
    let refused = caller.post(&warm, &json!({"agent": "command"})).await?;
    ensure!(refused.status == 400, "{}", refused.text());
    Ok(())
}
