//! Turns the document into specs: which keys exist and which types they hold. Whether the values make sense
//! is decided in `validate`, because specs come from the API too.

use super::error::Invalid;
use super::field::Field;
use super::parse::Document;
use super::syntax::shell_line;
use protocol::{BuildSpec, EnvMap, Health, HealthCheck, RestartPolicy, ServiceName, ServiceSpec};

const MANIFEST_KEYS: [&str; 3] = ["version", "services", "build"];
const BUILD_KEYS: [&str; 2] = ["command", "timeout"];
const SERVICE_KEYS: [&str; 9] =
    ["command", "port", "env", "cwd", "depends_on", "health", "restart", "restart_after_task", "watch"];
const HEALTH_KEYS: [&str; 6] = ["http", "tcp", "log", "command", "interval", "timeout"];

pub(super) fn read(document: &Field<'_>) -> Result<Document, Invalid> {
    let mut found = Document::default();
    if document.is_null() {
        return Ok(found);
    }
    for (key, field) in document.map("with the key services")? {
        match key {
            "version" if field.number() == Some(1) => {}
            "version" => return Err(field.refuse("must be 1, the only version there is")),
            "services" | "build" if field.is_null() => {}
            "services" => found.services = services(&field)?,
            "build" => found.build = Some(build(&field)?),
            _ => return Err(field.unknown(key, &MANIFEST_KEYS)),
        }
    }
    Ok(found)
}

/// Reads a build; `build: npm run build` is short for `build: { command: npm run build }`.
fn build(field: &Field<'_>) -> Result<BuildSpec, Invalid> {
    if field.is_text() {
        return Ok(BuildSpec { command: field.text()?, timeout_ms: None });
    }
    let (mut line, mut timeout_ms) = (None, None);
    for (key, value) in field.map("with at least the key command")? {
        match key {
            _ if value.is_null() && BUILD_KEYS.contains(&key) => {}
            "command" => line = Some(command(&value)?),
            "timeout" => timeout_ms = Some(value.duration_ms()?),
            _ => return Err(value.unknown(key, &BUILD_KEYS)),
        }
    }
    let missing = || field.refuse_inside("command", "is missing; give a shell line or a list of arguments");
    Ok(BuildSpec { command: line.ok_or_else(missing)?, timeout_ms })
}

fn services(field: &Field<'_>) -> Result<Vec<ServiceSpec>, Invalid> {
    let entries = field.map("of names, each with what to run")?;
    let service = |(name, field): (&str, Field<'_>)| match ServiceName::parse(name) {
        Ok(name) => service(name, &field),
        Err(bad) => Err(field.refuse(bad.to_string())),
    };
    entries.into_iter().map(service).collect()
}

fn service(name: ServiceName, field: &Field<'_>) -> Result<ServiceSpec, Invalid> {
    let mut line = None;
    let mut spec = blank(name);
    for (key, value) in field.map("with at least the key command")? {
        match key {
            _ if value.is_null() && SERVICE_KEYS.contains(&key) => {}
            "command" => line = Some(command(&value)?),
            "port" => spec.port = Some(value.port()?),
            "env" => spec.env = env(&value)?,
            "cwd" => spec.cwd = Some(value.text()?),
            "depends_on" => spec.depends_on = names(&value)?,
            "health" => spec.health = Some(health(&value)?),
            "restart" => spec.restart = restart(&value)?,
            "restart_after_task" => spec.restart_after_task = value.flag()?,
            "watch" => spec.watch = texts(&value, "files and directories, such as [package.json]")?,
            _ => return Err(value.unknown(key, &SERVICE_KEYS)),
        }
    }
    let missing = || field.refuse_inside("command", "is missing; give a shell line or a list of arguments");
    spec.command = line.ok_or_else(missing)?;
    Ok(spec)
}

fn blank(name: ServiceName) -> ServiceSpec {
    ServiceSpec {
        name,
        command: String::new(),
        port: None,
        env: EnvMap::new(),
        cwd: None,
        depends_on: vec![],
        health: None,
        restart: RestartPolicy::default(),
        restart_after_task: false,
        watch: vec![],
    }
}

/// A shell line as it is, or arguments quoted into one.
fn command(field: &Field<'_>) -> Result<String, Invalid> {
    if !field.is_list() {
        return field.text();
    }
    Ok(shell_line(&texts(field, "arguments")?))
}

fn env(field: &Field<'_>) -> Result<EnvMap, Invalid> {
    let entries = field.map("of variables")?;
    entries.into_iter().map(|(name, value)| Ok((name.to_owned(), value.text()?))).collect()
}

fn texts(field: &Field<'_>, what: &str) -> Result<Vec<String>, Invalid> {
    field.list(what)?.iter().map(Field::text).collect()
}

fn names(field: &Field<'_>) -> Result<Vec<ServiceName>, Invalid> {
    let name =
        |item: &Field<'_>| ServiceName::parse(&item.text()?).map_err(|bad| item.refuse(bad.to_string()));
    field.list("service names, such as [db]")?.iter().map(name).collect()
}

fn restart(field: &Field<'_>) -> Result<RestartPolicy, Invalid> {
    match field.text()?.as_str() {
        "always" => Ok(RestartPolicy::Always),
        // The API spells it with an underscore.
        "on-failure" | "on_failure" => Ok(RestartPolicy::OnFailure),
        "never" => Ok(RestartPolicy::Never),
        _ => Err(field.refuse("must be always, on-failure or never")),
    }
}

/// Reads a health check; `health: /path` is short for `health: { http: /path }`.
fn health(field: &Field<'_>) -> Result<Health, Invalid> {
    if field.is_text() {
        return Ok(Health::of(HealthCheck::Http(field.text()?)));
    }
    let (mut interval_ms, mut timeout_ms) = (Health::default_interval_ms(), Health::default_timeout_ms());
    let mut found = None;
    for (key, value) in field.map("with one of http, tcp, log and command, or a path such as /healthz")? {
        let check = match key {
            _ if value.is_null() && HEALTH_KEYS.contains(&key) => continue,
            "interval" => {
                interval_ms = value.duration_ms()?;
                continue;
            }
            "timeout" => {
                timeout_ms = value.duration_ms()?;
                continue;
            }
            "http" => HealthCheck::Http(value.text()?),
            "tcp" => HealthCheck::Tcp(value.port()?),
            "log" => HealthCheck::Log(value.text()?),
            "command" => HealthCheck::Command(command(&value)?),
            _ => return Err(value.unknown(key, &HEALTH_KEYS)),
        };
        if found.replace(check).is_some() {
            return Err(value.refuse("only one of http, tcp, log and command may be given"));
        }
    }
    let check = found.ok_or_else(|| field.refuse("must have one of http, tcp, log and command"))?;
    Ok(Health { check, interval_ms, timeout_ms })
}
