//! Inputs and effects of the ACP machine.

use protocol::{Decision, Permissions, TaskFact};
use serde::{Deserialize, Serialize};

/// One prompt for the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptTurn {
    pub prompt: String,
    /// Sent before the prompt, in a new session.
    pub briefing: Option<String>,
    pub permissions: Permissions,
}

#[derive(Debug)]
pub enum Input<'a> {
    /// One line of output, without its line feed.
    Line(&'a [u8]),
    /// A line longer than the limit, which was dropped.
    LineTooLong {
        bytes: u64,
    },
    /// The prompt; further ones are ignored.
    Begin(Box<PromptTurn>),
    Permission(PermissionDecision),
    /// Cancel the turn.
    Stop,
    /// The agent left too much of its stdin unread.
    InputNotRead,
    Tick,
}

/// A caller's decision on an open permission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionDecision {
    pub permission: u64,
    pub decision: Decision,
    /// Id of the option to use.
    pub option: Option<String>,
}

/// An option of an open permission and the decision it stands for; `None` for an unknown kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionChoice {
    pub id: String,
    pub means: Option<Decision>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Write this line, with its line feed, to the agent's stdin.
    Send(Vec<u8>),
    Report(TaskFact),
    /// Output that is no message, or came before the prompt: not an event, but shown where the agent fails.
    OtherOutput(Vec<u8>),
    /// The session has this id.
    Session(String),
    /// Session setup is done; the prompt is missing.
    Ready,
    /// A permission is open until a caller decides.
    PermissionAsked {
        permission: u64,
        options: Vec<PermissionChoice>,
    },
    /// The permission is no longer open.
    PermissionClosed {
        permission: u64,
    },
    /// Whether the agent waits for a decision, and so may be silent.
    AwaitsDecision(bool),
    /// Close the agent's stdin. The last effect of the conversation.
    Close,
}
