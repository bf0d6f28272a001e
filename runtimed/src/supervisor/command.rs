//! Commands of the supervisor: its whole interface as one enum, each command with its reply.

use super::execs::Refusal;
use super::handle::LogHandle;
use super::job_input::JobInput;
use super::output_log::LogKey;
use super::task::TaskEvents;
use nix::sys::signal::Signal;
use protocol::{
    Activity, ExecId, ExecRequest, ExecView, HoldName, HoldRequest, HoldView, ListeningPort,
    PermissionAnswer, ProgramsView, ServiceName, ServiceSpec, ServiceView, SignalScope, Status, TaskId,
    TaskRequest, TaskView, TtySize, WarmName, WarmRequest, WarmView,
};
use serde::Serialize;
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
    StartExec {
        request: Box<ExecRequest>,
        reply: Reply<ExecId>,
    },
    Exec {
        id: ExecId,
        reply: Reply<Box<ExecView>>,
    },
    Execs {
        after: Option<ExecId>,
        limit: usize,
        reply: Reply<Vec<ExecView>>,
    },
    SignalExec {
        id: ExecId,
        signal: Signal,
        scope: SignalScope,
        reply: Reply<()>,
    },
    CancelExec {
        id: ExecId,
        grace_ms: u64,
        reply: Reply<()>,
    },
    ResizeExec {
        id: ExecId,
        size: TtySize,
        reply: Reply<()>,
    },
    /// The stdin of a running exec, to write to.
    ExecInput {
        id: ExecId,
        reply: Reply<Arc<JobInput>>,
    },
    CloseInput {
        id: ExecId,
        reply: Reply<()>,
    },
    SubmitTask {
        request: Box<TaskRequest>,
        reply: Reply<Box<TaskView>>,
    },
    Task {
        id: TaskId,
        reply: Reply<Box<TaskView>>,
    },
    Tasks {
        after: Option<TaskId>,
        limit: usize,
        reply: Reply<Vec<TaskView>>,
    },
    CancelTask {
        id: TaskId,
        grace_ms: u64,
        reply: Reply<Box<TaskView>>,
    },
    AnswerPermission {
        id: TaskId,
        permission: String,
        answer: PermissionAnswer,
        reply: Reply<()>,
    },
    PutWarm {
        name: WarmName,
        request: Box<WarmRequest>,
        reply: Reply<WarmView>,
    },
    Warm {
        name: WarmName,
        reply: Reply<WarmView>,
    },
    EndWarm {
        name: WarmName,
        reply: Reply<()>,
    },
    /// The events of a task, to read and follow.
    TaskEvents {
        id: TaskId,
        reply: Reply<TaskEvents>,
    },
    /// A reader waits for an event after `seen`.
    ArmTask {
        id: TaskId,
        seen: u64,
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
    Services {
        reply: Reply<Vec<ServiceView>>,
    },
    PutServices {
        specs: Vec<ServiceSpec>,
        reply: Reply<Vec<ServiceView>>,
    },
    Service {
        name: ServiceName,
        reply: Reply<Box<ServiceView>>,
    },
    DriveService {
        name: ServiceName,
        verb: ServiceVerb,
        reply: Reply<Box<ServiceView>>,
    },
    Holds {
        reply: Reply<Vec<HoldView>>,
    },
    TakeHold {
        name: HoldName,
        request: HoldRequest,
        /// Limit of holds, this one included.
        at_most: usize,
        reply: Reply<HoldView>,
    },
    ReleaseHold {
        name: HoldName,
        reply: Reply<()>,
    },
    /// Panics the supervisor on purpose; only where faults are configured.
    Panic,
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
