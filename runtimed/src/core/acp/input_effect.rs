//! What the machine is told and what it says.

use protocol::{Decision, Permissions, TaskFact};
use serde::{Deserialize, Serialize};

/// What an agent is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptTurn {
    pub prompt: String,
    /// Said before the prompt, in a session that begins.
    pub briefing: Option<String>,
    pub permissions: Permissions,
}

#[derive(Debug)]
pub enum Input<'a> {
    /// A line that it printed, without its end.
    Line(&'a [u8]),
    /// A line that was too long to be taken.
    LineTooLong {
        bytes: u64,
    },
    /// There is something to do; more than once means nothing.
    Begin(Box<PromptTurn>),
    Permission(PermissionDecision),
    /// It is to stop.
    Stop,
    /// It does not read what it is sent.
    InputNotRead,
    Tick,
}

/// Somebody decided about a permission that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionDecision {
    pub permission: u64,
    pub decision: Decision,
    /// One of the options, by its id.
    pub option: Option<String>,
}

/// An option of a permission that is open, and what choosing it means; nothing that is known, for a kind we do not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionChoice {
    pub id: String,
    pub means: Option<Decision>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A line for its input, with its end.
    Send(Vec<u8>),
    Report(TaskFact),
    /// Output that is no message, or that came before the prompt: not an event, but shown where the agent fails.
    OtherOutput(Vec<u8>),
    /// It has a session of this name.
    Session(String),
    /// It waits for its prompt.
    Ready,
    /// Somebody has to decide.
    PermissionAsked {
        permission: u64,
        options: Vec<PermissionChoice>,
    },
    /// Nobody has to any more.
    PermissionClosed {
        permission: u64,
    },
    /// Whether it waits for somebody, and so may be silent.
    AwaitsDecision(bool),
    /// All is said: its input ends. The last effect that is about the conversation.
    Close,
}
