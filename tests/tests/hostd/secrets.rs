//! Secrets of a tenant: set, used by reference in a model call, rotated and removed; and in clear nowhere.

use anyhow::{Context, Result, ensure};
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;
use tests::host::Ran;
use tests::model::{Dialect, FakeModel, Script, Turn};
use tests::{Caller, Hostd};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

const FIRST: &str = "sk-secret-0123456789abcdef-of-this-test";
const SECOND: &str = "sk-secret-fedcba9876543210-its-successor";

/// An agent that makes one model call and prints the response.
const CONFIG: &str = r#"
[agents.asker]
speaks = "command"
find = ["sh"]
args = ["-c", '''exec curl -sS "$ASK_URL/chat/completions" -H "Authorization: Bearer $ASK_KEY" -H "content-type: application/json" -d '{"model":"m","messages":[{"role":"user","content":"do it"}],"tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object"}}}]}' ''']
dialects = ["openai"]
env_for.openai = { ASK_URL = "{base_url}/v1", ASK_KEY = "{key}" }
"#;

struct Fixture {
    hostd: Hostd,
    fake: FakeModel,
    admin: Caller,
    ann: Caller,
    sandbox: String,
    _config: TempDir,
}

impl Fixture {
    async fn new() -> Result<Self> {
        let config = tempfile::tempdir()?;
        let file = config.path().join("slipway.toml");
        std::fs::write(&file, CONFIG)?;
        let hostd = Hostd::start_with(&[("SLIPWAY_CONFIG", file.to_str().context("text")?)]).await?;
        let fake = FakeModel::start(None).await?;
        fake.script(Script::new([Turn::say("Done.")]));
        let (admin, ann) =
            (hostd.caller("a", "carl", "admin").await?, hostd.caller("a", "ann", "run").await?);
        let sandbox = ann.create(&json!({})).await?;
        Ok(Self { hostd, fake, admin, ann, sandbox, _config: config })
    }

    async fn set(&self, value: &str) -> Result<Value> {
        self.admin.put("/v1/secrets/openai-key", &json!({ "value": value })).await?.expect(200)
    }

    /// A provider of the tenant, whose key is the secret.
    async fn add_provider(&self) -> Result<tests::Reply> {
        let spec = json!({
            "tenant": "a", "key_from": "secret:openai-key", "base_url": self.fake.base_url(Dialect::Chat),
            "models": [{"name": "m"}], "default": "m", "verify": false,
        });
        self.hostd.operator()?.put("/v1/model-providers/openai", &spec).await
    }

    /// Runs a task that calls the model; the credential that the provider got.
    async fn key_of_a_call(&self) -> Result<Option<String>> {
        let job = self.ann.submit(&self.sandbox, &json!({"prompt": "p", "agent": "asker"})).await?;
        let result = self.ann.result_of(&job).await?;
        ensure!(result["status"] == "succeeded", "{result}");
        Ok(self.fake.heard().last().context("a call")?.key())
    }

    async fn provider(&self) -> Result<Value> {
        let page: Value = self.admin.get("/v1/model-providers").await?.expect(200)?;
        Ok(page["items"][0].clone())
    }
}

/// Files below a directory that contain one of the values.
async fn files_with_a_value(directory: &Path) -> Result<String> {
    let mut grep = Command::new("grep");
    grep.args(["-rlFa", "--devices=skip", "-e", FIRST, "-e", SECOND]).arg(directory);
    Ok(String::from_utf8(grep.output().await?.stdout)?)
}

/// Processes of this machine that have one of the values as an argument or in their environment.
fn processes_with_a_value() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let path = entry?.path();
        for file in ["cmdline", "environ"] {
            // Not a process, or one that has ended.
            let Ok(bytes) = std::fs::read(path.join(file)) else { continue };
            let text = String::from_utf8_lossy(&bytes);
            if text.contains(FIRST) || text.contains(SECOND) {
                found.push(format!("{}/{file}", path.display()));
            }
        }
    }
    Ok(found)
}

#[tokio::test]
async fn a_secret_is_used_by_reference_rotated_and_removed() -> Result<()> {
    let place = Fixture::new().await?;
    let early = place.add_provider().await?;
    let words = "there is no secret openai-key in tenant a";
    ensure!(early.status == 400 && early.text().contains(words), "{}", early.text());
    ensure!(early.error()?.detail.field.as_deref() == Some("key_from"), "{}", early.text());
    ensure!(place.set(FIRST).await?["version"] == 1);
    let added: Value = place.add_provider().await?.expect(200)?;
    ensure!(added["has_key"] == true && added["key_from"] == "secret:openai-key", "{added}");
    ensure!(place.key_of_a_call().await?.as_deref() == Some(FIRST), "the first value");
    ensure!(place.set(SECOND).await?["version"] == 2);
    ensure!(place.key_of_a_call().await?.as_deref() == Some(SECOND), "the next call uses the new value");
    let used = |page: &Value| page["items"][0]["last_used_at"].is_string();
    let listed = place.admin.until("/v1/secrets", used).await?;
    ensure!(listed["items"][0]["version"] == 2 && listed["items"][0]["updated_by"] == "carl", "{listed}");

    let removed = place.admin.delete("/v1/secrets/openai-key").await?;
    ensure!(removed.status == 204, "{}", removed.text());
    let problem = place.provider().await?["problem"].as_str().context("a problem")?.to_owned();
    ensure!(problem.contains(words), "{problem}");
    let body = json!({"prompt": "p", "agent": "asker"});
    let refused = place.ann.post(&format!("/v1/sandboxes/{}/tasks", place.sandbox), &body).await?;
    ensure!(
        refused.code()? == ApiErrorCode::Conflict && refused.text().contains(words),
        "{}",
        refused.text()
    );
    ensure!(place.admin.delete("/v1/secrets/openai-key").await?.status == 404);
    place.set(FIRST).await?;
    ensure!(place.key_of_a_call().await?.as_deref() == Some(FIRST), "set again, it is used again");
    Ok(())
}

#[tokio::test]
async fn the_value_of_a_secret_is_in_clear_nowhere() -> Result<()> {
    let mut place = Fixture::new().await?;
    let mut responses = vec![place.set(FIRST).await?.to_string()];
    responses.push(place.add_provider().await?.text());
    place.key_of_a_call().await?;
    responses.push(place.set(SECOND).await?.to_string());
    place.key_of_a_call().await?;
    let wrong = place.admin.put("/v1/secrets/no%20name", &json!({"value": FIRST})).await?;
    ensure!(wrong.status == 400, "{}", wrong.text());
    responses.push(wrong.text());
    let unknown = place.admin.put("/v1/secrets/x", &json!({"value": FIRST, "valeu": SECOND})).await?;
    ensure!(unknown.status == 400, "{}", unknown.text());
    responses.push(unknown.text());
    let operator = place.hostd.operator()?;
    for path in
        ["/v1/secrets", "/v1/model-providers", "/v1/audit", "/v1/events?follow=0&limit=1000", "/metrics"]
    {
        responses.push(operator.get(path).await?.text());
    }
    responses
        .push(place.ann.prints(&place.sandbox, "env; grep -rl sk-secret- /home /run /tmp 2>&1; true").await?);
    for (number, response) in responses.iter().enumerate() {
        ensure!(!response.contains(FIRST) && !response.contains(SECOND), "response {number}");
    }
    let backup = tempfile::tempdir()?;
    let into = format!("VACUUM INTO '{}'", backup.path().join("copy.db").display());
    let mut sqlite = Command::new("sqlite3");
    let copied = sqlite.arg(place.hostd.data().join("slipway.db")).arg(into).output().await?;
    ensure!(copied.status.success() && backup.path().join("copy.db").exists(), "{copied:?}");
    for directory in [place.hostd.data(), backup.path()] {
        let found = files_with_a_value(directory).await?;
        ensure!(found.is_empty(), "{found}");
    }
    let found = processes_with_a_value()?;
    ensure!(found.is_empty(), "{found:?}");
    place.hostd.crash().await?;
    let found = files_with_a_value(place.hostd.data()).await?;
    ensure!(found.is_empty() && !place.hostd.said().contains("sk-secret-"), "after a crash: {found}");
    Ok(())
}

#[tokio::test]
async fn with_another_key_file_or_none_it_is_said_what_to_do() -> Result<()> {
    let mut place = Fixture::new().await?;
    place.set(FIRST).await?;
    place.add_provider().await?.expect::<Value>(200)?;
    let file = place.hostd.data().join("secrets.key");
    let right = std::fs::read(&file)?;
    for (content, words) in [
        (Some("ab".repeat(32)), "sealed with another secrets.key"),
        (Some("short".to_owned()), "secrets.key of the data directory is not a key"),
        (None, "secrets.key is gone from the data directory"),
    ] {
        match &content {
            Some(content) => std::fs::write(&file, content)?,
            None => std::fs::remove_file(&file)?,
        }
        place.hostd.crash().await?;
        place.admin = Caller::tcp(place.hostd.url(), place.admin.token());
        let listed: Value = place.admin.get("/v1/secrets").await?.expect(200)?;
        let problem = listed["items"][0]["problem"].as_str().context("a problem")?;
        ensure!(problem.contains(words), "{content:?}: {problem}");
        let of_provider = place.provider().await?;
        ensure!(of_provider["problem"].as_str().is_some_and(|text| text.contains(words)), "{of_provider}");
    }
    std::fs::write(&file, right)?;
    place.hostd.crash().await?;
    place.admin = Caller::tcp(place.hostd.url(), place.admin.token());
    ensure!(place.provider().await?["problem"].is_null(), "as before");
    Ok(())
}

#[tokio::test]
async fn secrets_belong_to_their_tenant() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (of_a, of_b) = (hostd.caller("a", "carl", "admin").await?, hostd.caller("b", "carl", "admin").await?);
    of_a.put("/v1/secrets/key", &json!({"value": FIRST})).await?.expect::<Value>(200)?;
    let foreign = of_b.put("/v1/secrets/key", &json!({"value": SECOND, "tenant": "a"})).await?;
    ensure!(foreign.status == 403, "{}", foreign.text());
    ensure!(of_b.get("/v1/secrets?tenant=a").await?.status == 403);
    ensure!(of_b.delete("/v1/secrets/key?tenant=a").await?.status == 403);
    ensure!(of_b.delete("/v1/secrets/key").await?.status == 404);
    let own: Value = of_b.get("/v1/secrets").await?.expect(200)?;
    ensure!(own["items"] == json!([]), "{own}");
    for (body, field) in [
        (json!({"value": ""}), "value"),
        (json!({"value": "x".repeat((64 << 10) + 1)}), "value"),
        (json!({}), "value"),
    ] {
        let refused = of_a.put("/v1/secrets/key", &body).await?;
        ensure!(refused.status == 400 || refused.status == 413, "{}", refused.text());
        ensure!(refused.error()?.detail.field.as_deref() == Some(field), "{}", refused.text());
    }
    let operator = hostd.operator()?;
    let all: Value = operator.get("/v1/secrets").await?.expect(200)?;
    ensure!(all["items"][0]["tenant"] == "a" && all["items"][0]["version"] == 1, "{all}");
    Ok(())
}

#[tokio::test]
async fn the_command_sets_lists_and_removes() -> Result<()> {
    let hostd = Hostd::start().await?;
    let set = async |arguments: &[&str], input: &str| {
        let mut child = hostd.slipway(arguments)?.stdin(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().context("its input")?;
        stdin.write_all(input.as_bytes()).await?;
        drop(stdin);
        Ran::of(child).await
    };
    let made = set(&["secret", "set", "registry-token"], &format!("{FIRST}\n")).await?;
    ensure!(made.code == Some(0) && made.out == "registry-token set, version 1\n", "{made:?}");
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), SECOND)?;
    let from = file.path().to_str().context("text")?;
    let again = hostd.ran(&["secret", "set", "registry-token", "--from-file", from]).await?;
    ensure!(again.out == "registry-token set, version 2\n", "{again:?}");
    let of_tenant = set(&["secret", "set", "key", "--tenant", "acme"], FIRST).await?;
    ensure!(of_tenant.code == Some(0), "{of_tenant:?}");
    let listed = hostd.ran(&["secret", "ls"]).await?;
    ensure!(listed.out.contains("acme") && listed.out.contains("registry-token"), "{listed:?}");
    let only = hostd.ran(&["secret", "ls", "--tenant", "acme"]).await?;
    ensure!(!only.out.contains("registry-token"), "{only:?}");
    for (arguments, code, words) in [
        (&["secret", "set", "empty"][..], 2, "the value of empty is empty"),
        (&["secret", "set", "No"], 2, "beginning with a letter or a digit"),
        (&["secret", "rm", "none"], 1, "no secret `none`"),
    ] {
        let refused = hostd.ran(arguments).await?;
        ensure!(refused.code == Some(code) && refused.err.contains(words), "{arguments:?}: {refused:?}");
    }
    let add = ["model", "add", "openai", "--key-secret", "registry-token", "--no-check"];
    let added = hostd.ran(&add).await?;
    ensure!(added.code == Some(0) && added.out.contains("with its key"), "{added:?}");
    let models = hostd.ran(&["model", "ls"]).await?;
    ensure!(models.out.contains("secret:registry-token"), "{models:?}");
    let gone = hostd.ran(&["secret", "rm", "registry-token"]).await?;
    ensure!(gone.out == "registry-token removed\n", "{gone:?}");
    let models = hostd.ran(&["model", "ls"]).await?;
    ensure!(models.out.contains("there is no secret registry-token in tenant default"), "{models:?}");
    Ok(())
}
