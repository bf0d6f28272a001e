//! Providers of models by the command line: their keys go in and are found nowhere again; budgets and what they
//! show; hostd with another key file.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tests::model::{Dialect, FakeModel};
use tests::{Hostd, host::Ran};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpSocket;

const KEY: &str = "sk-test-0123456789abcdef-the-real-one";
const OTHER_KEY: &str = "sk-test-fedcba9876543210-its-successor";

/// A command that gets this as its input.
async fn given(hostd: &Hostd, input: &str, arguments: &[&str]) -> Result<Ran> {
    let mut child = hostd.slipway(arguments)?.stdin(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("its input")?;
    stdin.write_all(input.as_bytes()).await?;
    drop(stdin);
    Ran::of(child).await
}

fn good(ran: Ran) -> Result<Ran> {
    ensure!(ran.code == Some(0), "{ran:?}");
    ensure!(!format!("{ran:?}").contains("sk-test"), "it shows a key: {ran:?}");
    Ok(ran)
}

/// Nothing of what is gone meanwhile.
fn if_there<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Every file below that has one of the keys in it.
fn with_a_key(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    // Things come and go in a live directory.
    let Some(entries) = if_there(std::fs::read_dir(directory))? else { return Ok(found) };
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            found.extend(with_a_key(&path)?);
        } else if kind.is_file() {
            let Some(bytes) = if_there(std::fs::read(&path))? else { continue };
            let has = |key: &str| bytes.windows(key.len()).any(|window| window == key.as_bytes());
            found.extend((has(KEY) || has(OTHER_KEY)).then_some(path));
        }
    }
    Ok(found)
}

#[tokio::test]
async fn a_key_is_given_used_rotated_and_removed_and_is_in_no_file() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let empty = good(hostd.ran(&["models"]).await?)?;
    ensure!(empty.out.contains("slipway model add"), "{}", empty.out);
    let add = [
        "model",
        "add",
        "anthropic",
        "--model",
        "large-4=large",
        "--price",
        "large-4=3,15",
        "--default",
        "large",
        "--no-check",
    ];
    let added = good(given(&hostd, &format!("{KEY}\n"), &add).await?)?;
    ensure!(
        added.out
            == "anthropic added: anthropic at https://api.anthropic.com/v1, with its key\nuses large unless a task names another\n",
        "{}",
        added.out
    );
    let models = good(hostd.ran(&["models"]).await?)?;
    ensure!(
        models.out.contains("large-4") && models.out.contains("$15") && models.out.contains("default"),
        "{}",
        models.out
    );
    ensure!(with_a_key(hostd.data())?.is_empty(), "{:?}", with_a_key(hostd.data())?);
    // Another key, from a file; then the list alone is changed.
    let file = hostd.data().with_extension("given");
    std::fs::write(&file, OTHER_KEY)?;
    let from = file.to_str().context("text")?;
    good(hostd.ran(&["model", "add", "anthropic", "--key-file", from, "--no-check"]).await?)?;
    std::fs::remove_file(&file)?;
    let keep = ["model", "add", "anthropic", "--keep-key", "--model", "small-4", "--no-check"];
    let kept = good(hostd.ran(&keep).await?)?;
    ensure!(kept.out.contains("with its key"), "{}", kept.out);
    // The key is sent to no other host.
    let elsewhere = "https://elsewhere.example.com/v1";
    let moved = ["model", "add", "anthropic", "--keep-key", "--base-url", elsewhere, "--no-check"];
    let refused = hostd.ran(&moved).await?;
    ensure!(
        refused.code == Some(1) && refused.err.contains("was given for https://api.anthropic.com:443"),
        "{refused:?}"
    );
    hostd.crash().await?;
    let listed = good(hostd.ran(&["--json", "model", "ls"]).await?)?;
    let listed: Value = serde_json::from_str(&listed.out)?;
    ensure!(listed["items"][0]["has_key"] == true && listed["items"][0]["problem"].is_null(), "{listed}");
    ensure!(listed["items"][0]["models"] == json!([{"name": "small-4"}]), "{listed}");
    ensure!(with_a_key(hostd.data())?.is_empty(), "after a crash: {:?}", with_a_key(hostd.data())?);
    good(hostd.ran(&["model", "rm", "anthropic"]).await?)?;
    ensure!(good(hostd.ran(&["model", "ls"]).await?)?.out.contains("no model providers"));
    ensure!(!hostd.said().contains("sk-test"), "hostd logs a key");
    ensure!(with_a_key(hostd.data())?.is_empty(), "after it was removed");
    hostd.stop().await
}

#[tokio::test]
async fn with_another_key_file_hostd_serves_and_says_what_to_do() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    good(given(&hostd, KEY, &["model", "add", "openai", "--no-check"]).await?)?;
    std::fs::write(hostd.data().join("models.key"), "ab".repeat(32))?;
    hostd.crash().await?;
    let listed = good(hostd.ran(&["model", "ls"]).await?)?;
    ensure!(listed.out.contains("unusable") && listed.out.contains("another models.key"), "{}", listed.out);
    let again = good(given(&hostd, KEY, &["model", "add", "openai", "--no-check"]).await?)?;
    ensure!(again.err.is_empty() && again.out.contains("with its key"), "{again:?}");
    hostd.stop().await
}

#[tokio::test]
async fn what_is_wrong_is_said_before_or_by_hostd() -> Result<()> {
    let hostd = Hostd::start().await?;
    for (arguments, code, words) in [
        (&["model", "add", "mine", "--no-key"][..], 1, "say what mine speaks"),
        // Its input is empty.
        (&["model", "add", "openai"], 2, "the key of openai is empty"),
        (
            &["model", "add", "openai", "--keep-key", "--no-check"],
            1,
            "openai is new; give its key, or no_key",
        ),
        (&["model", "add", "openai", "--no-key", "--price", "m=1,2"], 2, "there is no --model m"),
        (
            &["model", "add", "openai", "--no-key", "--default", "m", "--model", "n"],
            1,
            "not among the models",
        ),
        (&["model", "rm", "mine"], 1, "no model provider `mine`"),
        (&["budget", "set", "acme"], 1, "give a bound"),
        (&["budget", "rm", "acme"], 1, "no budget for tenant `acme`"),
    ] {
        let ran = hostd.ran(arguments).await?;
        ensure!(ran.code == Some(code) && ran.err.contains(words), "{arguments:?}: {ran:?}");
    }
    let short = given(&hostd, "a\n", &["model", "add", "openai", "--no-check"]).await?;
    ensure!(short.code == Some(1) && short.err.contains("must be 8 to"), "{short:?}");
    ensure!(good(hostd.ran(&["model", "ls"]).await?)?.out.contains("no model providers"));
    let far = "http://192.0.2.1/v1";
    let plain = ["model", "add", "far", "--dialect", "openai", "--base-url", far, "--no-check"];
    let warned = given(&hostd, KEY, &plain).await?;
    ensure!(warned.code == Some(0) && warned.err.contains("unencrypted"), "{warned:?}");
    hostd.stop().await
}

#[tokio::test]
async fn a_budget_is_set_shown_and_removed() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    good(hostd.ran(&["budget", "set", "acme", "--cost", "20", "--per", "day"]).await?)?;
    hostd.crash().await?;
    let listed = good(hostd.ran(&["budget", "ls"]).await?)?;
    ensure!(listed.out.contains("$0.00 of $20.00"), "{}", listed.out);
    let admin = hostd.caller("acme", "ann", "admin").await?;
    let seen: Value = admin.get("/v1/budgets/acme").await?.expect(200)?;
    ensure!(seen["cost_usd"] == 20.0 && seen["used"]["requests"] == 0, "{seen}");
    good(hostd.ran(&["budget", "rm", "acme"]).await?)?;
    ensure!(admin.get("/v1/budgets/acme").await?.status == 404);
    hostd.stop().await
}

#[tokio::test]
async fn a_key_alone_is_enough_and_a_wrong_one_is_told_at_once() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let fake = FakeModel::start(Some(KEY)).await?;
    for (name, speech, chosen) in [
        ("anthropic", Dialect::Messages, "claude-sonnet-4-5-20250929"),
        ("openai", Dialect::Responses, "gpt-5.1-codex"),
        ("gemini", Dialect::Generate, "gemini-2.5-pro"),
    ] {
        let url = fake.base_url(speech);
        let add = ["model", "add", name, "--base-url", &url];
        // The key is echoed by the provider only.
        let refused = given(&hostd, OTHER_KEY, &add).await?;
        ensure!(refused.code == Some(1) && refused.err.contains("does not take this key"), "{refused:?}");
        ensure!(refused.err.contains("invalid x-api-key [key]"), "{refused:?}");
        ensure!(refused.err.contains("--no-check") && !refused.err.contains("sk-test"), "{refused:?}");
        ensure!(good(hostd.ran(&["--json", "model", "ls"]).await?)?.out.matches(name).count() == 0);
        let added = good(given(&hostd, KEY, &add).await?)?;
        let expected = format!(
            "{name} added: {name} at {url}, with its key\nuses {chosen} unless a task names another\n"
        );
        ensure!(added.out == expected && added.err.is_empty(), "{added:?}");
        let unlisted = ["model", "add", name, "--base-url", &url, "--keep-key", "--model", "no-such-1"];
        let warned = good(hostd.ran(&unlisted).await?)?;
        ensure!(warned.err.contains("does not list no-such-1 among its models"), "{warned:?}");
        good(hostd.ran(&["model", "rm", name]).await?)?;
    }
    // The chosen default is stored.
    let url = fake.base_url(Dialect::Messages);
    good(given(&hostd, KEY, &["model", "add", "anthropic", "--base-url", &url]).await?)?;
    hostd.crash().await?;
    let listed: Value = serde_json::from_str(&good(hostd.ran(&["--json", "model", "ls"]).await?)?.out)?;
    ensure!(listed["items"][0]["default"] == "claude-sonnet-4-5-20250929", "{listed}");
    ensure!(good(hostd.ran(&["models"]).await?)?.out.contains("default"));
    ensure!(!hostd.said().contains("sk-test"), "hostd logs a key");
    hostd.stop().await
}

#[tokio::test]
async fn a_provider_that_cannot_be_asked_is_added_with_a_warning() -> Result<()> {
    let hostd = Hostd::start().await?;
    // The port is bound, and nothing listens on it.
    let taken = TcpSocket::new_v4()?;
    taken.bind("127.0.0.1:0".parse()?)?;
    let port = taken.local_addr()?.port();
    let url = format!("http://127.0.0.1:{port}/v1");
    let add = ["model", "add", "openai", "--base-url", &url];
    let warned = good(given(&hostd, KEY, &add).await?)?;
    ensure!(warned.out.contains("has no default"), "{warned:?}");
    ensure!(warned.err.contains("it is not known whether its key is good"), "{warned:?}");
    ensure!(warned.err.contains("the provider openai is unreachable: could not connect"), "{warned:?}");
    // The model is usable by name, but there is no default.
    let agents = good(hostd.ran(&["agents"]).await?)?.out;
    ensure!(agents.contains("no default model: name one with --model"), "{agents}");
    ensure!(good(hostd.ran(&["model", "ls"]).await?)?.out.contains(&url));
    // A provider that is reachable but has no list.
    let fake = FakeModel::start(None).await?;
    let silent = format!("http://{}/without-list/v1", fake.address());
    let mute = ["model", "add", "mine", "--dialect", "anthropic", "--base-url", &silent, "--no-key"];
    let warned = good(hostd.ran(&mute).await?)?;
    ensure!(warned.err.contains("it is not known which models it has"), "{warned:?}");
    // With `--no-check` the provider is not asked.
    let asked = fake.heard().len();
    let unasked = good(hostd.ran(&[&mute[..], &["--no-check"]].concat()).await?)?;
    ensure!(unasked.err.is_empty() && fake.heard().len() == asked, "{unasked:?}");
    hostd.stop().await
}
