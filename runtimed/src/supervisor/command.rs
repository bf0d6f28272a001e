//! What the supervisor can be asked: the whole interface as one enum, each with its answer.

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
    /// The part of it that is cheap to know.
    OwnStatus {
        reply: Reply<Box<OwnStatus>>,
    },
    Ports {
        reply: Reply<Vec<ListeningPort>>,
    },
    /// Where programs are, for the sandbox's user.
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
    /// The input of a running exec, to write to.
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
    /// A reader wants to know when there is an event after `seen`.
    ArmTask {
        id: TaskId,
        seen: u64,
    },
    /// A log, to read and follow.
    Log {
        key: LogKey,
        reply: Reply<LogHandle>,
    },
    /// A reader wants to know when a log is longer than `seen`.
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
        /// Holds there may be, this one among them.
        at_most: usize,
        reply: Reply<HoldView>,
    },
    ReleaseHold {
        name: HoldName,
        reply: Reply<()>,
    },
    /// Breaks the supervisor on purpose; only where faults are configured.
    Panic,
}

/// What sandboxed code may know of itself.
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
