//! The words hostd and runtimed speak, as types: what goes over the control socket; and in [`api`] what
//! hostd and its callers do.
//!
//! No IO, no clock, no policy. Unknown fields are ignored on purpose: hostd N drives runtimed N-1.
//! Times are milliseconds since the Unix epoch (`_ms` at the end of a name says so), sizes are bytes.

pub mod api;
mod error;
mod event;
mod exec;
mod hold;
mod inside;
pub mod limits;
#[cfg(feature = "log")]
pub mod log_line;
mod name;
mod output;
mod service;
mod status;
pub mod tame;
mod task;
mod task_event;
mod terminal;

pub use error::{ErrorBody, ErrorCode, ErrorDetail, ErrorInner};
pub use event::{BadCursor, Cursor, Event, Fact};
pub use exec::{
    CancelRequest, EnvMap, ExecRequest, ExecState, ExecView, Exit, Hint, Resize, Scope, SignalRequest,
    TtySize,
};
pub use hold::{HoldRequest, HoldView};
pub use inside::{INSIDE_PORT, STATUS_URL, STATUS_URL_NAME};
pub use name::{BadName, ExecId, HoldName, ServiceName, TaskId};
pub use output::{Chunk, Encoding, Payload, Stream};
pub use service::{
    Health, HealthCheck, RestartPolicy, ServiceSource, ServiceSpec, ServiceState, ServiceView,
    ServicesRequest,
};
pub use status::{
    Activity, Cgroup, CgroupVersion, ListeningPort, Process, Reason, Status, TunnelRefusal, WorkspaceUse,
};
pub use task::{
    Agent, AgentKind, BuildOutcome, BuildSpec, BuildStatus, ChangeKind, Changes, Checkpoint, Durations,
    FailureReason, FileChange, HealthOutcome, HealthStatus, TaskPhase, TaskRequest, TaskResult, TaskStatus,
    TaskView, Usage,
};
pub use task_event::{TaskEvent, TaskFact, Text};
pub use terminal::PieceHead;
