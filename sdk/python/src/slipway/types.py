"""Types of the API, generated from docs/openapi.json by generate.py."""

# ruff: noqa
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

if TYPE_CHECKING:
    from typing_extensions import NotRequired, TypeAlias


class ActivityView(TypedDict):
    """Why a sandbox is awake, and when it will sleep: `GET …/activity`."""
    busy: bool
    dozing: NotRequired[bool]
    """Whether it is paused for idleness until the next request."""
    idle_policy: IdlePolicy
    reasons: list[Reason]
    """What keeps it awake. A silent open preview is listed too: it only prevents a stop, not a pause."""
    since: str
    """Since when it is busy, or idle."""
    sleeps_at: NotRequired[Union[str, None]]
    """When it will be paused or stopped without further activity."""
    sleeps_to: NotRequired[Union[SleepsTo, None]]


class AgentView(TypedDict):
    """A coding agent."""
    connected: NotRequired[bool]
    """Whether a configured provider has a model for it."""
    default: NotRequired[bool]
    """Whether tasks that name no agent use this one."""
    dialects: NotRequired[list[str]]
    """Model APIs that it speaks, preferred first; empty where it needs no model of hostd."""
    how_to_connect: NotRequired[list[str]]
    """Steps to install it or to connect it to a model."""
    installed: NotRequired[bool]
    """Whether it can be started: in the sandbox of the query, else from the agents that this host mounts everywhere."""
    name: NotRequired[str]
    path: NotRequired[Union[str, None]]
    """Path of its program inside a sandbox."""
    pinned: NotRequired[Union[str, None]]
    """Version that is known to work."""
    speaks: NotRequired[str]
    """Protocol of the agent: `acp`, `stream-json:claude`, `stream-json:codex` or `command`."""
    title: NotRequired[str]
    version: NotRequired[Union[str, None]]
    """Version that it reports; only with a sandbox in the query."""


class AgentViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[AgentView]
    next: NotRequired[Union[str, None]]


class ApiError(TypedDict):
    code: ApiErrorCode
    detail: NotRequired[ApiErrorDetail]
    message: str
    retryable: bool


class ApiErrorBody(TypedDict):
    error: ApiError


ApiErrorCode: TypeAlias = 'Literal["invalid_request", "unauthorized", "forbidden", "not_found", "method_not_allowed", "conflict", "scope_taken", "gone", "history_gone", "checkpoint_lost", "no_checkpoint", "task_running", "git_failed", "too_large", "idempotency_mismatch", "unsupported", "no_model", "key_refused", "budget_exceeded", "too_many", "quota_exceeded", "name_taken", "not_running", "asleep", "file_exists", "not_a_file", "not_a_directory", "not_empty", "outside_workspace", "access_denied", "precondition_failed", "range_not_satisfiable", "sandbox_failed", "port_closed", "waking", "driver_unavailable", "capacity", "disk_full", "timed_out", "shutting_down", "internal"]'


class ApiErrorDetail(TypedDict):
    capacity: NotRequired[Union[CapacityDetail, None]]
    existing: NotRequired[Union[SandboxId, None]]
    field: NotRequired[Union[str, None]]
    """Path of the wrong field in the request, as in `limits.memory_mb`."""
    git: NotRequired[Union[GitReason, None]]
    listening: NotRequired[list[ListeningPort]]
    """Ports of the sandbox that something listens on."""
    missing: NotRequired[Union[Missing, None]]
    oldest: NotRequired[Union[str, None]]
    """The oldest cursor or sequence number that is kept."""
    post_mortem: NotRequired[Union[PostMortem, None]]
    problem: NotRequired[Union[Problem, None]]
    quota: NotRequired[Union[QuotaDetail, None]]
    service: NotRequired[Union[ServiceView, None]]
    supported: NotRequired[list[str]]
    """Supported values of the field."""


class AttemptEvent(TypedDict):
    data: AttemptEventData
    kind: Literal["attempt.started", "attempt.launched", "attempt.succeeded", "attempt.failed"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class AttemptEventData(TypedDict):
    """The `data` of `attempt.` events."""
    attempt: int
    problem: NotRequired[Union[Problem, None]]
    relation: NotRequired[Union[AttemptRelation, None]]


AttemptRelation: TypeAlias = 'Literal["create", "start", "restart", "recreate"]'


AttemptState: TypeAlias = 'Literal["open", "succeeded", "failed"]'


class AttemptView(TypedDict):
    """One attempt to launch a sandbox."""
    attempt: int
    blueprint: Any
    """The resolved spec that was launched."""
    driver: str
    duration_ms: NotRequired[Union[int, None]]
    ended_at: NotRequired[Union[str, None]]
    post_mortem: NotRequired[Union[PostMortem, None]]
    problem: NotRequired[Union[Problem, None]]
    relation: AttemptRelation
    started_at: str
    state: AttemptState


class AttemptViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[AttemptView]
    next: NotRequired[Union[str, None]]


AuditView = TypedDict(
    "AuditView",
    {
        "code": "NotRequired[Union[str, None]]",
        "from": "NotRequired[str]",
        "method": "str",
        "number": "int",
        "object": "NotRequired[str]",
        "operation": "NotRequired[str]",
        "path": "str",
        "principal": "str",
        "request_id": "str",
        "sandbox": "NotRequired[str]",
        "status": "int",
        "tenant": "str",
        "time": "str",
        "via": "str",
    },
)
"""A call that changed something or was refused."""


class AuditViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[AuditView]
    next: NotRequired[Union[str, None]]


class BackupCreate(TypedDict):
    """The backup to make: `POST /v1/host/backup`. It is encrypted with the passphrase, or to the recipients."""
    passphrase: NotRequired[Union[str, None]]
    """8 to 1024 bytes. Only who knows it can restore the backup."""
    recipients: NotRequired[list[str]]
    """Public keys of age, `age1…`. Only who has the key of one of them can restore the backup."""
    sandboxes: NotRequired[list[SandboxId]]
    """The sandboxes, with `workspaces: some`."""
    snapshots: NotRequired[bool]
    """Whether the files of all snapshots are in the backup."""
    workspaces: NotRequired[BackupWorkspaces]
    """Whose files are in the backup."""


BackupWorkspaces: TypeAlias = 'Literal["all", "none", "some"]'
"""Whose files are in a backup."""


class BootEvent(TypedDict):
    data: BootEventData
    kind: Literal["boot"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class BootEventData(TypedDict):
    pid1: bool
    version: str


BudgetPeriod: TypeAlias = 'Literal["day", "month", "total"]'
"""When the counters of a budget are reset. Days and months are UTC."""


class BudgetSpec(TypedDict):
    """Give a limit of tokens, cost_usd or requests."""
    cost_usd: NotRequired[Union[float, None]]
    per: BudgetPeriod
    requests: NotRequired[Union[int, None]]
    tokens: NotRequired[Union[int, None]]


class BudgetUse(TypedDict):
    """Model use since the period began."""
    cost_usd: float
    requests: int
    tokens: int


class BudgetView(TypedDict):
    cost_usd: NotRequired[Union[float, None]]
    per: BudgetPeriod
    requests: NotRequired[Union[int, None]]
    tenant: Label
    tokens: NotRequired[Union[int, None]]
    used: BudgetUse


class BudgetViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[BudgetView]
    next: NotRequired[Union[str, None]]


class BuildOutcome(TypedDict):
    duration_ms: int
    exit: NotRequired[Union[Exit, None]]
    output: NotRequired[Union[Payload, None]]
    status: BuildStatus


BuildStatus: TypeAlias = 'Literal["passed", "failed", "skipped"]'


class CancelRequest(TypedDict):
    grace_ms: NotRequired[Union[int, None]]
    """Milliseconds between SIGTERM and SIGKILL."""


class Capabilities(TypedDict):
    """Capabilities of a driver."""
    disk_limit: NotRequired[Union[str, None]]
    """How `limits.disk_mb` is kept: `project` (quota of the file system), `loop` (a file system of its own on space that is set aside), or `measured` (hostd stops a sandbox that is over). Absent where it is refused."""
    images: list[str]
    """Supported kinds of images: `host`, `imported`, `registry`."""
    isolation: list[str]
    """Isolation between sandbox and host beyond kernel namespaces, as text."""
    limits: list[str]
    """Fields of `limits` that the driver enforces."""
    networks: list[str]
    """Supported network modes: `none`, `proxy`, `open`."""
    pause: bool
    runtimes: list[str]
    """OCI runtimes that a sandbox may request, the default first."""
    snapshots: NotRequired[Union[str, None]]
    """How snapshots are taken: `btrfs`, `overlay` or `copy`. Absent where there are none."""


class CapacityDetail(TypedDict):
    """The numbers of a refusal with `capacity`."""
    admitted_bytes: int
    """Memory of sandboxes that were admitted a moment ago and do not use it yet."""
    available_bytes: int
    level: MemoryLevel
    needed_bytes: int
    """Memory that the sandbox is expected to need."""
    reserve_bytes: int
    """Memory that hostd keeps free."""
    retry_after_s: int
    """As in `Retry-After`."""


ChangeKind: TypeAlias = 'Literal["added", "modified", "deleted"]'


class Changes(TypedDict):
    """Files that the task changed: totals, and a list of the first ones."""
    added: int
    added_lines: int
    deleted: int
    deleted_lines: int
    files: list[FileChange]
    modified: int
    truncated: NotRequired[bool]
    """Whether `files` is incomplete."""


ChangesState: TypeAlias = 'Literal["recorded", "unavailable"]'


Checkpoint: TypeAlias = "Union[CheckpointTaken, CheckpointUnavailable]"
"""Snapshot of the workspace before the task."""


class CheckpointTaken(TypedDict):
    id: str
    """Commit id in the sandbox's private repository."""
    skipped: NotRequired[int]
    """Number of files left out because they are too large or unreadable."""
    state: Literal["taken"]


class CheckpointUnavailable(TypedDict):
    state: Literal["unavailable"]
    why: str


Chunk: TypeAlias = "Union[ChunkOutput, ChunkGap, ChunkEnd]"
"""A line of a log stream. `cursor` is the position *after* the chunk: pass it as `after` to resume there."""


class ChunkEnd(TypedDict):
    """The last line of every response: the log is complete up to here."""
    cursor: int
    ended: bool
    """Whether the job has ended, so that no output will follow."""
    type: Literal["end"]


class ChunkGap(TypedDict):
    """Bytes that were not stored (full disk) or were trimmed during the stream."""
    cursor: int
    lost: int
    type: Literal["gap"]


class ChunkOutput(TypedDict):
    cursor: int
    data: str
    encoding: NotRequired[Encoding]
    offset: int
    """Position of the first byte within its own stream."""
    stream: Stream
    type: Literal["output"]


ContentEncoding: TypeAlias = 'Literal["utf-8", "base64"]'
"""How content is written as text."""


DeathCause: TypeAlias = 'Literal["shut_down", "oom", "killed", "exited", "removed", "backend", "unknown"]'


Decision: TypeAlias = 'Literal["allow", "ask", "deny"]'


class DefaultImage(TypedDict):
    """The image of sandboxes that name none: `/v1/default-image`."""
    image: str


DeliveryState: TypeAlias = 'Literal["waiting", "delivered", "dead"]'


class DeliveryView(TypedDict):
    """A delivery of a webhook."""
    attempts: int
    created_at: str
    ended_at: NotRequired[Union[str, None]]
    id: str
    """`webhook-id` of its requests: the same for each attempt."""
    last_error: NotRequired[Union[str, None]]
    """Why the last attempt failed, with the beginning of the response."""
    last_status: NotRequired[Union[int, None]]
    """Status of the last response."""
    next_attempt_at: NotRequired[Union[str, None]]
    """When the next attempt is due, unless an earlier delivery of the sandbox waits."""
    sandbox: NotRequired[Union[SandboxId, None]]
    seq: int
    """Number of the event."""
    state: DeliveryState
    type: str


class DeliveryViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[DeliveryView]
    next: NotRequired[Union[str, None]]


Dialect: TypeAlias = 'Literal["anthropic", "openai", "gemini"]'
"""Model API that a provider speaks."""


class Diff(TypedDict):
    """A change of a file as the agent reports it."""
    new: str
    old: NotRequired[Union[str, None]]
    """Old content; absent for a new file."""
    path: str


DifferenceKind: TypeAlias = 'Literal["missing", "added", "changed"]'


DiskLevel: TypeAlias = 'Literal["ok", "low", "full"]'
"""How full the disk of the data directory is."""


class DotfilesEvent(TypedDict):
    data: DotfilesEventData
    kind: Literal["dotfiles.copied"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class DotfilesEventData(TypedDict):
    """The `data` of `dotfiles.copied`."""
    files: int
    kept: list[str]
    """The first files that were in the way and kept under another name."""
    kept_count: int


DotfilesInstall: TypeAlias = 'Literal["auto", "copy", "stow", "chezmoi", "script"]'
"""How dotfiles get from their directory `~/.dotfiles` into the home directory."""


class DotfilesSpec(TypedDict):
    """Files for the home directory of a new sandbox: of a repository, or of an archive."""
    archive: NotRequired[Union[str, None]]
    """Tar, tar.gz or zip archive in base64; its content is never shown again."""
    auth: NotRequired[Union[SourceAuth, None]]
    install: NotRequired[Union[DotfilesInstall, None]]
    ref: NotRequired[Union[str, None]]
    """Branch, tag or whole commit hash of the repository; default: the default branch of the server."""
    url: NotRequired[Union[str, None]]
    """Address of a git repository; this or `archive`."""


class DriverView(TypedDict):
    """A driver: the backend that runs sandboxes on this host, or could."""
    capabilities: NotRequired[Union[Capabilities, None]]
    default: NotRequired[bool]
    """Whether sandboxes that name no driver use this one."""
    missing: NotRequired[list[str]]
    """Reasons why the driver is unusable or limited, each with what to do about it."""
    name: str
    present: bool
    """Whether the backend is installed on this host."""
    unsupported: NotRequired[bool]
    """A name known from other tools that hostd has no driver for; `missing` names the alternative."""
    usable: bool
    """Whether sandboxes can be created with it now."""
    version: NotRequired[Union[str, None]]
    """Program and version of the backend."""


class DriverViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[DriverView]
    next: NotRequired[Union[str, None]]


class Durations(TypedDict):
    """Milliseconds spent in each phase; 0 for a phase that was not reached."""
    agent_ms: int
    build_ms: int
    checkpoint_ms: int
    health_ms: int
    preparing_ms: int
    queued_ms: int
    total_ms: int


class EgressDecisionEvent(TypedDict):
    data: EgressEventData
    kind: Literal["egress"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class EgressEventData(TypedDict):
    """The `data` of `egress`: decisions of one kind, added up."""
    address: NotRequired[Union[str, None]]
    by: NotRequired[Union[dict[str, Any], None]]
    """The job that made the requests, as the sandbox claims."""
    bytes_down: int
    bytes_up: int
    duration_ms: int
    ended: int
    """Connections that ended."""
    error: NotRequired[Union[str, None]]
    """Why there was no connection although it was allowed."""
    host: str
    """Empty for a malformed request; `*` where events were merged."""
    port: int
    profile: NotRequired[Union[str, None]]
    """The profile that has the rule."""
    rule: str
    times: int
    verdict: str
    """`allowed` or `denied`."""


class EgressProfile(TypedDict):
    """A named set of egress rules. The profile `default` applies to every sandbox."""
    allow: NotRequired[list[str]]
    deny: NotRequired[list[str]]


class EgressProfileView(TypedDict):
    """A named set of egress rules: `GET /v1/egress-profiles`."""
    allow: list[str]
    deny: list[str]
    name: str


class EgressProfileViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[EgressProfileView]
    next: NotRequired[Union[str, None]]


class EgressRules(TypedDict):
    """Egress rules of one sandbox. `PUT …/egress` replaces all of them."""
    allow: NotRequired[list[str]]
    """Allowed destinations. Everything else is denied; an empty list allows every public address."""
    deny: NotRequired[list[str]]
    """Denied destinations. Deny rules win over allow rules."""
    max_mb: NotRequired[Union[int, None]]
    """Maximum traffic through the proxy, sent and received together, in MiB."""
    profile: NotRequired[Union[str, None]]
    """Name of an egress profile that applies beside the profile `default`."""


class EgressView(TypedDict):
    """Egress rules of a sandbox and its traffic: `GET …/egress`."""
    allow: list[str]
    deny: list[str]
    max_mb: NotRequired[Union[int, None]]
    mode: Network
    profile: NotRequired[Union[str, None]]
    used_bytes: int
    """Bytes sent and received so far, counted when a connection ends."""


Encoding: TypeAlias = 'Literal["utf8", "base64"]'


class EnsureAnswer(TypedDict):
    """The sandbox that was found or created: `POST /v1/sandboxes/ensure`."""
    attempt: int
    """Number of the current attempt to launch it."""
    created: bool
    """Whether this request created it."""
    created_at: str
    driver: str
    env: list[str]
    """Names of the environment variables of the spec; values are not shown."""
    expires_at: NotRequired[Union[str, None]]
    id: SandboxId
    idle_policy: IdlePolicy
    image: str
    limits: Limits
    listening: NotRequired[Union[list[int], None]]
    """Ports that something listens on now. Only in lists with `listening=1`, for sandboxes that run and respond."""
    metadata: dict[str, str]
    name: str
    network: Network
    on_ttl: NotRequired[OnTtl]
    """What happens then; absent: it is destroyed."""
    phase: NotRequired[Union[Phase, None]]
    ports: list[int]
    post_mortem: NotRequired[Union[PostMortem, None]]
    preview_headers: NotRequired[PreviewHeaders]
    previews: dict[str, str]
    """Preview URLs by port."""
    principal: Label
    problem: NotRequired[Union[Problem, None]]
    progress: NotRequired[Union[str, None]]
    """Progress of a long-running phase, as text; for example of an image pull."""
    project: Label
    replaced_by: NotRequired[Union[SandboxId, None]]
    runtime: NotRequired[Union[str, None]]
    """OCI runtime, where one was requested."""
    scope: NotRequired[Union[SandboxScope, None]]
    services: list[str]
    """Names of the services of the spec."""
    setup: NotRequired[Union[SetupView, None]]
    shared: NotRequired[Union[SharedView, None]]
    status: SandboxStatus
    tenant: Label
    updated_at: str
    visibility: Visibility


EventView: TypeAlias = "Union[TaskStatusEvent, TaskMessageEvent, TaskThoughtEvent, TaskToolEvent, TaskFileEvent, TaskPlanEvent, TaskPermissionEvent, TaskModelEvent, TaskBuildEvent, TaskUsageEvent, TaskLogEvent, TaskDoneEvent, BootEvent, ShutdownEvent, ExecStartedEvent, ExecEndedEvent, ExecGoneEvent, ExecTrimmedEvent, ExecForgottenEvent, ServiceStateEvent, ServiceStartedEvent, ServiceEndedEvent, ServiceRemovedEvent, TaskQueuedEvent, TaskStartedEvent, TaskEndedEvent, TaskTrimmedEvent, TaskForgottenEvent, TaskRevertedEvent, ManifestLoadedEvent, ManifestRejectedEvent, HoldTakenEvent, HoldReleasedEvent, SandboxEvent, AttemptEvent, SetupEvent, DotfilesEvent, GitEvent, EgressDecisionEvent, GapEvent]"
"""An event of hostd's log. `seq` is global and increases with every event. Fields of task events are inline; those of other events are in `data`."""


class EventViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[EventView]
    next: NotRequired[Union[str, None]]


class ExecAnswer(TypedDict):
    """An exec. `stdout` and `stderr` are present when the response waited for the end."""
    argv: list[str]
    cwd: str
    duration_ms: NotRequired[Union[int, None]]
    encoding: NotRequired[Union[str, None]]
    """`base64` when `stdout` or `stderr` is not UTF-8; both are encoded then."""
    ended_at: NotRequired[Union[str, None]]
    exit: NotRequired[Union[Exit, None]]
    hints: NotRequired[list[Hint]]
    id: ExecId
    pid: NotRequired[Union[int, None]]
    """The pid of the command inside the sandbox, also after its end, until the sandbox is stopped."""
    started_at: str
    state: ExecState
    stderr: NotRequired[Union[str, None]]
    stdout: NotRequired[Union[str, None]]
    truncated: NotRequired[bool]
    """Whether `stdout` or `stderr` is incomplete; `GET …/execs/{exec}/output` has everything that is kept."""
    tty: bool


class ExecAnswerPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[ExecAnswer]
    next: NotRequired[Union[str, None]]


class ExecCreate(TypedDict):
    """Give one of argv and shell."""
    argv: NotRequired[Union[list[str], None]]
    """Program and arguments."""
    cwd: NotRequired[Union[str, None]]
    """Working directory, absolute or relative to the app directory, which is the default."""
    env: NotRequired[dict[str, str]]
    """Environment variables, added to those of the sandbox and overriding them."""
    id: NotRequired[Union[ExecId, None]]
    shell: NotRequired[Union[str, None]]
    """Command line for `bash -c`, or `sh -c` where the image has no bash."""
    stdin: NotRequired[Union[str, None]]
    """Text for standard input; end of file follows unless `stdin_open`."""
    stdin_open: NotRequired[bool]
    """Keeps standard input open for `POST …/stdin`. Without it and `stdin`, standard input is /dev/null."""
    timeout_s: NotRequired[Union[float, None]]
    """Seconds after which the command, and everything it started, is killed."""
    tty: NotRequired[Union[TtyChoice, None]]
    wait: NotRequired[Union[bool, None]]
    """Whether the response waits for the end of the command, at most 30 minutes. Default: true, on a terminal false."""


class ExecEndedEvent(TypedDict):
    data: ExecEndedEventData
    kind: Literal["exec.ended"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class ExecEndedEventData(TypedDict):
    background: int
    """Number of processes that it left running."""
    exec: ExecId
    exit: Exit
    hints: NotRequired[list[Hint]]
    output_end: int


class ExecForgottenEvent(TypedDict):
    data: ExecForgottenEventData
    kind: Literal["exec.forgotten"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class ExecForgottenEventData(TypedDict):
    exec: ExecId


class ExecGoneEvent(TypedDict):
    data: ExecGoneEventData
    kind: Literal["exec.gone"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class ExecGoneEventData(TypedDict):
    exec: ExecId


ExecId: TypeAlias = "str"
"""Id of an exec, chosen by the client: 1 to 64 of A-Z a-z 0-9 . _ -, starting with a letter or digit. A request repeated with the same id runs the command once."""


class ExecStartedEvent(TypedDict):
    data: ExecStartedEventData
    kind: Literal["exec.started"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class ExecStartedEventData(TypedDict):
    exec: ExecId
    pid: int
    tty: bool


ExecState: TypeAlias = 'Literal["running", "ended"]'


class ExecTrimmedEvent(TypedDict):
    data: ExecTrimmedEventData
    kind: Literal["exec.trimmed"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class ExecTrimmedEventData(TypedDict):
    exec: ExecId
    oldest: int


Exit: TypeAlias = "Union[ExitExited, ExitSignalled, ExitOom, ExitTimedOut, ExitCancelled, ExitSpawnFailed, ExitLost]"
"""How a process ended."""


class ExitCancelled(TypedDict):
    kind: Literal["cancelled"]


class ExitExited(TypedDict):
    code: int
    kind: Literal["exited"]


class ExitLost(TypedDict):
    """The sandbox, or the shim of the job, died first, so that the end was not observed."""
    kind: Literal["lost"]


class ExitOom(TypedDict):
    """The kernel's OOM killer ended the leader."""
    kind: Literal["oom"]


class ExitSignalled(TypedDict):
    kind: Literal["signalled"]
    signal: int


class ExitSpawnFailed(TypedDict):
    kind: Literal["spawn_failed"]
    message: str


class ExitTimedOut(TypedDict):
    kind: Literal["timed_out"]


class FailedStep(TypedDict):
    """The step of a setup that failed."""
    exec: NotRequired[Union[str, None]]
    """Exec that ran it; absent where none was run. Its whole output can be read once the sandbox runs again."""
    exit: NotRequired[Union[Exit, None]]
    name: str
    number: int
    """Number of the step, from 1."""
    of: int
    """Number of all steps."""


FailureReason: TypeAlias = 'Literal["agent_failed", "model_failed", "budget_exceeded", "timed_out", "idle_timed_out", "cancelled", "spawn_failed", "build_failed", "lost", "sandbox_failed", "internal"]'
"""Why a task did not succeed; a closed list."""


class FileChange(TypedDict):
    """A file that the task changed."""
    added_lines: NotRequired[Union[int, None]]
    """Number of added lines; absent for binary files."""
    change: ChangeKind
    deleted_lines: NotRequired[Union[int, None]]
    """Number of deleted lines; absent for binary files."""
    path: Payload
    """Path relative to the app directory; base64 where it is not UTF-8."""


FileChangeView = TypedDict(
    "FileChangeView",
    {
        "directory": "bool",
        "from": "NotRequired[Union[str, None]]",
        "path": "str",
        "path_base64": "NotRequired[Union[str, None]]",
    },
)
"""The data of a watch event."""


class FileDiffView(TypedDict):
    """A file that a task changed."""
    added_lines: NotRequired[Union[int, None]]
    """Number of added lines; absent for binary files and for files that are too large to compare."""
    binary: bool
    deleted_lines: NotRequired[Union[int, None]]
    diff: NotRequired[Union[Payload, None]]
    kind: ChangeKind
    path: str
    """Path relative to the app directory. Where it is not UTF-8, `path_base64` has its bytes and this only shows it."""
    path_base64: NotRequired[Union[str, None]]
    whole: bool
    """Whether `diff` is here: a diff is whole or absent."""


class FileLinkCreate(TypedDict):
    """A URL to create that reads or writes one file without a token."""
    max_bytes: NotRequired[Union[int, None]]
    """Bytes of the largest upload; default: 1 GiB."""
    method: FileLinkMethod
    path: str
    """Relative to `/home/sandbox`."""
    ttl: NotRequired[Union[str, None]]
    """Lifetime, as `90s`, `15m`, `4h` or `7d`, at most `7d`; default: 15 minutes."""


class FileLinkCreated(TypedDict):
    """A created URL. Only this response contains its signature."""
    created_at: str
    created_by: str
    """Principal that created the URL."""
    expires_at: str
    id: str
    max_bytes: int
    method: FileLinkMethod
    path: str
    revoked_at: NotRequired[Union[str, None]]
    sandbox_id: SandboxId
    url: str
    """The URL, by the `Host` of the request; on the Unix socket only its path and query."""


FileLinkMethod: TypeAlias = 'Literal["GET", "PUT"]'


class FileLinkView(TypedDict):
    """A signed URL, without its signature."""
    created_at: str
    created_by: str
    """Principal that created the URL."""
    expires_at: str
    id: str
    max_bytes: int
    method: FileLinkMethod
    path: str
    revoked_at: NotRequired[Union[str, None]]
    sandbox_id: SandboxId


class FileLinkViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[FileLinkView]
    next: NotRequired[Union[str, None]]


class FilePage(TypedDict):
    """A page of a directory or tree, a directory before its content."""
    items: list[FileView]
    next: NotRequired[Union[str, None]]
    """Pass it as `after` to get the next page."""


FileType: TypeAlias = 'Literal["file", "directory", "symlink", "fifo", "socket", "device"]'


class FileView(TypedDict):
    """A file, directory or link of a workspace."""
    etag: str
    """Changes with content and metadata; for `If-Match` and `If-None-Match`."""
    gid: NotRequired[Union[int, None]]
    links: int
    """Names that the file has in the workspace."""
    mode: str
    """Permissions in octal, as in `0644`."""
    modified_at: str
    path: str
    """Relative to `/home/sandbox`. Bytes that are not UTF-8 are replaced; `path_base64` has them."""
    path_base64: NotRequired[Union[str, None]]
    """The path where it is not UTF-8."""
    size: int
    target: NotRequired[Union[str, None]]
    """Where a symbolic link points to."""
    type: FileType
    uid: NotRequired[Union[int, None]]
    """The owner as programs of the sandbox see it; absent where hostd read the files itself."""


class FilesWritten(TypedDict):
    updated: int
    """How many files were written."""


class GapEvent(TypedDict):
    data: GapEventData
    kind: Literal["gap"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class GapEventData(TypedDict):
    """The `data` of a `gap`: events that were lost."""
    after: NotRequired[Union[str, None]]
    """Trimmed before hostd read them: the position of the last event that it has, and of the next one."""
    lost_bytes: NotRequired[Union[int, None]]
    """A torn tail of the log, or a full disk."""
    lost_events: NotRequired[Union[int, None]]
    oldest: NotRequired[Union[str, None]]
    reason: NotRequired[str]


class GitAuth(TypedDict):
    """The credential for a server. It is added by hostd on the wire, and never enters the sandbox."""
    secret: SecretName
    """The name of a secret of the tenant: `git.HOST` or `git-LABEL.HOST`, whose value is a token or `user:password`, or `ssh.HOST` or `ssh-LABEL.HOST`, whose value is a private key."""


class GitAuthor(TypedDict):
    email: str
    name: str


GitBranchCreate = TypedDict(
    "GitBranchCreate",
    {
        "dir": "NotRequired[Union[str, None]]",
        "from": "NotRequired[Union[str, None]]",
        "name": "str",
        "switch": "NotRequired[bool]",
    },
)
"""A branch to create or to switch to."""


class GitBranchView(TypedDict):
    head: NotRequired[Union[str, None]]
    """The commit of the branch; absent before the first one."""
    name: str
    switched: bool
    """Whether the branch is checked out."""


class GitCommitCreate(TypedDict):
    """A commit to make."""
    all: NotRequired[bool]
    """Commits all changes, new files included. Without it and `paths` the commit has what is staged."""
    author: NotRequired[Union[GitAuthor, None]]
    dir: NotRequired[Union[str, None]]
    """A directory of the repository; default the app directory."""
    message: str
    paths: NotRequired[list[str]]
    """Commits what changed at these paths and nothing else; relative to `dir`."""


class GitCommitView(TypedDict):
    author: GitAuthor
    authored_at: str
    """When it was written, in RFC 3339."""
    body: str
    """The rest of the message."""
    commit: str
    parents: list[str]
    subject: str
    """The first paragraph of the message."""


class GitDiff(TypedDict):
    diff: str
    """The unified diff. Bytes that are not UTF-8 are replaced."""
    truncated: bool
    """Whether the diff is longer."""


class GitEvent(TypedDict):
    data: GitEventData
    kind: Literal["git.fetch", "git.push"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class GitEventData(TypedDict):
    """The `data` of `git.` events: an operation that went through the git gateway."""
    branch: NotRequired[Union[str, None]]
    bytes_down: int
    bytes_up: int
    error: NotRequired[Union[str, None]]
    remote: str
    secret: NotRequired[Union[str, None]]
    """Name of the secret that was used."""


class GitFetch(TypedDict):
    """A fetch of all branches of a remote."""
    auth: NotRequired[Union[GitAuth, None]]
    dir: NotRequired[Union[str, None]]
    """A directory of the repository; default the app directory."""
    remote: NotRequired[Union[str, None]]
    """The name of a remote of the repository; default `origin`."""


class GitFetched(TypedDict):
    branches: list[GitRemoteBranch]
    """The branches of the remote, as in `origin/main`, with their commits."""
    remote: str
    """The address of the repository that was fetched from."""
    truncated: bool
    """Whether branches are missing here because there are too many; all of them were fetched."""


class GitFile(TypedDict):
    """A file that differs from the last commit."""
    original_path: NotRequired[Union[str, None]]
    """The former path of a file that was renamed or copied."""
    path: str
    """Relative to the top of the repository."""
    staged: GitFileState
    """State in the index."""
    unstaged: GitFileState
    """State in the working tree."""


GitFileState: TypeAlias = 'Literal["unmodified", "modified", "type_changed", "added", "deleted", "renamed", "copied", "unmerged", "untracked"]'
"""A state of a file, in the index or in the working tree."""


class GitLog(TypedDict):
    commits: list[GitCommitView]
    """The newest is the first."""
    truncated: bool
    """Whether commits of this page are missing because their messages are too long."""


class GitPush(TypedDict):
    """A push of one branch."""
    auth: NotRequired[Union[GitAuth, None]]
    branch: NotRequired[Union[str, None]]
    """Default: the branch that is checked out."""
    dir: NotRequired[Union[str, None]]
    """A directory of the repository; default the app directory."""
    force: NotRequired[bool]
    """Replaces commits of the server that the branch does not have."""
    remote: NotRequired[Union[str, None]]
    """The address of a repository, or the name of a remote of this one; default `origin`."""


class GitPushed(TypedDict):
    branch: str
    commit: str
    remote: str
    """The address of the repository that was pushed to."""


GitReason: TypeAlias = 'Literal["not_a_repository", "no_commits", "nothing_to_commit", "no_author", "no_branch", "branch_exists", "invalid_remote", "auth_failed", "remote_not_found", "non_fast_forward", "remote_rejected", "remote_denied", "remote_unreachable", "no_git", "timed_out", "refused"]'
"""Why a git operation failed."""


class GitRemoteBranch(TypedDict):
    commit: str
    name: str


class GitStatus(TypedDict):
    """The state of a repository."""
    ahead: NotRequired[Union[int, None]]
    """Commits that the upstream does not have."""
    behind: NotRequired[Union[int, None]]
    """Commits that only the upstream has."""
    branch: NotRequired[Union[str, None]]
    """Absent when no branch is checked out."""
    files: list[GitFile]
    head: NotRequired[Union[str, None]]
    """The commit that is checked out; absent before the first one."""
    truncated: bool
    """Whether there are more files."""
    upstream: NotRequired[Union[str, None]]
    """The branch of a remote that the branch follows."""


class HealthOutcome(TypedDict):
    status: HealthStatus
    unready: NotRequired[list[ServiceName]]
    """Services that were not ready in time."""


HealthStatus: TypeAlias = 'Literal["healthy", "unhealthy", "unknown"]'


Hint: TypeAlias = "Union[HintPidsLimit, HintOomKills, HintDiskFull, HintOutputLost, HintLeaky, HintUnkillable, HintShimDied]"
"""An observation beside the exit status. Hints never replace the status."""


class HintDiskFull(TypedDict):
    """The file system of the workspace is full."""
    kind: Literal["disk_full"]


class HintLeaky(TypedDict):
    """A process kept the output open after the leader had ended."""
    kind: Literal["leaky"]


class HintOomKills(TypedDict):
    """The OOM killer ended this many processes of the sandbox meanwhile."""
    kind: Literal["oom_kills"]
    times: int


class HintOutputLost(TypedDict):
    """Bytes of output that could not be written to the log."""
    bytes: int
    kind: Literal["output_lost"]


class HintPidsLimit(TypedDict):
    """The process limit was hit this many times."""
    kind: Literal["pids_limit"]
    times: int


class HintShimDied(TypedDict):
    """The shim of the job died, so its end was not observed."""
    kind: Literal["shim_died"]


class HintUnkillable(TypedDict):
    """Processes that survived SIGKILL longer than the time limit."""
    kind: Literal["unkillable"]
    processes: int


HoldName: TypeAlias = "str"
"""Name of a hold."""


class HoldReleasedEvent(TypedDict):
    data: HoldReleasedEventData
    kind: Literal["hold.released"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class HoldReleasedEventData(TypedDict):
    expired: bool
    hold: HoldName


class HoldTakenEvent(TypedDict):
    data: HoldTakenEventData
    kind: Literal["hold.taken"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class HoldTakenEventData(TypedDict):
    expires_ms: int
    hold: HoldName


class HostHealth(TypedDict):
    """`GET /healthz` and `/readyz`"""
    memory: NotRequired[Union[MemoryLevel, None]]
    status: str


class HostView(TypedDict):
    """The host and its capacity: `GET /v1/host`."""
    cpus: int
    default_driver: str
    default_image: str
    disk_floor_bytes: NotRequired[int]
    """Free space below which creates and wakes are refused."""
    disk_free_bytes: int
    """Free space on the file system of the data directory, without hostd's own reserve."""
    disk_level: NotRequired[DiskLevel]
    disk_total_bytes: int
    drivers: list[DriverView]
    hostd_rss_bytes: int
    instance: str
    load: NotRequired[list[float]]
    """Processes that run or wait for the disk, averaged over 1, 5 and 15 minutes."""
    memory_admitted_bytes: NotRequired[int]
    """Memory of sandboxes that were admitted a moment ago and do not use it yet."""
    memory_available_bytes: int
    """For sandboxes: of the host, or of the tightest control group above them."""
    memory_level: NotRequired[MemoryLevel]
    memory_limit_bytes: NotRequired[Union[int, None]]
    """The limit of all sandboxes together; absent: none but the memory of the host."""
    memory_pressure: NotRequired[Union[PressureView, None]]
    memory_reserve_bytes: NotRequired[int]
    """Available memory below which creates and wakes are refused."""
    memory_total_bytes: int
    sandboxes: dict[str, int]
    """Number of sandboxes by status."""
    sandboxes_by_driver: NotRequired[dict[str, int]]
    """Number of sandboxes that are not destroyed, by driver."""
    version: str
    warnings: list[str]
    """Problems of this host, as text."""


class IdentityView(TypedDict):
    """The caller, as its token says: `GET /v1/identity`."""
    expires_at: NotRequired[Union[str, None]]
    """When the token expires; absent: never."""
    operator: bool
    """Whether the caller is the operator of the host."""
    principal: Label
    scope: TokenScope
    tenant: Label


IdlePolicy: TypeAlias = 'Literal["sleep", "always_on"]'


class Image(TypedDict):
    """An image that the host has."""
    created_at: str
    digest: NotRequired[Union[str, None]]
    """The digest of its manifest."""
    is_default: bool
    """Whether sandboxes get it that name none."""
    layers: int
    """0: a root file system without layers."""
    name: str
    """Its name, or the reference that it was pulled by."""
    reference: NotRequired[Union[str, None]]
    """The reference that it was pulled by."""
    size_bytes: int
    """Files of all layers; layers that images share count in each."""
    source: ImageSource
    used_at: str
    """When a new sandbox got it last, or when it was made."""


class ImageCollection(TypedDict):
    """What `POST /v1/images/collect` removed, or would remove."""
    applied: bool
    bytes: int
    images: list[str]
    """Pulled images that no sandbox has and none got for long."""
    layers: int
    """Layers that no image and no sandbox has."""


class ImageDetails(TypedDict):
    """An image with its configuration: `GET /v1/images/{name}`."""
    env: list[str]
    """Variables that jobs get, as `NAME=value`."""
    image: Image
    labels: dict[str, str]
    layer_digests: list[str]
    """Digests of the uncompressed layers, lowest first."""
    sandboxes: list[SandboxId]
    """Sandboxes that name this image."""
    user: str
    """Not used: everything runs as the user of the sandbox."""
    volumes: list[str]
    """Paths that are writable, in memory."""
    working_dir: str
    """Not used: everything starts in the workspace."""


class ImageImport(TypedDict):
    """`POST /v1/images`"""
    name: str
    path: str
    """On the host: an OCI image layout or an archive of one, an archive of `docker save`, a root directory or a tarball of one. Archives may be compressed with gzip or zstd."""


class ImagePage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[Image]
    next: NotRequired[Union[str, None]]


class ImagePull(TypedDict):
    """A pull. It ends with hostd: repeat it, and it goes on where its downloads ended."""
    downloaded_bytes: int
    error: NotRequired[Union[ApiError, None]]
    id: str
    image: NotRequired[Union[Image, None]]
    message: str
    """What is being done, for people."""
    name: NotRequired[Union[str, None]]
    reference: str
    state: ImagePullState
    total_bytes: int
    """Compressed layers that the host lacked; 0 until that is known."""


class ImagePullCreate(TypedDict):
    """`POST /v1/image-pulls`"""
    name: NotRequired[Union[str, None]]
    """A name under which every tenant may use the image, without asking its registry."""
    reference: str
    """As in `alpine:3.20` or `registry:5000/team/app@sha256:…`."""


ImagePullState: TypeAlias = 'Literal["running", "done", "failed"]'


ImageSource: TypeAlias = 'Literal["imported", "pulled"]'


Label: TypeAlias = "str"
"""An identifier from another system (a tenant, a user, a conversation): 1 to 128 visible ASCII characters."""


LeftoverKind: TypeAlias = 'Literal["trash", "sandbox_directory", "workspace", "runtime_state", "control_group"]'
"""A kind of thing that a sandbox may leave."""


class Limits(TypedDict):
    """Resource limits in force."""
    cpus: float
    disk_mb: NotRequired[Union[int, None]]
    """Absent: unlimited."""
    memory_mb: int
    pids: int


class LimitsChange(TypedDict):
    """New limits of a sandbox: `PATCH …/limits`. Absent fields stay as they are."""
    cpus: NotRequired[Union[float, None]]
    """CPU cores, as in 0.5 or 2."""
    memory_mb: NotRequired[Union[int, None]]
    pids: NotRequired[Union[int, None]]
    """Number of processes and threads."""


class LimitsSpec(TypedDict):
    """Requested resource limits. Absent fields have hostd's defaults."""
    cpus: NotRequired[Union[float, None]]
    """CPU cores, as in 0.5 or 2."""
    disk_mb: NotRequired[Union[int, None]]
    """Space of the workspace: writes beyond it fail. Absent: unlimited. How it is kept is in `disk_limit` of the driver's capabilities."""
    memory_mb: NotRequired[Union[int, None]]
    pids: NotRequired[Union[int, None]]
    """Number of processes and threads."""


class ListeningPort(TypedDict):
    address: str
    """Address that it is bound to."""
    port: int
    process: NotRequired[Union[Process, None]]


class ManifestLoadedEvent(TypedDict):
    data: ManifestLoadedEventData
    kind: Literal["manifest.loaded"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class ManifestLoadedEventData(TypedDict):
    services: list[ServiceName]


class ManifestRejectedEvent(TypedDict):
    data: ManifestRejectedEventData
    kind: Literal["manifest.rejected"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class ManifestRejectedEventData(TypedDict):
    field: NotRequired[Union[str, None]]
    line: NotRequired[Union[int, None]]
    message: str


MemoryLevel: TypeAlias = 'Literal["ok", "tight", "critical"]'
"""How much memory is left for sandboxes."""


class Missing(TypedDict):
    """The resource that was not found."""
    id: str
    """Id as in the request, shortened."""
    kind: MissingKind
    sandbox: NotRequired[Union[str, None]]
    """Sandbox that was searched, as in the request."""
    task: NotRequired[Union[str, None]]
    """Task that was searched."""


MissingKind: TypeAlias = 'Literal["sandbox", "task", "permission", "exec", "service", "share", "preview_link", "file_link", "token", "secret", "image", "snapshot", "image_pull", "egress_profile", "model_provider", "budget", "quota", "webhook"]'


ModelCallState: TypeAlias = 'Literal["retrying", "succeeded", "failed", "abandoned"]'


class ModelPrice(TypedDict):
    """Price in dollars per million tokens. Cached tokens cost as much as other input unless their price is given."""
    cache_read: NotRequired[Union[float, None]]
    cache_write: NotRequired[Union[float, None]]
    input: float
    output: float


class ModelSpec(TypedDict):
    alias: NotRequired[Union[str, None]]
    """Alternative name that tasks may use."""
    name: str
    """Name of the model at the provider."""
    price: NotRequired[Union[ModelPrice, None]]


class ModelView(TypedDict):
    """A model that the caller's tasks may use."""
    default: NotRequired[bool]
    """Whether tasks that name no model use this one."""
    dialect: Dialect
    model: NotRequired[Union[str, None]]
    """Name of the model at the provider; absent where any name is allowed."""
    name: str
    """Name to use in a task: an alias, the model's own name, or `provider/name`. `provider/*` stands for any name."""
    price: NotRequired[Union[ModelPrice, None]]
    provider: str


class ModelViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[ModelView]
    next: NotRequired[Union[str, None]]


Network: TypeAlias = 'Literal["none", "proxy", "open"]'


class NetworkRules(TypedDict):
    """Mode and egress rules. Absent fields have hostd's defaults."""
    allow: NotRequired[list[str]]
    """Allowed destinations, as in `example.com`, `*.example.com:443` or `192.0.2.0/24:80,8000-8999`. Everything else is denied; an empty list allows every public address."""
    deny: NotRequired[list[str]]
    """Denied destinations. Deny rules win over allow rules."""
    max_mb: NotRequired[Union[int, None]]
    """Maximum traffic through the proxy, sent and received together, in MiB."""
    mode: NotRequired[Literal["proxy", None]]
    profile: NotRequired[Union[str, None]]
    """Name of an egress profile that applies beside the profile `default`."""


NetworkSpec: TypeAlias = "Union[Network, NetworkRules, dict[str, Any]]"
"""A mode by name, or mode and egress rules."""


class OlderCreate(TypedDict):
    """`POST /sandbox`. Fields that cannot be honoured are refused by name."""
    app_id: NotRequired[None]
    """Not offered on this route: leave it out."""
    env: NotRequired[dict[str, str]]
    external: NotRequired[OlderExternal]
    git: NotRequired[None]
    """Not offered on this route: leave it out."""
    git_remote_url: NotRequired[None]
    """Not offered on this route: leave it out."""
    id: NotRequired[Union[str, None]]
    """A ULID chosen by the caller."""
    idle_policy: NotRequired[Union[IdlePolicy, None]]
    image: NotRequired[None]
    """Not offered on this route: leave it out."""
    memory_high: NotRequired[Union[str, None]]
    """As in `4G` or `512M`."""
    ports: NotRequired[list[int]]
    runtime_preset: NotRequired[None]
    """Not offered on this route: leave it out."""
    template: NotRequired[None]
    """Not offered on this route: leave it out."""
    template_path: NotRequired[None]
    """Not offered on this route: leave it out."""
    visibility: NotRequired[Union[Visibility, None]]


class OlderError(TypedDict):
    error: str
    """A text; with 503 one of low_memory, wakes_refused, start_failed, shutting_down."""
    mem_available_percent: NotRequired[Union[int, None]]
    message: NotRequired[Union[str, None]]
    """With 503: what happened."""


class OlderExec(TypedDict):
    """`POST /sandbox/{id}/exec`."""
    cmd: list[str]
    stream: NotRequired[bool]


class OlderExternal(TypedDict):
    """Ids of the sandbox's user, project and workspace in the caller's own system."""
    project_id: NotRequired[Union[str, None]]
    user_id: NotRequired[Union[str, None]]
    workspace_id: NotRequired[Union[str, None]]


class OlderKeepalive(TypedDict):
    """`POST /sandbox/{id}/keepalive`."""
    until: int
    """Seconds since the Unix epoch."""


class OlderKept(TypedDict):
    """`POST /sandbox/{id}/keepalive`."""
    id: SandboxId
    keepalive_until: int
    """Seconds since the Unix epoch."""


class OlderLive(TypedDict):
    paused: bool
    running: bool


class OlderOutput(TypedDict):
    exit_code: int
    stderr: str
    stdout: str
    """Bytes that are not UTF-8 are replaced: this route has no encoding for them."""
    truncated: NotRequired[bool]
    """There was more output than is shown."""


class OlderPurged(TypedDict):
    """`POST /sandbox/{id}/purge`."""
    freed_bytes: int
    """Disk space that its files used."""
    purged: bool


class OlderRow(TypedDict):
    cgroup_path: str
    container_id: str
    container_ip: str
    created_at: str
    error_message: str
    external_project_id: str
    external_user_id: str
    external_workspace_id: str
    id: SandboxId
    idle_policy: IdlePolicy
    image: str
    keepalive_until: NotRequired[Union[int, None]]
    """Set for a running sandbox, and only in the view of a single one."""
    last_active_at: int
    """Seconds since the Unix epoch, as the next ones."""
    memory_high: str
    ports: list[int]
    status: str
    """creating, running, stopped or error; a paused sandbox is shown as stopped."""
    stopped_at: NotRequired[Union[int, None]]
    updated_at: str
    visibility: Visibility
    workspace_img: str
    """Always empty, as are all fields that would expose the host."""
    workspace_mnt: str


OlderRows: TypeAlias = "list[OlderRow]"
"""`GET /sandboxes`."""


class OlderSandbox(TypedDict):
    """`GET /sandbox/{id}`."""
    live_state: NotRequired[Union[OlderLive, None]]
    row: OlderRow
    runtime: NotRequired[Any]
    """The status of PID 1, if it responds."""


class OlderWoken(TypedDict):
    """`POST /wake/{id}`."""
    id: SandboxId
    status: str
    wake_duration_ms: int


OnTtl: TypeAlias = 'Literal["destroy", "pause", "stop"]'
"""What happens to a sandbox at the end of its `ttl`."""


class OwnQuota(TypedDict):
    """`GET /v1/quota`: what binds the caller."""
    principal: QuotaView
    tenant: QuotaView


class Owner(TypedDict):
    """Tenant, principal and project of a resource. The project is given in the request, the rest by the token."""
    principal: Label
    project: Label
    tenant: Label


class Payload(TypedDict):
    """Bytes in JSON: text where they are UTF-8, else base64. Never lossy."""
    data: str
    encoding: NotRequired[Encoding]


class PermissionAnswer(TypedDict):
    """The answer to a permission request: `POST /v1/tasks/{id}/permissions/{permission}`."""
    decision: Literal["allow", "deny"]
    """`allow` or `deny`."""
    option: NotRequired[Union[str, None]]
    """Id of one of the offered options; absent: the agent's option for this decision."""


class PermissionOption(TypedDict):
    id: str
    kind: str
    """`allow_once`, `allow_always`, `reject_once` or `reject_always`."""
    name: str


class PermissionRule(TypedDict):
    about: NotRequired[Union[str, None]]
    """Command, path or URL of the action, with `*` as wildcard; absent: any."""
    then: Decision
    tool: NotRequired[Union[str, None]]
    """Kind of tool (`execute`, `edit`, `fetch`, …) or its title, with `*` as wildcard; absent: any tool."""


PermissionState: TypeAlias = 'Literal["asked", "allowed", "denied", "withdrawn"]'


class Permissions(TypedDict):
    """Rules for actions that an agent asks permission for. The first matching rule decides, else the default."""
    default: NotRequired[Decision]
    rules: NotRequired[list[PermissionRule]]


Phase: TypeAlias = 'Literal["queued", "building", "provisioning", "starting", "pausing", "resuming", "stopping", "destroying"]'
"""The operation in progress on a sandbox. Every phase has a deadline."""


class PlanEntry(TypedDict):
    content: str
    priority: NotRequired[Union[str, None]]
    """`high`, `medium` or `low`."""
    status: str
    """`pending`, `in_progress` or `completed`."""


class PortView(TypedDict):
    """A port that a process of the sandbox listens on."""
    address: str
    """Address that it is bound to."""
    port: int
    preview: NotRequired[Union[str, None]]
    """Preview URL; absent where the process listens on an address that previews do not reach."""
    process: NotRequired[Union[Process, None]]


class PortViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[PortView]
    next: NotRequired[Union[str, None]]


class PostMortem(TypedDict):
    """How a sandbox died that should have run. Kept after a restart, until the next death."""
    at: str
    cause: DeathCause
    exit_code: NotRequired[Union[int, None]]
    """Exit code of PID 1, where the backend reports it."""
    last_lines: NotRequired[list[str]]
    """Last lines of output of PID 1."""
    memory_limit_bytes: NotRequired[Union[int, None]]
    memory_peak_bytes: NotRequired[Union[int, None]]
    """Peak memory use as last measured."""
    message: str
    """Cause, numbers and advice as a sentence."""
    oom_kills: NotRequired[int]
    """Processes killed by the OOM killer."""
    pids_limit_hits: NotRequired[int]
    """Process starts refused because of the process limit."""
    signal: NotRequired[Union[int, None]]
    task: NotRequired[Union[str, None]]
    """The task that was running."""


class PressureView(TypedDict):
    """Stalls for lack of memory, in percent of the last ten seconds: `/proc/pressure/memory`."""
    full_percent: float
    """Every process waited."""
    some_percent: float
    """At least one process waited."""


PreviewHeaders: TypeAlias = 'Literal["localhost", "as_sent"]'
"""Host-related headers that an app receives from a preview."""


class PreviewLinkCreate(TypedDict):
    """A link to create to a private preview."""
    path: NotRequired[Union[str, None]]
    """Path that the link opens; default: `/`."""
    port: int
    """must be a port of the sandbox from 1 to 65535, and not 900; it need not be advertised"""
    ttl: NotRequired[Union[str, None]]
    """Lifetime, as `90s`, `15m`, `4h` or `7d`, at most `30d`; default: one day."""


class PreviewLinkCreated(TypedDict):
    """A created link. Only this response contains the preview pass, as `token` and in `url`."""
    created_at: str
    created_by: str
    """Principal that created the link."""
    expires_at: str
    id: str
    port: int
    revoked_at: NotRequired[Union[str, None]]
    sandbox_id: SandboxId
    token: str
    """The pass alone, for programs to send in `X-Slipway-Token`."""
    url: str
    """URL for browsers: the first request moves the pass from the URL into a cookie."""


class PreviewLinkView(TypedDict):
    """A link to a private preview, without its secret."""
    created_at: str
    created_by: str
    """Principal that created the link."""
    expires_at: str
    id: str
    port: int
    revoked_at: NotRequired[Union[str, None]]
    sandbox_id: SandboxId


class PreviewLinkViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[PreviewLinkView]
    next: NotRequired[Union[str, None]]


class Problem(TypedDict):
    """Why a sandbox is in `error`, or why an attempt failed."""
    code: ProblemCode
    message: str
    """Explanation as text."""
    output: NotRequired[list[str]]
    """Last lines of output of the backend, of PID 1 or of the step that failed."""
    step: NotRequired[Union[FailedStep, None]]


ProblemCode: TypeAlias = 'Literal["refused", "launch_failed", "not_ready", "deadline_passed", "oom", "died", "damaged", "image_missing", "name_taken", "disk_full", "memory_pressure", "driver_unavailable", "setup_failed", "dotfiles_failed", "source_auth_failed", "source_not_found", "source_ref_unknown", "source_too_large", "source_unreachable", "source_failed"]'


class Process(TypedDict):
    command: str
    """The command line, shortened."""
    pid: int


class ProviderSpec(TypedDict):
    """A provider to add or change: `PUT /v1/model-providers/{name}`."""
    base_url: NotRequired[Union[str, None]]
    """Base URL, with the version where the API has one, as in `https://example.com/v1`. Default: the stored one, or that of the vendor of the dialect."""
    default: NotRequired[Union[str, None]]
    """Model, or its alias, for tasks that name none. The stored one is kept when `models` and `default` are both absent."""
    dialect: NotRequired[Union[Dialect, None]]
    key: NotRequired[Union[str, None]]
    """API key, of 8 characters or more; no response shows it. A new provider needs `key`, `key_from` or `no_key`. When absent the stored key is kept, unless scheme, host or port of `base_url` change: then it must be given again."""
    key_from: NotRequired[Union[SecretRef, None]]
    models: NotRequired[Union[list[ModelSpec], None]]
    """Models that tasks may use; an empty list allows any name. When absent the stored list is kept."""
    no_key: NotRequired[bool]
    """The provider needs no key, as a server on this machine may. A stored key is deleted."""
    tenant: NotRequired[Union[Label, None]]
    verify: NotRequired[Union[bool, None]]
    """Whether hostd first lists the provider's models with the key (default: true). A provider that refuses the key is not added. A default model is chosen from the list where `default` is absent and `models` has not exactly one."""


class ProviderView(TypedDict):
    """A configured provider, without its key."""
    base_url: str
    created_at: str
    default: NotRequired[Union[str, None]]
    dialect: Dialect
    has_key: bool
    key_from: NotRequired[Union[SecretRef, None]]
    models: list[ModelSpec]
    name: str
    problem: NotRequired[Union[str, None]]
    """Why tasks cannot use the provider, and what to do about it."""
    tenant: NotRequired[Union[Label, None]]
    warning: NotRequired[Union[str, None]]
    """A risk of this configuration, or a check that could not be made when the provider was added."""


class ProviderViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[ProviderView]
    next: NotRequired[Union[str, None]]


class Quota(TypedDict):
    """Limits on what an owner may use; an absent field is unlimited, 0 allows nothing."""
    cpus: NotRequired[Union[float, None]]
    """Sum of `limits.cpus` of the sandboxes that are up."""
    disk_mb: NotRequired[Union[int, None]]
    """Files of workspaces, and the share of the database, as measured last."""
    events_mb: NotRequired[Union[int, None]]
    """Events and output that are kept; the oldest are deleted beyond it."""
    memory_mb: NotRequired[Union[int, None]]
    """Sum of `limits.memory_mb` of the sandboxes that are up."""
    preview_connections: NotRequired[Union[int, None]]
    """Requests to previews and WebSockets at once."""
    running: NotRequired[Union[int, None]]
    """Sandboxes that are up or on their way there; a paused one is up."""
    sandboxes: NotRequired[Union[int, None]]
    """Sandboxes that are not destroyed."""
    tasks_queued: NotRequired[Union[int, None]]
    """Tasks that wait."""
    tasks_running: NotRequired[Union[int, None]]
    """Sandboxes that work on a task; further tasks wait."""


class QuotaDetail(TypedDict):
    """The detail of `quota_exceeded`."""
    by: NotRequired[list[QuotaHolder]]
    """Sandboxes of the same principal that use most of it, the largest first."""
    limit: float
    """In the unit of the resource, as are the next two."""
    others: NotRequired[int]
    """How many more sandboxes use some of it, those of other principals included."""
    requested: float
    resource: QuotaResource
    scope: QuotaScope
    used: float


class QuotaHolder(TypedDict):
    """A sandbox that uses a resource."""
    id: SandboxId
    name: str
    used: float


QuotaResource: TypeAlias = 'Literal["sandboxes", "running", "memory_mb", "cpus", "disk_mb", "tasks_queued", "tasks_running", "events_mb", "preview_connections"]'
"""A resource that a quota limits, with the name of its field."""


QuotaScope: TypeAlias = 'Literal["tenant", "principal"]'
"""Whose quota it is. A principal is bound by its own and by that of its tenant."""


QuotaSource: TypeAlias = 'Literal["set", "default", "none"]'
"""Where a quota comes from."""


class QuotaUse(TypedDict):
    """What an owner uses, counted as its quota counts."""
    cpus: float
    disk_mb: NotRequired[Union[int, None]]
    """Absent where no quota of disk applies: it is not measured then."""
    events_mb: NotRequired[Union[int, None]]
    """Absent where no quota of events or disk applies: it is not measured then."""
    memory_mb: int
    preview_connections: int
    running: int
    sandboxes: int
    tasks_queued: int
    tasks_running: int


class QuotaView(TypedDict):
    principal: NotRequired[Union[Label, None]]
    quota: Quota
    """The quota in force."""
    source: QuotaSource
    tenant: Label
    used: QuotaUse


class QuotaViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[QuotaView]
    next: NotRequired[Union[str, None]]


class ReapItem(TypedDict):
    bytes: int
    driver: str
    error: NotRequired[Union[str, None]]
    """Why it could not be removed."""
    kind: LeftoverKind
    name: str
    reason: str
    """Why it may be removed."""
    sandbox: NotRequired[Union[SandboxId, None]]


class ReapReport(TypedDict):
    """What destroyed sandboxes left: `POST /v1/host/reap`."""
    applied: bool
    """Whether the items were removed; `false`: they would be."""
    bytes: int
    """Space of the items that were removed, or would be."""
    items: list[ReapItem]
    more: NotRequired[bool]
    """Whether there are more items than are listed."""
    unasked: NotRequired[list[Unasked]]
    """Drivers that did not respond, so that their leftovers are unknown."""


Reason: TypeAlias = "Union[ReasonExec, ReasonTask, ReasonViewers, ReasonTunnels, ReasonFiles, ReasonHold, ReasonServiceStarting, ReasonCpu, ReasonPreview]"
"""Why a sandbox is busy."""


class ReasonCpu(TypedDict):
    kind: Literal["cpu"]
    percent: int


class ReasonExec(TypedDict):
    exec: ExecId
    kind: Literal["exec"]


class ReasonFiles(TypedDict):
    """Verbs on files, but for watches."""
    count: int
    kind: Literal["files"]


class ReasonHold(TypedDict):
    hold: HoldName
    kind: Literal["hold"]


class ReasonPreview(TypedDict):
    """Previews in browsers: open streams, and time since the last activity. Reported by hostd only."""
    kind: Literal["preview"]
    silent_ms: int
    streams: int


class ReasonServiceStarting(TypedDict):
    kind: Literal["service_starting"]
    service: ServiceName


class ReasonTask(TypedDict):
    """A task that is queued or running."""
    kind: Literal["task"]
    task: TaskId


class ReasonTunnels(TypedDict):
    count: int
    kind: Literal["tunnels"]


class ReasonViewers(TypedDict):
    count: int
    kind: Literal["viewers"]


class RedeliverRequest(TypedDict):
    """What to deliver again: exactly one field."""
    dead: NotRequired[Union[bool, None]]
    """true: all that were given up."""
    delivery: NotRequired[Union[str, None]]
    """The delivery with this id."""
    since: NotRequired[Union[int, None]]
    """All events after the one with this number, delivered or not."""


class Redelivered(TypedDict):
    """What is delivered again."""
    cursor: NotRequired[Union[int, None]]
    """The cursor, where it was set back: the events after it follow."""
    deliveries: int
    """Deliveries that wait for an attempt now."""


RestartPolicy: TypeAlias = 'Literal["always", "on_failure", "never"]'


class RevertCounts(TypedDict):
    """Numbers of all files, listed or not."""
    deleted: int
    kept: int
    not_restored: int
    """Files from before the task that are missing, and that the checkpoint does not have or something kept is in the place of."""
    restored: int


class RevertedFile(TypedDict):
    path: str
    """Path relative to the app directory. Where it is not UTF-8, `path_base64` has its bytes and this only shows it."""
    path_base64: NotRequired[Union[str, None]]


class SandboxChange(TypedDict):
    """`PATCH /v1/sandboxes/{id}`: absent fields stay as they are."""
    metadata: NotRequired[Union[dict[str, str], None]]
    """Replaces all metadata."""
    name: NotRequired[Union[str, None]]


class SandboxCost(TypedDict):
    """What a sandbox costs the host: `GET /v1/host/sandboxes`. Absent: unknown, or it does not run."""
    cpu_usage_us: NotRequired[Union[int, None]]
    """CPU time since it was launched."""
    disk_bytes: NotRequired[Union[int, None]]
    """Space that its workspace takes; absent where measuring takes too long."""
    driver: str
    id: SandboxId
    memory_bytes: NotRequired[Union[int, None]]
    memory_limit_bytes: int
    memory_peak_bytes: NotRequired[Union[int, None]]
    name: str
    principal: Label
    project: Label
    status: SandboxStatus
    tenant: Label


class SandboxCostPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[SandboxCost]
    next: NotRequired[Union[str, None]]


class SandboxEvent(TypedDict):
    data: SandboxEventData
    kind: Literal["sandbox.created", "sandbox.adopted", "sandbox.wanted", "sandbox.running", "sandbox.paused", "sandbox.stopped", "sandbox.destroyed", "sandbox.error", "sandbox.ended", "sandbox.evicted", "sandbox.renewed", "sandbox.delayed", "sandbox.changed", "sandbox.replaced", "sandbox.shared", "sandbox.unshared", "sandbox.drift", "sandbox.progress"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class SandboxEventData(TypedDict):
    """The `data` of `sandbox.` events."""
    access: NotRequired[Union[ShareAccess, None]]
    by: NotRequired[Union[str, None]]
    """The sandbox that has the name now (`replaced`), or the principal that changed a share."""
    deadline_ms: NotRequired[Union[int, None]]
    """The new deadline of the operation: `delayed`."""
    doing: NotRequired[Union[str, None]]
    """`drift`: the reaction of hostd."""
    dozing: NotRequired[Union[bool, None]]
    """Whether the idle policy caused the pause."""
    expected: NotRequired[Union[str, None]]
    """`drift`: the status that hostd expected."""
    fields: NotRequired[Union[list[str], None]]
    """Fields that were changed: `changed`."""
    found: NotRequired[Union[str, None]]
    """`drift`: the status that hostd found."""
    goal: NotRequired[Union[str, None]]
    """The wanted status: `running`, `paused`, `stopped` or `destroyed`."""
    name: NotRequired[Union[str, None]]
    """`created` and `adopted`."""
    phase: NotRequired[Union[str, None]]
    """The operation that began, or that takes longer than it should."""
    post_mortem: NotRequired[Union[PostMortem, None]]
    principal: NotRequired[Union[str, None]]
    """The principal that the sandbox is shared with; absent for the whole tenant."""
    problem: NotRequired[Union[Problem, None]]
    renewal: NotRequired[Union[dict[str, Any], None]]
    """A stop that is followed by a start from the frozen blueprint, with or without its files."""
    status: NotRequired[Union[SandboxStatus, None]]
    text: NotRequired[Union[str, None]]
    """A line for people: `progress`."""


SandboxId: TypeAlias = "str"
"""Id of a sandbox: a ULID in lower case."""


SandboxScope: TypeAlias = "dict[str, Any]"
"""What a sandbox is for. At most one live sandbox has a given tenant, principal, project and scope."""


class SandboxSpec(TypedDict):
    """The sandbox to create. Every field is optional."""
    dotfiles: NotRequired[Union[DotfilesSpec, None]]
    driver: NotRequired[Union[str, None]]
    """Driver; default: hostd's default driver."""
    env: NotRequired[dict[str, str]]
    """Environment variables of every process in the sandbox. Values are never shown again."""
    idle_policy: NotRequired[Union[IdlePolicy, None]]
    image: NotRequired[Union[str, None]]
    """`host`, or the name of an imported image; default: hostd's default image."""
    limits: NotRequired[LimitsSpec]
    metadata: NotRequired[dict[str, str]]
    """Key-value pairs of the client; hostd only stores them."""
    name: NotRequired[Union[str, None]]
    """Display name; need not be unique. Default: derived from the id."""
    network: NotRequired[Union[NetworkSpec, None]]
    on_ttl: NotRequired[Union[OnTtl, None]]
    ports: NotRequired[list[int]]
    """Ports whose previews are advertised. Previews of other ports work as well."""
    preview_headers: NotRequired[Union[PreviewHeaders, None]]
    principal: NotRequired[Union[str, None]]
    """Must be the principal of the caller where given."""
    project: NotRequired[Union[str, None]]
    """Project; default: `default`."""
    runtime: NotRequired[Union[str, None]]
    """OCI runtime, as in `runsc`, from `GET /v1/drivers`; default: that of the driver."""
    scope: NotRequired[Union[SandboxScope, None]]
    seed: NotRequired[Union[Seed, None]]
    services: NotRequired[list[ServiceSpec]]
    """Services to keep running."""
    setup: NotRequired[Union[SetupSpec, None]]
    source: NotRequired[Union[SourceSpec, None]]
    tenant: NotRequired[Union[str, None]]
    """Must be the tenant of the caller where given."""
    ttl: NotRequired[Union[str, None]]
    """Time to live, as `90s`, `15m`, `4h` or `7d`; absent: unlimited."""
    visibility: NotRequired[Union[Visibility, None]]


SandboxStatus: TypeAlias = 'Literal["creating", "running", "paused", "stopped", "error", "destroyed"]'


class SandboxView(TypedDict):
    """A sandbox."""
    attempt: int
    """Number of the current attempt to launch it."""
    created_at: str
    driver: str
    env: list[str]
    """Names of the environment variables of the spec; values are not shown."""
    expires_at: NotRequired[Union[str, None]]
    id: SandboxId
    idle_policy: IdlePolicy
    image: str
    limits: Limits
    listening: NotRequired[Union[list[int], None]]
    """Ports that something listens on now. Only in lists with `listening=1`, for sandboxes that run and respond."""
    metadata: dict[str, str]
    name: str
    network: Network
    on_ttl: NotRequired[OnTtl]
    """What happens then; absent: it is destroyed."""
    phase: NotRequired[Union[Phase, None]]
    ports: list[int]
    post_mortem: NotRequired[Union[PostMortem, None]]
    preview_headers: NotRequired[PreviewHeaders]
    previews: dict[str, str]
    """Preview URLs by port."""
    principal: Label
    problem: NotRequired[Union[Problem, None]]
    progress: NotRequired[Union[str, None]]
    """Progress of a long-running phase, as text; for example of an image pull."""
    project: Label
    replaced_by: NotRequired[Union[SandboxId, None]]
    runtime: NotRequired[Union[str, None]]
    """OCI runtime, where one was requested."""
    scope: NotRequired[Union[SandboxScope, None]]
    services: list[str]
    """Names of the services of the spec."""
    setup: NotRequired[Union[SetupView, None]]
    shared: NotRequired[Union[SharedView, None]]
    status: SandboxStatus
    tenant: Label
    updated_at: str
    visibility: Visibility


class SandboxViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[SandboxView]
    next: NotRequired[Union[str, None]]


class SearchMatchView(TypedDict):
    """A file whose name matches, or a line of it."""
    column: NotRequired[Union[int, None]]
    """The byte of the line where the match begins, from 1."""
    line: NotRequired[Union[int, None]]
    """The number of the line, from 1."""
    path: str
    path_base64: NotRequired[Union[str, None]]
    size: int
    text: NotRequired[Union[str, None]]
    """The line, cut where it is long."""
    type: FileType


class SearchView(TypedDict):
    items: list[SearchMatchView]
    reason: NotRequired[Union[str, None]]
    """Why the search ended early."""
    truncated: bool
    """Whether there may be more."""


SecretName: TypeAlias = "str"
"""The name of a secret: 1 to 64 of a to z, 0 to 9, `-`, `_` and `.`, beginning with a letter or a digit."""


SecretRef: TypeAlias = "str"
"""A reference to a secret, as in `secret:NAME`. It stands where a credential would; hostd resolves it when the credential is used."""


class SecretSpec(TypedDict):
    """A secret to set: `PUT /v1/secrets/{name}`."""
    tenant: NotRequired[Union[Label, None]]
    value: str
    """The value, of 1 byte to 64 KiB; no response shows it."""


class SecretView(TypedDict):
    """A secret, without its value."""
    created_at: str
    last_used_at: NotRequired[Union[str, None]]
    """Last use, to the minute; absent: never used."""
    name: SecretName
    problem: NotRequired[Union[str, None]]
    """Why the value cannot be used, and what to do about it."""
    tenant: Label
    updated_at: str
    updated_by: str
    """Principal that set the value last."""
    version: int
    """Counts how often the value was set."""


class SecretViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[SecretView]
    next: NotRequired[Union[str, None]]


class Seed(TypedDict):
    """The first content of a new workspace."""
    snapshot: NotRequired[Union[SnapshotId, None]]
    template: NotRequired[Union[str, None]]
    """A template of the operator: 1 to 64 of a-z 0-9 -"""


class ServiceEndedEvent(TypedDict):
    data: ServiceEndedEventData
    kind: Literal["service.ended"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class ServiceEndedEventData(TypedDict):
    exit: Exit
    service: ServiceName


ServiceHealth: TypeAlias = "dict[str, Any]"


ServiceName: TypeAlias = "str"
"""Name of a service: 1 to 64 of A-Z a-z 0-9 . _ -, starting with a letter or digit."""


class ServiceRemovedEvent(TypedDict):
    data: ServiceRemovedEventData
    kind: Literal["service.removed"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class ServiceRemovedEventData(TypedDict):
    service: ServiceName


ServiceSource: TypeAlias = 'Literal["manifest", "api"]'


class ServiceSpec(TypedDict):
    """A service to run, from the manifest or from the API."""
    command: str
    """Shell command."""
    cwd: NotRequired[Union[str, None]]
    """Working directory, absolute or relative to the app directory, which is the default."""
    depends_on: NotRequired[list[ServiceName]]
    """Services that must be ready first."""
    env: NotRequired[dict[str, str]]
    """Environment variables."""
    health: NotRequired[Union[ServiceHealth, None]]
    name: ServiceName
    port: NotRequired[Union[int, None]]
    """Port that the service listens on."""
    restart: NotRequired[RestartPolicy]
    restart_after_task: NotRequired[bool]
    """Whether the service is restarted after each task."""
    watch: NotRequired[list[str]]
    """Files or directories below the app directory whose change restarts the service."""


class ServiceStartedEvent(TypedDict):
    data: ServiceStartedEventData
    kind: Literal["service.started"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class ServiceStartedEventData(TypedDict):
    pid: int
    service: ServiceName


class ServiceStateEvent(TypedDict):
    data: ServiceStateEventData
    kind: Literal["service.state"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class ServiceStateEventData(TypedDict):
    failures: NotRequired[int]
    next_try_ms: NotRequired[int]
    on: NotRequired[Union[list[ServiceName], ServiceName]]
    reason: NotRequired[str]
    service: ServiceName
    since_ms: NotRequired[int]
    state: Literal["waiting", "starting", "ready", "unhealthy", "backoff", "stopping", "stopped", "failed_dependency"]


class ServiceView(TypedDict):
    command: str
    failures: NotRequired[int]
    last_exit: NotRequired[Union[Exit, None]]
    last_lines: NotRequired[list[str]]
    """Last lines of the log, present while the service is not ready; only of the current run while it runs."""
    name: ServiceName
    next_try_ms: NotRequired[int]
    on: NotRequired[Union[list[ServiceName], ServiceName]]
    pid: NotRequired[Union[int, None]]
    port: NotRequired[Union[int, None]]
    reason: NotRequired[str]
    restarts: int
    """Number of starts after the first."""
    since_ms: NotRequired[int]
    source: ServiceSource
    state: Literal["waiting", "starting", "ready", "unhealthy", "backoff", "stopping", "stopped", "failed_dependency"]


class ServiceViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[ServiceView]
    next: NotRequired[Union[str, None]]


class ServicesRequest(TypedDict):
    """The complete set of services from the API: `PUT …/services`."""
    services: list[ServiceSpec]


class SetupEvent(TypedDict):
    data: SetupEventData
    kind: Literal["setup.started", "setup.succeeded", "setup.failed", "setup.interrupted"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class SetupEventData(TypedDict):
    """The `data` of `setup.` events: a step that makes a new sandbox ready."""
    exec: NotRequired[Union[ExecId, None]]
    exit: NotRequired[Union[Exit, None]]
    number: int
    """Number of the step, from 1."""
    of: int
    """How many steps there are."""
    step: NotRequired[Union[str, None]]
    text: NotRequired[Union[str, None]]


class SetupSpec(TypedDict):
    """Commands that make a new sandbox ready. They run once, in order, before its services."""
    steps: NotRequired[list[SetupStepSpec]]


class SetupStepSpec(TypedDict):
    """One command of the setup. The first that fails ends it."""
    dir: NotRequired[Union[str, None]]
    """Directory, absolute or relative to the app directory, which is the default."""
    env: NotRequired[dict[str, str]]
    """Environment variables beside those of the sandbox. Values are never shown again."""
    name: NotRequired[Union[str, None]]
    """Name for people; default: the first line of the command."""
    run: NotRequired[str]
    """Command line."""
    shell: NotRequired[Union[str, None]]
    """Shell that gets the command line after `-c`: an absolute path, or one of sh, bash, dash, ash, zsh, ksh and fish; default: `/bin/sh`."""
    timeout: NotRequired[Union[str, None]]
    """Time limit, as in `90s` or `15m`; default: 10 minutes."""


class SetupView(TypedDict):
    """Progress of the provisioning of a sandbox."""
    done: int
    """Steps that succeeded."""
    steps: list[str]
    """Names of all steps, in order: those of the source and of the dotfiles first, where there are any."""


ShareAccess: TypeAlias = 'Literal["read", "run"]'
"""What a share allows. `run` includes `read`."""


class ShareSpec(TypedDict):
    """`PUT …/shares/principals/{principal}` and `PUT …/shares/tenant`."""
    access: ShareAccess


class ShareView(TypedDict):
    """A share of a sandbox."""
    access: ShareAccess
    created_at: str
    created_by: str
    """Principal that created the share."""
    principal: NotRequired[Union[Label, None]]


class ShareViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[ShareView]
    next: NotRequired[Union[str, None]]


class SharedView(TypedDict):
    """How a sandbox of a colleague is shared with the caller."""
    access: ShareAccess
    """The smaller one of the share's access and the token's scope."""
    owner: Label
    """Principal that owns the sandbox."""


class ShutdownEvent(TypedDict):
    data: ShutdownEventData
    kind: Literal["shutdown"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class ShutdownEventData(TypedDict):
    reason: str


class SignalRequest(TypedDict):
    scope: NotRequired[SignalScope]
    signal: str
    """`TERM`, `SIGTERM` or `15`."""


SignalScope: TypeAlias = 'Literal["leader", "group", "tree"]'
"""Processes that receive a signal."""


class SkippedView(TypedDict):
    """An entry of an archive that was left out."""
    path: str
    reason: str


SleepsTo: TypeAlias = 'Literal["paused", "stopped"]'


class SnapshotContent(TypedDict):
    """What a snapshot holds."""
    bytes: int
    files: int
    sha256: str
    """Hash of the manifest, which has the hash of each file."""


class SnapshotCreate(TypedDict):
    """The snapshot to take: `POST /v1/sandboxes/{id}/snapshots`."""
    excludes: NotRequired[list[str]]
    """What is left out: names at any depth, as in `node_modules`, or paths from the home directory. Default: nothing."""
    name: NotRequired[Union[str, None]]
    """For people. A snapshot with a name is kept until it is deleted."""


class SnapshotDifference(TypedDict):
    kind: DifferenceKind
    path: str
    """From the home directory."""


class SnapshotFork(TypedDict):
    """The sandbox to make from a snapshot: `POST /v1/snapshots/{snapshot}/fork`. Image, limits, ports and services are those of the sandbox that the snapshot was taken of, and so are network, idle policy and visibility where they are not given; its environment, tokens, shares and holds are not."""
    env: NotRequired[dict[str, str]]
    """Environment variables of the new sandbox."""
    idle_policy: NotRequired[Union[IdlePolicy, None]]
    metadata: NotRequired[dict[str, str]]
    name: NotRequired[Union[str, None]]
    """Default: derived from the id."""
    network: NotRequired[Union[NetworkSpec, None]]
    on_ttl: NotRequired[Union[OnTtl, None]]
    ttl: NotRequired[Union[str, None]]
    """Remaining lifetime, as in `2h`."""
    visibility: NotRequired[Union[Visibility, None]]


SnapshotId: TypeAlias = "str"
"""Id of a snapshot: a ULID in lower case."""


class SnapshotRestore(TypedDict):
    """Where a snapshot is restored: `POST /v1/snapshots/{snapshot}/restore`."""
    sandbox: NotRequired[Union[SandboxId, None]]


SnapshotState: TypeAlias = 'Literal["creating", "ready", "deleting"]'


class SnapshotVerification(TypedDict):
    """Whether a snapshot is what it was when it was taken."""
    content: SnapshotContent
    """As found."""
    differences: NotRequired[list[SnapshotDifference]]
    """The first ones."""
    differences_total: int
    intact: bool


class SnapshotView(TypedDict):
    content: NotRequired[Union[SnapshotContent, None]]
    created_at: str
    excludes: NotRequired[list[str]]
    frozen_ms: int
    """For how long the processes of the sandbox stood still while it was taken."""
    id: SnapshotId
    name: NotRequired[Union[str, None]]
    owner: Owner
    parent: NotRequired[Union[SnapshotId, None]]
    sandbox: NotRequired[Union[SandboxId, None]]
    state: SnapshotState


class SnapshotViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[SnapshotView]
    next: NotRequired[Union[str, None]]


class SourceAuth(TypedDict):
    """The credential of a repository, by its name. Its value stays in hostd."""
    secret: str
    """Name of a secret for the server of the repository: `git.HOST` or `git-LABEL.HOST`, or of a key `ssh.HOST` or `ssh-LABEL.HOST`."""


class SourceSpec(TypedDict):
    """A git repository that a new sandbox begins with."""
    auth: NotRequired[Union[SourceAuth, None]]
    depth: NotRequired[Union[int, None]]
    """Number of commits to fetch of the branch; default: all of all branches."""
    dir: NotRequired[Union[str, None]]
    """Directory below the home directory, absolute or relative to the app directory, which is the default. It must be empty or missing."""
    ref: NotRequired[Union[str, None]]
    """Branch, tag or whole commit hash; default: the default branch of the server."""
    url: NotRequired[str]
    """Address, as in `https://example.com/acme/web.git` or `git@example.com:acme/web.git`, without a password."""


class StaleList(TypedDict):
    """Resources that carry marks of this hostd but fail its checks: `GET /v1/host/stale`. hostd never touches them; the operator removes them with the tools of the backend."""
    items: list[StaleView]
    more: NotRequired[bool]
    """Whether the list is incomplete."""
    unasked: NotRequired[list[Unasked]]
    """Drivers that did not respond, so that their resources are unknown."""


class StaleView(TypedDict):
    driver: str
    name: str
    """Name of the resource in its backend."""
    why: str


class StatsView(TypedDict):
    """Resource use of a sandbox: `GET …/stats`."""
    cpu_usage_us: int
    cpus_limit: NotRequired[Union[float, None]]
    """CPU cores; absent: unlimited."""
    disk_bytes: NotRequired[Union[int, None]]
    """Space that the workspace uses of its limit; absent without one."""
    disk_limit_bytes: NotRequired[Union[int, None]]
    """`limits.disk_mb` in bytes; absent without one."""
    memory_bytes: int
    memory_limit_bytes: int
    memory_peak_bytes: int
    memory_working_bytes: NotRequired[int]
    """Memory that the kernel cannot free by dropping cached files."""
    oom_kills: int
    pids: int
    pids_limit: int
    pids_limit_hits: int


Stream: TypeAlias = 'Literal["stdout", "stderr", "pty"]'


class TaskAnswer(TypedDict):
    """A task."""
    agent: str
    cancelling: NotRequired[bool]
    """Whether its cancellation was requested."""
    created_at: str
    created_by: NotRequired[Union[str, None]]
    """Principal that submitted it; absent where that is not known."""
    ended_at: NotRequired[Union[str, None]]
    events_url: str
    """Path of its events on this API."""
    failure_reason: NotRequired[Union[FailureReason, None]]
    id: TaskId
    open_permissions: NotRequired[list[str]]
    """Ids of the permissions that its agent waits for, oldest first; `POST …/tasks/{t}/permissions/{p}` answers one."""
    phase: TaskPhase
    prompt: str
    """Empty for a recovered task."""
    recovered: NotRequired[bool]
    """Whether the task was recovered from its sandbox after hostd lost its database: prompt and model use are unknown."""
    result: NotRequired[Union[TaskResult, None]]
    revertible: NotRequired[bool]
    """Whether it has ended and has a checkpoint that `POST …/tasks/{t}/revert` restores."""
    sandbox_id: SandboxId
    started_at: NotRequired[Union[str, None]]
    status: TaskStatus


class TaskAnswerPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[TaskAnswer]
    next: NotRequired[Union[str, None]]


class TaskBudget(TypedDict):
    """Limits on the model use of one task; an absent field is unlimited."""
    cost_usd: NotRequired[Union[float, None]]
    requests: NotRequired[Union[int, None]]
    tokens: NotRequired[Union[int, None]]
    """Tokens of every kind: input, output, cache reads and cache writes."""


class TaskBuildEvent(TypedDict):
    duration_ms: int
    exit: NotRequired[Union[Exit, None]]
    kind: Literal["build"]
    number: NotRequired[Union[int, None]]
    """Number among the task's events from its sandbox, from 1; absent for events of hostd itself."""
    output: NotRequired[Union[Payload, None]]
    sandbox: SandboxId
    seq: int
    """Position in hostd's event log; increases with every event."""
    status: BuildStatus
    task: TaskId
    time: str


class TaskChangesView(TypedDict):
    """What a task changed, from its checkpoint to its end. Recorded once, when the task ends."""
    added: int
    """Number of added files; this and the other totals count all files, listed or not."""
    added_lines: int
    checkpoint: NotRequired[Union[str, None]]
    """Commit id of the checkpoint in the sandbox's private repository."""
    deleted: int
    deleted_lines: int
    files: list[FileDiffView]
    modified: int
    next: NotRequired[Union[str, None]]
    """Where the next page begins; absent on the last one."""
    reason: NotRequired[Union[str, None]]
    state: ChangesState
    truncated: NotRequired[bool]
    """More files changed than all pages list."""


TaskCreate = TypedDict(
    "TaskCreate",
    {
        "agent": "NotRequired[Union[str, None]]",
        "briefing": "NotRequired[Union[str, None]]",
        "budget": "NotRequired[Union[TaskBudget, None]]",
        "build": "NotRequired[Union[str, None]]",
        "command": "NotRequired[Union[list[str], None]]",
        "continue": "NotRequired[Union[bool, None]]",
        "cwd": "NotRequired[Union[str, None]]",
        "env": "NotRequired[dict[str, str]]",
        "id": "NotRequired[Union[TaskId, None]]",
        "idle_timeout_s": "NotRequired[Union[float, None]]",
        "keep_processes": "NotRequired[bool]",
        "model": "NotRequired[Union[str, None]]",
        "permissions": "NotRequired[Union[Permissions, None]]",
        "prompt": "NotRequired[str]",
        "session": "NotRequired[Union[str, None]]",
        "timeout_s": "NotRequired[Union[float, None]]",
    },
)
"""A task to submit: `POST …/tasks`."""


class TaskDoneEvent(TypedDict):
    kind: Literal["done"]
    number: NotRequired[Union[int, None]]
    """Number among the task's events from its sandbox, from 1; absent for events of hostd itself."""
    result: TaskResult
    sandbox: SandboxId
    seq: int
    """Position in hostd's event log; increases with every event."""
    task: TaskId
    time: str


class TaskEndedEvent(TypedDict):
    data: TaskEndedEventData
    kind: Literal["task.ended"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class TaskEndedEventData(TypedDict):
    failure_reason: NotRequired[Union[FailureReason, None]]
    status: TaskStatus
    task: TaskId


TaskEventView: TypeAlias = "Union[TaskStatusEvent, TaskMessageEvent, TaskThoughtEvent, TaskToolEvent, TaskFileEvent, TaskPlanEvent, TaskPermissionEvent, TaskModelEvent, TaskBuildEvent, TaskUsageEvent, TaskLogEvent, TaskDoneEvent]"
"""An event of a task: the `data` of an SSE frame whose `id` is `seq` and whose `event` is `kind`."""


class TaskEventViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[TaskEventView]
    next: NotRequired[Union[str, None]]


class TaskFileEvent(TypedDict):
    added_lines: NotRequired[Union[int, None]]
    """Number of added lines; absent for binary files."""
    change: ChangeKind
    deleted_lines: NotRequired[Union[int, None]]
    """Number of deleted lines; absent for binary files."""
    kind: Literal["file"]
    number: NotRequired[Union[int, None]]
    """Number among the task's events from its sandbox, from 1; absent for events of hostd itself."""
    path: Payload
    """Path relative to the app directory; base64 where it is not UTF-8."""
    sandbox: SandboxId
    seq: int
    """Position in hostd's event log; increases with every event."""
    task: TaskId
    time: str


class TaskForgottenEvent(TypedDict):
    data: TaskForgottenEventData
    kind: Literal["task.forgotten"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class TaskForgottenEventData(TypedDict):
    task: TaskId


TaskId: TypeAlias = "str"
"""Id of a task, chosen by the client: 1 to 64 of A-Z a-z 0-9 . _ -, starting with a letter or digit. A request repeated with the same id runs the task once."""


class TaskLogEvent(TypedDict):
    encoding: NotRequired[Encoding]
    kind: Literal["log"]
    lost_events: NotRequired[Union[int, None]]
    """Number of events before this one that could not be stored."""
    number: NotRequired[Union[int, None]]
    """Number among the task's events from its sandbox, from 1; absent for events of hostd itself."""
    partial: NotRequired[bool]
    """Whether the line continues in the next event of this kind."""
    sandbox: SandboxId
    seq: int
    """Position in hostd's event log; increases with every event."""
    stream: Stream
    task: TaskId
    text: str
    time: str


class TaskMessageEvent(TypedDict):
    encoding: NotRequired[Encoding]
    kind: Literal["message"]
    number: NotRequired[Union[int, None]]
    """Number among the task's events from its sandbox, from 1; absent for events of hostd itself."""
    partial: NotRequired[bool]
    """Whether the line continues in the next event of this kind."""
    sandbox: SandboxId
    seq: int
    """Position in hostd's event log; increases with every event."""
    task: TaskId
    text: str
    time: str


class TaskModelEvent(TypedDict):
    attempt: NotRequired[int]
    """Number of the attempt, from 1."""
    call: NotRequired[int]
    """Number of the call within the task, from 1."""
    duration_ms: NotRequired[int]
    error: NotRequired[Union[str, None]]
    """Error message of the provider, or of hostd where there is none; never contains a key."""
    first_byte_ms: NotRequired[Union[int, None]]
    """Time until the first byte of the response."""
    kind: Literal["model"]
    model: NotRequired[str]
    """Name of the model at the provider."""
    name: NotRequired[str]
    number: NotRequired[Union[int, None]]
    """Number among the task's events from its sandbox, from 1; absent for events of hostd itself."""
    provider: NotRequired[str]
    retry_in_ms: NotRequired[Union[int, None]]
    """Time until the next attempt."""
    sandbox: SandboxId
    seq: int
    """Position in hostd's event log; increases with every event."""
    state: NotRequired[ModelCallState]
    status: NotRequired[Union[int, None]]
    """HTTP status of the provider; absent where there was no response."""
    task: TaskId
    time: str
    usage: NotRequired[Union[Usage, None]]


class TaskPermissionEvent(TypedDict):
    about: Tool
    """The tool call that needs permission."""
    by: NotRequired[Union[str, None]]
    """What decided: `rule`, `default`, `caller`, or `limit` when too many requests are open."""
    id: str
    """Id to answer it with."""
    kind: Literal["permission"]
    number: NotRequired[Union[int, None]]
    """Number among the task's events from its sandbox, from 1; absent for events of hostd itself."""
    option: NotRequired[Union[str, None]]
    """Id of the chosen option."""
    options: NotRequired[list[PermissionOption]]
    sandbox: SandboxId
    seq: int
    """Position in hostd's event log; increases with every event."""
    state: PermissionState
    task: TaskId
    time: str


TaskPhase: TypeAlias = 'Literal["queued", "preparing", "checkpoint", "agent", "build", "health", "done"]'


class TaskPlanEvent(TypedDict):
    entries: list[PlanEntry]
    kind: Literal["plan"]
    number: NotRequired[Union[int, None]]
    """Number among the task's events from its sandbox, from 1; absent for events of hostd itself."""
    sandbox: SandboxId
    seq: int
    """Position in hostd's event log; increases with every event."""
    task: TaskId
    time: str


class TaskQueuedEvent(TypedDict):
    data: TaskQueuedEventData
    kind: Literal["task.queued"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class TaskQueuedEventData(TypedDict):
    task: TaskId


class TaskResult(TypedDict):
    """The result of a task."""
    agent_stderr: NotRequired[Union[Payload, None]]
    build: BuildOutcome
    checkpoint: Checkpoint
    durations: Durations
    exit: NotRequired[Union[Exit, None]]
    failure_reason: NotRequired[Union[FailureReason, None]]
    files_changed: NotRequired[Union[Changes, None]]
    final_message: NotRequired[Union[Payload, None]]
    health: HealthOutcome
    hints: NotRequired[list[Hint]]
    message: NotRequired[Union[str, None]]
    """Explanation of a failure as text."""
    models: NotRequired[list[str]]
    """Models that it called, as `provider/name` in order of first use, as seen by hostd's gateway. The agent may use other names for them."""
    session: NotRequired[Union[str, None]]
    """The agent's session id, which a later task can continue."""
    status: TaskStatus
    usage: NotRequired[Union[Usage, None]]


class TaskRevert(TypedDict):
    discard: NotRequired[bool]
    """Do not save the files that are replaced and deleted, and delete also those that could not be saved."""
    dry_run: NotRequired[bool]
    """Only report what would be restored and deleted."""
    path: NotRequired[Union[str, None]]
    """A file or a directory relative to the app directory; absent: all files."""
    path_base64: NotRequired[Union[str, None]]
    """The same for a path that is not UTF-8."""


class TaskRevertView(TypedDict):
    """The files that were restored to the checkpoint of a task, or would be."""
    checkpoint: str
    """Commit id of the checkpoint in the sandbox's private repository."""
    counts: RevertCounts
    deleted: list[RevertedFile]
    """Files that were added since the checkpoint and are not ignored."""
    dry_run: bool
    incomplete_checkpoint: bool
    """The checkpoint does not name everything it skipped, so files added since are kept."""
    kept: list[RevertedFile]
    """Files that differ from the checkpoint and stay as they are, since they could not be saved."""
    restored: list[RevertedFile]
    """Files that were changed or deleted since the checkpoint, sorted by path."""
    saved: NotRequired[Union[str, None]]
    """Commit id, in the same repository, of the files as they were before the revert. Absent where none was replaced or deleted."""
    task: TaskId
    truncated: bool
    """There are more files than are listed."""


class TaskRevertedEvent(TypedDict):
    data: TaskRevertedEventData
    kind: Literal["task.reverted"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class TaskRevertedEventData(TypedDict):
    complete: bool
    """Whether the files are now as in the checkpoint; otherwise some could not be restored or deleted."""
    deleted: int
    restored: int
    saved: NotRequired[Union[str, None]]
    """Commit id of the files as they were before, in the sandbox's private repository."""
    task: TaskId


class TaskStartedEvent(TypedDict):
    data: TaskStartedEventData
    kind: Literal["task.started"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class TaskStartedEventData(TypedDict):
    task: TaskId


TaskStatus: TypeAlias = 'Literal["queued", "running", "succeeded", "failed", "cancelled"]'


class TaskStatusEvent(TypedDict):
    checkpoint: NotRequired[Union[Checkpoint, None]]
    kind: Literal["status"]
    number: NotRequired[Union[int, None]]
    """Number among the task's events from its sandbox, from 1; absent for events of hostd itself."""
    phase: TaskPhase
    sandbox: SandboxId
    seq: int
    """Position in hostd's event log; increases with every event."""
    task: TaskId
    time: str


class TaskThoughtEvent(TypedDict):
    encoding: NotRequired[Encoding]
    kind: Literal["thought"]
    number: NotRequired[Union[int, None]]
    """Number among the task's events from its sandbox, from 1; absent for events of hostd itself."""
    partial: NotRequired[bool]
    """Whether the line continues in the next event of this kind."""
    sandbox: SandboxId
    seq: int
    """Position in hostd's event log; increases with every event."""
    task: TaskId
    text: str
    time: str


class TaskToolEvent(TypedDict):
    diffs: NotRequired[list[Diff]]
    exit_code: NotRequired[Union[int, None]]
    id: NotRequired[str]
    input: NotRequired[Any]
    """Input of the call, in the format of the agent."""
    kind: Literal["tool"]
    number: NotRequired[Union[int, None]]
    """Number among the task's events from its sandbox, from 1; absent for events of hostd itself."""
    output: NotRequired[Union[str, None]]
    """Output of the call."""
    paths: NotRequired[list[str]]
    """Files that the call refers to."""
    sandbox: SandboxId
    seq: int
    """Position in hostd's event log; increases with every event."""
    status: NotRequired[ToolStatus]
    task: TaskId
    time: str
    title: NotRequired[Union[str, None]]
    """Display title: `npm install`, `Write index.html`."""
    tool: NotRequired[Union[str, None]]
    """Kind of tool: `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch`, `switch_mode` or `other`."""
    truncated: NotRequired[bool]
    """Whether `input`, `output` or `diffs` is incomplete."""


class TaskTrimmedEvent(TypedDict):
    data: TaskTrimmedEventData
    kind: Literal["task.trimmed"]
    origin: NotRequired[Union[str, None]]
    """Position in the sandbox's own event log, for events that come from there."""
    sandbox: SandboxId
    seq: int
    task: NotRequired[Union[TaskId, None]]
    time: str


class TaskTrimmedEventData(TypedDict):
    oldest: int
    task: TaskId


class TaskUsageEvent(TypedDict):
    cache_read_tokens: NotRequired[int]
    """Input tokens read from the provider's cache, and written to it; not included in `input_tokens`."""
    cache_write_tokens: NotRequired[int]
    calls: NotRequired[int]
    """Calls that were forwarded."""
    cost_micro_usd: NotRequired[Union[int, None]]
    """Cost in millionths of a dollar; absent where a model has no price."""
    estimated: NotRequired[bool]
    """Whether some tokens were estimated from the length of the text, because the provider did not report them."""
    failed_calls: NotRequired[int]
    """Calls that failed after all retries."""
    input_tokens: NotRequired[int]
    kind: Literal["usage"]
    number: NotRequired[Union[int, None]]
    """Number among the task's events from its sandbox, from 1; absent for events of hostd itself."""
    output_tokens: NotRequired[int]
    reasoning_tokens: NotRequired[int]
    """Part of `output_tokens`."""
    retries: NotRequired[int]
    """Attempts after the first."""
    sandbox: SandboxId
    seq: int
    """Position in hostd's event log; increases with every event."""
    task: TaskId
    time: str


class TokenCreate(TypedDict):
    e2b: NotRequired[bool]
    """Whether the token has the form `e2b_<hex digits>`, which clients made for E2B insist on. It works everywhere."""
    principal: Label
    scope: NotRequired[TokenScope]
    tenant: Label
    ttl: NotRequired[Union[str, None]]
    """Lifetime, as `90s`, `15m`, `4h` or `7d`; absent: does not expire."""


class TokenCreated(TypedDict):
    """A created token. Only this response contains the secret."""
    created_at: str
    expires_at: NotRequired[Union[str, None]]
    id: str
    principal: Label
    revoked_at: NotRequired[Union[str, None]]
    scope: TokenScope
    tenant: Label
    token: str


TokenScope: TypeAlias = 'Literal["read", "run", "admin"]'
"""What a token allows. Each scope includes the ones before it."""


class TokenView(TypedDict):
    created_at: str
    expires_at: NotRequired[Union[str, None]]
    id: str
    principal: Label
    revoked_at: NotRequired[Union[str, None]]
    scope: TokenScope
    tenant: Label


class TokenViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[TokenView]
    next: NotRequired[Union[str, None]]


class Tool(TypedDict):
    """A tool call of an agent. Sent several times with the same `id`; absent fields are unchanged."""
    diffs: NotRequired[list[Diff]]
    exit_code: NotRequired[Union[int, None]]
    id: NotRequired[str]
    input: NotRequired[Any]
    """Input of the call, in the format of the agent."""
    output: NotRequired[Union[str, None]]
    """Output of the call."""
    paths: NotRequired[list[str]]
    """Files that the call refers to."""
    status: NotRequired[ToolStatus]
    title: NotRequired[Union[str, None]]
    """Display title: `npm install`, `Write index.html`."""
    tool: NotRequired[Union[str, None]]
    """Kind of tool: `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch`, `switch_mode` or `other`."""
    truncated: NotRequired[bool]
    """Whether `input`, `output` or `diffs` is incomplete."""


ToolStatus: TypeAlias = 'Literal["pending", "running", "completed", "failed", "cancelled"]'


class TtlChange(TypedDict):
    """A new time to live, counted from now, and what happens at its end: `PATCH …/ttl`. A null `ttl` removes the expiry; an absent field stays as it is."""
    on_ttl: NotRequired[OnTtl]
    ttl: NotRequired[Union[str, None]]


TtyChoice: TypeAlias = "Union[bool, TtySize]"
"""`true` for a terminal of 80 by 24, or a size."""


class TtySize(TypedDict):
    """Size of a terminal in characters."""
    cols: int
    rows: int


class Unasked(TypedDict):
    driver: str
    why: str


class UnpackView(TypedDict):
    """What an archive was unpacked to."""
    bytes: int
    directories: int
    files: int
    skipped: list[SkippedView]
    """The first entries that were left out."""
    skipped_count: int
    """All entries that were left out."""
    symlinks: int


class Usage(TypedDict):
    """Model use of a task. Measured at the gateway, not reported by the agent."""
    cache_read_tokens: NotRequired[int]
    """Input tokens read from the provider's cache, and written to it; not included in `input_tokens`."""
    cache_write_tokens: NotRequired[int]
    calls: NotRequired[int]
    """Calls that were forwarded."""
    cost_micro_usd: NotRequired[Union[int, None]]
    """Cost in millionths of a dollar; absent where a model has no price."""
    estimated: NotRequired[bool]
    """Whether some tokens were estimated from the length of the text, because the provider did not report them."""
    failed_calls: NotRequired[int]
    """Calls that failed after all retries."""
    input_tokens: NotRequired[int]
    output_tokens: NotRequired[int]
    reasoning_tokens: NotRequired[int]
    """Part of `output_tokens`."""
    retries: NotRequired[int]
    """Attempts after the first."""


Visibility: TypeAlias = 'Literal["private", "public"]'


class WarmAnswer(TypedDict):
    """An agent that was started in advance."""
    agent: str
    keep_s: int
    """Seconds that it waits for its task."""
    model: NotRequired[Union[str, None]]
    ready: bool
    """Whether it waits for its prompt; false while it is starting."""


class WarmCreate(TypedDict):
    """An agent to start before its task: `POST …/warm`. Fields, and their defaults, are those of a task."""
    agent: NotRequired[Union[str, None]]
    cwd: NotRequired[Union[str, None]]
    env: NotRequired[dict[str, str]]
    model: NotRequired[Union[str, None]]
    permissions: NotRequired[Union[Permissions, None]]


class WebhookChange(TypedDict):
    """Changes of a webhook; absent fields stay."""
    description: NotRequired[Union[str, None]]
    enabled: NotRequired[Union[bool, None]]
    """false: nothing is delivered until it is enabled again, and then everything since."""
    events: NotRequired[Union[list[WebhookEvents], None]]
    url: NotRequired[Union[str, None]]


class WebhookCreate(TypedDict):
    """A webhook to create."""
    all_tenants: NotRequired[bool]
    """Events of all tenants; only for the operator."""
    description: NotRequired[Union[str, None]]
    events: NotRequired[Union[list[WebhookEvents], None]]
    """Default: all."""
    project: NotRequired[Union[Label, None]]
    sandbox: NotRequired[Union[SandboxId, None]]
    tenant: NotRequired[Union[Label, None]]
    url: str
    """`https://` address without user and password. `http://` and addresses that are not public only where the configuration of the host allows them."""


class WebhookCreated(TypedDict):
    """A created webhook. Only this response and that of a rotation contain the secret."""
    created_at: str
    created_by: str
    """Principal that created the webhook."""
    cursor: int
    """Number of the event up to which deliveries were made from the event log. It may trail behind where no event was selected."""
    dead: int
    """Deliveries that were given up, and can be delivered again."""
    description: NotRequired[Union[str, None]]
    disabled_reason: NotRequired[Union[WebhookDisabledReason, None]]
    dropped: int
    """Deliveries that were given up and removed since: too many, or too long ago."""
    events: list[WebhookEvents]
    id: str
    last_delivery_at: NotRequired[Union[str, None]]
    last_failure: NotRequired[Union[WebhookFailure, None]]
    previous_secret_until: NotRequired[Union[str, None]]
    """Until then deliveries are signed with the previous secret too."""
    project: NotRequired[Union[Label, None]]
    sandbox: NotRequired[Union[SandboxId, None]]
    secret: str
    """`whsec_` and the key of the signatures in base64."""
    status: WebhookStatus
    tenant: NotRequired[Union[Label, None]]
    updated_at: str
    url: str
    waiting: int
    """Deliveries that wait for an attempt or for a repetition."""


WebhookDisabledReason: TypeAlias = 'Literal["caller", "gone"]'
"""Why nothing is delivered."""


WebhookEvents: TypeAlias = 'Literal["*", "sandbox.*", "attempt.*", "setup.*", "task.*", "permission.*", "budget.*", "limit.*", "exec.*", "service.*", "egress.*", "git.*", "log.*", "sandbox.created", "sandbox.adopted", "sandbox.wanted", "sandbox.running", "sandbox.paused", "sandbox.stopped", "sandbox.destroyed", "sandbox.error", "sandbox.ended", "sandbox.evicted", "sandbox.renewed", "sandbox.delayed", "sandbox.changed", "sandbox.replaced", "sandbox.shared", "sandbox.unshared", "sandbox.drift", "attempt.started", "attempt.launched", "attempt.succeeded", "attempt.failed", "setup.started", "setup.succeeded", "setup.failed", "setup.interrupted", "task.status", "task.build", "task.usage", "task.done", "task.reverted", "permission.asked", "permission.decided", "budget.exceeded", "limit.reached", "exec.started", "exec.ended", "service.state", "service.ended", "egress.denied", "git.fetch", "git.push", "log.gap"]'
"""Which events a webhook is told of: a type as in `task.done`, a family as in `task.*`, or `*` for all."""


class WebhookFailure(TypedDict):
    """The last attempt that failed."""
    at: str
    error: str


WebhookStatus: TypeAlias = 'Literal["enabled", "disabled"]'


class WebhookTest(TypedDict):
    """The result of a test: one request that was sent at once, and not recorded."""
    delivered: bool
    """Whether the endpoint answered with a status of success."""
    duration_ms: int
    error: NotRequired[Union[str, None]]
    id: str
    """`webhook-id` of the request."""
    status: NotRequired[Union[int, None]]


class WebhookView(TypedDict):
    """A webhook, without its secret."""
    created_at: str
    created_by: str
    """Principal that created the webhook."""
    cursor: int
    """Number of the event up to which deliveries were made from the event log. It may trail behind where no event was selected."""
    dead: int
    """Deliveries that were given up, and can be delivered again."""
    description: NotRequired[Union[str, None]]
    disabled_reason: NotRequired[Union[WebhookDisabledReason, None]]
    dropped: int
    """Deliveries that were given up and removed since: too many, or too long ago."""
    events: list[WebhookEvents]
    id: str
    last_delivery_at: NotRequired[Union[str, None]]
    last_failure: NotRequired[Union[WebhookFailure, None]]
    previous_secret_until: NotRequired[Union[str, None]]
    """Until then deliveries are signed with the previous secret too."""
    project: NotRequired[Union[Label, None]]
    sandbox: NotRequired[Union[SandboxId, None]]
    status: WebhookStatus
    tenant: NotRequired[Union[Label, None]]
    updated_at: str
    url: str
    waiting: int
    """Deliveries that wait for an attempt or for a repetition."""


class WebhookViewPage(TypedDict):
    """A page of a list. Pass `next` as `after` to get the following page; absent on the last page."""
    items: list[WebhookView]
    next: NotRequired[Union[str, None]]


class WriteFile(TypedDict):
    content: str
    encoding: NotRequired[ContentEncoding]
    mode: NotRequired[Union[str, None]]
    """Permissions in octal; those of the replaced file, else `0644`."""
    path: str


class WriteFiles(TypedDict):
    """Files to write, each at once and with its parents."""
    files: list[WriteFile]
