//! Options that an editor can choose for a session: the mode of permissions, the agent and its model.

use super::{
    record::{Mode, SessionRecord},
    rpc::RpcError,
};
use crate::ApiClient;
use protocol::api::{AgentView, ModelView, Page};
use serde_json::{Value, json};

/// The option of a model for the default one.
const DEFAULT_MODEL: &str = "default";

/// Agents and models of this host.
pub struct Choices {
    agents: Vec<AgentView>,
    models: Vec<ModelView>,
}

impl Choices {
    pub async fn read(api: &ApiClient) -> Result<Self, RpcError> {
        let agents: Page<AgentView> = api.get("/v1/agents").await?;
        let models: Page<ModelView> = api.get("/v1/models").await?;
        Ok(Self { agents: agents.items, models: models.items })
    }

    /// The agent of a session that names none.
    pub fn default_agent(&self) -> Option<&str> {
        self.agents.iter().find(|agent| agent.default).map(|agent| agent.name.as_str())
    }

    pub fn has_agent(&self, name: &str) -> bool {
        self.agents.iter().any(|agent| agent.name == name)
    }

    /// Changes one option of a session.
    pub fn apply(&self, record: &mut SessionRecord, option: &str, value: &str) -> Result<(), RpcError> {
        match option {
            "mode" => record.mode = parse_mode(value)?,
            "agent" if self.has_agent(value) => value.clone_into(&mut record.agent),
            "agent" => return Err(RpcError::invalid("value", format!("no agent {value:?} on this host"))),
            "model" => record.model = (value != DEFAULT_MODEL).then(|| value.to_owned()),
            other => return Err(RpcError::invalid("configId", format!("no option {other:?}"))),
        }
        Ok(())
    }

    /// The options with their current values, as a response has them.
    pub fn show(&self, record: &SessionRecord) -> Value {
        let modes = Mode::ALL.map(|mode| json!({"value": mode.id(), "name": mode_name(mode)}));
        let usable = self
            .agents
            .iter()
            .filter(|agent| agent.installed && agent.connected || agent.name == record.agent);
        let agents: Vec<Value> =
            usable.map(|agent| json!({"value": agent.name, "name": agent.title})).collect();
        let model = record.model.as_deref().unwrap_or(DEFAULT_MODEL);
        let mut models = vec![json!({"value": DEFAULT_MODEL, "name": "Default"})];
        let named = self.models.iter().map(|model| model.name.as_str()).filter(|name| !name.ends_with("/*"));
        models.extend(named.map(|name| json!({"value": name, "name": name})));
        if !models.iter().any(|option| option["value"] == model) {
            models.push(json!({"value": model, "name": model}));
        }
        json!([
            {"id": "mode", "name": "Permissions", "category": "mode", "type": "select",
             "currentValue": record.mode.id(), "options": modes},
            {"id": "agent", "name": "Agent", "type": "select", "currentValue": record.agent, "options": agents},
            {"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": model,
             "options": models},
        ])
    }
}

pub fn parse_mode(id: &str) -> Result<Mode, RpcError> {
    Mode::parse(id).ok_or_else(|| RpcError::invalid("mode", "must be auto or ask"))
}

/// Modes as `session/set_mode` knows them.
pub fn modes(record: &SessionRecord) -> Value {
    let modes = Mode::ALL.map(|mode| json!({"id": mode.id(), "name": mode_name(mode)}));
    json!({"currentModeId": record.mode.id(), "availableModes": modes})
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Auto => "Everything inside the sandbox",
        Mode::Ask => "Ask before acting",
    }
}
