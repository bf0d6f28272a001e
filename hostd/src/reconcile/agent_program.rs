//! Whether a sandbox has the program of an agent: found out before it is started, because "no such file" does
//! not say what to do.

use crate::{
    agents::Agents,
    control::{Control, ControlError},
    limits,
};
use hyper::Method;
use protocol::{Agent, ErrorCode, ProgramsRequest, ProgramsView};
use std::time::Duration;

const CALL_TIMEOUT: Duration = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);

/// The agent, started by the first of its programs that is there; or what to do where there is none.
pub async fn locate_agent(
    control: &Control,
    agents: &Agents,
    name: &str,
    agent: &Agent,
) -> Result<Result<Agent, String>, ControlError> {
    let Some(entry) = agents.table().get(name).filter(|entry| !entry.find.is_empty()) else {
        // `command`, or one that is not configured any more: what there is of it was written down.
        return Ok(Ok(agent.clone()));
    };
    let ask = ProgramsRequest { programs: entry.find.clone() };
    let asked = control.json::<ProgramsView>(Method::POST, "/v1/programs", Some(&ask), CALL_TIMEOUT).await;
    let found = match asked {
        Ok((_, view)) => view.found,
        // One that was brought up by an earlier version cannot tell, and finds out by itself.
        Err(ControlError::Refused(body)) if body.error.code == ErrorCode::NotFound => {
            return Ok(Ok(agent.clone()));
        }
        Err(error) => return Err(error),
    };
    Ok(match entry.find.iter().find_map(|program| found.get(program)) {
        Some(path) => Ok(started_by(agent.clone(), path)),
        None => Err(format!("the agent {name} is not in this sandbox: {}", agents.how_to_install(name))),
    })
}

fn started_by(mut agent: Agent, path: &str) -> Agent {
    let (argv, to_continue) = match &mut agent {
        Agent::Command { argv } => (argv, None),
        Agent::Acp(agent) => (&mut agent.argv, None),
        Agent::StreamJson(agent) => (&mut agent.argv, Some(&mut agent.argv_to_continue)),
    };
    for program in std::iter::once(argv).chain(to_continue).filter_map(|argv| argv.first_mut()) {
        path.clone_into(program);
    }
    agent
}
