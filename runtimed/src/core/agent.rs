//! What the machinery of tasks knows of agents: what to run, what it is given, and how it is asked to stop.
//! All of that is here, and how its output is read is in `shim/lines.rs`; another agent is another of both, and
//! nothing else changes.

use protocol::{Agent, EnvMap, TaskId, TaskRequest};
use serde::{Deserialize, Serialize};

/// The language of a program that writes the events of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaks {
    /// None: the prompt is its input, its lines are messages.
    Command,
    /// None: its lines are nobody's words.
    Build,
}

impl Speaks {
    pub fn of(agent: &Agent) -> Self {
        match agent {
            Agent::Command { .. } => Self::Command,
        }
    }

    /// How long it may take to obey when its own language has a word for "stop": that is said first, then its
    /// input ends and the tree is told, all within the one grace. 0 where there is no such word.
    pub fn ask_ms(self) -> u64 {
        match self {
            Self::Command | Self::Build => 0,
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
    pub speaks: Speaks,
}

pub fn program(id: &TaskId, request: &TaskRequest) -> Program {
    let mut env = request.env.clone();
    env.insert("SLIPWAY_PROMPT".to_owned(), request.prompt.clone());
    env.insert("SLIPWAY_TASK".to_owned(), id.to_string());
    Program {
        argv: argv(&request.agent).to_vec(),
        env,
        input: request.prompt.clone(),
        speaks: Speaks::of(&request.agent),
    }
}

pub fn argv(agent: &Agent) -> &[String] {
    match agent {
        Agent::Command { argv } => argv,
    }
}
