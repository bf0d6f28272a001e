//! Reads the parameters of requests. Pure.

use super::{limits, rpc::RpcError, session_id::SessionId};
use axum::extract::Query;
use hyper::Uri;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Settings of a new session: from `_meta` of `session/new`, else from the query of the connection.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewSession {
    pub cwd: String,
    pub sandbox: Option<String>,
    pub image: Option<String>,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub mode: Option<String>,
    pub ttl: Option<String>,
    pub directory: Option<String>,
    pub command: Option<Vec<String>>,
    pub permissions: Option<protocol::Permissions>,
    /// Further fields of `POST /v1/sandboxes`.
    pub create: serde_json::Map<String, Value>,
    /// Whether the editor named servers of its own, which cannot be reached from a sandbox.
    pub names_mcp_servers: bool,
}

/// Settings that the query of a connection gives to its new sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryDefaults {
    pub sandbox: Option<String>,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub mode: Option<String>,
}

impl QueryDefaults {
    pub fn parse(uri: &Uri) -> Result<Self, String> {
        let Query(pairs) =
            Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|error| error.to_string())?;
        let mut defaults = Self::default();
        for (name, value) in pairs {
            let field = match name.as_str() {
                "sandbox" => &mut defaults.sandbox,
                "agent" => &mut defaults.agent,
                "model" => &mut defaults.model,
                "mode" => &mut defaults.mode,
                _ => {
                    return Err(format!(
                        "unknown parameter {name:?}; this call takes sandbox, agent, model, mode"
                    ));
                }
            };
            *field = Some(value).filter(|value| !value.is_empty());
        }
        Ok(defaults)
    }
}

impl NewSession {
    pub fn parse(params: &Value, defaults: &QueryDefaults) -> Result<Self, RpcError> {
        let own = |name: &str, default: &Option<String>| {
            Ok::<_, RpcError>(meta(params, name)?.or_else(|| default.clone()))
        };
        let directory: Option<String> = meta(params, "cwd")?;
        let cwd = cwd(params)?;
        Ok(Self {
            sandbox: own("sandbox", &defaults.sandbox)?,
            agent: own("agent", &defaults.agent)?,
            model: own("model", &defaults.model)?,
            mode: own("mode", &defaults.mode)?,
            image: meta(params, "image")?,
            ttl: meta(params, "ttl")?,
            command: meta(params, "command")?,
            permissions: meta(params, "permissions")?,
            create: meta(params, "create")?.unwrap_or_default(),
            directory: directory.or_else(|| is_inside(&cwd).then(|| cwd.clone())),
            names_mcp_servers: params["mcpServers"].as_array().is_some_and(|servers| !servers.is_empty()),
            cwd,
        })
    }

    /// The name of a new sandbox: that of the editor's directory.
    pub fn sandbox_name(&self, short: &str) -> String {
        let last = self.cwd.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or("acp");
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = last.chars().take(40).map(plain).collect();
        format!("{}-{short}", name.trim_matches('-'))
    }
}

/// Whether the editor's directory is one of the sandbox.
fn is_inside(cwd: &str) -> bool {
    cwd.strip_prefix("/home/sandbox").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The editor's directory.
pub fn cwd(params: &Value) -> Result<String, RpcError> {
    let cwd = text(params, "cwd")?;
    if cwd.is_empty() || cwd.len() > limits::CWD_MAX_BYTES || cwd.contains('\0') {
        return Err(RpcError::invalid("cwd", "must be an absolute path"));
    }
    Ok(cwd.to_owned())
}

pub fn session(params: &Value) -> Result<SessionId, RpcError> {
    SessionId::parse(text(params, "sessionId")?).ok_or_else(RpcError::no_session)
}

pub fn text<'a>(params: &'a Value, name: &str) -> Result<&'a str, RpcError> {
    params[name].as_str().ok_or_else(|| RpcError::invalid(name, "must be a text"))
}

/// Reads an entry of `_meta`; others' entries are ignored.
pub fn meta<T: DeserializeOwned>(params: &Value, name: &str) -> Result<Option<T>, RpcError> {
    match params["_meta"].get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value.clone())
            .map(Some)
            .map_err(|error| RpcError::invalid(&format!("_meta.{name}"), error.to_string())),
    }
}

/// The key that makes a repeated request the same one.
pub fn message_id(params: &Value) -> Result<Option<String>, RpcError> {
    let id: Option<String> = meta(params, "messageId")?;
    match id {
        Some(id) if id.is_empty() || id.len() > limits::MESSAGE_ID_MAX_BYTES => {
            let message = format!("must have 1 to {} bytes", limits::MESSAGE_ID_MAX_BYTES);
            Err(RpcError::invalid("_meta.messageId", message))
        }
        id => Ok(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_of_a_request_come_before_those_of_its_connection() {
        let uri = Uri::from_static("/acp?sandbox=web&agent=a&model=&mode=ask");
        let defaults = QueryDefaults::parse(&uri).expect("defaults");
        assert!(QueryDefaults::parse(&Uri::from_static("/acp?sandboxes=web")).is_err());
        assert_eq!(defaults.model, None);
        let params =
            json!({"cwd": "/src/My App", "mcpServers": [{}], "_meta": {"agent": "b", "x.example": 3}});
        let new = NewSession::parse(&params, &defaults).expect("settings");
        assert_eq!((new.sandbox.as_deref(), new.agent.as_deref()), (Some("web"), Some("b")));
        assert_eq!((new.mode.as_deref(), new.directory.as_deref()), (Some("ask"), None));
        assert!(new.names_mcp_servers);
        assert_eq!(new.sandbox_name("0a1b2c"), "my-app-0a1b2c");
    }

    #[test]
    fn a_directory_of_the_sandbox_is_the_agents() {
        for (cwd, meta, directory) in [
            ("/home/sandbox/workspace/app", json!({}), Some("/home/sandbox/workspace/app")),
            ("/home/sandboxes", json!({}), None),
            ("/x", json!({"cwd": "/tmp"}), Some("/tmp")),
        ] {
            let params = json!({"cwd": cwd, "_meta": meta});
            let new = NewSession::parse(&params, &QueryDefaults::default()).expect("settings");
            assert_eq!(new.directory.as_deref(), directory, "{params}");
        }
    }

    #[test]
    fn wrong_parameters_are_named() {
        for (params, field) in [
            (json!({}), "cwd"),
            (json!({"cwd": ""}), "cwd"),
            (json!({"cwd": 3}), "cwd"),
            (json!({"cwd": "/", "_meta": {"agent": 3}}), "_meta.agent"),
            (json!({"cwd": "/", "_meta": {"command": "x"}}), "_meta.command"),
        ] {
            let refused = NewSession::parse(&params, &QueryDefaults::default()).expect_err("refused");
            assert!(refused.message.starts_with(field), "{params}: {refused}");
        }
    }
}
