//! Validation of service specs, from a manifest or from the API. Fields are named as the API names them.
//! Nothing outside the spec is looked at: a directory may appear after the service was requested.

use super::error::Invalid;
use super::syntax::{segment, show_ms};
use crate::core::service_graph::{self, GraphError};
use crate::limits::{
    ARG_MAX_BYTES, ARGV_ENV_MAX_BYTES, ENV_MAX_COUNT, HEALTH_INTERVAL_MAX_MS, HEALTH_INTERVAL_MIN_MS,
    HEALTH_PATTERN_MAX_BYTES, HEALTH_TIMEOUT_MAX_MS, PATH_MAX_BYTES, SERVICES_MAX, TIMEOUT_MAX_MS,
    WATCH_PATHS_MAX,
};
use protocol::limits::HEALTH_TIMEOUT_MIN_MS;
use protocol::{BuildSpec, EnvMap, Health, HealthCheck, ServiceSpec, validate};
use regex_lite::{Regex, RegexBuilder};

/// Limit of a compiled log pattern: `a{999}{999}` is short and huge.
const PATTERN_PROGRAM_MAX_BYTES: usize = 256 << 10;

/// Validates all specs, each by itself and together.
pub fn validate_all(specs: &[ServiceSpec]) -> Result<(), Invalid> {
    at_most("services", specs.len(), SERVICES_MAX, "services")?;
    for spec in specs {
        validate(spec).map_err(|invalid| invalid.within(&format!("services.{}", spec.name)))?;
    }
    service_graph::check(specs).map_err(|error| {
        let field = match &error {
            GraphError::Unknown { service, .. } => format!("services.{service}.depends_on"),
            GraphError::Cycle { path } => match path.first() {
                Some(first) => format!("services.{first}.depends_on"),
                None => "services".into(),
            },
            GraphError::Duplicate { name } => format!("services.{name}"),
        };
        Invalid::new(field, error.to_string())
    })
}

/// Validates one spec. Fields are named from the spec on: `port`, `env.PATH`, `health.http`.
pub fn validate(spec: &ServiceSpec) -> Result<(), Invalid> {
    text("command", &spec.command, ARG_MAX_BYTES)?;
    if spec.port == Some(0) {
        return Err(Invalid::new("port", "must be a number from 1 to 65535"));
    }
    env(&spec.env, spec.command.len())?;
    if let Some(cwd) = &spec.cwd {
        text("cwd", cwd, PATH_MAX_BYTES)?;
    }
    at_most("depends_on", spec.depends_on.len(), SERVICES_MAX, "names")?;
    if let Some(checked) = &spec.health {
        health(checked, spec.port)?;
    }
    at_most("watch", spec.watch.len(), WATCH_PATHS_MAX, "paths")?;
    spec.watch.iter().enumerate().try_for_each(|(index, path)| watched(&format!("watch[{index}]"), path))
}

/// Validates a build spec.
pub(super) fn validate_build(build: &BuildSpec) -> Result<(), Invalid> {
    text("build.command", &build.command, ARG_MAX_BYTES)?;
    build.timeout_ms.map_or(Ok(()), |ms| between("build.timeout_ms", ms, 1..=TIMEOUT_MAX_MS))
}

/// Compiles the pattern of a log check within bounds. All matching uses this function.
pub fn log_pattern(pattern: &str) -> Result<Regex, regex_lite::Error> {
    RegexBuilder::new(pattern).size_limit(PATTERN_PROGRAM_MAX_BYTES).build()
}

fn env(env: &EnvMap, command_bytes: usize) -> Result<(), Invalid> {
    at_most("env", env.len(), ENV_MAX_COUNT, "variables")?;
    let mut all_bytes = command_bytes;
    for (name, value) in env {
        validate::env_variable(&format!("env.{}", segment(name)), name, value)?;
        all_bytes += name.len() + value.len() + 1;
    }
    if all_bytes > ARGV_ENV_MAX_BYTES {
        return Err(Invalid::new("env", format!("must be at most {ARGV_ENV_MAX_BYTES} bytes in all")));
    }
    Ok(())
}

fn health(health: &Health, port: Option<u16>) -> Result<(), Invalid> {
    match &health.check {
        HealthCheck::Http(path) => http_path(path, port)?,
        HealthCheck::Tcp(0) => return Err(Invalid::new("health.tcp", "must be a number from 1 to 65535")),
        HealthCheck::Tcp(_) => {}
        HealthCheck::Log(pattern) => {
            text("health.log", pattern, HEALTH_PATTERN_MAX_BYTES)?;
            let explain = |error| format!("must be a regular expression: {error}");
            log_pattern(pattern).map_err(|error| Invalid::new("health.log", explain(error)))?;
        }
        HealthCheck::Command(line) => text("health.command", line, ARG_MAX_BYTES)?,
    }
    let interval = HEALTH_INTERVAL_MIN_MS..=HEALTH_INTERVAL_MAX_MS;
    between("health.interval_ms", health.interval_ms, interval)?;
    between("health.timeout_ms", health.timeout_ms, HEALTH_TIMEOUT_MIN_MS..=HEALTH_TIMEOUT_MAX_MS)
}

/// The path goes into a request line as it is, so it must not be able to end that line.
fn http_path(path: &str, port: Option<u16>) -> Result<(), Invalid> {
    let refuse = |message: &str| Err(Invalid::new("health.http", message));
    text("health.http", path, PATH_MAX_BYTES)?;
    if !path.starts_with('/') {
        return refuse("must be a path that starts with /, such as /healthz");
    }
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refuse("must be printable ASCII without spaces; write other characters as %20");
    }
    if port.is_none() {
        return refuse("needs the port of the service; give port, too");
    }
    Ok(())
}

/// Watched paths lie below the app directory.
fn watched(field: &str, path: &str) -> Result<(), Invalid> {
    text(field, path, PATH_MAX_BYTES)?;
    if path.starts_with('/') || path.split('/').any(|part| part == "..") {
        return Err(Invalid::new(field, "must be relative to the app directory, without .."));
    }
    Ok(())
}

fn text(field: &str, text: &str, max_bytes: usize) -> Result<(), Invalid> {
    if text.trim().is_empty() {
        return Err(Invalid::new(field, "must not be empty"));
    }
    Ok(validate::text(field, text, max_bytes)?)
}

fn at_most(field: &str, count: usize, max: usize, what: &str) -> Result<(), Invalid> {
    if count <= max { Ok(()) } else { Err(Invalid::new(field, format!("must be at most {max} {what}"))) }
}

fn between(field: &str, ms: u64, allowed: std::ops::RangeInclusive<u64>) -> Result<(), Invalid> {
    if allowed.contains(&ms) {
        return Ok(());
    }
    let (least, most) = (show_ms(*allowed.start()), show_ms(*allowed.end()));
    Err(Invalid::new(field, format!("must be from {least} to {most}")))
}
