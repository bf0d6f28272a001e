//! Whether a task can be done at all, before a sandbox is made for it.

use crate::{client::ApiRequest, context::Context, failure::Failure};
use protocol::api::{AgentView, ApiErrorCode, Page, TaskCreate};

/// Fails with what to type where the agent is not known or has no model.
pub async fn preflight(context: &Context, create: &TaskCreate) -> Result<(), Failure> {
    if create.command.is_some() {
        return Ok(());
    }
    let agents: Page<AgentView> = match context.client.send(ApiRequest::get("/v1/agents")).await {
        Ok(response) => response.parse()?,
        // An earlier hostd, which judges when it is asked.
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
        let next = format!("choose one of {}; `slipway agents` tells more", names.join(", "));
        return Err(Failure::new(format!("there is no agent {name:?}")).hint(next));
    };
    if agent.connected {
        return Ok(());
    }
    let name = &agent.name;
    let next = match agent.dialects.first() {
        Some(dialect) => format!(
            "type `slipway model add {dialect}` and give it your key, then try again; `-- PROGRAM` runs a program instead of an agent"
        ),
        None => "`slipway agents` tells more".to_owned(),
    };
    Err(Failure::new(format!("the agent {name} has no model: nobody provides one that it can speak to"))
        .hint(next))
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
        assert!(told(Some("nobody")).contains("choose one of opencode, mine"), "{}", told(Some("nobody")));
    }
}
