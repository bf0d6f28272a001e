//! The whole control interface as one enum: parses method, path and query. Pure.

use super::query::Query;
use crate::files_process::VerbSort;
use crate::limits::{GRACE_DEFAULT_MS, GRACE_MAX_MS};
use crate::supervisor::ServiceVerb;
use protocol::files::FilesTop;
use protocol::{Cursor, ErrorBody, ErrorCode, ExecId, HoldName, ServiceName, Stream, TaskId, WarmName};

/// The largest pid that Linux has.
const PID_MAX: u64 = 1 << 22;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    Health,
    Status,
    Ports,
    StartExec {
        wait_ms: Option<u64>,
    },
    Execs {
        /// Only those whose leader has, or had, this pid.
        pid: Option<i32>,
        after: Option<ExecId>,
        limit: usize,
    },
    Exec {
        id: ExecId,
        wait_ms: Option<u64>,
    },
    ExecOutput {
        id: ExecId,
        read: ReadLog,
    },
    ExecStdin {
        id: ExecId,
        /// Position of the body within all input.
        at: Option<u64>,
        eof: bool,
    },
    ExecSignal {
        id: ExecId,
    },
    ExecCancel {
        id: ExecId,
    },
    ExecResize {
        id: ExecId,
    },
    /// Upgrades to a byte stream in both directions.
    Terminal {
        id: ExecId,
        view: TerminalView,
    },
    SubmitTask,
    Tasks {
        after: Option<TaskId>,
        limit: usize,
    },
    Task {
        id: TaskId,
        wait_ms: Option<u64>,
    },
    TaskCancel {
        id: TaskId,
    },
    /// The decision on a permission.
    TaskPermission {
        id: TaskId,
        permission: String,
    },
    TaskEvents {
        id: TaskId,
        after: Option<u64>,
        follow: bool,
    },
    Warm {
        name: WarmName,
        verb: WarmVerb,
    },
    /// The raw log of the task's agent.
    TaskOutput {
        id: TaskId,
        read: ReadLog,
    },
    /// The document of what a task changed.
    TaskChanges {
        id: TaskId,
    },
    /// Restores the files of a checkpoint.
    TaskRevert {
        id: TaskId,
    },
    /// The diff of one file between two recorded states.
    TaskDiff {
        id: TaskId,
    },
    Programs,
    Services,
    PutServices,
    Service {
        name: ServiceName,
    },
    DriveService {
        name: ServiceName,
        verb: ServiceVerb,
    },
    ServiceLogs {
        name: ServiceName,
        read: ReadLog,
    },
    Events {
        after: Option<Cursor>,
        follow: bool,
    },
    Holds,
    TakeHold {
        name: HoldName,
    },
    ReleaseHold {
        name: HoldName,
    },
    /// Upgrades to a byte stream to a port of the sandbox.
    Tunnel {
        port: u16,
    },
    /// Upgrades to the frames of one verb on files.
    Files {
        sort: VerbSort,
        top: FilesTop,
    },
    PanicHandler,
    PanicSupervisor,
}

/// Operations on an agent that is started in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmVerb {
    Put,
    Get,
    End,
}

/// Where to begin in a log, and which stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadLog {
    pub from: ReadFrom,
    pub follow: bool,
    pub stream: Option<Stream>,
}

/// Where a viewer of a terminal begins, and whether it skips ahead when it is far behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalView {
    pub from: ReadFrom,
    pub skips: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The oldest kept output.
    #[default]
    Start,
    After(u64),
    /// This many lines before the end.
    Lines(usize),
    /// This many bytes before the end.
    Last(u64),
}

pub const GRACE_MS: std::ops::RangeInclusive<u64> = 0..=GRACE_MAX_MS;
pub const GRACE_OMITTED_MS: u64 = GRACE_DEFAULT_MS;

pub type Refusal = Box<ErrorBody>;

/// Parses a request line.
pub fn parse(method: &str, path: &str, query: Option<&str>) -> Result<Route, Refusal> {
    let query = Query::parse(query.unwrap_or_default())?;
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let found = match segments.as_slice() {
        ["healthz"] => one("GET", method, || Ok(Route::Health)),
        ["v1", rest @ ..] => v1(method, rest, &query),
        _ => None,
    };
    let missing = || Err(refuse(ErrorCode::NotFound, format!("there is no {path}")));
    let route = found.unwrap_or_else(missing)?;
    query.done()?;
    Ok(route)
}

type RouteMatch = Option<Result<Route, Refusal>>;

/// A route with one method; another method is 405.
fn one(expected: &str, method: &str, route: impl FnOnce() -> Result<Route, Refusal>) -> RouteMatch {
    if method == expected {
        return Some(route());
    }
    Some(Err(refuse(ErrorCode::MethodNotAllowed, format!("use {expected} here, not {method}"))))
}

fn v1(method: &str, segments: &[&str], query: &Query<'_>) -> RouteMatch {
    match segments {
        ["status"] => one("GET", method, || Ok(Route::Status)),
        ["ports"] => one("GET", method, || Ok(Route::Ports)),
        ["programs"] => one("POST", method, || Ok(Route::Programs)),
        ["execs", rest @ ..] => execs(method, rest, query),
        ["terminals", id] => {
            one("GET", method, || Ok(Route::Terminal { id: exec_id(id)?, view: query.view()? }))
        }
        ["tasks", rest @ ..] => tasks(method, rest, query),
        ["warm", name] => warm(method, name),
        ["services", rest @ ..] => services(method, rest, query),
        ["events"] => one("GET", method, || {
            Ok(Route::Events { after: query.cursor("after")?, follow: query.flag("follow", true)? })
        }),
        ["holds"] => one("GET", method, || Ok(Route::Holds)),
        ["holds", name] if method == "DELETE" => {
            Some(hold_name(name).map(|name| Route::ReleaseHold { name }))
        }
        ["holds", name] => one("PUT", method, || Ok(Route::TakeHold { name: hold_name(name)? })),
        ["tunnel", port] => one("GET", method, || {
            let number = port.parse().ok().filter(|port| *port > 0);
            let bad = || Box::new(ErrorBody::invalid("port", "must be 1 to 65535"));
            Ok(Route::Tunnel { port: number.ok_or_else(bad)? })
        }),
        ["files"] => one("GET", method, || {
            let sort = if query.flag("watch", false)? { VerbSort::Watch } else { VerbSort::Other };
            let top = if query.flag("anywhere", false)? { FilesTop::Root } else { FilesTop::Workspace };
            Ok(Route::Files { sort, top })
        }),
        ["faults", "panic-handler"] => one("POST", method, || Ok(Route::PanicHandler)),
        ["faults", "panic-supervisor"] => one("POST", method, || Ok(Route::PanicSupervisor)),
        _ => None,
    }
}

fn execs(method: &str, segments: &[&str], query: &Query<'_>) -> RouteMatch {
    match segments {
        [] if method == "POST" => Some(query.wait().map(|wait_ms| Route::StartExec { wait_ms })),
        [] => one("GET", method, || {
            let after = query.text("after").map(exec_id).transpose()?;
            let pid = query.number("pid", 1..=PID_MAX)?.and_then(|pid| i32::try_from(pid).ok());
            Ok(Route::Execs { pid, after, limit: query.limit()? })
        }),
        [id] => one("GET", method, || Ok(Route::Exec { id: exec_id(id)?, wait_ms: query.wait()? })),
        [id, "output"] => {
            one("GET", method, || Ok(Route::ExecOutput { id: exec_id(id)?, read: query.log()? }))
        }
        [id, "stdin"] => {
            let stdin = || {
                let (at, eof) = (query.number("at", 0..=u64::MAX)?, query.flag("eof", false)?);
                Ok(Route::ExecStdin { id: exec_id(id)?, at, eof })
            };
            one("POST", method, stdin)
        }
        [id, "signal"] => one("POST", method, || Ok(Route::ExecSignal { id: exec_id(id)? })),
        [id, "cancel"] => one("POST", method, || Ok(Route::ExecCancel { id: exec_id(id)? })),
        [id, "resize"] => one("POST", method, || Ok(Route::ExecResize { id: exec_id(id)? })),
        _ => None,
    }
}

fn tasks(method: &str, segments: &[&str], query: &Query<'_>) -> RouteMatch {
    match segments {
        [] if method == "POST" => Some(Ok(Route::SubmitTask)),
        [] => one("GET", method, || {
            let after = query.text("after").map(task_id).transpose()?;
            Ok(Route::Tasks { after, limit: query.limit()? })
        }),
        [id] => one("GET", method, || Ok(Route::Task { id: task_id(id)?, wait_ms: query.wait()? })),
        [id, "output"] => {
            one("GET", method, || Ok(Route::TaskOutput { id: task_id(id)?, read: query.log()? }))
        }
        [id, "changes"] => one("GET", method, || Ok(Route::TaskChanges { id: task_id(id)? })),
        [id, "diff"] => one("POST", method, || Ok(Route::TaskDiff { id: task_id(id)? })),
        [id, "revert"] => one("POST", method, || Ok(Route::TaskRevert { id: task_id(id)? })),
        [id, "cancel"] => one("POST", method, || Ok(Route::TaskCancel { id: task_id(id)? })),
        [id, "permissions", permission] => one("POST", method, || {
            Ok(Route::TaskPermission { id: task_id(id)?, permission: (*permission).to_owned() })
        }),
        [id, "events"] => one("GET", method, || {
            let after = query.number("after", 0..=u64::MAX - 1)?;
            Ok(Route::TaskEvents { id: task_id(id)?, after, follow: query.flag("follow", false)? })
        }),
        _ => None,
    }
}

fn warm(method: &str, name: &str) -> RouteMatch {
    let bad = |error: protocol::BadName| Box::new(ErrorBody::invalid("name", error.to_string()));
    Some(WarmName::parse(name).map_err(bad).and_then(|name| match method {
        "PUT" => Ok(Route::Warm { name, verb: WarmVerb::Put }),
        "GET" => Ok(Route::Warm { name, verb: WarmVerb::Get }),
        "DELETE" => Ok(Route::Warm { name, verb: WarmVerb::End }),
        _ => Err(refuse(ErrorCode::MethodNotAllowed, format!("use PUT, GET or DELETE here, not {method}"))),
    }))
}

fn services(method: &str, segments: &[&str], query: &Query<'_>) -> RouteMatch {
    let drive = |name: &str, verb| {
        one("POST", method, || Ok(Route::DriveService { name: service_name(name)?, verb }))
    };
    match segments {
        [] if method == "PUT" => Some(Ok(Route::PutServices)),
        [] => one("GET", method, || Ok(Route::Services)),
        [name] => one("GET", method, || Ok(Route::Service { name: service_name(name)? })),
        [name, "start"] => drive(name, ServiceVerb::Start),
        [name, "stop"] => drive(name, ServiceVerb::Stop),
        [name, "restart"] => drive(name, ServiceVerb::Restart),
        [name, "logs"] => {
            one("GET", method, || Ok(Route::ServiceLogs { name: service_name(name)?, read: query.log()? }))
        }
        _ => None,
    }
}

fn exec_id(text: &str) -> Result<ExecId, Refusal> {
    ExecId::parse(text).map_err(|error| Box::new(ErrorBody::invalid("id", error.to_string())))
}

fn task_id(text: &str) -> Result<TaskId, Refusal> {
    TaskId::parse(text).map_err(|error| Box::new(ErrorBody::invalid("id", error.to_string())))
}

fn service_name(text: &str) -> Result<ServiceName, Refusal> {
    ServiceName::parse(text).map_err(|error| Box::new(ErrorBody::invalid("name", error.to_string())))
}

pub fn hold_name(text: &str) -> Result<HoldName, Refusal> {
    HoldName::parse(text).map_err(|error| Box::new(ErrorBody::invalid("name", error.to_string())))
}

fn refuse(code: ErrorCode, message: String) -> Refusal {
    Box::new(ErrorBody::new(code, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(request: &str) -> Result<Route, (ErrorCode, Option<String>)> {
        let (method, target) = request.split_once(' ').expect("method and target");
        let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
        parse(method, path, query).map_err(|e| (e.error.code, e.error.detail.field))
    }

    #[test]
    fn a_request_line_means_one_thing() {
        let id = ExecId::parse("e1").expect("a good name");
        let task = TaskId::parse("t1").expect("a good name");
        let web = ServiceName::parse("web").expect("a good name");
        for (request, route) in [
            ("GET /healthz", Route::Health),
            ("POST /v1/execs?wait_ms=5", Route::StartExec { wait_ms: Some(5) }),
            ("GET /v1/execs/e1", Route::Exec { id: id.clone(), wait_ms: None }),
            (
                "GET /v1/execs/e1/output?after=7&follow=1&stream=stderr",
                Route::ExecOutput {
                    id: id.clone(),
                    read: ReadLog { from: ReadFrom::After(7), follow: true, stream: Some(Stream::Stderr) },
                },
            ),
            (
                "GET /v1/terminals/e1?after=7&skip=0",
                Route::Terminal {
                    id: id.clone(),
                    view: TerminalView { from: ReadFrom::After(7), skips: false },
                },
            ),
            ("POST /v1/execs/e1/stdin?eof", Route::ExecStdin { id: id.clone(), at: None, eof: true }),
            ("POST /v1/execs/e1/stdin?at=7", Route::ExecStdin { id, at: Some(7), eof: false }),
            ("POST /v1/services/web/restart", Route::DriveService { name: web, verb: ServiceVerb::Restart }),
            (
                "GET /v1/events?after=3.17",
                Route::Events { after: Some(Cursor { epoch: 3, seq: 17 }), follow: true },
            ),
            (
                "GET /v1/tasks/t1/events?after=7&follow=1",
                Route::TaskEvents { id: task, after: Some(7), follow: true },
            ),
            (
                "POST /v1/tasks/t1/permissions/p2",
                Route::TaskPermission {
                    id: TaskId::parse("t1").expect("a good name"),
                    permission: "p2".into(),
                },
            ),
            (
                "GET /v1/tasks/t1/changes",
                Route::TaskChanges { id: TaskId::parse("t1").expect("a good name") },
            ),
            ("POST /v1/tasks/t1/revert", Route::TaskRevert { id: TaskId::parse("t1").expect("a good name") }),
            ("POST /v1/tasks/t1/diff", Route::TaskDiff { id: TaskId::parse("t1").expect("a good name") }),
            (
                "PUT /v1/warm/w",
                Route::Warm { name: WarmName::parse("w").expect("a good name"), verb: WarmVerb::Put },
            ),
            (
                "GET /v1/tasks/t2/output?tail=3",
                Route::TaskOutput {
                    id: TaskId::parse("t2").expect("a good name"),
                    read: ReadLog { from: ReadFrom::Lines(3), ..ReadLog::default() },
                },
            ),
            ("POST /v1/programs", Route::Programs),
            ("GET /v1/tunnel/65535", Route::Tunnel { port: 65535 }),
            ("GET /v1/files", Route::Files { sort: VerbSort::Other, top: FilesTop::Workspace }),
            ("GET /v1/files?anywhere=1", Route::Files { sort: VerbSort::Other, top: FilesTop::Root }),
            ("GET /v1/files?watch=1", Route::Files { sort: VerbSort::Watch, top: FilesTop::Workspace }),
        ] {
            assert_eq!(parsed(request), Ok(route), "{request}");
        }
    }

    #[test]
    fn a_wrong_request_line_says_what_is_wrong() {
        let field = |name: &str| Some(name.to_owned());
        for (request, expected) in [
            ("GET /", (ErrorCode::NotFound, None)),
            ("GET /v1/execs/", (ErrorCode::InvalidRequest, field("id"))),
            ("GET /v1/execs/%2e%2e", (ErrorCode::InvalidRequest, field("id"))),
            ("GET /v1/execs/../status", (ErrorCode::NotFound, None)),
            ("DELETE /v1/status", (ErrorCode::MethodNotAllowed, None)),
            ("POST /v1/warm/w", (ErrorCode::MethodNotAllowed, None)),
            ("PUT /v1/warm/-", (ErrorCode::InvalidRequest, field("name"))),
            ("GET /v1/execs/e1/output?after=-1", (ErrorCode::InvalidRequest, field("after"))),
            ("GET /v1/execs/e1/output?after=1&tail=2", (ErrorCode::InvalidRequest, field("after"))),
            ("GET /v1/execs/e1/output?folow=1", (ErrorCode::InvalidRequest, field("folow"))),
            ("GET /v1/execs/e1/output?follow=1&follow=0", (ErrorCode::InvalidRequest, field("follow"))),
            ("GET /v1/terminals/e1?after=1&replay=2", (ErrorCode::InvalidRequest, field("after"))),
            ("GET /v1/tunnel/0", (ErrorCode::InvalidRequest, field("port"))),
            ("GET /v1/tunnel/70000", (ErrorCode::InvalidRequest, field("port"))),
            ("PUT /v1/files", (ErrorCode::MethodNotAllowed, None)),
            ("GET /v1/files?path=x", (ErrorCode::InvalidRequest, field("path"))),
            ("GET /v1/events?after=x", (ErrorCode::InvalidRequest, field("after"))),
        ] {
            assert_eq!(parsed(request), Err(expected), "{request}");
        }
    }

    proptest! {
        #[test]
        fn any_request_line_is_answered(method in "[A-Z]{0,8}", path in "(/[a-z0-9._-]{0,9}){0,5}", query: Option<String>) {
            let _ = parse(&method, &path, query.as_deref());
            crate::fuzz::route(format!("{method} {path}").as_bytes());
        }
    }
}
