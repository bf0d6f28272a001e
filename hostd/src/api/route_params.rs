//! Parameters shared by several routes.

use super::param::{Param, ParamKind};
use hostd_core::limits;
use protocol::limits as shared;

const fn param(name: &'static str, about: &'static str, kind: ParamKind) -> Param {
    Param { name, about, kind }
}

const LIMIT: Param = param("limit", "Entries of a page; default 100", ParamKind::LIMIT);
const AFTER: &str = "Continue after this: `next` of the previous page";

/// Pages by id, name or number.
pub const PAGE: &[Param] = &[param("after", AFTER, ParamKind::PageId), LIMIT];
pub const PAGE_BY_NAME: &[Param] = &[param("after", AFTER, ParamKind::Name), LIMIT];
pub const OF_EXECS: &[Param] = &[
    param("running", "true or 1: only those that run", ParamKind::Flag),
    param(
        "pid",
        "Only those whose command has, or had, this pid since the sandbox was started: the running one, then the newest",
        ParamKind::Number { least: 1, most: 1 << 22 },
    ),
];
pub const PAGE_BY_SECRET: &[Param] = &[param("after", AFTER, ParamKind::Text { most_chars: 256 }), LIMIT];
pub const PAGE_BY_NUMBER: &[Param] = &[param("after", AFTER, ParamKind::POSITION), LIMIT];
pub const PAGE_BY_ATTEMPT: &[Param] =
    &[param("after", AFTER, ParamKind::Number { least: 0, most: u32::MAX as u64 }), LIMIT];

pub const SANDBOX_OF_SNAPSHOTS: &[Param] =
    &[param("sandbox", "Only snapshots of this sandbox", ParamKind::PageId)];

pub const NAME_OF_SNAPSHOT: &[Param] = &[param(
    "name",
    "Name of the snapshot; default: the one in the archive",
    ParamKind::Text { most_chars: limits::NAME_MAX_CHARS },
)];

pub const PATH_OF_CHANGE: &[Param] = &[
    param(
        "path",
        "Only this file, relative to the app directory; a running sandbox is asked for a diff too large to be recorded",
        ParamKind::Text { most_chars: limits::CHANGED_PATH_MAX_BYTES },
    ),
    param(
        "path_base64",
        "The same for a path that is not UTF-8",
        ParamKind::Text { most_chars: 2 * limits::CHANGED_PATH_MAX_BYTES },
    ),
];

pub const WAIT: &[Param] =
    &[param("wait", "How long to wait for the settled state: 30s, 5m, or 0; default 60s", ParamKind::WAIT)];
pub const WAIT_FOR_EXEC: &[Param] = &[param(
    "wait",
    "How long to wait for the exit: 30s, 5m, or 0",
    ParamKind::Wait { most_ms: limits::EXEC_WAIT_MAX_MS },
)];
pub const WAKE: &[Param] =
    &[param("wake", "false or 0: do not wake a sleeping sandbox, respond with not_running", ParamKind::Flag)];
pub const APPLY: &[Param] =
    &[param("apply", "true or 1: remove what is listed; otherwise nothing is touched", ParamKind::Flag)];
pub const COLLECT: &[Param] = &[
    APPLY[0],
    param(
        "unused_for",
        "How long no sandbox got an image; default 14d",
        ParamKind::Wait { most_ms: limits::TTL_MAX_MS },
    ),
];
pub const FOLLOW: &[Param] = &[param("follow", "true or 1: follow new output", ParamKind::Flag)];
pub const REPLACE: &[Param] = &[param(
    "replace",
    "Take the name from the living sandbox that has it, which is destroyed; `workspace` is about its files",
    ParamKind::Flag,
)];

pub const WORKSPACE: &[Param] =
    &[param("workspace", "Whether the files are kept", ParamKind::OneOf(&["keep", "remove"]))];

pub const EVENTS: &[Param] = &[
    param("since", "Continue after the event with this number, as `Last-Event-ID` does", ParamKind::POSITION),
    param("after", "The same as `since`: `next` of the previous page", ParamKind::POSITION),
    LIMIT,
    param(
        "follow",
        "true or 1: server-sent events that follow new events; false or 0: a page",
        ParamKind::Flag,
    ),
    param("kind", "Only kinds with one of these prefixes, at most 32, separated by commas", ParamKind::Kinds),
];
pub const LAST_EVENT_ID: &[Param] = &[param(
    "Last-Event-ID",
    "Continue after the event with this number; takes precedence over `since`",
    ParamKind::POSITION,
)];
pub const EVENTS_OF: &[Param] = &[
    param("sandbox", "Only events of this sandbox", ParamKind::Id),
    param("task", "Only events of this task of the sandbox", ParamKind::Name),
];

/// `after`, `tail` and `last` exclude each other.
pub const READ: &[Param] = &[
    param("after", "Start at this position: the `cursor` of the last chunk seen", ParamKind::POSITION),
    param(
        "tail",
        "Start this many lines before the end",
        ParamKind::Number { least: 0, most: shared::TAIL_MAX_LINES as u64 },
    ),
    param("last", "Start this many bytes before the end", ParamKind::POSITION),
    param("stream", "Only this stream", ParamKind::OneOf(&["stdout", "stderr"])),
];
/// Parameters of output and logs that are passed to runtimed.
pub const RUNTIMED_READ_PARAMS: &[&str] = &["after", "tail", "last", "stream", "follow"];

pub const STDIN: &[Param] = &[
    param("at", "Bytes sent before, always with `at`: bytes sent again are read once", ParamKind::POSITION),
    param("eof", "true or 1: close the input afterwards", ParamKind::Flag),
];
pub const TERMINAL: &[Param] = &[
    param(
        "replay",
        "Bytes of earlier output sent first; default 65536",
        ParamKind::Number { least: 0, most: 1 << 20 },
    ),
    param("after", "Start at this position, instead of `replay`", ParamKind::POSITION),
    param("skip", "false or 0: send all output, also to a viewer that is far behind", ParamKind::Flag),
];

pub const SANDBOXES: &[Param] = &[
    param(
        "status",
        "Only sandboxes with this status",
        ParamKind::OneOf(&["creating", "running", "paused", "stopped", "error", "destroyed"]),
    ),
    param("project", "Only sandboxes of this project", ParamKind::Label),
    param("all", "true or 1: include destroyed sandboxes", ParamKind::Flag),
    param(
        "shared",
        "true or 1: only sandboxes that colleagues share with the caller; false or 0: none of them; by default both",
        ParamKind::Flag,
    ),
    param(
        "listening",
        "true or 1: include listening ports, where they are known within a second",
        ParamKind::Flag,
    ),
];
pub const AGENTS_OF: &[Param] =
    &[param("sandbox", "Check this sandbox, and query the versions of its agents", ParamKind::Id)];
pub const SECRETS: &[Param] = &[param(
    "tenant",
    "The tenant of the secrets; by default that of the caller, and for the operator, in a list, all",
    ParamKind::Label,
)];
/// Which rows of the audit log are listed.
pub const AUDIT: &[Param] = &[
    param("tenant", "Only callers of this tenant, for the operator", ParamKind::Label),
    param("principal", "Only this principal", ParamKind::Label),
    param("token", "Only this token, by its id, or another `via`", ParamKind::Text { most_chars: 128 }),
    param(
        "operation",
        "Only this operation of the API, as in `deleteSandbox`",
        ParamKind::Text { most_chars: 64 },
    ),
    param("outcome", "Only calls that ended so", ParamKind::OneOf(&["succeeded", "refused", "failed"])),
    param("object", "Only calls about the object with this id or name", ParamKind::Text { most_chars: 128 }),
    param("sandbox", "Only calls about this sandbox", ParamKind::PageId),
    param("from", "Only calls from this address", ParamKind::Text { most_chars: 64 }),
    param("request", "Only the call with this request id", ParamKind::Text { most_chars: 128 }),
    param(
        "since",
        "Only calls since this time, RFC 3339, or how long ago as in `4h`",
        ParamKind::Text { most_chars: 40 },
    ),
    param(
        "until",
        "Only calls before this time, RFC 3339, or how long ago",
        ParamKind::Text { most_chars: 40 },
    ),
];
pub const WEBHOOKS: &[Param] = &[param(
    "tenant",
    "The tenant of the webhooks; by default that of the caller, and for the operator all",
    ParamKind::Label,
)];
pub const DELIVERIES: &[Param] =
    &[param("state", "Only deliveries in this state", ParamKind::OneOf(&["waiting", "delivered", "dead"]))];
pub const TENANT: &[Param] =
    &[param("tenant", "The provider of this tenant; by default the one of all tenants", ParamKind::Label)];
