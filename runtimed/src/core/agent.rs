//! What the machinery of tasks knows of agents: what to run, what it is given, and how it is asked to stop.
//! All of that is here, and how its output is read is in `shim/lines.rs`; another agent is another of both, and
//! nothing else changes.

use super::acp::PromptTurn;
use crate::limits::ACP_STOP_REQUEST_MS;
use protocol::{AcpAgent, Agent, EnvMap, StreamDialect, TaskId, TaskRequest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The place of a conversation's name in the arguments that go on with it.
const SESSION_PLACEHOLDER: &str = "{session}";

/// The language of a program that writes the events of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputProtocol {
    /// None: the prompt is its input, its lines are messages.
    Command,
    /// None: its lines are nobody's words.
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

    /// How long it may take to obey when its own language has a word for "stop": that is said first, then its
    /// input ends and the tree is told, all within the one grace. 0 where there is no such word.
    pub fn stop_request_ms(self) -> u64 {
        match self {
            Self::Acp => ACP_STOP_REQUEST_MS,
            Self::Command | Self::Build | Self::Json(_) => 0,
        }
    }
}

/// An agent as a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub argv: Vec<String>,
    pub env: EnvMap,
    /// Written to its input, which then ends.
    pub input: String,
    pub protocol: OutputProtocol,
}

/// What to run for a task, in a conversation of this name that there already is.
pub fn program(id: &TaskId, request: &TaskRequest, session: Option<&str>) -> Program {
    let mut env = request.env.clone();
    let protocol = OutputProtocol::of(&request.agent);
    if protocol != OutputProtocol::Acp {
        env.insert("SLIPWAY_PROMPT".to_owned(), request.prompt.clone());
    }
    env.insert("SLIPWAY_TASK".to_owned(), id.to_string());
    Program { argv: argv_for(&request.agent, session), env, input: input(request, session), protocol }
}

/// What an agent with which there is a conversation is told in it.
pub fn turn(request: &TaskRequest) -> Option<(&AcpAgent, PromptTurn)> {
    let Agent::Acp(agent) = &request.agent else { return None };
    let (briefing, permissions) = (agent.briefing.clone(), agent.permissions.clone());
    Some((agent, PromptTurn { prompt: request.prompt.clone(), briefing, permissions }))
}

/// Files that it wants to be there.
pub fn files(agent: &Agent) -> BTreeMap<String, String> {
    match agent {
        Agent::Command { .. } => BTreeMap::new(),
        Agent::Acp(agent) => agent.files.clone(),
        Agent::StreamJson(agent) => agent.files.clone(),
    }
}

/// Whether it goes on with the conversation that it had last, where there is one and it knows how.
pub fn continues(agent: &Agent) -> bool {
    match agent {
        Agent::Command { .. } => false,
        Agent::Acp(agent) => agent.continues,
        Agent::StreamJson(agent) => agent.continues && !agent.argv_to_continue.is_empty(),
    }
}

/// Whether what it prints is kept as it is: its lines are not its events.
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

/// An agent is told of its surroundings once in a conversation.
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
