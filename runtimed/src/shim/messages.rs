//! What PID 1 and a shim say to each other: one JSON message a packet. The job itself comes first, as a
//! memory file attached to a packet, so that neither arguments nor environment stand in a command line
//! or on disk.

use crate::checkpoint;
use crate::core::acp::{PermissionChoice, PermissionDecision, PromptTurn};
use crate::core::agent::OutputProtocol;
use crate::core::job::Leftovers;
use crate::sys::cgroup;
use crate::sys::fs_identity::Identity;
use nix::unistd::{Gid, Uid};
use protocol::{AcpAgent, Exit, Hint, Payload, SignalScope, TtySize};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The descriptor a shim is started with: its end of the socket to PID 1.
pub const CONTROL_FD: i32 = 0;
/// The packet that the job is attached to.
pub const RUN: &[u8] = b"run";

/// Longest message; a message is a few numbers and at most one error text.
pub const MESSAGE_MAX_BYTES: usize = 8 << 10;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobSpec {
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    /// The first of these that can be entered.
    pub cwd: Vec<PathBuf>,
    pub uid: u32,
    pub gid: u32,
    pub stdin: Stdin,
    pub tty: Option<TtySize>,
    pub timeout_ms: Option<u64>,
    pub timeout_grace_ms: u64,
    /// Where output goes; nowhere when absent.
    pub log: Option<PathBuf>,
    /// No position before this is given out again: it may be one of output that could not be stored.
    pub log_from: u64,
    /// Output becomes events of a task.
    pub task: Option<TaskOutput>,
    /// The shim speaks with it, which `stdin` has to allow.
    #[serde(rename = "talk")]
    pub conversation: Option<ConversationSpec>,
    /// Files below the home that have to be there, by their path, and what is in them.
    pub files: BTreeMap<String, String>,
    /// Output is read by the shim and handed over as `JobSummary`.
    #[serde(rename = "answer")]
    pub captures_reply: bool,
    /// End it when it prints nothing for so long.
    pub idle_ms: Option<u64>,
    pub leftovers: Leftovers,
    /// Say when a line of output matches this.
    pub pattern: Option<String>,
    /// The limit of open descriptors, where PID 1 has another one.
    pub open_files: Option<u64>,
    pub cgroup: cgroup::Location,
    /// Looked at when the job ends: is its file system full?
    pub workspace: PathBuf,
}

impl JobSpec {
    pub fn identity(&self) -> Identity {
        Identity { uid: Uid::from_raw(self.uid), gid: Gid::from_raw(self.gid) }
    }
}

/// Where the events of a task go on, and what its program prints.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskOutput {
    pub dir: PathBuf,
    /// The last event there is.
    pub last: u64,
    #[serde(rename = "speaks")]
    pub protocol: OutputProtocol,
    /// Where everything that it prints is kept as it is; nowhere when absent.
    #[serde(default)]
    pub raw: Option<PathBuf>,
}

/// A conversation with an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConversationSpec {
    pub agent: AcpAgent,
    /// The session to go on with.
    pub session: Option<String>,
    /// What it is to do; told later where it is started in advance.
    pub turn: Option<PromptTurn>,
}

/// A task for an agent that was started in advance, told with `Adopt` as a memory file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Adoption {
    pub task: TaskOutput,
    pub turn: PromptTurn,
    pub idle_ms: Option<u64>,
    pub leftovers: Leftovers,
}

/// What a job of a task had to say, told with `JobSummary` as a memory file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// The end of what it printed.
    pub tail: Option<Payload>,
    /// What a helper of ours answered, where that could be read.
    #[serde(rename = "answer")]
    pub checkpoint: Option<checkpoint::Reply>,
    /// What an agent with a language says of its own end; absent for one without.
    #[serde(default)]
    pub claim: Option<Claim>,
    /// The end of what such an agent printed beside its messages.
    #[serde(default)]
    pub stderr: Option<Payload>,
}

/// An agent's own word on how it went. Success needs a good one and nothing that speaks against it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub good: bool,
    /// For people: what went wrong.
    pub message: Option<String>,
    /// The agent's name for the conversation.
    pub session: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    Null,
    /// A pipe whose other end PID 1 gets with `Started`.
    Pipe,
    /// A pipe whose other end the shim keeps, to speak with the job.
    Shim,
}

/// From PID 1 to the shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    Signal {
        signal: i32,
        scope: SignalScope,
    },
    Cancel {
        grace_ms: u64,
    },
    /// Somebody decided about a permission.
    Permit(PermissionDecision),
    /// There is a task for it now; comes with a memory file.
    Adopt,
    /// Say `Grew` once, as soon as the log is longer than this.
    Arm {
        seen: u64,
    },
    /// Say `RawGrew` once, as soon as the log of what an agent printed is longer than this.
    ArmRaw {
        seen: u64,
    },
}

/// From the shim to PID 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The job runs. Comes with the descriptor to write its input to, if it has one.
    Started {
        pid: i32,
    },
    Grew {
        end: u64,
    },
    /// What an agent printed is kept up to here.
    RawGrew {
        end: u64,
    },
    /// The log, or one of the two of an agent, began another file.
    Rotated {
        end: u64,
    },
    /// A line of output matched the pattern.
    Matched,
    /// Something about the conversation with it.
    #[serde(rename = "talk")]
    Conversation(ConversationReport),
    /// Comes before the end of a job of a task, with a memory file that holds it.
    #[serde(rename = "said")]
    Summary,
    Ended {
        exit: Exit,
        hints: Vec<Hint>,
        output_end: u64,
        background: u32,
    },
}

/// What PID 1 has to know of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationReport {
    /// The agent has a session of this name.
    Session { session: String },
    /// It waits for its prompt.
    Ready,
    /// It took the task that came with `Adopt`.
    Adopted,
    /// Somebody has to decide about a permission.
    Asked { permission: u64, options: Vec<PermissionChoice> },
    /// Nobody has to any more.
    Settled { permission: u64 },
}
