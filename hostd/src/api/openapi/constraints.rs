//! Constraints of fields beyond their types: the limits that are enforced, as the document states them. A row
//! whose schema or field does not exist is an error, so that none outlives its field.
//!
//! Lengths are those of single fields: limits on a whole environment or all metadata are reported by errors.

use super::{
    super::{
        exec_run, limits as api,
        older::EXTERNAL_MAX_CHARS,
        param::{
            ID_PATTERN, LABEL_PATTERN, MODE_PATTERN, NAME_PATTERN, NUMBER_MAX, PATH_MAX_BYTES,
            duration_pattern,
        },
        permissions, task_agent, task_request,
    },
    webhook_constraints,
};
use hostd_core::{
    BRANCH_MAX_BYTES, PREVIEW_PATH_MAX_BYTES, QUOTA_CPUS_MAX, QUOTA_LIMIT_MAX, REMOTE_MAX_BYTES, egress,
    limits,
};
use hostd_models::limits as models;
use protocol::{
    HOSTD_PORT_IN_SANDBOX, Health,
    api::{
        BACKUP_SANDBOXES_MAX, GIT_AUTHOR_MAX_BYTES, GIT_MESSAGE_MAX_BYTES, GIT_PATH_MAX_BYTES, GIT_PATHS_MAX,
        PASSPHRASE_MAX_BYTES, PASSPHRASE_MIN_BYTES, QuotaResource, RECIPIENTS_MAX, SECRET_VALUE_MAX_BYTES,
        ScopeKind,
    },
    limits as shared,
};
use serde_json::{Map, Value, json};

/// The name of an imported image: `host` is reserved for the image that always exists.
pub const IMAGE_NAME: &str = "^(?!host$)[a-z0-9][a-z0-9._-]{0,63}$";
/// An image, by its name or reference.
pub const IMAGE: &str = "^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,255}$";
/// The name of a secret, and a reference to one.
pub const SECRET_NAME: &str = "^[a-z0-9][a-z0-9._-]{0,63}$";
const SECRET_REF: &str = "^secret:[a-z0-9][a-z0-9._-]{0,63}$";
/// Larger than any host; the limit of this one is reported by an error.
const MEMORY_MAX_MB: u64 = 1 << 26;
const CPUS_MAX: u64 = 1 << 16;
const DISK_MAX_MB: u64 = 1 << 40;

const NO_NUL: &str = "^[^\\u0000]*$";
/// At least one character that is neither a space nor a control character, and none of the latter.
pub(super) const TITLE: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$";
const WORD: &str = "^[A-Za-z0-9._/:@-]{1,256}$";
const MODEL: &str = "^[A-Za-z0-9._/:@+~][A-Za-z0-9._/:@+~-]{0,199}$";
/// A word that is no option.
const SESSION: &str = "^[!-,.-~][!-~]*$";
const SIZE: &str = "^0*[1-9][0-9]{0,8}[BKMGTbkmgt]?$";
const EXTERNAL: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f,]*$";
const PREVIEW_PATH: &str = "^/[!#-;=?-\\[\\]_a-z~]*$";
const ABSOLUTE: &str = "^/[^\\u0000]*$";
pub(super) const VISIBLE: &str = "^[!-~]*$";
const TEXT: &str = "^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$";
const HTTP_PATH: &str = "^/[!-~]*$";
const BELOW: &str = "^(?!/)(?!(.*/)?\\.\\.(/|$))[^\\u0000]*[^\\s\\u0000][^\\u0000]*$";
/// A path below the app directory, and its bytes.
const APP_PATH: &str = "^(?!/)(?!([^\\u0000]*/)?\\.{1,2}(/|$))(?![^\\u0000]*//)[^\\u0000]+$";
const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";
/// A part of an author: not only spaces, no control characters, no < and >.
const GIT_AUTHOR: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f<>]*[^\\s\\u0000-\\u001f\\u007f-\\u009f<>][^\\u0000-\\u001f\\u007f-\\u009f<>]*$";
/// The name of a branch or another revision, as far as a pattern says it.
const GIT_BRANCH: &str = "^(?!-)[^\\s\\u0000-\\u001f\\u007f~^:?*\\[\\\\]+$";
/// The address of a repository, as far as a pattern says it: no user and password.
const GIT_ADDRESS: &str = "^(?!-)(?![Hh][Tt][Tt][Pp][Ss]?://[^/]*@)[!-~]+$";
/// A shell by its absolute path or name.
const SHELL: &str = "^(/[^\\u0000-\\u001f\\u007f-\\u009f]*|sh|bash|dash|ash|zsh|ksh|fish)$";
const CLONE_DIR: &str = "^(?!(.*/)?\\.\\.(/|$))(/home/sandbox/)?[^/\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$";
const MODEL_NAME: &str = "^[!$&->@-\\[\\]-~]+$";
const SIGNAL: &str = "^(([Ss][Ii][Gg])?(HUP|INT|QUIT|ILL|TRAP|ABRT|BUS|FPE|KILL|USR1|SEGV|USR2|PIPE|ALRM|TERM|STKFLT|\
    CHLD|CONT|STOP|TSTP|TTIN|TTOU|URG|XCPU|XFSZ|VTALRM|PROF|WINCH|IO|PWR|SYS)|[1-9]|[12][0-9]|3[01])$";

/// Merges each row into the schema of its field; null removes a keyword.
pub fn apply(schemas: &mut Map<String, Value>) {
    for (schema, field, rules) in rows() {
        let target = target(schemas, schema, field).unwrap_or_else(|| panic!("no {schema}.{field}"));
        if let (Value::Object(target), Value::Object(rules)) = (target, rules) {
            target.extend(rules);
            target.retain(|_, rule| !rule.is_null());
        }
    }
}

/// Finds the schema of `field`, of its items (`field[]`), or of the type itself (``).
fn target<'a>(schemas: &'a mut Map<String, Value>, schema: &str, field: &str) -> Option<&'a mut Value> {
    let whole = schemas.get_mut(schema)?;
    let (name, items) = match field.strip_suffix("[]") {
        Some(name) => (name, true),
        None => (field, false),
    };
    if name.is_empty() {
        return Some(whole);
    }
    let property = whole.get_mut("properties")?.get_mut(name)?;
    if items { property.get_mut("items") } else { Some(property) }
}

pub(super) type Row = (&'static str, &'static str, Value);

fn rows() -> Vec<Row> {
    [
        names(),
        sandboxes(),
        services(),
        execs(),
        tasks(),
        models_and_budgets(),
        quotas(),
        egress_and_links(),
        git(),
        provisioning(),
        webhook_constraints::rows(),
        older(),
    ]
    .concat()
}

pub(super) fn text(least: usize, most: usize, pattern: &str) -> Value {
    json!({"minLength": least, "maxLength": most, "pattern": pattern})
}

fn pattern(pattern: &str) -> Value {
    json!({"pattern": pattern})
}

pub(super) fn whole(least: u64, most: u64) -> Value {
    json!({"minimum": least, "maximum": most})
}

fn duration(most_ms: u64) -> Value {
    pattern(&format!("^{}$", duration_pattern(most_ms)))
}

fn port() -> Value {
    whole(1, u64::from(u16::MAX))
}

fn seconds(most: f64) -> Value {
    json!({"exclusiveMinimum": 0, "maximum": most})
}

fn env(most: usize) -> Value {
    json!({
        "maxProperties": most,
        "propertyNames": {"type": "string", "minLength": 1, "pattern": "^[^=\\u0000]+$"},
        "additionalProperties": {"type": "string", "pattern": NO_NUL},
    })
}

fn names() -> Vec<Row> {
    let name = || pattern(NAME_PATTERN);
    vec![
        ("SandboxId", "", pattern(ID_PATTERN)),
        ("Label", "", pattern(LABEL_PATTERN)),
        ("ExecId", "", name()),
        ("TaskId", "", name()),
        ("ServiceName", "", name()),
        ("SecretName", "", pattern(SECRET_NAME)),
        ("SecretRef", "", pattern(SECRET_REF)),
        (
            "BackupCreate",
            "passphrase",
            json!({"minLength": PASSPHRASE_MIN_BYTES, "maxLength": PASSPHRASE_MAX_BYTES}),
        ),
        ("BackupCreate", "recipients", json!({"maxItems": RECIPIENTS_MAX})),
        ("BackupCreate", "sandboxes", json!({"maxItems": BACKUP_SANDBOXES_MAX})),
        ("SecretSpec", "value", json!({"minLength": 1, "maxLength": SECRET_VALUE_MAX_BYTES})),
    ]
}

fn sandboxes() -> Vec<Row> {
    let title = || text(1, limits::NAME_MAX_CHARS, TITLE);
    let metadata = || json!({"maxProperties": limits::METADATA_MAX_COUNT});
    let label = || pattern(LABEL_PATTERN);
    vec![
        ("SandboxSpec", "name", title()),
        ("SandboxSpec", "image", pattern(WORD)),
        ("SandboxSpec", "driver", pattern(WORD)),
        ("SandboxSpec", "runtime", pattern(WORD)),
        ("SandboxSpec", "ports", json!({"maxItems": limits::PORTS_MAX})),
        ("SandboxSpec", "ports[]", port()),
        ("SandboxSpec", "env", env(limits::ENV_MAX_COUNT)),
        ("SandboxSpec", "services", json!({"maxItems": limits::SERVICES_MAX})),
        ("SandboxSpec", "ttl", duration(limits::TTL_MAX_MS)),
        ("SandboxSpec", "metadata", metadata()),
        ("SandboxSpec", "project", label()),
        ("SandboxSpec", "tenant", label()),
        ("SandboxSpec", "principal", label()),
        ("SandboxChange", "name", title()),
        ("SandboxChange", "metadata", metadata()),
        ("SandboxScope", "", scope()),
        ("NetworkRules", "mode", json!({"oneOf": null, "type": ["string", "null"], "enum": ["proxy", null]})),
        ("NetworkSpec", "", network()),
        ("LimitsSpec", "memory_mb", whole(limits::MEMORY_MIN_MB, MEMORY_MAX_MB)),
        ("LimitsSpec", "cpus", json!({"minimum": limits::CPUS_MIN, "maximum": CPUS_MAX})),
        ("LimitsSpec", "pids", whole(limits::PIDS_MIN, limits::PIDS_MAX)),
        ("Seed", "template", pattern(&format!("^[a-z0-9-]{{1,{}}}$", limits::TEMPLATE_NAME_MAX_BYTES))),
        ("Seed", "", json!({"oneOf": [{"required": ["template"]}, {"required": ["snapshot"]}]})),
        ("SnapshotCreate", "name", title()),
        ("SnapshotCreate", "excludes", json!({"maxItems": limits::SNAPSHOT_EXCLUDES_MAX})),
        ("SnapshotCreate", "excludes[]", text(1, limits::SNAPSHOT_EXCLUDE_MAX_BYTES, BELOW)),
        ("SnapshotFork", "name", title()),
        ("SnapshotFork", "metadata", metadata()),
        ("SnapshotFork", "env", env(limits::ENV_MAX_COUNT)),
        ("SnapshotFork", "ttl", duration(limits::TTL_MAX_MS)),
        ("LimitsSpec", "disk_mb", whole(limits::DISK_MIN_MB, DISK_MAX_MB)),
        ("LimitsChange", "memory_mb", whole(limits::MEMORY_MIN_MB, MEMORY_MAX_MB)),
        ("LimitsChange", "cpus", json!({"minimum": limits::CPUS_MIN, "maximum": CPUS_MAX})),
        ("LimitsChange", "pids", whole(limits::PIDS_MIN, limits::PIDS_MAX)),
        ("TtlChange", "ttl", duration(limits::TTL_MAX_MS)),
        ("TtlChange", "on_ttl", json!({"oneOf": null, "$ref": "#/components/schemas/OnTtl"})),
        ("TtlChange", "", json!({"anyOf": [{"required": ["ttl"]}, {"required": ["on_ttl"]}]})),
        ("TokenCreate", "ttl", duration(limits::TTL_MAX_MS)),
        ("ImageImport", "name", pattern(IMAGE_NAME)),
        ("ImagePullCreate", "reference", pattern(IMAGE)),
        ("ImagePullCreate", "name", pattern(IMAGE_NAME)),
        ("DefaultImage", "image", pattern(IMAGE)),
        ("ImageImport", "path", text(1, shared::PATH_MAX_BYTES, ABSOLUTE)),
    ]
}

/// Every kind requires a key but one, which has none.
fn scope() -> Value {
    use ScopeKind::{AgentInstance, AgentRun, Conversation, Custom, RuntimeInstance, SharedProjectUser};
    let keyed = [AgentRun, AgentInstance, Conversation, RuntimeInstance, Custom].map(ScopeKind::as_str);
    let keyed = json!({"type": "object", "title": "KeyedScope", "required": ["kind", "key"], "properties": {
        "kind": {"type": "string", "enum": keyed},
        "key": {"$ref": "#/components/schemas/Label"},
    }});
    let shared = json!({"type": "object", "title": "SharedScope", "required": ["kind"], "properties": {
        "kind": {"type": "string", "enum": [SharedProjectUser.as_str()]},
        "key": {"type": "null"},
    }});
    json!({"oneOf": [keyed, shared], "type": null, "properties": null, "required": null, "additionalProperties": null})
}

/// A mode by name, rules for the proxy, or an object with another mode, which has no rules.
fn network() -> Value {
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    // Empty rules may be written out.
    let mode = json!({"type": "object", "title": "NetworkMode", "required": ["mode"], "properties": {
        "mode": {"type": "string", "enum": ["none", "open"]},
        "profile": {"type": "null"},
        "allow": {"type": "array", "items": {"type": "string"}, "maxItems": 0},
        "deny": {"type": "array", "items": {"type": "string"}, "maxItems": 0},
        "max_mb": {"type": "null"},
    }});
    json!({"oneOf": [reference("Network"), reference("NetworkRules"), mode]})
}

fn services() -> Vec<Row> {
    vec![
        ("ServiceSpec", "command", text(1, shared::ARG_MAX_BYTES, TEXT)),
        ("ServiceSpec", "port", port()),
        ("ServiceSpec", "env", env(limits::ENV_MAX_COUNT)),
        ("ServiceSpec", "cwd", text(1, shared::PATH_MAX_BYTES, TEXT)),
        ("ServiceSpec", "depends_on", json!({"maxItems": limits::SERVICES_MAX})),
        ("ServiceSpec", "watch", json!({"maxItems": shared::WATCH_PATHS_MAX})),
        ("ServiceSpec", "watch[]", text(1, shared::PATH_MAX_BYTES, BELOW)),
        ("ServiceHealth", "", health()),
        ("ServicesRequest", "services", json!({"maxItems": limits::SERVICES_MAX})),
    ]
}

/// Exactly one of four checks, with its timing.
fn health() -> Value {
    let line = text(1, shared::ARG_MAX_BYTES, TEXT);
    let checks = [
        ("tcp", "Tcp", "This loopback port accepts connections.", port(), "integer"),
        (
            "http",
            "Http",
            "`GET` on this path of the service's port responds with a status below 500.",
            pattern(HTTP_PATH),
            "string",
        ),
        (
            "log",
            "Log",
            "A line of output matches this regular expression.",
            text(1, shared::HEALTH_PATTERN_MAX_BYTES, TEXT),
            "string",
        ),
        ("command", "Command", "This shell line exits 0.", line, "string"),
    ];
    let names = ["tcp", "http", "log", "command"];
    let checks = checks.map(|(name, title, about, rules, kind)| {
        let (least, most) = (shared::HEALTH_INTERVAL_MIN_MS, shared::HEALTH_INTERVAL_MAX_MS);
        let mut check = json!({
            "type": "object",
            "title": format!("ServiceHealth{title}"),
            "required": [name],
            "properties": {
                name: {"type": kind, "description": about},
                "interval_ms": {"type": "integer", "format": "int64", "minimum": least, "maximum": most,
                    "default": Health::default_interval_ms(), "description": "Between checks once ready."},
                "timeout_ms": {"type": "integer", "format": "int64", "minimum": shared::HEALTH_TIMEOUT_MIN_MS,
                    "maximum": shared::HEALTH_TIMEOUT_MAX_MS, "default": Health::default_timeout_ms(),
                    "description": "For one check."},
            },
        });
        if let (Value::Object(field), Value::Object(rules)) = (&mut check["properties"][name], rules) {
            field.extend(rules);
        }
        for other in names.into_iter().filter(|other| *other != name) {
            check["properties"][other] = json!({"type": "null"});
        }
        check
    });
    json!({"allOf": null, "oneOf": checks})
}

fn execs() -> Vec<Row> {
    let side = || whole(1, u64::from(shared::TTY_SIDE_MAX));
    let argument = || json!({"maxLength": shared::ARG_MAX_BYTES, "pattern": NO_NUL});
    let both = json!({
        "required": ["argv", "shell"],
        "properties": {"argv": {"type": "array"}, "shell": {"type": "string"}},
    });
    let neither = json!({"properties": {"argv": {"type": "null"}, "shell": {"type": "null"}}});
    vec![
        (
            "ExecCreate",
            "",
            json!({"not": {"anyOf": [both, neither]}, "description": "Give one of argv and shell."}),
        ),
        ("ExecCreate", "argv", argv()),
        ("ExecCreate", "argv[]", argument()),
        ("ExecCreate", "shell", text(1, shared::ARG_MAX_BYTES, NO_NUL)),
        ("ExecCreate", "cwd", text(1, shared::PATH_MAX_BYTES, NO_NUL)),
        ("ExecCreate", "env", env(shared::ENV_MAX_COUNT)),
        ("ExecCreate", "stdin", json!({"maxLength": shared::STDIN_INLINE_MAX_BYTES})),
        ("ExecCreate", "timeout_s", seconds(exec_run::TIMEOUT_MAX_S)),
        ("TtySize", "cols", side()),
        ("TtySize", "rows", side()),
        ("CancelRequest", "grace_ms", whole(0, shared::GRACE_MAX_MS)),
        ("SignalRequest", "signal", pattern(SIGNAL)),
        ("OlderExec", "cmd", argv()),
        ("OlderExec", "cmd[]", argument()),
    ]
}

/// A non-empty program name, and its arguments. Said by what it is not: of `prefixItems` generators make a tuple that
/// ends there.
fn argv() -> Value {
    let without_program = json!({"type": "array", "prefixItems": [{"const": ""}]});
    json!({"minItems": 1, "maxItems": shared::ARGV_MAX_COUNT, "not": without_program})
}

fn tasks() -> Vec<Row> {
    let words = || text(1, task_agent::PATTERN_MAX_BYTES, NO_NUL);
    vec![
        ("TaskCreate", "prompt", json!({"maxLength": shared::PROMPT_MAX_BYTES, "pattern": NO_NUL})),
        ("TaskCreate", "model", pattern(MODEL)),
        ("TaskCreate", "session", text(1, shared::SESSION_MAX_BYTES, SESSION)),
        ("TaskCreate", "briefing", json!({"maxLength": task_agent::BRIEFING_MAX_BYTES, "pattern": NO_NUL})),
        ("TaskCreate", "timeout_s", seconds(task_request::TIMEOUT_MAX_S)),
        ("TaskCreate", "idle_timeout_s", seconds(task_request::TIMEOUT_MAX_S)),
        ("TaskCreate", "env", env(shared::ENV_MAX_COUNT)),
        ("TaskCreate", "command", argv()),
        ("TaskCreate", "command[]", json!({"maxLength": shared::ARG_MAX_BYTES, "pattern": NO_NUL})),
        ("TaskCreate", "cwd", text(1, shared::PATH_MAX_BYTES, NO_NUL)),
        ("TaskCreate", "build", json!({"maxLength": shared::ARG_MAX_BYTES, "pattern": NO_NUL})),
        ("WarmCreate", "model", pattern(MODEL)),
        ("WarmCreate", "env", env(shared::ENV_MAX_COUNT)),
        ("WarmCreate", "cwd", text(1, shared::PATH_MAX_BYTES, NO_NUL)),
        ("Permissions", "rules", json!({"maxItems": task_agent::RULES_MAX})),
        ("PermissionRule", "tool", words()),
        ("PermissionRule", "about", words()),
        ("TaskRevert", "path", text(1, limits::CHANGED_PATH_MAX_BYTES, APP_PATH)),
        ("TaskRevert", "path_base64", text(1, 2 * limits::CHANGED_PATH_MAX_BYTES, BASE64)),
        ("PermissionAnswer", "decision", json!({"$ref": null, "type": "string", "enum": ["allow", "deny"]})),
        ("PermissionAnswer", "option", text(1, permissions::OPTION_MAX_BYTES, NO_NUL)),
    ]
}

fn models_and_budgets() -> Vec<Row> {
    let count = || whole(1, NUMBER_MAX);
    let cost = || json!({"exclusiveMinimum": 0, "maximum": models::COST_MAX_USD});
    let price = || json!({"minimum": 0, "maximum": models::PRICE_MAX_USD});
    let name = || text(1, models::NAME_MAX_BYTES, MODEL_NAME);
    let none = json!({"properties": {
        "tokens": {"type": "null"}, "cost_usd": {"type": "null"}, "requests": {"type": "null"},
    }});
    vec![
        ("TaskBudget", "tokens", count()),
        ("TaskBudget", "requests", count()),
        ("TaskBudget", "cost_usd", cost()),
        (
            "BudgetSpec",
            "",
            json!({"not": none, "description": "Give a limit of tokens, cost_usd or requests."}),
        ),
        ("BudgetSpec", "tokens", count()),
        ("BudgetSpec", "requests", count()),
        ("BudgetSpec", "cost_usd", cost()),
        ("ModelPrice", "input", price()),
        ("ModelPrice", "output", price()),
        ("ModelPrice", "cache_read", price()),
        ("ModelPrice", "cache_write", price()),
        ("ModelSpec", "name", name()),
        ("ModelSpec", "alias", name()),
        ("ProviderSpec", "base_url", text(1, models::URL_MAX_BYTES, "^https?://[!-~]+$")),
        ("ProviderSpec", "key", text(0, models::KEY_MAX_BYTES, VISIBLE)),
        ("ProviderSpec", "default", name()),
        ("ProviderSpec", "models", json!({"maxItems": models::MODELS_OF_PROVIDER_MAX})),
    ]
}

fn quotas() -> Vec<Row> {
    let mut rows: Vec<Row> = vec![("Quota", "cpus", json!({"minimum": 0, "maximum": QUOTA_CPUS_MAX}))];
    let counts = QuotaResource::ALL.into_iter().filter(|resource| *resource != QuotaResource::Cpus);
    rows.extend(counts.map(|resource| ("Quota", resource.as_str(), whole(0, QUOTA_LIMIT_MAX))));
    rows
}

fn egress_and_links() -> Vec<Row> {
    let rules = || json!({"maxItems": egress::RULES_MAX});
    let rule = || json!({"minLength": 1, "maxLength": egress::RULE_MAX_BYTES});
    let mut rows: Vec<Row> = vec![
        (
            "PreviewLinkCreate",
            "port",
            json!({"minimum": 1, "maximum": u16::MAX, "not": {"const": HOSTD_PORT_IN_SANDBOX},
            "description": format!("must be a port of the sandbox from 1 to 65535, and not {HOSTD_PORT_IN_SANDBOX}; it need not be advertised")}),
        ),
        ("PreviewLinkCreate", "ttl", duration(limits::LINK_TTL_MAX_MS)),
        ("FileLinkCreate", "ttl", duration(api::FILE_LINK_TTL_MAX_MS)),
        ("FileLinkCreate", "path", text(1, PATH_MAX_BYTES, NO_NUL)),
        ("FileLinkCreate", "max_bytes", whole(1, NUMBER_MAX)),
        ("WriteFiles", "files", json!({"maxItems": ::files::limits::MANY_MAX})),
        ("WriteFile", "path", text(1, PATH_MAX_BYTES, NO_NUL)),
        ("WriteFile", "mode", pattern(MODE_PATTERN)),
        ("PreviewLinkCreate", "path", text(1, PREVIEW_PATH_MAX_BYTES, PREVIEW_PATH)),
    ];
    for schema in ["NetworkRules", "EgressRules", "EgressProfile"] {
        for (list, item) in [("allow", "allow[]"), ("deny", "deny[]")] {
            rows.push((schema, list, rules()));
            rows.push((schema, item, rule()));
        }
    }
    for schema in ["NetworkRules", "EgressRules"] {
        rows.push((schema, "max_mb", whole(1, limits::EGRESS_MAX_MB)));
        rows.push((schema, "profile", pattern(NAME_PATTERN)));
    }
    rows
}

fn git() -> Vec<Row> {
    let path = || text(1, GIT_PATH_MAX_BYTES, NO_NUL);
    let author = || text(1, GIT_AUTHOR_MAX_BYTES, GIT_AUTHOR);
    let branch = || text(1, BRANCH_MAX_BYTES, GIT_BRANCH);
    vec![
        ("GitCommitCreate", "message", text(1, GIT_MESSAGE_MAX_BYTES, TEXT)),
        ("GitCommitCreate", "paths", json!({"maxItems": GIT_PATHS_MAX})),
        ("GitCommitCreate", "paths[]", path()),
        ("GitCommitCreate", "dir", path()),
        ("GitAuthor", "name", author()),
        ("GitAuthor", "email", author()),
        ("GitBranchCreate", "name", branch()),
        ("GitBranchCreate", "from", branch()),
        ("GitBranchCreate", "dir", path()),
        ("GitPush", "remote", text(1, REMOTE_MAX_BYTES, VISIBLE)),
        ("GitPush", "branch", branch()),
        ("GitPush", "dir", path()),
        ("GitFetch", "remote", text(1, REMOTE_MAX_BYTES, VISIBLE)),
        ("GitFetch", "dir", path()),
        ("GitAuth", "secret", pattern(SECRET_NAME)),
    ]
}

fn provisioning() -> Vec<Row> {
    let branch = || text(1, BRANCH_MAX_BYTES, GIT_BRANCH);
    let address = || text(1, REMOTE_MAX_BYTES, GIT_ADDRESS);
    vec![
        ("SetupSpec", "steps", json!({"maxItems": limits::SETUP_STEPS_MAX})),
        ("SetupStepSpec", "name", text(1, limits::SETUP_NAME_MAX_CHARS, TITLE)),
        ("SetupStepSpec", "run", text(1, limits::SETUP_RUN_MAX_BYTES, TEXT)),
        ("SetupStepSpec", "shell", text(1, limits::SETUP_PATH_MAX_BYTES, SHELL)),
        ("SetupStepSpec", "dir", text(1, limits::SETUP_PATH_MAX_BYTES, NO_NUL)),
        ("SetupStepSpec", "env", env(limits::ENV_MAX_COUNT)),
        ("SetupStepSpec", "timeout", duration(limits::SETUP_TIMEOUT_MAX_MS)),
        ("SourceSpec", "url", address()),
        ("SourceSpec", "ref", branch()),
        ("SourceSpec", "depth", whole(1, u64::from(limits::SOURCE_DEPTH_MAX))),
        ("SourceSpec", "dir", text(1, limits::SETUP_PATH_MAX_BYTES, CLONE_DIR)),
        ("SourceAuth", "secret", pattern(SECRET_NAME)),
        ("DotfilesSpec", "url", address()),
        ("DotfilesSpec", "ref", branch()),
        ("DotfilesSpec", "archive", text(4, limits::DOTFILES_ARCHIVE_MAX_BYTES.div_ceil(3) * 4, BASE64)),
    ]
}

fn older() -> Vec<Row> {
    let external = || json!({"maxLength": EXTERNAL_MAX_CHARS, "pattern": EXTERNAL});
    let mut rows: Vec<Row> = vec![
        ("OlderCreate", "id", pattern(ID_PATTERN)),
        ("OlderCreate", "ports", json!({"maxItems": limits::PORTS_MAX})),
        ("OlderCreate", "ports[]", port()),
        ("OlderCreate", "memory_high", pattern(SIZE)),
        ("OlderCreate", "env", env(limits::ENV_MAX_COUNT)),
        ("OlderExternal", "user_id", external()),
        ("OlderExternal", "project_id", external()),
        ("OlderExternal", "workspace_id", external()),
        ("OlderKeepalive", "until", whole(1, NUMBER_MAX)),
    ];
    for field in ["image", "template", "template_path", "git", "git_remote_url", "app_id", "runtime_preset"] {
        let about = "Not offered on this route: leave it out.";
        rows.push(("OlderCreate", field, json!({"type": "null", "deprecated": true, "description": about})));
    }
    rows
}
