//! Types on the wire: between hostd and runtimed (the control protocol) and, in [`api`], between clients and hostd.
//! Beside them [`limits`] and [`validate`], which both daemons apply, and [`sanitize`] for untrusted text.
//!
//! No IO, no clock, no policy. The control protocol ignores unknown fields on purpose: hostd N drives runtimed N-1.
//! Times are milliseconds since the Unix epoch (`_ms` at the end of a name says so), sizes are bytes.

// A new variant of an enum must break every match that does not deal with it.
#![warn(clippy::wildcard_enum_match_arm)]

mod agent;
pub mod api;
mod changes;
mod error;
mod event;
mod exec;
pub mod files;
mod hold;
pub mod limits;
#[cfg(feature = "log")]
pub mod log_line;
mod model;
mod name;
mod output;
mod revert;
pub mod sanitize;
mod service;
mod status;
mod task;
mod task_event;
mod terminal_frame;
mod trace_parent;
pub mod validate;
mod well_known;

pub use agent::{
    AcpAgent, Agent, AgentKind, Decision, PermissionAnswer, PermissionRule, Permissions, ProgramsRequest,
    ProgramsView, StreamDialect, StreamJsonAgent, WarmRequest, WarmView,
};
pub use changes::{ChangedFile, ChangesHead, ChangesTotals, DOCUMENT_OF_CHANGES, DiffRequest, FileDiff};
pub use error::{ErrorBody, ErrorCode, ErrorDetail, ErrorInner};
pub use event::{BadCursor, Cursor, Event, Fact};
pub use exec::{
    CancelRequest, EnvMap, ExecRequest, ExecState, ExecView, Exit, Hint, Resize, SignalRequest, SignalScope,
    TtySize,
};
pub use hold::{HoldRequest, HoldView};
pub use model::{Dialect, ModelCall, ModelCallState, Usage};
pub use name::{BadName, ExecId, HoldName, ProfileName, ServiceName, TaskId, WarmName};
pub use output::{Chunk, Encoding, Payload, Stream};
pub use revert::{RevertOutcome, RevertRequest, Reverted};
pub use service::{
    Health, HealthCheck, RestartPolicy, ServiceSource, ServiceSpec, ServiceState, ServiceView,
    ServicesRequest,
};
pub use status::{
    Activity, Cgroup, CgroupVersion, ListeningPort, Process, Reason, Status, TunnelRefusal, WorkspaceUse,
};
pub use task::{
    BuildOutcome, BuildSpec, BuildStatus, ChangeKind, Changes, Checkpoint, Durations, FailureReason,
    FileChange, HealthOutcome, HealthStatus, TaskPhase, TaskRequest, TaskResult, TaskStatus, TaskView,
};
pub use task_event::{
    Diff, ModelFact, Permission, PermissionOption, PermissionState, PlanEntry, TaskEvent, TaskFact, Text,
    Tool, ToolStatus,
};
pub use terminal_frame::TerminalFrameHeader;
pub use trace_parent::{TRACEPARENT_HEADER, TRACEPARENT_VARIABLE, TraceParent};
pub use well_known::{
    AGENTS_BIN, AGENTS_DIR, HOSTD_PORT_IN_SANDBOX, IMAGE_ENV_VARIABLE, MODEL_URL, STATUS_URL,
    STATUS_URL_VARIABLE,
};
