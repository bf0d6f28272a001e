//! The invocation of an agent: from its definition to the `protocol::Agent` and environment that runtimed
//! gets. Pure.

use super::{AgentDefinition, AgentProtocol, definitions::DialectVariant, template::fill};
use hostd_models::Dialect;
use protocol::{AcpAgent, Agent, Decision, EnvMap, MODEL_URL, Permissions, StreamJsonAgent};
use std::collections::BTreeMap;

pub const HOME: &str = "/home/sandbox";
pub const APP: &str = "/home/sandbox/workspace/app";

/// Access of an agent to its model. Not `Debug`, since it holds a key.
pub struct ModelAccess {
    pub dialect: Dialect,
    pub provider: String,
    /// The name of the model as the agent gets it.
    pub model: String,
    pub key: String,
}

/// The requirements of a task on its agent.
#[derive(Default)]
pub struct InvocationRequest<'a> {
    /// The program to start, one of the definition's `find`.
    pub program: &'a str,
    pub connection: Option<&'a ModelAccess>,
    /// For an agent that brings its own access to a model.
    pub model: Option<&'a str>,
    pub briefing: Option<String>,
    pub continues: bool,
    pub permissions: Permissions,
}

pub struct Invocation {
    pub agent: Agent,
    /// Variables that the caller's environment overrides.
    pub env: EnvMap,
    /// Variables that override the caller's environment: access to the model, and who decides permissions.
    pub enforced_env: EnvMap,
}

/// Returns whether a model name is safe in JSON, TOML and arguments, where it is inserted without quoting.
pub fn model_is_plain(model: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-/:@+~".contains(&b);
    (1..=200).contains(&model.len()) && model.bytes().all(plain) && !model.starts_with('-')
}

pub fn invocation(name: &str, definition: &AgentDefinition, request: InvocationRequest<'_>) -> Invocation {
    let texts = Placeholders { connection: request.connection };
    let asks = request.permissions.default != Decision::Allow || !request.permissions.rules.is_empty();
    let (mode, env_asked) = if asks {
        (&definition.mode_asking, &definition.env_asking)
    } else {
        (&definition.mode_trusted, &definition.env_trusted)
    };
    let mut enforced_env = texts.map(env_asked);
    if let Some(connection) = request.connection {
        enforced_env.extend(
            definition
                .env_for
                .get(&variant(definition, connection))
                .map(|env| texts.map(env))
                .unwrap_or_default(),
        );
    }
    let argv = |args: &[String]| -> Vec<String> {
        std::iter::once(request.program.to_owned()).chain(args.iter().map(|text| texts.fill(text))).collect()
    };
    let mut options = texts.map(&definition.options);
    if let Some(model) = request.model {
        options.insert("model".to_owned(), model.to_owned());
    }
    let agent = match definition.speaks {
        AgentProtocol::Acp => Agent::Acp(AcpAgent {
            name: name.to_owned(),
            argv: argv(&definition.args),
            files: texts.map(&definition.files),
            authenticate: definition.authenticate.clone(),
            mode: mode.clone(),
            options,
            briefing: request.briefing,
            continues: request.continues,
            permissions: request.permissions,
        }),
        AgentProtocol::StreamJson(dialect) => Agent::StreamJson(StreamJsonAgent {
            name: name.to_owned(),
            dialect,
            argv: argv(&definition.args),
            argv_to_continue: argv(&definition.args_to_continue),
            files: texts.map(&definition.files),
            briefing: request.briefing,
            continues: request.continues,
        }),
        AgentProtocol::Command => Agent::Command { argv: argv(&definition.args) },
    };
    Invocation {
        agent,
        env: texts.map(&definition.env).into_iter().collect(),
        enforced_env: enforced_env.into_iter().collect(),
    }
}

fn variant(definition: &AgentDefinition, connection: &ModelAccess) -> DialectVariant {
    let compatible = DialectVariant::Compatible(connection.dialect);
    // A provider with the name of a dialect is its vendor.
    let is_vendor = connection.provider == connection.dialect.as_str();
    if !is_vendor && definition.env_for.contains_key(&compatible) {
        compatible
    } else {
        DialectVariant::Dialect(connection.dialect)
    }
}

struct Placeholders<'a> {
    connection: Option<&'a ModelAccess>,
}

impl Placeholders<'_> {
    fn map(&self, texts: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        texts.iter().map(|(name, text)| (name.clone(), self.fill(text))).collect()
    }

    fn fill(&self, text: &str) -> String {
        fill(text, |name| match (name, self.connection) {
            ("home", _) => Some(HOME.into()),
            ("app", _) => Some(APP.into()),
            ("base_url", Some(connection)) => {
                Some(format!("{MODEL_URL}/{}", connection.dialect.as_str()).into())
            }
            ("key", Some(connection)) => Some(connection.key.as_str().into()),
            ("model", Some(connection)) => Some(connection.model.as_str().into()),
            // Only runtimed knows `session`.
            _ => None,
        })
    }
}

#[cfg(test)]
#[path = "invocation_tests.rs"]
mod tests;
