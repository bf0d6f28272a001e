//! Locates the program of an agent in a sandbox before a task starts it, because "no such file" does not say what to
//! do.

use crate::agents::Agents;
use hostd_core::limits;
use hostd_drivers::control::{Control, ControlError};
use hyper::Method;
use protocol::{Agent, ErrorCode, ProgramsRequest, ProgramsView};
use std::time::Duration;

const CALL_TIMEOUT: Duration = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);

/// Returns the agent with the path of the first of its programs that exists, or what to do where none does.
pub async fn locate_agent(
    control: &Control,
    agents: &Agents,
    name: &str,
    agent: &Agent,
) -> Result<Result<Agent, String>, ControlError> {
    let Some(entry) = agents.table().get(name).filter(|entry| !entry.find.is_empty()) else {
        // `command`, or an agent that is not configured any more: the task has all there is.
        return Ok(Ok(agent.clone()));
    };
    let ask = ProgramsRequest { programs: entry.find.clone() };
    let asked = control.json::<ProgramsView>(Method::POST, "/v1/programs", Some(&ask), CALL_TIMEOUT).await;
    let found = match asked {
        Ok((_, view)) => view.found,
        // An earlier runtimed has no such route, and finds the program by itself.
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
