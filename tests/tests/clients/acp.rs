//! Editors that speak the Agent Client Protocol, by the published Python package, with an agent in a sandbox.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    process::Stdio,
};
use tempfile::TempDir;
use tests::{Caller, Hostd, launch::program, stock_clients::StockClient};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::Command,
};

const AGENT: &str = include_str!("../../agents/acp.py");
/// The agent continues sessions.
const CONFIG: &str = r#"
agent = "fake"

[agents.fake]
title = "An agent of the tests"
speaks = "acp"
find = ["acp-agent"]
args = ["resume"]
"#;

/// A hostd with the agent, and the directory that it is in.
struct Fixture {
    hostd: Hostd,
    caller: Caller,
    _place: TempDir,
}

impl Fixture {
    async fn new() -> Result<Self> {
        let place = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir()?;
        let bin = place.path().join("agents/bin");
        fs::create_dir_all(&bin)?;
        fs::write(bin.join("acp-agent"), AGENT)?;
        fs::set_permissions(bin.join("acp-agent"), Permissions::from_mode(0o755))?;
        let config = place.path().join("slipway.toml");
        fs::write(&config, CONFIG)?;
        let (config, agents) = (config.to_string_lossy(), place.path().join("agents"));
        let agents = agents.to_string_lossy();
        let variables = [("SLIPWAY_CONFIG", &*config), ("SLIPWAY_AGENTS_DIR", &*agents)];
        let hostd = Hostd::start_with(&variables).await?;
        let caller = hostd.caller("acme", "ann", "run").await?;
        Ok(Self { hostd, caller, _place: place })
    }

    fn script(&self, name: &str) -> Result<StockClient> {
        let token = self.caller.token().context("a token")?;
        let script = StockClient::python("acp", &format!("acp/{name}"))?;
        Ok(script.env("URL", self.hostd.url()).env("TOKEN", token))
    }

    /// Methods, with their parameters, that agents in the sandbox of a session got.
    async fn heard(&self, session: &str, method: &str) -> Result<Vec<Value>> {
        let sandbox = session.split('.').next().unwrap_or_default();
        let log = self.caller.prints(sandbox, "cat ~/acp.log").await?;
        let messages: Result<Vec<Value>, _> = log.lines().map(serde_json::from_str).collect();
        let of_method = messages?.into_iter().filter(|message| message["method"] == method);
        Ok(of_method.map(|mut message| message["params"].take()).collect())
    }

    /// Checks that the prompts of one session continued one session of the agent.
    async fn one_conversation(&self, session: &str) -> Result<()> {
        let begun = self.heard(session, "session/new").await?;
        ensure!(begun.len() == 2, "two sessions of the editor are two of the agent: {begun:?}");
        let resumed = self.heard(session, "session/resume").await?;
        let names: Vec<&str> = resumed.iter().filter_map(|params| params["sessionId"].as_str()).collect();
        // Seven prompts follow the first; one was cancelled, maybe before its agent began.
        ensure!((6..=7).contains(&names.len()), "{names:?}");
        ensure!(names.iter().all(|name| *name == names[0]), "the other session was continued: {names:?}");
        Ok(())
    }
}

#[tokio::test]
async fn an_editor_talks_to_an_agent_by_websocket_and_by_http() -> Result<()> {
    let fixture = Fixture::new().await?;
    for transport in ["socket", "http"] {
        let session = fixture.script("turns.py")?.arg(transport).run().await.context(transport)?;
        fixture.one_conversation(session.trim()).await?;
    }
    fixture.script("resumed_stream.py")?.run().await?;
    Ok(())
}

#[tokio::test]
async fn an_editor_that_is_cut_off_is_told_everything_once() -> Result<()> {
    let fixture = Fixture::new().await?;
    let session = fixture.script("cut.py")?.arg("cut").run().await?;
    let prompts = fixture.heard(session.trim(), "session/prompt").await?;
    ensure!(prompts.len() == 2, "a repeated prompt ran again: {prompts:?}");
    Ok(())
}

#[tokio::test]
async fn messages_that_are_malformed_or_not_the_callers_are_refused() -> Result<()> {
    let fixture = Fixture::new().await?;
    let other = fixture.hostd.caller("other", "stranger", "run").await?;
    let other = other.token().context("a token")?.to_owned();
    let command = fixture.script("refused.py")?.env("OTHER_TOKEN", other).into_command();
    let hostd = &fixture.hostd;
    conversation(command, async |line| {
        ensure!(line == "revoke", "{line}");
        let tokens: Value = hostd.operator()?.get("/v1/tokens").await?.expect(200)?;
        let tokens = tokens["items"].as_array().context("tokens")?;
        let own = tokens.iter().find(|token| token["principal"] == "ann").context("a token of ann")?;
        let path = format!("/v1/tokens/{}", own["id"].as_str().context("an id")?);
        ensure!(hostd.operator()?.delete(&path).await?.status == 204);
        Ok(Some(String::new()))
    })
    .await
}

#[tokio::test]
async fn a_kill_of_hostd_in_the_middle_of_prompts_loses_nothing() -> Result<()> {
    let mut fixture = Fixture::new().await?;
    let command = fixture.script("cut.py")?.arg("crash").into_command();
    let session = fixture.crashed_by(command).await?;
    let prompts = fixture.heard(&session, "session/prompt").await?;
    ensure!(prompts.len() == 2, "a prompt ran again: {prompts:?}");
    Ok(())
}

#[tokio::test]
async fn an_editor_that_starts_slipway_acp_notices_no_restart_of_hostd() -> Result<()> {
    let mut fixture = Fixture::new().await?;
    let slipway = program("slipway")?;
    // With a token, over TCP.
    let turns = fixture.script("turns.py")?.arg("stdio").arg(&slipway).arg("acp");
    let token = fixture.caller.token().context("a token")?;
    let turns = turns.env("SLIPWAY_URL", fixture.hostd.url()).env("SLIPWAY_TOKEN", token);
    let session = turns.run().await?;
    fixture.one_conversation(session.trim()).await?;
    // On the socket, which stays the same.
    let refused = fixture.hostd.ran(&["acp"]).await?;
    ensure!(refused.code == Some(1) && refused.err.contains("--operator"), "{refused:?}");
    let script = fixture.script("bridged.py")?.arg(&slipway).arg("acp").arg("--operator");
    let mut command = script.into_command();
    fixture.hostd.address(&mut command);
    fixture.caller = fixture.hostd.operator()?;
    let session = fixture.crashed_by(command).await?;
    let prompts = fixture.heard(&session, "session/prompt").await?;
    ensure!(prompts.len() == 2, "a prompt ran again: {prompts:?}");
    Ok(())
}

impl Fixture {
    /// Runs a script to its end, and kills hostd for every line `crash` of it. Returns its last line.
    async fn crashed_by(&mut self, command: Command) -> Result<String> {
        let mut last = String::new();
        conversation(command, async |line| {
            if line != "crash" {
                line.clone_into(&mut last);
                return Ok(None);
            }
            self.hostd.crash().await?;
            Ok(Some(self.hostd.url().to_owned()))
        })
        .await?;
        let token = self.caller.token().context("a token")?;
        self.caller = Caller::tcp(self.hostd.url(), Some(token));
        Ok(last)
    }
}

/// Runs a script to its end, which must be a success. Its lines are answered, where `answer` has one.
async fn conversation(
    mut command: Command,
    mut answer: impl AsyncFnMut(&str) -> Result<Option<String>>,
) -> Result<()> {
    // Its errors are those of the test.
    let mut script = command.stdin(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
    let mut input = script.stdin.take().context("its input")?;
    let mut lines = BufReader::new(script.stdout.take().context("its output")?).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some(answer) = answer(&line).await? {
            input.write_all(format!("{answer}\n").as_bytes()).await?;
        }
    }
    let ended = script.wait().await?;
    ensure!(ended.success(), "the script ended with {ended}");
    Ok(())
}
