//! `GET /v1/agents`: agents, whether they are installed, and whether a model is connected.

use super::{
    agent_versions,
    call::Call,
    error::{CallError, CallResult},
    model_connection,
    relay::{self, CONTROL_TIMEOUT},
    views::ok,
};
use crate::agents::{AgentDefinition, Agents, COMMAND};
use hostd_drivers::control::{Control, ControlError};
use hostd_models::{Dialect, ModelAvailability};
use hyper::Method;
use protocol::{
    ErrorCode, ProgramsRequest, ProgramsView,
    api::{AgentView, Page},
};
use std::collections::{BTreeMap, BTreeSet};

/// Programs looked up in one request to runtimed.
const PROGRAMS_MAX: usize = 64;

pub async fn list(call: Call) -> CallResult {
    let agents = call.api.agents.clone();
    let reach = model_connection::reachable_models(&call);
    let inside = match call.query.text("sandbox") {
        Some(id) => Some(sandbox_programs(&call, id, &agents).await?),
        None => None,
    };
    let view = |(name, entry): (&str, &AgentDefinition)| view(&agents, name, entry, &reach, inside.as_ref());
    let mut items: Vec<AgentView> = agents.table().iter().map(view).collect();
    // The default agent comes first.
    items.sort_by_key(|agent| !agent.default);
    Ok(ok(&Page { items, next: None }))
}

/// Programs of one sandbox: paths by program name, versions by agent name.
#[derive(Default)]
struct SandboxPrograms {
    paths: BTreeMap<String, String>,
    versions: BTreeMap<String, String>,
}

async fn sandbox_programs(call: &Call, id: &str, agents: &Agents) -> Result<SandboxPrograms, CallError> {
    let id = call.sandbox_by(id).await?.id;
    let (record, control) = call.control_of(&id).await?;
    let paths = programs(&control, agents).await?;
    let found = |(name, entry): (&str, &AgentDefinition)| {
        let path = entry.find.iter().find_map(|program| paths.get(program))?;
        Some((name.to_owned(), path.clone(), entry.version_args.clone()))
    };
    let to_query: Vec<_> =
        agents.table().iter().filter_map(found).filter(|(_, _, args)| !args.is_empty()).collect();
    let versions = agent_versions::query(call, &record, &control, to_query).await;
    Ok(SandboxPrograms { paths, versions })
}

async fn programs(control: &Control, agents: &Agents) -> Result<BTreeMap<String, String>, CallError> {
    let wanted: BTreeSet<String> = agents.table().iter().flat_map(|(_, entry)| entry.find.clone()).collect();
    let request = ProgramsRequest { programs: wanted.into_iter().take(PROGRAMS_MAX).collect() };
    let path = relay::runtimed_path(&["programs"]);
    match control.json::<ProgramsView>(Method::POST, &path, Some(&request), CONTROL_TIMEOUT).await {
        Ok((_, view)) => Ok(view.found),
        // A sandbox launched by an earlier version, whose runtimed has no such route.
        Err(ControlError::Refused(body)) if body.error.code == ErrorCode::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error.into()),
    }
}

fn view(
    agents: &Agents,
    name: &str,
    entry: &AgentDefinition,
    reach: &BTreeMap<Dialect, ModelAvailability>,
    inside: Option<&SandboxPrograms>,
) -> AgentView {
    let path = match inside {
        Some(inside) => entry.find.iter().find_map(|program| inside.paths.get(program).cloned()),
        None => agents.installed(entry),
    };
    let installed = path.is_some() || name == COMMAND;
    let best = entry.dialects.iter().filter_map(|dialect| reach.get(dialect)).max();
    let (connected, has_default) = match best {
        None => (entry.dialects.is_empty(), true),
        Some(ModelAvailability::None) => (false, true),
        Some(ModelAvailability::Named) => (true, false),
        Some(ModelAvailability::Default) => (true, true),
    };
    let mut how_to_connect = Vec::new();
    if !installed {
        how_to_connect.push(agents.how_to_install(name));
    }
    if let (false, Some(dialect)) = (connected, entry.dialects.first()) {
        how_to_connect.push(model_connection::how_to_add_provider(*dialect));
    }
    if !has_default {
        how_to_connect.push(model_connection::how_to_set_default());
    }
    AgentView {
        name: name.to_owned(),
        title: if entry.title.is_empty() { name.to_owned() } else { entry.title.clone() },
        speaks: entry.speaks.word().to_owned(),
        default: name == agents.table().default_name(),
        installed,
        path,
        version: inside.and_then(|inside| inside.versions.get(name).cloned()),
        pinned: entry.version.clone(),
        dialects: entry.dialects.iter().map(|dialect| dialect.as_str().to_owned()).collect(),
        connected,
        how_to_connect,
    }
}
