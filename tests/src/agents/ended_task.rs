//! A task that has ended, and what its events say.

use crate::host::Job;
use anyhow::{Context, Result, ensure};
use protocol::Usage;
use protocol::api::TaskEventView;
use serde_json::{Map, Value};

#[derive(Debug)]
pub struct EndedTask {
    pub job: Job,
    pub events: Vec<TaskEventView>,
}

impl EndedTask {
    pub fn result(&self) -> &Value {
        self.events.last().and_then(|done| done.fact.get("result")).unwrap_or(&Value::Null)
    }

    /// Ended so; with a reason where it failed.
    pub fn ended(&self, status: &str, reason: Option<&str>) -> Result<()> {
        let result = self.result();
        let right = result["status"] == status && result["failure_reason"].as_str() == reason;
        ensure!(right, "not {status} {reason:?} but {result}\n{}", self.story());
        Ok(())
    }

    /// Ended well, and told without what agents print beside their messages.
    pub fn succeeded(&self) -> Result<()> {
        self.ended("succeeded", None)?;
        let told = self.text("log");
        let noise = ["jsonrpc", "RequestError", "    at ", "fs/write_text_file"];
        ensure!(!noise.iter().any(|word| told.contains(word)), "noise among the events: {told}");
        Ok(())
    }

    /// Returns the failure message of the result.
    pub fn message(&self) -> &str {
        self.result()["message"].as_str().unwrap_or_default()
    }

    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a TaskEventView> {
        self.events.iter().filter(move |event| event.kind == kind)
    }

    /// All that the agent said, or thought, in one piece.
    pub fn text(&self, kind: &str) -> String {
        let mut text = String::new();
        for event in self.of_kind(kind) {
            text += event.fact.get("text").and_then(Value::as_str).unwrap_or_default();
            if event.fact.get("partial") != Some(&Value::Bool(true)) {
                text.push('\n');
            }
        }
        text
    }

    /// Each use of a tool, with what was told of it first and last put together.
    pub fn tools(&self) -> Vec<Map<String, Value>> {
        let mut tools: Vec<Map<String, Value>> = Vec::new();
        for event in self.of_kind("tool") {
            let known = tools.iter_mut().find(|tool| tool.get("id") == event.fact.get("id"));
            match known {
                Some(tool) => tool.extend(event.fact.clone()),
                None => tools.push(event.fact.clone()),
            }
        }
        tools
    }

    /// The use of a tool that is about this.
    pub fn tool_about(&self, word: &str) -> Result<Map<String, Value>> {
        let found =
            self.tools().into_iter().find(|tool| Value::Object(tool.clone()).to_string().contains(word));
        found.with_context(|| format!("no tool about {word}:\n{}", self.story()))
    }

    /// Calls as hostd saw them, tries too.
    pub fn calls(&self) -> Vec<&Map<String, Value>> {
        self.of_kind("model").filter(|event| event.number.is_none()).map(|event| &event.fact).collect()
    }

    pub fn usage(&self) -> Result<Usage> {
        serde_json::from_value(self.result()["usage"].clone())
            .with_context(|| format!("no usage in {}\n{}", self.result(), self.story()))
    }

    /// Formats the events without long fields, for the message of a failed test.
    pub fn story(&self) -> String {
        let line = |event: &TaskEventView| {
            let fact = Value::Object(event.fact.clone()).to_string();
            format!(
                "{} {:?} {} {}",
                event.seq,
                event.number,
                event.kind,
                fact.chars().take(400).collect::<String>()
            )
        };
        self.events.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}
