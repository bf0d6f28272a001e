//! What PID 1 and a shim say to each other: one JSON message a packet. The job itself comes first, as a
//! memory file attached to a packet, so that neither arguments nor environment stand in a command line
//! or on disk.

use crate::checkpoint;
use crate::core::agent::Speaks;
use crate::core::job::Leftovers;
use crate::sys::cgroup;
use protocol::{Exit, Hint, Payload, Scope, TtySize};
use serde::{Deserialize, Serialize};
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
    /// Output is read by the shim and handed over as `Said`.
    pub answer: bool,
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

/// Where the events of a task go on, and what its program prints.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskOutput {
    pub dir: PathBuf,
    /// The last event there is.
    pub last: u64,
    pub speaks: Speaks,
}

/// What a job of a task had to say, told with `Said` as a memory file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// The end of what it printed.
    pub tail: Option<Payload>,
    /// What a helper of ours answered, where that could be read.
    pub answer: Option<checkpoint::Answer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    Null,
    /// A pipe whose other end PID 1 gets with `Started`.
    Pipe,
}

/// From PID 1 to the shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    Signal {
        signal: i32,
        scope: Scope,
    },
    Cancel {
        grace_ms: u64,
    },
    /// Say `Grew` once, as soon as the log is longer than this.
    Arm {
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
    /// The log began another file.
    Rotated {
        end: u64,
    },
    /// A line of output matched the pattern.
    Matched,
    /// Comes before the end of a job of a task, with a memory file that holds it.
    Said,
    Ended {
        exit: Exit,
        hints: Vec<Hint>,
        output_end: u64,
        background: u32,
    },
}
