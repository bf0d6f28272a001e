//! Commands of the supervisor: its whole interface as one enum, each command with its reply.

use super::execs::Refusal;
use super::file_verbs::FilesStart;
use super::handle::LogHandle;
use super::job_input::JobInput;
use super::output_log::LogKey;
use super::task::TaskEvents;
use nix::sys::signal::Signal;
use protocol::{
    Activity, DiffRequest, ExecId, ExecRequest, ExecView, HoldName, HoldRequest, HoldView, ListeningPort,
    PermissionAnswer, ProgramsView, RevertRequest, ServiceName, ServiceSpec, ServiceView, SignalScope,
    Status, TaskId, TaskRequest, TaskView, TraceParent, TtySize, WarmName, WarmRequest, WarmView,
};
use serde::Serialize;
use std::fs::File;
use std::sync::Arc;
use tokio::sync::oneshot;

pub type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

pub enum Command {
    Status {
        reply: Reply<Box<Status>>,
    },
    /// The part of the status that is cheap to compute.
    OwnStatus {
        reply: Reply<Box<OwnStatus>>,
    },
    Ports {
        reply: Reply<Vec<ListeningPort>>,
    },
    /// Paths of programs, as found by the sandbox's user.
    Programs {
        programs: Vec<String>,
        reply: Reply<ProgramsView>,
    },
    /// A log, to read and follow.
    Log {
        key: LogKey,
        reply: Reply<LogHandle>,
    },
    /// A reader waits until a log is longer than `seen`.
    Arm {
        key: LogKey,
        seen: u64,
    },
    /// Panics the supervisor on purpose; only where faults are configured.
    Panic,
    Exec(ExecCommand),
    Task(TaskCommand),
    Warm(WarmCommand),
    Service(ServiceCommand),
    Hold(HoldCommand),
    StartFiles(FilesStart),
}

/// Commands about execs.
pub enum ExecCommand {
    Start {
        request: Box<ExecRequest>,
        /// The trace of the request, for the process.
        trace: Option<TraceParent>,
        reply: Reply<ExecId>,
    },
    View {
        id: ExecId,
        reply: Reply<Box<ExecView>>,
    },
    List {
        pid: Option<i32>,
        after: Option<ExecId>,
        limit: usize,
        reply: Reply<Vec<ExecView>>,
    },
    Signal {
        id: ExecId,
        signal: Signal,
        scope: SignalScope,
        reply: Reply<()>,
    },
    Cancel {
        id: ExecId,
        grace_ms: u64,
        reply: Reply<()>,
    },
    Resize {
        id: ExecId,
        size: TtySize,
        reply: Reply<()>,
    },
    /// The stdin of a running exec, to write to.
    Input {
        id: ExecId,
        reply: Reply<Arc<JobInput>>,
    },
    CloseInput {
        id: ExecId,
        reply: Reply<()>,
    },
}

/// Commands about tasks.
pub enum TaskCommand {
    Submit {
        request: Box<TaskRequest>,
        /// The trace of the request, for the agent.
        trace: Option<TraceParent>,
        reply: Reply<Box<TaskView>>,
    },
    View {
        id: TaskId,
        reply: Reply<Box<TaskView>>,
    },
    List {
        after: Option<TaskId>,
        limit: usize,
        reply: Reply<Vec<TaskView>>,
    },
    Cancel {
        id: TaskId,
        grace_ms: u64,
        reply: Reply<Box<TaskView>>,
    },
    DecidePermission {
        id: TaskId,
        permission: String,
        answer: PermissionAnswer,
        reply: Reply<()>,
    },
    /// The events of a task, to read and follow.
    Events {
        id: TaskId,
        reply: Reply<TaskEvents>,
    },
    /// A reader waits for an event after `seen`.
    Arm {
        id: TaskId,
        seen: u64,
    },
    /// The diff of one file between two recorded states; the file holds the document.
    Diff {
        id: TaskId,
        request: Box<DiffRequest>,
        reply: Reply<File>,
    },
    /// Restores the files of a checkpoint; the file holds the outcome.
    Revert {
        id: TaskId,
        request: Box<RevertRequest>,
        reply: Reply<File>,
    },
}

/// Commands about the agent that is started in advance.
pub enum WarmCommand {
    Put { name: WarmName, request: Box<WarmRequest>, reply: Reply<WarmView> },
    View { name: WarmName, reply: Reply<WarmView> },
    End { name: WarmName, reply: Reply<()> },
}

/// Commands about services.
pub enum ServiceCommand {
    List { reply: Reply<Vec<ServiceView>> },
    Put { specs: Vec<ServiceSpec>, reply: Reply<Vec<ServiceView>> },
    View { name: ServiceName, reply: Reply<Box<ServiceView>> },
    Control { name: ServiceName, verb: ServiceVerb, reply: Reply<Box<ServiceView>> },
}

/// Commands about holds.
pub enum HoldCommand {
    List {
        reply: Reply<Vec<HoldView>>,
    },
    Take {
        name: HoldName,
        request: HoldRequest,
        /// Limit of holds, this one included.
        at_most: usize,
        reply: Reply<HoldView>,
    },
    Release {
        name: HoldName,
        reply: Reply<()>,
    },
}

impl From<ExecCommand> for Command {
    fn from(command: ExecCommand) -> Self {
        Self::Exec(command)
    }
}

impl From<TaskCommand> for Command {
    fn from(command: TaskCommand) -> Self {
        Self::Task(command)
    }
}

impl From<WarmCommand> for Command {
    fn from(command: WarmCommand) -> Self {
        Self::Warm(command)
    }
}

impl From<ServiceCommand> for Command {
    fn from(command: ServiceCommand) -> Self {
        Self::Service(command)
    }
}

impl From<HoldCommand> for Command {
    fn from(command: HoldCommand) -> Self {
        Self::Hold(command)
    }
}

/// The status that sandboxed code may read.
#[derive(Debug, Clone, Serialize)]
pub struct OwnStatus {
    pub version: String,
    pub boot_ms: u64,
    pub services: Vec<ServiceView>,
    pub holds: Vec<HoldView>,
    pub activity: Activity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceVerb {
    Start,
    Stop,
    Restart,
}
