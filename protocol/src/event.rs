//! Events of a sandbox: an append-only log with cursors.

use crate::{ExecId, Exit, FailureReason, Hint, HoldName, ServiceName, ServiceState, TaskId, TaskStatus};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Position of an event: `(epoch, seq)`, written `epoch.seq`. Each boot starts a new epoch, so that an old cursor never
/// points to a new event, even when a power failure cut the tail of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cursor {
    pub epoch: u64,
    pub seq: u64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.seq)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadCursor;

impl fmt::Display for BadCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cursor is two numbers with a dot between them, as in 3.17")
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;
    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let number = |part: &str| {
            let plain = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            if plain { part.parse().map_err(|_| BadCursor) } else { Err(BadCursor) }
        };
        let (epoch, seq) = text.split_once('.').ok_or(BadCursor)?;
        Ok(Self { epoch: number(epoch)?, seq: number(seq)? })
    }
}

impl TryFrom<String> for Cursor {
    type Error = BadCursor;
    fn try_from(text: String) -> Result<Self, BadCursor> {
        text.parse()
    }
}

impl From<Cursor> for String {
    fn from(cursor: Cursor) -> String {
        cursor.to_string()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub cursor: Cursor,
    pub time_ms: u64,
    #[serde(flatten)]
    pub fact: Fact,
}

/// The kind of an event with its fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind")]
pub enum Fact {
    #[serde(rename = "boot")]
    Boot { version: String, pid1: bool },
    #[serde(rename = "shutdown")]
    Shutdown { reason: String },
    /// Lost events: a torn tail of the log that was cut, or a full disk.
    #[serde(rename = "gap")]
    Gap { lost_bytes: u64, lost_events: u64, reason: String },
    #[serde(rename = "exec.started")]
    ExecStarted { exec: ExecId, pid: i32, tty: bool },
    #[serde(rename = "exec.ended")]
    ExecEnded {
        exec: ExecId,
        exit: Exit,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hints: Vec<Hint>,
        output_end: u64,
        /// Number of processes that it left running.
        background: u32,
    },
    /// The last process that an ended exec had left running has ended.
    #[serde(rename = "exec.gone")]
    ExecGone { exec: ExecId },
    #[serde(rename = "exec.trimmed")]
    ExecTrimmed { exec: ExecId, oldest: u64 },
    #[serde(rename = "exec.forgotten")]
    ExecForgotten { exec: ExecId },
    #[serde(rename = "service.state")]
    ServiceState {
        service: ServiceName,
        #[serde(flatten)]
        state: ServiceState,
    },
    #[serde(rename = "service.started")]
    ServiceStarted { service: ServiceName, pid: i32 },
    #[serde(rename = "service.ended")]
    ServiceEnded { service: ServiceName, exit: Exit },
    #[serde(rename = "service.removed")]
    ServiceRemoved { service: ServiceName },
    #[serde(rename = "task.queued")]
    TaskQueued { task: TaskId },
    #[serde(rename = "task.started")]
    TaskStarted { task: TaskId },
    #[serde(rename = "task.ended")]
    TaskEnded {
        task: TaskId,
        status: TaskStatus,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure_reason: Option<FailureReason>,
    },
    /// Events of a task before `oldest` were deleted.
    #[serde(rename = "task.trimmed")]
    TaskTrimmed { task: TaskId, oldest: u64 },
    #[serde(rename = "task.forgotten")]
    TaskForgotten { task: TaskId },
    /// Files were restored from the checkpoint of a task.
    #[serde(rename = "task.reverted")]
    TaskReverted {
        task: TaskId,
        restored: u64,
        deleted: u64,
        /// Whether the files are now as in the checkpoint; otherwise some could not be restored or deleted.
        complete: bool,
        /// Commit id of the files as they were before, in the sandbox's private repository.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saved: Option<String>,
    },
    #[serde(rename = "manifest.loaded")]
    ManifestLoaded { services: Vec<ServiceName> },
    #[serde(rename = "manifest.rejected")]
    ManifestRejected {
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        field: Option<String>,
    },
    #[serde(rename = "hold.taken")]
    HoldTaken { hold: HoldName, expires_ms: u64 },
    #[serde(rename = "hold.released")]
    HoldReleased { hold: HoldName, expired: bool },
}

impl Fact {
    /// Returns the name of the kind, as in `kind` and in the `event:` line of SSE.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Boot { .. } => "boot",
            Self::Shutdown { .. } => "shutdown",
            Self::Gap { .. } => "gap",
            Self::ExecStarted { .. } => "exec.started",
            Self::ExecEnded { .. } => "exec.ended",
            Self::ExecGone { .. } => "exec.gone",
            Self::ExecTrimmed { .. } => "exec.trimmed",
            Self::ExecForgotten { .. } => "exec.forgotten",
            Self::ServiceState { .. } => "service.state",
            Self::ServiceStarted { .. } => "service.started",
            Self::ServiceEnded { .. } => "service.ended",
            Self::ServiceRemoved { .. } => "service.removed",
            Self::TaskQueued { .. } => "task.queued",
            Self::TaskStarted { .. } => "task.started",
            Self::TaskEnded { .. } => "task.ended",
            Self::TaskTrimmed { .. } => "task.trimmed",
            Self::TaskForgotten { .. } => "task.forgotten",
            Self::TaskReverted { .. } => "task.reverted",
            Self::ManifestLoaded { .. } => "manifest.loaded",
            Self::ManifestRejected { .. } => "manifest.rejected",
            Self::HoldTaken { .. } => "hold.taken",
            Self::HoldReleased { .. } => "hold.released",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_what_it_prints() {
        let cursor = Cursor { epoch: 3, seq: 17 };
        assert_eq!(cursor.to_string(), "3.17");
        assert_eq!("3.17".parse(), Ok(cursor));
        for bad in ["", "3", "3.", ".3", "3.1.7", "-1.2", "+1.2", "a.b", "1.99999999999999999999999"] {
            assert_eq!(bad.parse::<Cursor>(), Err(BadCursor), "{bad:?}");
        }
    }

    #[test]
    fn the_kind_on_the_wire_is_the_kind_in_code() {
        let fact = Fact::ServiceState {
            service: ServiceName::parse("web").expect("a good name"),
            state: ServiceState::Stopped,
        };
        let event = Event { cursor: Cursor::default(), time_ms: 1, fact };
        let json = serde_json::to_value(&event).expect("an event is JSON");
        assert_eq!(json["kind"], event.fact.kind());
        assert_eq!(json["state"], "stopped");
        assert_eq!(serde_json::from_value::<Event>(json).expect("and back"), event);
    }
}
