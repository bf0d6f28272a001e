//! The actions of a user on a page: open, read, click, type, wait, look.

use super::Browser;
use crate::host::until;
use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The key of an element reference in the WebDriver standard.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

impl Browser {
    /// Opens an address and waits until it is loaded.
    pub async fn open(&self, url: &str) -> Result<()> {
        self.tell("/url", &json!({"url": url})).await.with_context(|| format!("open {url}"))?;
        Ok(())
    }

    /// Goes on within a page that the page shows, until another one is opened.
    pub async fn within(&self, selector: &str) -> Result<()> {
        let element = self.element(selector).await?;
        self.tell("/frame", &json!({"id": {ELEMENT: element}})).await?;
        Ok(())
    }

    pub async fn reload(&self) -> Result<()> {
        self.tell("/refresh", &json!({})).await?;
        Ok(())
    }

    pub async fn title(&self) -> Result<String> {
        Ok(self.ask("/title").await?.as_str().context("a title")?.to_owned())
    }

    /// Runs a script in the page and returns its value.
    pub async fn script(&self, script: &str) -> Result<Value> {
        self.tell("/execute/sync", &json!({"script": script, "args": []})).await
    }

    /// The text that is to be seen in the first element of a selector; nothing when there is none.
    pub async fn text(&self, selector: &str) -> Result<Option<String>> {
        let script = "return document.querySelector(arguments[0])?.innerText ?? null";
        let found = self.tell("/execute/sync", &json!({"script": script, "args": [selector]})).await?;
        Ok(found.as_str().map(str::to_owned))
    }

    /// Waits until a text is to be seen in an element.
    pub async fn sees(&self, selector: &str, wanted: &str) -> Result<()> {
        let mut last = None;
        let looking = until("it is to be seen", async || {
            // A page that is just replaced by another cannot be asked.
            last = self.text(selector).await.unwrap_or(None);
            Ok(last.as_ref().is_some_and(|text| text.contains(wanted)).then_some(()))
        });
        let seen = looking.await;
        let Err(error) = seen else { return Ok(()) };
        let page = self.text("body").await.unwrap_or_default().unwrap_or_default();
        Err(error.context(format!("{wanted:?} in {selector}, which shows {last:?}, on: {page}")))
    }

    pub async fn click(&self, selector: &str) -> Result<()> {
        let element = self.element(selector).await?;
        self.tell(&format!("/element/{element}/click"), &json!({})).await?;
        Ok(())
    }

    pub async fn enter(&self, selector: &str, text: &str) -> Result<()> {
        let element = self.element(selector).await?;
        self.tell(&format!("/element/{element}/value"), &json!({"text": text})).await?;
        Ok(())
    }

    async fn element(&self, selector: &str) -> Result<String> {
        let body = json!({"using": "css selector", "value": selector});
        let found = self.tell("/element", &body).await?;
        Ok(found[ELEMENT].as_str().context("an element")?.to_owned())
    }

    /// Returns the console messages since the last call, from warnings on.
    pub async fn complaints(&self) -> Result<Vec<String>> {
        let entries = self.tell("/se/log", &json!({"type": "browser"})).await?;
        let entries = entries.as_array().context("a list")?;
        let severe = entries.iter().filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING");
        Ok(severe.map(|entry| entry["message"].to_string()).collect())
    }

    /// A picture of what is to be seen: in the directory that `SLIPWAY_SCREENSHOTS` names, else in one that
    /// goes with the browser.
    pub async fn picture(&self, name: &str) -> Result<PathBuf> {
        let kept = std::env::var_os("SLIPWAY_SCREENSHOTS").filter(|dir| !dir.is_empty());
        let dir = kept.map_or_else(|| self.dir.path().to_owned(), PathBuf::from);
        let path = dir.join(format!("{name}.png"));
        let shot = self.ask("/screenshot").await?;
        let bytes = STANDARD.decode(shot.as_str().context("a picture")?)?;
        ensure!(bytes.starts_with(b"\x89PNG"), "no picture");
        std::fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        Ok(path)
    }
}
