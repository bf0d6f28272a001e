//! Agent definitions: the built-in `agents.toml`, with the `[agents]` of the configuration merged over it.
//! Pure.

use super::template;
use hostd_models::{Dialect, compatible_variant};
use protocol::StreamDialect;
use serde::Deserialize;
use std::collections::BTreeMap;

const BUILT_IN: &str = include_str!("agents.toml");
/// The agent that runs the command of the caller.
pub const COMMAND: &str = "command";
/// The agent of a task that names none.
pub const DEFAULT: &str = "opencode";
const NAME_MAX_BYTES: usize = 32;
const AGENTS_MAX: usize = 64;
/// Placeholders of every agent, and those of an agent that is connected to a model.
const ALWAYS: [&str; 2] = ["home", "app"];
const CONNECTED: [&str; 5] = ["base_url", "key", "model", "home", "app"];

#[derive(Debug, Clone, PartialEq)]
pub struct AgentTable {
    entries: BTreeMap<String, AgentDefinition>,
    default: String,
}

/// The definition of one agent. Its placeholders have been checked.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentDefinition {
    pub title: String,
    pub speaks: AgentProtocol,
    /// Names or absolute paths of its program; the first that exists is used.
    pub find: Vec<String>,
    pub args: Vec<String>,
    pub args_to_continue: Vec<String>,
    /// Arguments with which it prints its version.
    pub version_args: Vec<String>,
    /// The version that is known to work.
    pub version: Option<String>,
    pub install: Option<Install>,
    /// The dialects it speaks to models, by preference; empty for an agent that brings its own access to a
    /// model.
    pub dialects: Vec<Dialect>,
    pub env: BTreeMap<String, String>,
    /// Variables by the dialect of its model. `openai_chat` is for servers other than OpenAI's own.
    pub env_for: BTreeMap<DialectVariant, BTreeMap<String, String>>,
    /// Variables when every tool is allowed, and when a user or a rule decides.
    pub env_trusted: BTreeMap<String, String>,
    pub env_asking: BTreeMap<String, String>,
    pub mode_trusted: Option<String>,
    pub mode_asking: Option<String>,
    /// An ACP agent asks for permissions, unless this is `false`.
    pub asks: Option<bool>,
    /// Contents of files, by their path below the home directory.
    pub files: BTreeMap<String, String>,
    pub options: BTreeMap<String, String>,
    pub authenticate: Option<String>,
}

impl AgentDefinition {
    /// Returns whether the agent asks for permissions.
    pub fn can_ask(&self) -> bool {
        self.speaks == AgentProtocol::Acp && self.asks != Some(false)
    }
}

/// For `scripts/agents`: npm packages, and the links to them in `bin`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Install {
    pub packages: Vec<String>,
    pub links: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum AgentProtocol {
    Acp,
    StreamJson(StreamDialect),
    #[default]
    Command,
}

/// A key of `env_for`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub enum DialectVariant {
    Dialect(Dialect),
    /// Servers of the dialect other than its vendor's own, where these mostly offer fewer APIs.
    Compatible(Dialect),
}

impl DialectVariant {
    fn name(self) -> Option<&'static str> {
        match self {
            Self::Dialect(dialect) => Some(dialect.as_str()),
            Self::Compatible(dialect) => compatible_variant(dialect),
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        Dialect::ALL.into_iter().flat_map(|dialect| [Self::Dialect(dialect), Self::Compatible(dialect)])
    }
}

impl TryFrom<String> for DialectVariant {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::all().find(|variant| variant.name() == Some(&text)).ok_or_else(|| {
            let names: Vec<&str> = Self::all().filter_map(Self::name).collect();
            format!("there is no dialect {text:?}; there are: {}", names.join(", "))
        })
    }
}

impl TryFrom<String> for AgentProtocol {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "acp" => Ok(Self::Acp),
            "stream-json:claude" => Ok(Self::StreamJson(StreamDialect::Claude)),
            "stream-json:codex" => Ok(Self::StreamJson(StreamDialect::Codex)),
            "command" => Ok(Self::Command),
            other => {
                Err(format!("must be acp, stream-json:claude, stream-json:codex or command, not {other:?}"))
            }
        }
    }
}

impl AgentProtocol {
    pub fn word(self) -> &'static str {
        match self {
            Self::Acp => "acp",
            Self::StreamJson(StreamDialect::Claude) => "stream-json:claude",
            Self::StreamJson(StreamDialect::Codex) => "stream-json:codex",
            Self::Command => "command",
        }
    }
}

/// An error in the configuration of an agent: the key, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct AgentConfigError {
    pub key: String,
    pub message: String,
}

fn bad(key: impl Into<String>, message: impl Into<String>) -> AgentConfigError {
    AgentConfigError { key: key.into(), message: message.into() }
}

impl AgentTable {
    /// Builds the table. `given` is `[agents]` of the configuration: new agents, and fields of built-in ones.
    pub fn new(given: &toml::Table) -> Result<Self, AgentConfigError> {
        let built_in: toml::Table =
            toml::from_str(BUILT_IN).map_err(|error| bad("agents.toml", one_line(&error)))?;
        let merged = merge(built_in, given)?;
        if merged.len() > AGENTS_MAX {
            return Err(bad("agents", format!("must be at most {AGENTS_MAX}")));
        }
        let definition = |(name, value): (String, toml::Value)| {
            let definition = parse(&name, value)?;
            Ok((name, definition))
        };
        let entries = merged.into_iter().map(definition).collect::<Result<_, _>>()?;
        Ok(Self { entries, default: DEFAULT.to_owned() })
    }

    /// Replaces the default agent.
    pub fn with_default(self, name: &str) -> Result<Self, AgentConfigError> {
        if self.get(name).is_some() && name != COMMAND {
            return Ok(Self { default: name.to_owned(), ..self });
        }
        let names: Vec<&str> = self.names().filter(|name| *name != COMMAND).collect();
        Err(bad("agent", format!("there is no agent {name:?}; there are: {}", names.join(", "))))
    }

    pub fn default_name(&self) -> &str {
        &self.default
    }

    pub fn get(&self, name: &str) -> Option<&AgentDefinition> {
        self.entries.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &AgentDefinition)> {
        self.entries.iter().map(|(name, definition)| (name.as_str(), definition))
    }
}

/// Returns whether an agent can have this name.
pub fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !name.is_empty() && name.len() <= NAME_MAX_BYTES && name.bytes().all(plain)
}

/// Merges tables key by key; other values are replaced.
fn merge(mut under: toml::Table, over: &toml::Table) -> Result<toml::Table, AgentConfigError> {
    for (name, fields) in over {
        if !is_name(name) {
            let must = format!("a name must be 1 to {NAME_MAX_BYTES} of a-z, 0-9 and -");
            return Err(bad(format!("agents.{name}"), must));
        }
        let key = format!("agents.{name}");
        let fields = fields.as_table().ok_or_else(|| bad(&key, "must be a table"))?;
        if name == COMMAND {
            return Err(bad(&key, "is what runs a command that is given: choose another name"));
        }
        let definition = under.entry(name.clone()).or_insert_with(|| toml::Table::new().into());
        merge_value(definition, &toml::Value::Table(fields.clone()));
    }
    Ok(under)
}

fn merge_value(under: &mut toml::Value, over: &toml::Value) {
    match (under, over) {
        (toml::Value::Table(under), toml::Value::Table(over)) => {
            for (key, value) in over {
                match under.get_mut(key) {
                    Some(there) => merge_value(there, value),
                    None => drop(under.insert(key.clone(), value.clone())),
                }
            }
        }
        (under, over) => *under = over.clone(),
    }
}

fn parse(name: &str, value: toml::Value) -> Result<AgentDefinition, AgentConfigError> {
    let key = format!("agents.{name}");
    let says = value.get("speaks").is_some();
    let definition: AgentDefinition = value.try_into().map_err(|error| bad(&key, one_line(&error)))?;
    if !says {
        return Err(bad(
            format!("{key}.speaks"),
            "must be acp, stream-json:claude, stream-json:codex or command",
        ));
    }
    check(name, &definition)?;
    Ok(definition)
}

fn check(name: &str, definition: &AgentDefinition) -> Result<(), AgentConfigError> {
    let key = |field: &str| format!("agents.{name}.{field}");
    let program = |text: &String| !text.is_empty() && (!text.contains('/') || text.starts_with('/'));
    if name != COMMAND && (definition.find.is_empty() || !definition.find.iter().all(program)) {
        return Err(bad(key("find"), "must be names of programs or absolute paths, at least one"));
    }
    if let Some(dialect) = definition.dialects.iter().find(|dialect| !has_env_for(definition, **dialect)) {
        let message = format!("must have {}: that is one of its dialects", dialect.as_str());
        return Err(bad(key("env_for"), message));
    }
    if definition.files.keys().any(|path| !is_relative_path(path)) {
        return Err(bad(key("files"), "must be paths below the home, without .."));
    }
    let names: &[&'static str] = if definition.dialects.is_empty() { &ALWAYS } else { &CONNECTED };
    let to_continue: Vec<&'static str> = names.iter().copied().chain(["session"]).collect();
    for (field, text) in texts(definition) {
        let names = if field == "args_to_continue" { &to_continue } else { names };
        template::check(text, names).map_err(|error| bad(key(field), error.to_string()))?;
    }
    Ok(())
}

/// Returns every text with placeholders, and the field it is in.
fn texts(definition: &AgentDefinition) -> impl Iterator<Item = (&'static str, &String)> {
    let maps = [
        ("env", &definition.env),
        ("env_trusted", &definition.env_trusted),
        ("env_asking", &definition.env_asking),
        ("files", &definition.files),
        ("options", &definition.options),
    ];
    let env_for = definition.env_for.values().flat_map(|env| env.values().map(|text| ("env_for", text)));
    let maps = maps.into_iter().flat_map(|(field, map)| map.values().map(move |text| (field, text)));
    let args = definition.args.iter().map(|text| ("args", text));
    let to_continue = definition.args_to_continue.iter().map(|text| ("args_to_continue", text));
    maps.chain(env_for).chain(args).chain(to_continue)
}

fn has_env_for(definition: &AgentDefinition, dialect: Dialect) -> bool {
    definition.env_for.contains_key(&DialectVariant::Dialect(dialect))
}

fn is_relative_path(path: &str) -> bool {
    !path.is_empty() && path.split('/').all(|part| !matches!(part, "" | "." | "..")) && !path.contains('\0')
}

fn one_line(error: &toml::de::Error) -> String {
    error.message().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "definitions_tests.rs"]
mod tests;
