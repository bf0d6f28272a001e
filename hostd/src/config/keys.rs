//! The table of configuration keys. The parser, `hostd --help`, docs/configuration.md and docs/man/hostd.8 come from
//! it; a key that is not in it does not exist.

use std::fmt::Write;

/// A key of the TOML file, which is `SLIPWAY_<NAME>` in the environment.
pub struct ConfigKey {
    pub name: &'static str,
    pub default: DefaultValue,
    pub source: Source,
    /// One line of `hostd --help` and of the manual page.
    pub summary: &'static str,
    /// One cell of docs/configuration.md, in Markdown.
    pub effect: &'static str,
}

/// The value of a key that is not set.
pub enum DefaultValue {
    /// A text the parser reads as if it had been written.
    Text(&'static str),
    /// A value found at run time, described for people.
    Described(&'static str),
}

/// Where a key may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    FileOrEnvironment,
    /// A table, which an environment variable cannot hold.
    FileOnly,
}

use DefaultValue::{Described, Text};
use Source::{FileOnly, FileOrEnvironment};

pub const KEYS: &[ConfigKey] = &[
    ConfigKey {
        name: "data_dir",
        default: Text("/var/lib/slipway"),
        source: FileOrEnvironment,
        summary: "directory that holds the database, workspaces and images",
        effect: "The directory that holds everything hostd keeps. One hostd per directory: a second one exits with status 64.",
    },
    ConfigKey {
        name: "api_bind",
        default: Text("127.0.0.1:9090"),
        source: FileOrEnvironment,
        summary: "address and port of the API",
        effect: "The address of the API. Port 0 picks a free port; the ready line names it.",
    },
    ConfigKey {
        name: "api_hosts",
        default: Described("none"),
        source: FileOrEnvironment,
        summary: "further host names under which the API may be called, separated by commas",
        effect: "Further names under which the API may be called, beside `localhost`, loopback addresses and the bind address. A request with another `Host` or a foreign `Origin` is refused (DNS rebinding, pages that call local services). In the environment: separated by commas.",
    },
    ConfigKey {
        name: "clients",
        default: Text("e2b,cloudflare,mcp,acp,opensandbox"),
        source: FileOrEnvironment,
        summary: "protocols of other clients that are served, separated by commas; or none",
        effect: "The protocols of clients made for other systems that the API serves, separated by commas, or `none`. See [clients.md](clients.md).",
    },
    ConfigKey {
        name: "api_tls_cert",
        default: Described("none"),
        source: FileOrEnvironment,
        summary: "certificate chain in PEM: the API is served by TLS",
        effect: "The certificate chain, in PEM: the API is served by TLS, as HTTP/1.1 and HTTP/2. hostd reads it again when it changes. `slipway tls init` makes one that signs itself; see [TLS for the API](proxies.md#tls-for-the-api).",
    },
    ConfigKey {
        name: "api_tls_key",
        default: Described("none"),
        source: FileOrEnvironment,
        summary: "private key of api_tls_cert, in PEM",
        effect: "The private key of `api_tls_cert`, in PEM.",
    },
    ConfigKey {
        name: "auth",
        default: Text("required"),
        source: FileOrEnvironment,
        summary: "required, or off when the API binds loopback only",
        effect: "`off` makes every caller on loopback the operator; refused unless `api_bind` is a loopback address.",
    },
    ConfigKey {
        name: "driver",
        default: Text("auto"),
        source: FileOrEnvironment,
        summary: "auto, oci or docker: the driver of a sandbox that names none",
        effect: "The driver of a sandbox that names none: `oci`, or `docker` for Docker and Podman ([docker.md](docker.md)). `auto` is `oci`, and `docker` where no OCI runtime works and the socket of an engine exists. Beside `docker`, `oci` is opened too where it works, for sandboxes that ask for it; beside `oci`, an engine is left alone unless `docker_socket` names it.",
    },
    ConfigKey {
        name: "docker_socket",
        default: Described("`/var/run/docker.sock`, else `/run/podman/podman.sock`"),
        source: FileOrEnvironment,
        summary: "Unix socket of Docker or Podman",
        effect: "The socket of the engine, also as `unix:///path`. `DOCKER_HOST` is not read.",
    },
    ConfigKey {
        name: "oci_runtime",
        default: Described("the first of crun, runc, youki that runs a probe container"),
        source: FileOrEnvironment,
        summary: "name or path of the OCI runtime",
        effect: "A name or a path. hostd exits when the runtime that is named does not work.",
    },
    ConfigKey {
        name: "runtimed",
        default: Described("beside hostd"),
        source: FileOrEnvironment,
        summary: "path of the static runtimed that becomes PID 1 of every sandbox",
        effect: "The static runtimed that becomes PID 1 of every sandbox.",
    },
    ConfigKey {
        name: "image",
        default: Text("host"),
        source: FileOrEnvironment,
        summary: "image of a sandbox that names none",
        effect: "The image of a sandbox that names none.",
    },
    ConfigKey {
        name: "image_registries",
        default: Described("none"),
        source: FileOrEnvironment,
        summary: "private registries that images may be pulled from, separated by commas",
        effect: "Registries (`host` or `host:port`, as in the name of the image) from which images may be pulled although their name is `localhost` or an address that is not public. In the environment: separated by commas. See [docker.md](docker.md).",
    },
    ConfigKey {
        name: "image_keep_days",
        default: Text("14"),
        source: FileOrEnvironment,
        summary: "days that a pulled image is kept which no new sandbox gets; 0 keeps all",
        effect: "Days after which the driver `oci` removes an image that it pulled for a sandbox, if no sandbox has it and no new one got it since. `0` keeps them. Images with a name of their own stay. See [images.md](images.md).",
    },
    ConfigKey {
        name: "templates",
        default: Described("`templates` in `data_dir`"),
        source: FileOrEnvironment,
        summary: "directory of templates, the first content of workspaces",
        effect: "The directory of templates: `NAME/`, `NAME.tar`, `NAME.tar.gz` or `NAME.tar.zst` is the first content of a workspace whose sandbox asks for the template `NAME`. See [seeds](workspaces.md#seeds).",
    },
    ConfigKey {
        name: "host_image_dirs",
        default: Described("none"),
        source: FileOrEnvironment,
        summary: "directories the image host shows beside /usr, separated by commas",
        effect: "Directories, such as `/opt/node`, that the image `host` shows beside `/usr`, read-only. In the environment: separated by commas.",
    },
    ConfigKey {
        name: "files",
        default: Text("host"),
        source: FileOrEnvironment,
        summary: "host or sandbox: where operations on files are performed",
        effect: "Where the operations of the files API are performed: by `host`, with the rights of the sandbox's user, also while a sandbox sleeps; or by a process inside the `sandbox`, so that hostd opens no file of a workspace, and a sleeping sandbox answers `asleep`.",
    },
    ConfigKey {
        name: "agent",
        default: Described("`opencode`"),
        source: FileOrEnvironment,
        summary: "agent of a task that names none",
        effect: "The agent of a task that names none.",
    },
    ConfigKey {
        name: "agents",
        default: Described("the built-in ones"),
        source: FileOnly,
        summary: "tables [agents.NAME]: agents of your own, and changes to built-in ones",
        effect: "Tables `[agents.NAME]`: agents of your own, and changes to built-in ones: [agents.md](agents.md).",
    },
    ConfigKey {
        name: "agents_dir",
        default: Described("`/opt/slipway/agents`"),
        source: FileOrEnvironment,
        summary: "directory where agents are installed",
        effect: "The directory where agents are installed (`scripts/agents`). Every sandbox sees it, read-only, at `/opt/slipway/agents`.",
    },
    ConfigKey {
        name: "briefing_file",
        default: Described("the built-in text"),
        source: FileOrEnvironment,
        summary: "file with the instructions agents get before their first prompt",
        effect: "The instructions agents get before their first prompt.",
    },
    ConfigKey {
        name: "idle_seconds",
        default: Text("2100"),
        source: FileOrEnvironment,
        summary: "an idle sandbox is stopped after this many seconds",
        effect: "An idle sandbox is stopped after this many seconds, unless its `idle_policy` is `always_on`.",
    },
    ConfigKey {
        name: "model_idle_seconds",
        default: Text("120"),
        source: FileOrEnvironment,
        summary: "longest silence of a model provider in the middle of an answer",
        effect: "The longest silence of a model provider in the middle of an answer; see [models.md](models.md).",
    },
    ConfigKey {
        name: "memory_max_mb",
        default: Described("all of the host"),
        source: FileOrEnvironment,
        summary: "most memory one sandbox may ask for",
        effect: "The most memory one sandbox may ask for.",
    },
    ConfigKey {
        name: "cpus_max",
        default: Described("all of the host"),
        source: FileOrEnvironment,
        summary: "most cores one sandbox may ask for",
        effect: "The most cores one sandbox may ask for.",
    },
    ConfigKey {
        name: "memory_reserve_mb",
        default: Described("a twentieth of the memory, 32 MB to 1 GB"),
        source: FileOrEnvironment,
        summary: "available memory below which creates and wakes are refused",
        effect: "Available memory below which creates and wakes are refused (`capacity`) and idle sandboxes are paused; below half of it they are stopped. See [capacity.md](capacity.md).",
    },
    ConfigKey {
        name: "memory_admission_mb",
        default: Text("32"),
        source: FileOrEnvironment,
        summary: "least memory that a sandbox is expected to need when it is created or woken",
        effect: "The least memory that a sandbox is expected to need when it is created or woken; it is more where the sandbox used more when it was last stopped. See [capacity.md](capacity.md).",
    },
    ConfigKey {
        name: "memory_total_mb",
        default: Described("all of the host"),
        source: FileOrEnvironment,
        summary: "most memory all sandboxes together may use",
        effect: "The most memory that all sandboxes together may use: a limit of their control group (`oci`), counted by hostd for containers of an engine. See [capacity.md](capacity.md).",
    },
    ConfigKey {
        name: "disk_floor_mb",
        default: Described("a twentieth of the file system, 1 MB to 2 GB"),
        source: FileOrEnvironment,
        summary: "free space on the data disk below which creates and wakes are refused",
        effect: "Free space on the disk of `data_dir` below which creates and wakes are refused (`disk_full`); below half of it sandboxes that grow are stopped. See [a full disk](troubleshooting.md#the-disk-is-full).",
    },
    ConfigKey {
        name: "quota",
        default: Text("auto"),
        source: FileOrEnvironment,
        summary: "auto, project, loop or measured: how limits.disk_mb of a sandbox is kept",
        effect: "How `limits.disk_mb` is kept: `project` (project quota of ext4 or xfs), `loop` (a file system per sandbox, on space that is set aside) or `measured` (hostd measures and stops a sandbox that is over). `auto` is the first of them that works on the file system of `data_dir`; with another value, sandboxes with `disk_mb` are refused where it does not work. See [disk limits](workspaces.md#disk-limits).",
    },
    ConfigKey {
        name: "snapshots",
        default: Text("auto"),
        source: FileOrEnvironment,
        summary: "auto, btrfs, overlay or copy: how snapshots of workspaces are taken",
        effect: "How snapshots of workspaces are taken: `btrfs` (subvolumes), `overlay` (layers below a workspace) or `copy`. `auto` is the first of them that works on the file system of `data_dir`; where the configured one does not work, copies are made. All hold the same. See [snapshots.md](snapshots.md#how-it-is-done).",
    },
    ConfigKey {
        name: "snapshot_keep",
        default: Text("0"),
        source: FileOrEnvironment,
        summary: "snapshots without a name that are kept of each sandbox; 0 keeps all",
        effect: "How many snapshots without a name are kept of each sandbox, the newest ones; 0 keeps all. Those with a name are kept until they are deleted. See [snapshots.md](snapshots.md#how-long-snapshots-are-kept).",
    },
    ConfigKey {
        name: "snapshot_keep_days",
        default: Text("0"),
        source: FileOrEnvironment,
        summary: "days after which a snapshot without a name is removed; 0 keeps them",
        effect: "Days after which a snapshot without a name is removed; 0 keeps them.",
    },
    ConfigKey {
        name: "history_keep",
        default: Text("30d"),
        source: FileOrEnvironment,
        summary: "how long events, ended tasks and execs, and records of destroyed sandboxes are kept",
        effect: "How long events, ended tasks with their events and changes, ended execs, old attempts, and the records of destroyed sandboxes without files are kept, as in `12h` or `90d`. A client that resumes a stream before what was deleted gets 410 `history_gone`. See [backup.md](backup.md#how-long-history-is-kept).",
    },
    ConfigKey {
        name: "history_keep_events",
        default: Text("5000000"),
        source: FileOrEnvironment,
        summary: "newest events that are kept, of all sandboxes together; 0 keeps all",
        effect: "How many events are kept of all sandboxes together, the newest ones, however young older ones are; 0 keeps all. Tasks that run keep theirs.",
    },
    ConfigKey {
        name: "git_token_hook",
        default: Described("none"),
        source: FileOrEnvironment,
        summary: "program that mints a token of a git server for one operation",
        effect: "A program that mints a token of a git server for one operation, such as one of a GitHub App, where the tenant has no secret for the server. See [git.md](git.md#tokens-of-an-app).",
    },
    ConfigKey {
        name: "git_token_hook_user",
        default: Text("nobody"),
        source: FileOrEnvironment,
        summary: "user that runs git_token_hook; never root",
        effect: "The user, by its name in `/etc/passwd`, that runs `git_token_hook`; never root.",
    },
    ConfigKey {
        name: "git_token_hook_servers",
        default: Described("none"),
        source: FileOrEnvironment,
        summary: "git servers that git_token_hook is asked for, separated by commas",
        effect: "The git servers that `git_token_hook` is asked for, `host` or `host:port`; needed with it. In the environment: separated by commas.",
    },
    ConfigKey {
        name: "tenant_quota",
        default: Described("none: unlimited"),
        source: FileOrEnvironment,
        summary: "what a tenant without a quota may use: sandboxes=20,running=5,memory=8g,disk=50g",
        effect: "What a tenant may use that has no quota of its own, with the words of `slipway quota set`: `sandboxes=20,running=5,memory=8g,cpus=4,disk=50g,tasks-queued=100,tasks-running=5,events=1g,preview-connections=500`; what is not named is unlimited. See [quotas.md](quotas.md); not to be confused with `quota`, which is about the disk limit of one sandbox.",
    },
    ConfigKey {
        name: "principal_quota",
        default: Described("none: unlimited"),
        source: FileOrEnvironment,
        summary: "the same for a principal without a quota, within its tenant",
        effect: "The same for each principal that has no quota of its own, within that of its tenant.",
    },
    ConfigKey {
        name: "task_budget",
        default: Described("none"),
        source: FileOrEnvironment,
        summary: "model use of a task that sets no budget: tokens=2000000,cost_usd=5,requests=500",
        effect: "What a task that sets no budget may use of models, as in `tokens=2000000,cost_usd=5,requests=500`; see [models.md](models.md).",
    },
    ConfigKey {
        name: "egress_private",
        default: Described("none"),
        source: FileOrEnvironment,
        summary: "private addresses sandboxes may reach, as in 10.0.0.5:443, separated by commas",
        effect: "Addresses that sandboxes may reach through the proxy although they are not public, as in `[\"10.0.0.5:443\"]`; in the environment separated by commas. See [network.md](network.md).",
    },
    ConfigKey {
        name: "webhook_allow",
        default: Described("none"),
        source: FileOrEnvironment,
        summary: "webhook endpoints that may have private addresses, as in 10.0.0.5:443, separated by commas",
        effect: "Hosts and networks that webhooks may be delivered to although their addresses are not public or have no encryption, as in `[\"hooks.corp:443\", \"10.0.0.0/8\"]`; in the environment separated by commas. See [webhooks.md](webhooks.md).",
    },
    ConfigKey {
        name: "webhook_attempts",
        default: Text("20"),
        source: FileOrEnvironment,
        summary: "attempts to deliver an event to a webhook before it is given up",
        effect: "How often a delivery to a webhook is tried, within a day, before it is given up. See [webhooks.md](webhooks.md).",
    },
    ConfigKey {
        name: "audit_keep_days",
        default: Text("90"),
        source: FileOrEnvironment,
        summary: "days that the audit log is kept; 0 keeps it",
        effect: "Days after which rows of the audit log are deleted, and revoked and expired tokens; `0` keeps them. See [audit.md](audit.md).",
    },
    ConfigKey {
        name: "git_known_hosts",
        default: Text("/etc/ssh/ssh_known_hosts"),
        source: FileOrEnvironment,
        summary: "file with the host keys of SSH servers of git repositories",
        effect: "The file with the host keys of SSH servers, for deploy keys whose secret has none. A file that is not there is empty. See [git.md](git.md#deploy-keys).",
    },
    ConfigKey {
        name: "metrics_bind",
        default: Described("none"),
        source: FileOrEnvironment,
        summary: "address and port where metrics are served without a token",
        effect: "An address of its own for `GET /metrics`, as in `127.0.0.1:9464`: plain HTTP, without a token, so that whoever reaches it may read them. Port 0 picks a free port; the ready line names it. See [metrics.md](metrics.md).",
    },
    ConfigKey {
        name: "metrics_sandboxes",
        default: Text("0"),
        source: FileOrEnvironment,
        summary: "sandboxes that have metrics of CPU and memory of their own, at most 1000",
        effect: "How many sandboxes have metrics of their own (CPU, memory), at most 1000; each adds three series. 0 is none. See [metrics.md](metrics.md#single-sandboxes).",
    },
    ConfigKey {
        name: "preview_bind",
        default: Text("127.0.0.1:8080"),
        source: FileOrEnvironment,
        summary: "address and port of previews",
        effect: "The address of previews. Beyond loopback they are private unless a sandbox says otherwise.",
    },
    ConfigKey {
        name: "preview_domain",
        default: Text("localhost"),
        source: FileOrEnvironment,
        summary: "domain of preview host names",
        effect: "The domain of preview addresses: `http://s-<id>-<port>.preview.<domain>`.",
    },
    ConfigKey {
        name: "preview_public",
        default: Described("as it is served"),
        source: FileOrEnvironment,
        summary: "http or https[:port]: how browsers reach previews behind a proxy",
        effect: "`http` or `https`, with a port if it is not the usual one (`https:8443`): how browsers reach previews when a proxy is in front; see [proxies.md](proxies.md).",
    },
    ConfigKey {
        name: "preview_tls_cert",
        default: Described("none"),
        source: FileOrEnvironment,
        summary: "certificate chain in PEM: previews are served by TLS",
        effect: "The certificate chain, in PEM: previews are served by TLS. hostd reads it again when it changes; see [proxies.md](proxies.md).",
    },
    ConfigKey {
        name: "preview_tls_key",
        default: Described("none"),
        source: FileOrEnvironment,
        summary: "private key of preview_tls_cert, in PEM",
        effect: "The private key of `preview_tls_cert`, in PEM.",
    },
];

/// Returns the row of a key.
pub fn find(name: &str) -> Option<&'static ConfigKey> {
    KEYS.iter().find(|key| key.name == name)
}

/// Returns the environment variable of a key.
pub fn variable(name: &str) -> String {
    format!("SLIPWAY_{}", name.to_ascii_uppercase())
}

impl DefaultValue {
    /// Returns the cell of the Markdown table.
    fn markdown(&self) -> String {
        match self {
            Text(text) => format!("`{text}`"),
            Described(words) => (*words).to_owned(),
        }
    }

    fn plain(&self) -> String {
        match self {
            Text(text) => (*text).to_owned(),
            Described(words) => words.replace('`', ""),
        }
    }
}

/// Returns the keys as lines of `hostd --help`.
pub fn help() -> String {
    let mut lines = String::new();
    for ConfigKey { name, default, source, summary, .. } in KEYS {
        let name = match source {
            FileOrEnvironment => variable(name),
            FileOnly => format!("[{name}]"),
        };
        let _ = writeln!(lines, "  {name}\n      {summary} (default: {})", default.plain());
    }
    lines
}

/// Returns the keys as the table of docs/configuration.md.
pub fn markdown() -> String {
    let mut table = String::from("| key | default | effect |\n|---|---|---|\n");
    for ConfigKey { name, default, source, effect, .. } in KEYS {
        let only = match source {
            FileOrEnvironment => "",
            FileOnly => " Only in the file.",
        };
        let _ = writeln!(table, "| `{name}` | {} | {effect}{only} |", default.markdown());
    }
    table
}

/// Returns the keys as the list of docs/man/hostd.8.
pub fn roff() -> String {
    let mut list = String::new();
    for ConfigKey { name, default, source, summary, .. } in KEYS {
        let only = match source {
            FileOrEnvironment => "",
            FileOnly => " Only in the file.",
        };
        // A bare hyphen is one that may break a line, and is not found by a search for a minus.
        let entry = format!("{summary} (default: {}).{only}", default.plain()).replace('-', "\\-");
        let _ = writeln!(list, ".TP\n.B {name}\n{entry}");
    }
    list
}
