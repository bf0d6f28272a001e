//! Parameters that several routes have.

use super::param::{Param, ParamKind};
use crate::limits;
use protocol::limits as shared;

const fn param(name: &'static str, about: &'static str, kind: ParamKind) -> Param {
    Param { name, about, kind }
}

const LIMIT: Param = param("limit", "Entries of a page; 100 unless given", ParamKind::LIMIT);
const AFTER: &str = "Go on after this: `next` of the page before";

/// Pages of what has ids, names or numbers.
pub const PAGE: &[Param] = &[param("after", AFTER, ParamKind::PageId), LIMIT];
pub const PAGE_BY_NAME: &[Param] = &[param("after", AFTER, ParamKind::Name), LIMIT];
pub const PAGE_BY_NUMBER: &[Param] = &[param("after", AFTER, ParamKind::POSITION), LIMIT];
pub const PAGE_BY_ATTEMPT: &[Param] =
    &[param("after", AFTER, ParamKind::Number { least: 0, most: u32::MAX as u64 }), LIMIT];

pub const WAIT: &[Param] = &[param(
    "wait",
    "How long to wait for the settled state: 30s, 5m, or 0; 60s unless given",
    ParamKind::WAIT,
)];
pub const WAIT_FOR_EXEC: &[Param] = &[param(
    "wait",
    "How long to wait for its end: 30s, 5m, or 0",
    ParamKind::Wait { most_ms: limits::EXEC_WAIT_MAX_MS },
)];
pub const WAKE: &[Param] =
    &[param("wake", "false or 0: do not wake a sandbox that sleeps, answer not_running", ParamKind::Flag)];
pub const FOLLOW: &[Param] = &[param("follow", "true or 1: go on with what comes", ParamKind::Flag)];
pub const WORKSPACE: &[Param] =
    &[param("workspace", "What becomes of its files", ParamKind::OneOf(&["keep", "remove"]))];

pub const EVENTS: &[Param] = &[
    param(
        "since",
        "Go on after the event with this number; `Last-Event-ID` does the same",
        ParamKind::POSITION,
    ),
    param("after", "The same as `since`: `next` of the page before", ParamKind::POSITION),
    LIMIT,
    param(
        "follow",
        "true or 1: as server-sent events that go on with what comes; false or 0: a page",
        ParamKind::Flag,
    ),
    param(
        "kind",
        "Only kinds that begin with one of these, at most 32, with commas between",
        ParamKind::Kinds,
    ),
];
pub const LAST_EVENT_ID: &[Param] = &[param(
    "Last-Event-ID",
    "Go on after the event with this number; counts before `since`",
    ParamKind::POSITION,
)];
pub const EVENTS_OF: &[Param] = &[
    param("sandbox", "Only of this sandbox", ParamKind::Id),
    param("task", "Only what this task of the sandbox tells", ParamKind::Name),
];

/// One of `after`, `tail` and `last`.
pub const READ: &[Param] = &[
    param("after", "From this position: the `cursor` of the last chunk seen", ParamKind::POSITION),
    param(
        "tail",
        "From so many lines before the end",
        ParamKind::Number { least: 0, most: shared::TAIL_MAX_LINES as u64 },
    ),
    param("last", "From so many bytes before the end", ParamKind::POSITION),
    param("stream", "One of the two only", ParamKind::OneOf(&["stdout", "stderr"])),
];
/// Parameters of output and logs that runtimed understands.
pub const RUNTIMED_READ_PARAMS: &[&str] = &["after", "tail", "last", "stream", "follow"];

pub const STDIN: &[Param] = &[
    param(
        "at",
        "Bytes sent before, each time with `at`: what is sent again is read once",
        ParamKind::POSITION,
    ),
    param("eof", "true or 1: close the input afterwards", ParamKind::Flag),
];
pub const TERMINAL: &[Param] = &[
    param(
        "replay",
        "Bytes shown before what follows; 65536 unless given",
        ParamKind::Number { least: 0, most: 1 << 20 },
    ),
    param("after", "From this position on, instead of `replay`", ParamKind::POSITION),
    param("skip", "false or 0: show all, also to a viewer who is far behind", ParamKind::Flag),
];

pub const SANDBOXES: &[Param] = &[
    param(
        "status",
        "Only those with this status",
        ParamKind::OneOf(&["creating", "running", "paused", "stopped", "error", "destroyed"]),
    ),
    param("project", "Only those of this project", ParamKind::Label),
    param("all", "true or 1: destroyed ones too", ParamKind::Flag),
    param(
        "listening",
        "true or 1: with the ports that something listens on, where that is known within a second",
        ParamKind::Flag,
    ),
];
pub const AGENTS_OF: &[Param] =
    &[param("sandbox", "Look in this sandbox, and ask the agents there for their versions", ParamKind::Id)];
pub const TENANT: &[Param] =
    &[param("tenant", "That of this tenant; that of everybody unless given", ParamKind::Label)];
