//! Messages between PID 1 and a shim: one JSON message per packet. The job comes first, as a memory file
//! attached to a packet, so that neither arguments nor environment appear in a command line or on disk.

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

/// The shim's end of the socket to PID 1 is inherited as this descriptor.
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
    /// Directory of the output log; without it output is discarded.
    pub log: Option<PathBuf>,
    /// Positions before this are not reused: they may be those of output that could not be stored.
    pub log_from: u64,
    /// Output becomes events of this task.
    pub task: Option<TaskOutput>,
    /// The shim holds an ACP conversation; needs `Stdin::Shim`.
    #[serde(rename = "talk")]
    pub conversation: Option<ConversationSpec>,
    /// Files below the home that have to exist, by path, with their content.
    pub files: BTreeMap<String, String>,
    /// The first line of output is read by the shim and handed over as `Summary`; what follows goes to the log.
    #[serde(rename = "answer")]
    pub captures_reply: bool,
    /// End the job when it prints nothing for this long.
    pub idle_ms: Option<u64>,
    pub leftovers: Leftovers,
    /// Report when a line of output matches this pattern.
    pub pattern: Option<String>,
    /// The limit of open descriptors, where that of PID 1 differs.
    pub open_files: Option<u64>,
    pub cgroup: cgroup::Location,
    /// Checked for free space when the job ends.
    pub workspace: PathBuf,
}

impl JobSpec {
    pub fn identity(&self) -> Identity {
        Identity { uid: Uid::from_raw(self.uid), gid: Gid::from_raw(self.gid) }
    }
}

/// Where the events of a task continue, and how its output is decoded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskOutput {
    pub dir: PathBuf,
    /// Number of the last event.
    pub last: u64,
    #[serde(rename = "speaks")]
    pub protocol: OutputProtocol,
    /// Directory of the raw log; without it raw output is not kept.
    #[serde(default)]
    pub raw: Option<PathBuf>,
}

/// An ACP conversation with an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConversationSpec {
    pub agent: AcpAgent,
    /// Session to continue.
    pub session: Option<String>,
    /// The prompt; sent later to an agent that is started in advance.
    pub turn: Option<PromptTurn>,
}

/// A task for an agent that was started in advance; sent with `Adopt` as a memory file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Adoption {
    pub task: TaskOutput,
    pub turn: PromptTurn,
    pub idle_ms: Option<u64>,
    pub leftovers: Leftovers,
}

/// The summary of a job's output; sent with `Summary` as a memory file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// The end of the output.
    pub tail: Option<Payload>,
    /// The reply of a checkpoint helper, where it could be read.
    #[serde(rename = "answer")]
    pub checkpoint: Option<checkpoint::Reply>,
    /// The claim of an agent with a structured protocol; absent for plain programs.
    #[serde(default)]
    pub claim: Option<Claim>,
    /// The end of such an agent's other output.
    #[serde(default)]
    pub stderr: Option<Payload>,
}

/// An agent's own claim of its outcome. Success needs a good claim and no evidence against it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub good: bool,
    /// Error message for the user.
    pub message: Option<String>,
    /// The agent's session id.
    pub session: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    Null,
    /// A pipe whose write end PID 1 gets with `Started`.
    Pipe,
    /// A pipe whose write end the shim keeps.
    Shim,
}

/// Orders of PID 1 to a shim.
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
    /// A caller's decision on a permission.
    Permit(PermissionDecision),
    /// The job gets a task; comes with a memory file.
    Adopt,
    /// Report `Grew` once, as soon as the log is longer than this.
    Arm {
        seen: u64,
    },
    /// Report `RawGrew` once, as soon as the raw log is longer than this.
    ArmRaw {
        seen: u64,
    },
}

/// Reports of a shim to PID 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The job runs. Comes with the write end of its stdin, if it has one.
    Started {
        pid: i32,
    },
    Grew {
        end: u64,
    },
    /// The raw log is stored up to here.
    RawGrew {
        end: u64,
    },
    /// A log of the job began another file.
    Rotated {
        end: u64,
    },
    /// A line of output matched the pattern.
    Matched,
    /// An event of the conversation.
    #[serde(rename = "talk")]
    Conversation(ConversationReport),
    /// Comes before the end of a task's job, with a memory file that holds the summary.
    #[serde(rename = "said")]
    Summary,
    Ended {
        exit: Exit,
        hints: Vec<Hint>,
        output_end: u64,
        background: u32,
    },
}

/// Events of an ACP conversation that PID 1 has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConversationReport {
    /// The session has this id.
    Session { session: String },
    /// Session setup is done; the prompt is missing.
    Ready,
    /// The agent took the task of `Adopt`.
    Adopted,
    /// A permission is open until a caller decides.
    Asked { permission: u64, options: Vec<PermissionChoice> },
    /// The permission is no longer open.
    Settled { permission: u64 },
}
