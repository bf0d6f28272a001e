//! The whole of it: from one command to an app in a browser. The model is scripted; everything else is real.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;
use tests::Browser;
use tests::agents::{APP, AgentsFixture};
use tests::model::{Dialect, Intent, Script, Turn};
use tests::packages::Npm;
use tokio::time::timeout;

/// A download is as slow as the network is.
const PATIENCE: Duration = Duration::from_secs(300);

const PACKAGE: &str = r#"{
  "name": "harbour",
  "private": true,
  "type": "module",
  "scripts": { "dev": "vite --port 3000 --strictPort" },
  "dependencies": { "vite": "8.3.8" }
}
"#;
const PAGE: &str = r#"<!doctype html>
<html>
  <head><title>Harbour</title><link rel="icon" href="data:,"></head>
  <body><h1></h1><button>sail</button><script type="module" src="/main.js"></script></body>
</html>
"#;
const CODE: &str = r#"document.querySelector('h1').textContent = 'Ships in harbour: ' + [1, 2, 3].length
document.querySelector('button').onclick = () => { document.querySelector('h1').textContent = 'At sea' }
"#;
const MANIFEST: &str = "services:\n  web:\n    command: npm run dev\n    port: 3000\n    health: /\n";

fn app() -> Script {
    let write = |name: &str, content: &str| Intent::WriteFile {
        path: format!("{APP}/{name}"),
        content: content.to_owned(),
    };
    Script::new([
        Turn::say("A page, its code, and what they need. ")
            .and_call(write("package.json", PACKAGE))
            .and_call(write("index.html", PAGE))
            .and_call(write("main.js", CODE)),
        Turn::shell("npm install --no-audit --no-fund --loglevel=error && ls node_modules/.bin/vite"),
        Turn::write(&format!("{APP}/sandbox.yaml"), MANIFEST),
        Turn::say("It serves on port 3000."),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn one_command_makes_an_app_that_a_browser_shows() -> Result<()> {
    let npm = Npm::of_this_machine()?;
    let except = [("SLIPWAY_EGRESS_PRIVATE", &*npm.exception()?)];
    let shop = AgentsFixture::open_with(Dialect::Messages, json!({}), &except).await?;
    let browser = Browser::start().await?;
    shop.model.script(app());
    let registry = format!("npm_config_registry={}", npm.registry);
    let authorities = format!("npm_config_cafile={}", npm.authorities);
    let arguments = [
        "run",
        "--keep",
        "--public",
        "--memory",
        "3G",
        "--env",
        &registry,
        "--env",
        &authorities,
        "make a small Vite app on port 3000",
    ];
    let command = shop.hostd.slipway(&arguments)?.spawn()?;
    let output = timeout(PATIENCE, command.wait_with_output()).await.context("it does not end")??;
    let (out, err) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    ensure!(output.status.success(), "{out}\n{err}\n{}", shop.hostd.said());
    for words in ["A page, its code", "npm install", "It serves on port 3000.", "succeeded"] {
        ensure!(out.contains(words), "{words:?} is not in {out}");
    }
    let url = out.split_whitespace().find(|word| word.contains("-3000.")).context("no preview is shown")?;
    browser.open(url).await?;
    browser.sees("h1", "Ships in harbour: 3").await?;
    browser.click("button").await?;
    browser.sees("h1", "At sea").await?;
    ensure!(browser.title().await? == "Harbour");
    let complaints = browser.complaints().await?;
    ensure!(complaints.is_empty(), "{complaints:?}");
    browser.picture("mission").await?;
    went_through_the_proxy(&shop, &registry).await
}

/// The packages came by the guarded way, and it is written down which task fetched them.
async fn went_through_the_proxy(shop: &AgentsFixture, registry: &str) -> Result<()> {
    let host =
        registry.split("//").nth(1).and_then(|rest| rest.split(['/', ':']).next()).context("a host")?;
    let allowed = |event: &Value| {
        let text = event.to_string();
        text.contains(host) && text.contains("allowed") && text.contains("task")
    };
    // The proxy only counts at once; the event is written a moment later.
    let told = |page: &Value| page["items"].as_array().is_some_and(|events| events.iter().any(allowed));
    shop.caller.until("/v1/events?follow=0&limit=1000&kind=egress", told).await?;
    let stays: Value = shop.caller.get("/v1/sandboxes?limit=10").await?.expect(200)?;
    ensure!(stays["items"].as_array().is_some_and(|all| all.len() == 2), "{stays}");
    Ok(())
}
