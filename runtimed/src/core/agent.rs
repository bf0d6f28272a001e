//! Agents as the task code sees them: what to run, its input, and how it is asked to stop. Decoding of output
//! is in `shim/event_writer.rs` and beside it; a new agent protocol adds to both and changes nothing else.

use super::acp::PromptTurn;
use crate::limits::ACP_STOP_REQUEST_MS;
use protocol::{AcpAgent, Agent, EnvMap, StreamDialect, TaskId, TaskRequest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Placeholder for the session id in the arguments that continue a session.
const SESSION_PLACEHOLDER: &str = "{session}";

/// How the output of a job of a task is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputProtocol {
    /// Plain text: the prompt is the input, lines are messages.
    Command,
    /// Plain text: lines are log output.
    Build,
    /// The Agent Client Protocol.
    Acp,
    /// Lines of JSON.
    Json(StreamDialect),
}

impl OutputProtocol {
    pub fn of(agent: &Agent) -> Self {
        match agent {
            Agent::Command { .. } => Self::Command,
            Agent::Acp(_) => Self::Acp,
            Agent::StreamJson(agent) => Self::Json(agent.dialect),
        }
    }

    /// How long a stop request in the agent's own protocol may take. It comes first, then stdin is closed and
    /// the tree gets SIGTERM, all within the one grace period. 0 where the protocol has no such request.
    pub fn stop_request_ms(self) -> u64 {
        match self {
            Self::Acp => ACP_STOP_REQUEST_MS,
            Self::Command | Self::Build | Self::Json(_) => 0,
        }
    }
}

/// The program to run for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub argv: Vec<String>,
    pub env: EnvMap,
    /// Written to stdin, which is then closed.
    pub input: String,
    pub protocol: OutputProtocol,
}

/// The program for a task, continuing `session` where given.
pub fn program(id: &TaskId, request: &TaskRequest, session: Option<&str>) -> Program {
    let mut env = request.env.clone();
    let protocol = OutputProtocol::of(&request.agent);
    if protocol != OutputProtocol::Acp {
        env.insert("SLIPWAY_PROMPT".to_owned(), request.prompt.clone());
    }
    env.insert("SLIPWAY_TASK".to_owned(), id.to_string());
    Program { argv: argv_for(&request.agent, session), env, input: input(request, session), protocol }
}

/// The prompt turn of an ACP agent.
pub fn turn(request: &TaskRequest) -> Option<(&AcpAgent, PromptTurn)> {
    let Agent::Acp(agent) = &request.agent else { return None };
    let (briefing, permissions) = (agent.briefing.clone(), agent.permissions.clone());
    Some((agent, PromptTurn { prompt: request.prompt.clone(), briefing, permissions }))
}

/// Files that the agent needs in the home directory.
pub fn files(agent: &Agent) -> BTreeMap<String, String> {
    match agent {
        Agent::Command { .. } => BTreeMap::new(),
        Agent::Acp(agent) => agent.files.clone(),
        Agent::StreamJson(agent) => agent.files.clone(),
    }
}

/// Whether the agent continues its last session, where there is one and it can.
pub fn continues(agent: &Agent) -> bool {
    match agent {
        Agent::Command { .. } => false,
        Agent::Acp(agent) => agent.continues,
        Agent::StreamJson(agent) => agent.continues && !agent.argv_to_continue.is_empty(),
    }
}

/// Whether the output is also kept as it is: its lines are not its events.
pub fn keeps_raw_output(agent: &Agent) -> bool {
    match agent {
        Agent::Command { .. } => false,
        Agent::Acp(_) | Agent::StreamJson(_) => true,
    }
}

fn argv_for(agent: &Agent, session: Option<&str>) -> Vec<String> {
    match (agent, session) {
        (Agent::StreamJson(agent), Some(session)) => {
            agent.argv_to_continue.iter().map(|arg| arg.replace(SESSION_PLACEHOLDER, session)).collect()
        }
        (Agent::Command { .. } | Agent::Acp(_) | Agent::StreamJson(_), _) => argv(agent).to_vec(),
    }
}

/// The briefing is sent once per session.
fn input(request: &TaskRequest, session: Option<&str>) -> String {
    let briefing = match &request.agent {
        Agent::StreamJson(agent) => agent.briefing.as_deref().filter(|_| session.is_none()),
        Agent::Command { .. } | Agent::Acp(_) => None,
    };
    briefing.map_or_else(|| request.prompt.clone(), |briefing| format!("{briefing}\n\n{}", request.prompt))
}

pub fn argv(agent: &Agent) -> &[String] {
    match agent {
        Agent::Command { argv } => argv,
        Agent::Acp(agent) => &agent.argv,
        Agent::StreamJson(agent) => &agent.argv,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::StreamJsonAgent;

    #[test]
    fn a_conversation_that_goes_on_has_other_arguments_and_no_briefing() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let agent = StreamJsonAgent {
            name: "claude-cli".to_owned(),
            dialect: StreamDialect::Claude,
            argv: words("claude -p"),
            argv_to_continue: words("claude -p --resume {session} --named=a{session}b"),
            files: Default::default(),
            briefing: Some("You are in a sandbox.".to_owned()),
            continues: true,
        };
        let request: TaskRequest = serde_json::from_value(serde_json::json!({
            "prompt": "do it", "agent": {"kind": "command", "argv": ["true"]},
        }))
        .expect("a request");
        let request = TaskRequest { agent: Agent::StreamJson(agent), ..request };
        let id = TaskId::parse("t").expect("an id");
        let begun = program(&id, &request, None);
        assert_eq!(
            (begun.argv, begun.input.as_str()),
            (words("claude -p"), "You are in a sandbox.\n\ndo it")
        );
        let gone_on = program(&id, &request, Some("s1"));
        assert_eq!(gone_on.argv, words("claude -p --resume s1 --named=as1b"));
        assert_eq!(gone_on.input, "do it");
        assert!(continues(&request.agent) && keeps_raw_output(&request.agent));
    }
}
