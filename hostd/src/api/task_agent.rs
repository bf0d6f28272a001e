//! Chooses the agent of a task, and checks that it supports the request.

use super::error::CallError;
use crate::agents::{AgentDefinition, AgentProtocol, AgentTable, COMMAND, model_is_plain};
use protocol::{
    Decision, Permissions,
    api::{ApiError, ApiErrorCode, TaskCreate},
    validate,
};

pub const BRIEFING_MAX_BYTES: usize = 64 << 10;
pub const RULES_MAX: usize = 64;
pub const PATTERN_MAX_BYTES: usize = 1 << 10;

/// An agent of the table.
#[derive(Debug, Clone, Copy)]
pub struct ChosenAgent<'a> {
    pub name: &'a str,
    pub entry: &'a AgentDefinition,
}

/// Returns the agent named by the task, or the default; an error where it does not support the request.
pub fn choose<'a>(create: &'a TaskCreate, table: &'a AgentTable) -> Result<ChosenAgent<'a>, CallError> {
    let unnamed = || if create.command.is_some() { COMMAND } else { table.default_name() };
    let name = create.agent.as_deref().unwrap_or_else(unnamed);
    let entry = table.get(name).ok_or_else(|| unknown(name, table))?;
    let choice = ChosenAgent { name, entry };
    choice.check_command(create)?;
    choice.check_model(create)?;
    choice.check_session(create)?;
    choice.check_permissions(create.permissions.as_ref())?;
    choice.check_briefing(create)?;
    Ok(choice)
}

fn unknown(name: &str, table: &AgentTable) -> CallError {
    let error = ApiError::new(ApiErrorCode::Unsupported, format!("no agent {name:?} on this host"));
    let with = error.with(|detail| {
        detail.field = Some("agent".to_owned());
        detail.supported = table.names().map(str::to_owned).collect();
    });
    with.into()
}

impl ChosenAgent<'_> {
    fn refusal(self, field: &str, why: &str) -> CallError {
        CallError::invalid(field, format!("the agent {} {why}", self.name))
    }

    fn check_command(self, create: &TaskCreate) -> Result<(), CallError> {
        match (&create.command, self.name) {
            (Some(argv), COMMAND) => Ok(validate::argv("command", argv)?),
            (None, COMMAND) => Err(CallError::invalid("command", "give the program and its arguments")),
            (Some(_), _) => Err(self.refusal("command", "takes no command: only the agent `command` does")),
            (None, _) if create.prompt.is_empty() => {
                Err(CallError::invalid("prompt", "must not be empty: say what the agent is to do"))
            }
            (None, _) => Ok(()),
        }
    }

    fn check_model(self, create: &TaskCreate) -> Result<(), CallError> {
        let Some(model) = &create.model else { return Ok(()) };
        if self.entry.dialects.is_empty() && self.entry.speaks != AgentProtocol::Acp {
            return Err(self.refusal("model", "has no model"));
        }
        if model_is_plain(model) {
            return Ok(());
        }
        Err(CallError::invalid("model", "must be 1 to 200 letters, digits and . _ - / : @ + ~"))
    }

    fn check_session(self, create: &TaskCreate) -> Result<(), CallError> {
        let has_sessions = match self.entry.speaks {
            AgentProtocol::Acp => true,
            AgentProtocol::StreamJson(_) => !self.entry.args_to_continue.is_empty(),
            AgentProtocol::Command => false,
        };
        if create.continues == Some(true) && !has_sessions {
            return Err(self.refusal("continue", "has no sessions to continue"));
        }
        let Some(session) = &create.session else { return Ok(()) };
        if create.continues != Some(true) {
            return Err(CallError::invalid("session", "names what `continue` continues: give both"));
        }
        Ok(validate::session("session", session)?)
    }

    fn check_permissions(self, permissions: Option<&Permissions>) -> Result<(), CallError> {
        let Some(permissions) = permissions else { return Ok(()) };
        let restricts = permissions.default != Decision::Allow || !permissions.rules.is_empty();
        if restricts && !self.entry.can_ask() {
            return Err(self.refusal("permissions", "does not ask for permissions: choose another agent"));
        }
        if permissions.rules.len() > RULES_MAX {
            return Err(CallError::invalid("permissions.rules", format!("must be at most {RULES_MAX}")));
        }
        let long = |text: &Option<String>| text.as_ref().is_some_and(|text| text.len() > PATTERN_MAX_BYTES);
        if permissions.rules.iter().any(|rule| long(&rule.tool) || long(&rule.about)) {
            let message = format!("a pattern must be at most {PATTERN_MAX_BYTES} bytes");
            return Err(CallError::invalid("permissions.rules", message));
        }
        Ok(())
    }

    fn check_briefing(self, create: &TaskCreate) -> Result<(), CallError> {
        let Some(briefing) = &create.briefing else { return Ok(()) };
        if self.entry.speaks == AgentProtocol::Command {
            return Err(self.refusal("briefing", "takes no briefing"));
        }
        Ok(validate::text("briefing", briefing, BRIEFING_MAX_BYTES)?)
    }
}
