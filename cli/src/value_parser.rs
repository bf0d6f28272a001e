//! Parsers of flag values. Pure; every error says what is expected.

use protocol::{
    EnvMap, Health, HealthCheck, RestartPolicy, ServiceName, ServiceSpec,
    api::{Label, SandboxScope, ScopeKind},
};
use serde::{Deserialize as _, de::IntoDeserializer as _};

/// Parses `K=V`, or `K` for the value of the variable in our environment.
pub fn env(text: &str) -> Result<(String, String), String> {
    env_from(text, |name| std::env::var(name).ok())
}

fn env_from(text: &str, own: impl Fn(&str) -> Option<String>) -> Result<(String, String), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value.to_owned()),
        None => (text, own(text).ok_or_else(|| format!("{text} is not set here; write {text}=VALUE"))?),
    };
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err("must be NAME=VALUE, or NAME to pass on your own".to_owned());
    }
    Ok((name.to_owned(), value))
}

/// Parses a file of `K=V` lines. Empty lines and `#` comments are skipped, `export` before a name is allowed, and one
/// pair of quotes around a value is removed.
pub fn env_file(text: &str) -> Result<EnvMap, String> {
    let mut map = EnvMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let (name, value) = env(line).map_err(|error| format!("line {}: {error}", index + 1))?;
        map.insert(name, unquoted(&value).to_owned());
    }
    Ok(map)
}

fn unquoted(value: &str) -> &str {
    let inside = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inside('"').or_else(|| inside('\'')).unwrap_or(value)
}

/// Parses `K=V` with a non-empty key.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("must be KEY=VALUE".to_owned()),
    }
}

/// Parses a size to mebibytes: a number, or one with `m`, `g` or `t` (`512`, `512m`, `2g`).
pub fn megabytes(text: &str) -> Result<u64, String> {
    const WRONG: &str = "must be a number of MiB, or one with a unit, as in 512m or 2g";
    let lower = text.to_ascii_lowercase();
    let number = lower.trim_end_matches("ib").trim_end_matches('b');
    let (digits, factor) = match number.as_bytes().last() {
        Some(b'm') => (&number[..number.len() - 1], 1),
        Some(b'g') => (&number[..number.len() - 1], 1 << 10),
        Some(b't') => (&number[..number.len() - 1], 1 << 20),
        _ => (number, 1),
    };
    let value: u64 = digits.parse().map_err(|_| WRONG)?;
    value.checked_mul(factor).filter(|mb| *mb > 0).ok_or_else(|| WRONG.to_owned())
}

/// Parses `kind:key`, or a kind that needs no key.
pub fn scope(text: &str) -> Result<SandboxScope, String> {
    const WRONG: &str = "must be KIND:KEY, with KIND one of agent-run, agent-instance, conversation, \
                         runtime-instance, custom; or shared-project-user alone";
    let (kind, key) = match text.split_once(':') {
        Some((kind, key)) => (kind, Some(key)),
        None => (text, None),
    };
    let deserializer: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
        kind.into_deserializer();
    let kind = ScopeKind::deserialize(deserializer).map_err(|_| WRONG)?;
    if (kind == ScopeKind::SharedProjectUser) == key.is_some() {
        return Err(WRONG.to_owned());
    }
    let key = key.map(Label::parse).transpose().map_err(|error| format!("the key {error}"))?;
    Ok(SandboxScope { kind, key })
}

/// Parses a duration to seconds: a number, or one with `ms`, `s`, `m` or `h`.
pub fn seconds(text: &str) -> Result<f64, String> {
    const WRONG: &str = "must be a positive number of seconds, or one with a unit, as in 90s or 15m";
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (digits, factor) = units
        .iter()
        .find_map(|(unit, factor)| text.strip_suffix(unit).map(|digits| (digits, *factor)))
        .unwrap_or((text, 1.0));
    let value: f64 = digits.parse().map_err(|_| WRONG)?;
    let positive = value.is_finite() && value > 0.0;
    if positive { Ok(value * factor) } else { Err(WRONG.to_owned()) }
}

const SERVICE_KEYS: [&str; 7] = ["name", "command", "port", "cwd", "depends_on", "health", "restart"];

/// Parses `name=web,command=npm run dev,port=3000`. A comma that is not followed by a key belongs to the value.
pub fn service(text: &str) -> Result<ServiceSpec, String> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for part in text.split(',') {
        let field =
            part.split_once('=').filter(|(key, _)| SERVICE_KEYS.contains(key) || key.starts_with("env."));
        match (field, fields.last_mut()) {
            (Some((key, value)), _) => fields.push((key.to_owned(), value.to_owned())),
            (None, Some((_, value))) => {
                value.push(',');
                value.push_str(part);
            }
            (None, None) => return Err(format!("must begin with one of {} and =", SERVICE_KEYS.join(", "))),
        }
    }
    build_service(&fields)
}

fn build_service(fields: &[(String, String)]) -> Result<ServiceSpec, String> {
    let given = |key: &str| fields.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    let name = |text: &str| ServiceName::parse(text).map_err(|error| format!("{text:?}: {error}"));
    let port =
        given("port").map(|text| text.parse().map_err(|_| format!("port {text:?} must be 1 to 65535")));
    let depends_on = fields.iter().filter(|(key, _)| key == "depends_on").map(|(_, value)| name(value));
    let env =
        fields.iter().filter_map(|(key, value)| Some((key.strip_prefix("env.")?.to_owned(), value.clone())));
    Ok(ServiceSpec {
        name: name(given("name").ok_or("has no name=")?)?,
        command: given("command").ok_or("has no command=")?.to_owned(),
        port: port.transpose()?,
        env: env.collect(),
        cwd: given("cwd").map(ToOwned::to_owned),
        depends_on: depends_on.collect::<Result<_, _>>()?,
        health: given("health").map(health).transpose()?,
        restart: given("restart").map_or(Ok(RestartPolicy::Always), restart)?,
        restart_after_task: false,
        watch: Vec::new(),
    })
}

fn restart(text: &str) -> Result<RestartPolicy, String> {
    match text {
        "always" => Ok(RestartPolicy::Always),
        "on-failure" | "on_failure" => Ok(RestartPolicy::OnFailure),
        "never" => Ok(RestartPolicy::Never),
        _ => Err(format!("restart={text} must be always, on-failure or never")),
    }
}

fn health(text: &str) -> Result<Health, String> {
    let check = match text.split_once(':') {
        _ if text.starts_with('/') => HealthCheck::Http(text.to_owned()),
        Some(("tcp", port)) => {
            HealthCheck::Tcp(port.parse().map_err(|_| format!("port {port:?} must be 1 to 65535"))?)
        }
        Some(("log", pattern)) => HealthCheck::Log(pattern.to_owned()),
        Some(("command", line)) => HealthCheck::Command(line.to_owned()),
        _ => return Err(format!("health={text} must be /path, tcp:PORT, log:PATTERN or command:LINE")),
    };
    Ok(Health::of(check))
}

#[cfg(test)]
#[path = "value_parser_tests.rs"]
mod tests;
