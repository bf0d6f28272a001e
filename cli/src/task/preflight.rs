//! Checks that a task can run, before a sandbox is created for it.

use crate::{client::ApiRequest, context::Context, failure::Failure};
use protocol::api::{AgentView, ApiErrorCode, Page, TaskCreate};

/// Fails, with the command that helps, where the agent is unknown or has no model.
pub async fn preflight(context: &Context, create: &TaskCreate) -> Result<(), Failure> {
    if create.command.is_some() {
        return Ok(());
    }
    let agents: Page<AgentView> = match context.client.send(ApiRequest::get("/v1/agents")).await {
        Ok(response) => response.parse()?,
        // An older hostd without this route checks at submit.
        Err(error) if error.is(ApiErrorCode::NotFound) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    check_agent(&agents.items, create.agent.as_deref())
}

fn check_agent(agents: &[AgentView], named: Option<&str>) -> Result<(), Failure> {
    let found = agents.iter().find(|agent| named.map_or(agent.default, |name| agent.name == name));
    let Some(agent) = found else {
        let Some(name) = named else { return Ok(()) };
        let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
        let next = format!("choose one of {}; `slipway agents` has details", names.join(", "));
        return Err(Failure::new(format!("there is no agent {name:?}")).hint(next));
    };
    if agent.connected {
        return Ok(());
    }
    let name = &agent.name;
    let next = match agent.dialects.first() {
        Some(dialect) => format!(
            "add one with `slipway model add {dialect}`, then try again; or run a program instead of an agent with `-- PROGRAM`"
        ),
        None => "`slipway agents` has details".to_owned(),
    };
    Err(Failure::new(format!("the agent {name} has no model: no provider is configured for it")).hint(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_before_anything_is_made() {
        let agent = |name: &str, default, connected| AgentView {
            name: name.to_owned(),
            default,
            connected,
            dialects: vec!["anthropic".to_owned()],
            ..AgentView::default()
        };
        let agents = [agent("opencode", true, false), agent("mine", false, true)];
        assert!(check_agent(&agents, Some("mine")).is_ok());
        let told = |named| format!("{:?}", check_agent(&agents, named).expect_err("refused"));
        assert!(told(None).contains("slipway model add anthropic"), "{}", told(None));
        assert!(told(Some("unknown")).contains("choose one of opencode, mine"), "{}", told(Some("unknown")));
    }
}
