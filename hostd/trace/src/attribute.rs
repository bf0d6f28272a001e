//! What a span may say about itself.

use protocol::{ExecId, TaskId, api::SandboxId};
use serde_json::{Value, json};

/// An attribute of a span. This is the whole list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    Sandbox(SandboxId),
    Task(TaskId),
    Exec(ExecId),
    /// The id of an API request: made by hostd, or checked by it.
    Request(String),
    Method(&'static str),
    /// The pattern of a route, not a path.
    Route(&'static str),
    Status(u16),
    Driver(&'static str),
    /// What the actor of a sandbox does.
    Step(&'static str),
    /// How a sandbox is woken.
    Wake(&'static str),
}

impl Attribute {
    /// The name in the conventions of OpenTelemetry, where they have one.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sandbox(_) => "slipway.sandbox",
            Self::Task(_) => "slipway.task",
            Self::Exec(_) => "slipway.exec",
            Self::Request(_) => "slipway.request",
            Self::Method(_) => "http.request.method",
            Self::Route(_) => "http.route",
            Self::Status(_) => "http.response.status_code",
            Self::Driver(_) => "slipway.driver",
            Self::Step(_) => "slipway.step",
            Self::Wake(_) => "slipway.wake",
        }
    }

    /// The value as OTLP has it in JSON, where integers are texts.
    pub(crate) fn value(&self) -> Value {
        let text = |text: &str| json!({ "stringValue": text });
        match self {
            Self::Sandbox(id) => text(id.as_str()),
            Self::Task(id) => text(id.as_str()),
            Self::Exec(id) => text(id.as_str()),
            Self::Request(id) => text(id),
            Self::Method(word) | Self::Route(word) | Self::Driver(word) => text(word),
            Self::Step(word) | Self::Wake(word) => text(word),
            Self::Status(code) => json!({ "intValue": code.to_string() }),
        }
    }
}
