//! Configuration, parsed from strings: environment variables over a TOML file. Nothing is opened or bound
//! here; an error names the key and what its value may be.

#[cfg(test)]
mod example_file_tests;
pub mod keys;
mod parsers;
#[cfg(test)]
mod tests;
mod values;
mod written;

use crate::agents::AgentTable;
use hostd_clients::Protocol;
use hostd_core::{BudgetBounds, Scheme, egress::Exceptions, limits};
use hostd_drivers::{QuotaChoice, SnapshotMethodSetting};
use hostd_store::{HistoryPolicy, SnapshotRetention};
use parsers::{
    absolute, address, agents, auth, budget, clients, docker_socket, domain, driver, exceptions, files,
    history, metrics_sandboxes, owner_quota, public, quota, registries, snapshots, tls,
};
use protocol::api::Quota;
use std::{collections::BTreeSet, fmt, net::SocketAddr, path::PathBuf};
use values::ConfigValues;
pub use written::WrittenConfig;

pub const DEFAULT_FILE: &str = "/etc/slipway/slipway.toml";

#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub data_dir: PathBuf,
    pub api_bind: SocketAddr,
    /// Certificate chain and key in PEM, with which the API is served by TLS.
    pub api_tls: Option<(PathBuf, PathBuf)>,
    pub preview_bind: SocketAddr,
    pub preview_domain: String,
    /// How browsers reach previews behind a proxy, where that differs from how hostd serves them.
    pub preview_public: Option<(Scheme, u16)>,
    /// Certificate chain and key in PEM, with which previews are served by TLS.
    pub preview_tls: Option<(PathBuf, PathBuf)>,
    pub driver: DriverChoice,
    /// The socket of Docker or Podman; the usual paths unless given.
    pub docker_socket: Option<PathBuf>,
    pub oci_runtime: Option<String>,
    pub image: String,
    /// Registries that an engine may pull from although they are not public.
    pub image_registries: Vec<String>,
    /// Days that a pulled image is kept which no sandbox gets; 0: for ever.
    pub image_keep_days: u64,
    pub idle_s: u64,
    pub auth: Auth,
    pub files: Files,
    /// Protocols of other clients that are served.
    pub clients: BTreeSet<Protocol>,
    /// Host names, beside loopback and the bind address, under which the API may be called.
    pub api_hosts: Vec<String>,
    /// Longest silence of a model provider during a response.
    pub model_idle_s: u64,
    /// The static runtimed; beside hostd unless given.
    pub runtimed: Option<PathBuf>,
    /// Directories of the host that the image `host` shows beside /usr, read-only.
    pub host_image_dirs: Vec<PathBuf>,
    /// The directory of templates; one in the data directory unless given.
    pub templates: Option<PathBuf>,
    /// Largest limits of one sandbox; the host's resources unless given.
    pub memory_max_mb: Option<u64>,
    pub cpus_max: Option<f64>,
    /// Available memory below which creates and wakes are refused; a share of the memory unless given.
    pub memory_reserve_mb: Option<u64>,
    /// The least that a sandbox is expected to need.
    pub memory_admission_mb: u64,
    /// The most that all sandboxes together may use.
    pub memory_total_mb: Option<u64>,
    /// Free space on the data disk below which creates and wakes are refused; a share of the disk unless
    /// given.
    pub disk_floor_mb: Option<u64>,
    /// How disk limits of sandboxes are kept.
    pub quota: QuotaChoice,
    pub snapshots: SnapshotMethodSetting,
    /// How many snapshots without a name a sandbox keeps, and for how long; 0 is without a limit.
    pub snapshot_keep: u64,
    pub snapshot_keep_days: u64,
    /// How long history is kept, and how many events.
    pub history: HistoryPolicy,
    /// The program that mints tokens, the name of the user that runs it, and the git servers that it is asked for.
    pub git_token_hook: Option<PathBuf>,
    pub git_token_hook_user: String,
    pub git_token_hook_servers: Vec<String>,
    /// Quotas of tenants and principals that have none of their own.
    pub tenant_quota: Option<Quota>,
    pub principal_quota: Option<Quota>,
    /// The agent definitions, and the default agent.
    pub agents: AgentTable,
    /// The directory where agents are installed; the usual one unless given.
    pub agents_dir: Option<PathBuf>,
    /// The file of the briefing, instead of the built-in text.
    pub briefing_file: Option<PathBuf>,
    /// The file with the host keys of SSH servers of git repositories.
    pub git_known_hosts: PathBuf,
    /// Private addresses that sandboxes may reach.
    pub egress_private: Exceptions,
    /// Endpoints of webhooks that may have private addresses, and attempts of one delivery.
    pub webhook_allow: Exceptions,
    pub webhook_attempts: u64,
    /// Days that the audit log is kept; 0: for ever.
    pub audit_keep_days: u64,
    /// The model budget of a task that sets none.
    pub task_budget: BudgetBounds,
    /// Where metrics are served without a token.
    pub metrics_bind: Option<SocketAddr>,
    /// The most sandboxes that have metrics of their own.
    pub metrics_sandboxes: usize,
    /// The same, as it was written.
    pub written: WrittenConfig,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverChoice {
    /// `oci` where it works, else `docker`.
    Auto,
    Oci,
    Docker,
}

/// Where operations on files are performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    Host,
    Sandbox,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    Required,
    Off,
}

/// An invalid value: the key, and what it may be.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError {
    key: String,
    message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for ConfigError {}

fn bad(key: &str, message: impl Into<String>) -> ConfigError {
    ConfigError { key: key.to_owned(), message: message.into() }
}

impl Config {
    /// How long snapshots without a name are kept.
    pub fn snapshot_retention(&self) -> SnapshotRetention {
        let limit = |value: u64| (value > 0).then_some(value);
        let age_ms = limit(self.snapshot_keep_days).map(|days| days.saturating_mul(24 * 3_600_000));
        SnapshotRetention { count: limit(self.snapshot_keep), age_ms }
    }

    /// How long the audit log is kept; `None` for ever.
    pub fn audit_keep_ms(&self) -> Option<u64> {
        (self.audit_keep_days > 0).then(|| self.audit_keep_days.saturating_mul(24 * 3_600_000))
    }

    /// Parses the text of the TOML file, if there is one, and the environment, which `env` looks up.
    pub fn parse(file: Option<&str>, env: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let values = ConfigValues::read(file, &env)?;
        let path = |key| values.optional(key)?.map(|path| absolute(key, &path)).transpose();
        let config = Self {
            data_dir: absolute("data_dir", &values.text("data_dir")?)?,
            api_bind: address("api_bind", &values.text("api_bind")?)?,
            api_tls: tls("api", values.optional("api_tls_cert")?, values.optional("api_tls_key")?)?,
            preview_bind: address("preview_bind", &values.text("preview_bind")?)?,
            preview_domain: domain(&values.text("preview_domain")?)?,
            preview_public: values.optional("preview_public")?.map(|text| public(&text)).transpose()?,
            preview_tls: tls(
                "preview",
                values.optional("preview_tls_cert")?,
                values.optional("preview_tls_key")?,
            )?,
            driver: driver(&values.text("driver")?)?,
            docker_socket: values.optional("docker_socket")?.map(|text| docker_socket(&text)).transpose()?,
            oci_runtime: values.optional("oci_runtime")?,
            image: values.text("image")?,
            image_keep_days: values.integer("image_keep_days")?.unwrap_or(limits::IMAGE_KEEP_DEFAULT_DAYS),
            image_registries: registries(values.list("image_registries")?)?,
            idle_s: values.integer("idle_seconds")?.unwrap_or(limits::IDLE_DEFAULT_S),
            model_idle_s: values.integer("model_idle_seconds")?.unwrap_or(limits::MODEL_IDLE_DEFAULT_S),
            auth: auth(&values.text("auth")?)?,
            files: files(&values.text("files")?)?,
            clients: clients(&values.text("clients")?)?,
            api_hosts: values.list("api_hosts")?,
            runtimed: path("runtimed")?,
            host_image_dirs: values
                .list("host_image_dirs")?
                .iter()
                .map(|path| absolute("host_image_dirs", path))
                .collect::<Result<_, _>>()?,
            templates: path("templates")?,
            memory_max_mb: values.integer("memory_max_mb")?,
            cpus_max: values.decimal("cpus_max")?,
            memory_reserve_mb: values.integer("memory_reserve_mb")?,
            memory_admission_mb: values
                .integer("memory_admission_mb")?
                .unwrap_or(limits::MEMORY_ADMISSION_DEFAULT_MB),
            memory_total_mb: values.integer("memory_total_mb")?,
            disk_floor_mb: values.integer("disk_floor_mb")?,
            quota: quota(&values.text("quota")?)?,
            snapshots: snapshots(&values.text("snapshots")?)?,
            snapshot_keep: values.integer("snapshot_keep")?.unwrap_or(0),
            snapshot_keep_days: values.integer("snapshot_keep_days")?.unwrap_or(0),
            history: history(&values.text("history_keep")?, values.integer("history_keep_events")?)?,
            git_token_hook: path("git_token_hook")?,
            git_token_hook_user: values.text("git_token_hook_user")?,
            git_token_hook_servers: values.list("git_token_hook_servers")?,
            tenant_quota: owner_quota("tenant_quota", values.optional("tenant_quota")?)?,
            principal_quota: owner_quota("principal_quota", values.optional("principal_quota")?)?,
            agents: agents(&values.table("agents")?, values.optional("agent")?.as_deref())?,
            agents_dir: path("agents_dir")?,
            briefing_file: path("briefing_file")?,
            git_known_hosts: absolute("git_known_hosts", &values.text("git_known_hosts")?)?,
            egress_private: exceptions("egress_private", &values.list("egress_private")?)?,
            webhook_allow: exceptions("webhook_allow", &values.list("webhook_allow")?)?,
            webhook_attempts: values.integer("webhook_attempts")?.unwrap_or(limits::WEBHOOK_ATTEMPTS_DEFAULT),
            audit_keep_days: values.integer("audit_keep_days")?.unwrap_or(limits::AUDIT_KEEP_DEFAULT_DAYS),
            task_budget: budget(&values.optional("task_budget")?.unwrap_or_default())?,
            metrics_bind: values
                .optional("metrics_bind")?
                .map(|text| address("metrics_bind", &text))
                .transpose()?,
            metrics_sandboxes: metrics_sandboxes(values.integer("metrics_sandboxes")?)?,
            written: values.written(file),
        };
        config.check()
    }

    /// Checks conditions between values.
    fn check(self) -> Result<Self, ConfigError> {
        if self.auth == Auth::Off && !self.api_bind.ip().is_loopback() {
            return Err(bad("SLIPWAY_AUTH", "may be off only when SLIPWAY_API_BIND is a loopback address"));
        }
        if self.idle_s == 0 {
            return Err(bad(
                "SLIPWAY_IDLE_SECONDS",
                "must be at least 1; a sandbox stays up with idle_policy always_on",
            ));
        }
        if !(1..=limits::WEBHOOK_ATTEMPTS_MAX).contains(&self.webhook_attempts) {
            let most = limits::WEBHOOK_ATTEMPTS_MAX;
            return Err(bad("SLIPWAY_WEBHOOK_ATTEMPTS", format!("must be a number from 1 to {most}")));
        }
        if self.model_idle_s == 0 {
            return Err(bad("SLIPWAY_MODEL_IDLE_SECONDS", "must be at least 1"));
        }
        if self.cpus_max.is_some_and(|cpus| !cpus.is_finite() || cpus < limits::CPUS_MIN) {
            return Err(bad("SLIPWAY_CPUS_MAX", format!("must be at least {}", limits::CPUS_MIN)));
        }
        if self.memory_total_mb.is_some_and(|mb| mb < limits::MEMORY_MIN_MB) {
            return Err(bad(
                "SLIPWAY_MEMORY_TOTAL_MB",
                format!("must be at least {}", limits::MEMORY_MIN_MB),
            ));
        }
        if self.memory_max_mb.is_some_and(|mb| mb < limits::MEMORY_MIN_MB) {
            return Err(bad("SLIPWAY_MEMORY_MAX_MB", format!("must be at least {}", limits::MEMORY_MIN_MB)));
        }
        Ok(self)
    }
}
