//! Claude Code, Codex, Gemini, Goose and Qwen themselves, once each from the prompt to the end, through the gateway;
//! whether they do what is denied, and whether they outlive hostd.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::TaskFeed;
use tests::agents::{APP, AgentsFixture, EndedTask, KEY};
use tests::host::until;
use tests::model::{Dialect, Fault, ReceivedRequest, Script, Turn};

/// The same job for each: a file, a shell that fails, an edit, a word.
async fn whole_job(agent: &str, speech: Dialect) -> Result<()> {
    let shop = AgentsFixture::open(speech).await?;
    let file = format!("{APP}/greet.sh");
    shop.model.script(Script::new([
        Turn::say("I begin. ").and_call(write(&file)),
        Turn::shell(&format!("sh {file}; exit 3")),
        Turn::edit(&file, "world", "harbour"),
        Turn::say("The greeting is there."),
    ]));
    let body =
        json!({"prompt": "greet whoever comes", "agent": agent, "build": "sh greet.sh | grep harbour"});
    let seen = shop.done(&body).await?;
    seen.succeeded()?;
    let text = seen.text("message");
    ensure!(text.contains("I begin.") && text.contains("The greeting is there."), "{text}");
    ensure!(shop.file("greet.sh")? == "echo hello harbour\n");
    let shell = seen.tool_about("exit 3")?;
    ensure!(shell.get("tool").is_some_and(|kind| kind == "execute"), "{shell:?}: {}", seen.story());
    ensure!(seen.tools().len() >= 3, "{}", seen.story());
    let result = seen.result();
    ensure!(result["build"]["status"] == "passed" && result["files_changed"]["added"] == 1, "{result}");
    let (usage, told) = (seen.usage()?, shop.model.told());
    ensure!(
        (usage.calls, usage.input_tokens, usage.output_tokens)
            == (told.calls, told.input_tokens, told.output_tokens),
        "{usage:?} {told:?}"
    );
    ensure!(shop.model.heard().iter().all(|heard| heard.key().as_deref() == Some(KEY)));
    ensure!(shop.running()?.is_empty(), "{:?}", shop.running()?);
    Ok(())
}

fn write(path: &str) -> tests::model::Intent {
    tests::model::Intent::WriteFile { path: path.to_owned(), content: "echo hello world\n".to_owned() }
}

/// A denied action is not performed, by any agent that supports permissions.
async fn obeys(agent: &str, speech: Dialect) -> Result<()> {
    let shop = AgentsFixture::open(speech).await?;
    shop.model
        .script(Script::new([Turn::shell(&format!("touch {APP}/made.txt")), Turn::say("As you wish.")]));
    let body = json!({"prompt": "make a file", "agent": agent, "permissions": {"default": "deny"}});
    let seen = shop.done(&body).await?;
    let denied = seen.of_kind("permission").any(|event| event.fact["state"] == "denied");
    ensure!(denied, "it did not ask: {}", seen.story());
    ensure!(shop.file("made.txt").is_err(), "it was done all the same: {}", seen.story());
    Ok(())
}

#[tokio::test]
async fn agents_that_ask_do_not_do_what_is_denied() -> Result<()> {
    for (agent, speech) in [
        ("opencode", Dialect::Messages),
        ("claude", Dialect::Messages),
        ("gemini", Dialect::Generate),
        ("goose", Dialect::Chat),
        ("qwen", Dialect::Chat),
    ] {
        obeys(agent, speech).await.with_context(|| agent.to_owned())?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gone {
    Killed,
    Stopped,
}

/// hostd goes in the middle of an answer, and comes again; how the task ended.
async fn hostd_goes(how: Gone, agent: &str, speech: Dialect) -> Result<EndedTask> {
    let mut shop = AgentsFixture::open(speech).await?;
    let hangs = Turn::say("I am back.").after(Fault::Stall { after: 2 });
    shop.model.on("say where you are", Script::new([hangs]));
    let job = shop.submit(&json!({"prompt": "say where you are", "agent": agent, "build": ""})).await?;
    until("the model is asked", async || {
        let asked = |heard: &ReceivedRequest| heard.text().contains("say where you are");
        Ok(shop.model.calls().iter().any(asked).then_some(()))
    })
    .await?;
    if agent == "goose" {
        // An agent without a response retries.
        let mut feed = TaskFeed::open(&shop.caller, &job, 0).await?.context("a stream")?;
        feed.until(|event| event.kind == "message").await?;
    }
    if how == Gone::Stopped {
        shop.hostd.terminate().await?;
    }
    shop.hostd.crash().await?;
    shop.caller = shop.hostd.operator()?;
    shop.end_of(&job).await
}

/// The agent asks again, and the task goes on.
async fn outlives_hostd(agent: &str, speech: Dialect) -> Result<()> {
    let seen = hostd_goes(Gone::Killed, agent, speech).await?;
    seen.succeeded()?;
    ensure!(seen.text("message").contains("I am back."), "{}", seen.story());
    Ok(())
}

/// Goose takes what came for the whole answer, and says that all is well.
#[tokio::test]
async fn half_an_answer_is_not_believed() -> Result<()> {
    for how in [Gone::Killed, Gone::Stopped] {
        let seen = hostd_goes(how, "goose", Dialect::Chat).await?;
        let result = seen.result();
        ensure!(result["failure_reason"] == "model_failed", "{how:?}: {}", seen.story());
        let said = result["message"].as_str().context("it says why")?;
        ensure!(said.contains("was interrupted: hostd stopped"), "{how:?}: {said}");
        ensure!(seen.usage()?.failed_calls == 1, "{how:?}: {result}");
    }
    Ok(())
}

#[tokio::test]
async fn a_task_goes_on_when_hostd_is_killed_in_the_middle_of_an_answer() -> Result<()> {
    for (agent, speech) in [
        ("opencode", Dialect::Messages),
        ("claude", Dialect::Messages),
        ("claude-cli", Dialect::Messages),
        ("codex", Dialect::Responses),
        ("codex-cli", Dialect::Responses),
    ] {
        outlives_hostd(agent, speech).await.with_context(|| agent.to_owned())?;
    }
    Ok(())
}

#[tokio::test]
async fn claude_code_does_a_whole_job() -> Result<()> {
    whole_job("claude", Dialect::Messages).await
}

#[tokio::test]
async fn claude_code_does_a_whole_job_by_its_own_lines() -> Result<()> {
    whole_job("claude-cli", Dialect::Messages).await
}

#[tokio::test]
async fn codex_does_a_whole_job() -> Result<()> {
    whole_job("codex", Dialect::Responses).await
}

#[tokio::test]
async fn codex_does_a_whole_job_by_its_own_lines() -> Result<()> {
    whole_job("codex-cli", Dialect::Responses).await
}

#[tokio::test]
async fn gemini_does_a_whole_job() -> Result<()> {
    whole_job("gemini", Dialect::Generate).await
}

#[tokio::test]
async fn goose_does_a_whole_job() -> Result<()> {
    whole_job("goose", Dialect::Chat).await
}

#[tokio::test]
async fn qwen_does_a_whole_job() -> Result<()> {
    whole_job("qwen", Dialect::Chat).await
}
