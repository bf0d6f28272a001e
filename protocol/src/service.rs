//! Services: processes that runtimed keeps running, with health checks and restart policy.

use crate::{EnvMap, Exit, ServiceName};
use serde::{Deserialize, Serialize};

/// A service to run, from the manifest or from the API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceSpec {
    pub name: ServiceName,
    /// Shell command.
    pub command: String,
    /// Port that the service listens on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "EnvMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub env: EnvMap,
    /// Working directory, absolute or relative to the app directory, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Services that must be ready first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<ServiceName>,
    /// Health check. Absent: a TCP connection to `port` where given, else the service is ready when it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    #[serde(default)]
    pub restart: RestartPolicy,
    /// Whether the service is restarted after each task.
    #[serde(default)]
    pub restart_after_task: bool,
    /// Files or directories below the app directory whose change restarts the service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ServiceHealth))]
#[serde(try_from = "HealthFields")]
pub struct Health {
    #[serde(flatten)]
    pub check: HealthCheck,
    /// Milliseconds between checks once the service is ready.
    pub interval_ms: u64,
    /// Timeout of one check in milliseconds.
    pub timeout_ms: u64,
}

/// The JSON form of a health check: one of the four kinds, and the times.
#[derive(Deserialize)]
struct HealthFields {
    tcp: Option<u16>,
    http: Option<String>,
    log: Option<String>,
    command: Option<String>,
    #[serde(default = "Health::default_interval_ms")]
    interval_ms: u64,
    #[serde(default = "Health::default_timeout_ms")]
    timeout_ms: u64,
}

impl TryFrom<HealthFields> for Health {
    type Error = &'static str;

    fn try_from(fields: HealthFields) -> Result<Self, Self::Error> {
        let HealthFields { tcp, http, log, command, interval_ms, timeout_ms } = fields;
        let check = match (tcp, http, log, command) {
            (Some(port), None, None, None) => HealthCheck::Tcp(port),
            (None, Some(path), None, None) => HealthCheck::Http(path),
            (None, None, Some(pattern), None) => HealthCheck::Log(pattern),
            (None, None, None, Some(line)) => HealthCheck::Command(line),
            _ => return Err("give one of tcp, http, log and command"),
        };
        Ok(Self { check, interval_ms, timeout_ms })
    }
}

impl Health {
    pub fn default_interval_ms() -> u64 {
        10_000
    }

    pub fn default_timeout_ms() -> u64 {
        5_000
    }

    pub fn of(check: HealthCheck) -> Self {
        Self { check, interval_ms: Self::default_interval_ms(), timeout_ms: Self::default_timeout_ms() }
    }
}

/// The condition under which a service is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum HealthCheck {
    /// A loopback port that accepts connections.
    Tcp(u16),
    /// A path on the service's port whose `GET` returns a status below 500.
    Http(String),
    /// A regular expression that a line of output matches.
    Log(String),
    /// A shell command that exits 0.
    Command(String),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RestartPolicy {
    #[default]
    Always,
    OnFailure,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ServiceSource {
    Manifest,
    Api,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ServiceState {
    /// Waits for its dependencies.
    Waiting {
        on: Vec<ServiceName>,
    },
    Starting,
    Ready {
        since_ms: u64,
    },
    /// Runs, but its health check fails.
    Unhealthy {
        since_ms: u64,
        reason: String,
    },
    /// Ended or failed to start; restarted at `next_try_ms`, or at once when a watched file changes.
    Backoff {
        next_try_ms: u64,
        failures: u32,
    },
    Stopping,
    Stopped,
    /// A dependency is stopped for good.
    FailedDependency {
        on: ServiceName,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceView {
    pub name: ServiceName,
    pub source: ServiceSource,
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(flatten)]
    pub state: ServiceState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Number of starts after the first.
    pub restarts: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<Exit>,
    /// Last lines of the log, present while the service is not ready; only of the current run while it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
}

/// The complete set of services from the API: `PUT …/services`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServicesRequest {
    pub services: Vec<ServiceSpec>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_one_of_four_kinds() {
        let parse = |json: &str| serde_json::from_str::<Health>(json).map_err(|error| error.to_string());
        let tcp = Health::of(HealthCheck::Tcp(80));
        assert_eq!(parse(r#"{"tcp": 80}"#), Ok(tcp.clone()));
        assert_eq!(parse(&serde_json::to_string(&tcp).expect("JSON")), Ok(tcp));
        for json in ["{}", r#"{"tcp": 80, "log": "x"}"#, r#"{"interval_ms": 5}"#] {
            assert_eq!(parse(json), Err("give one of tcp, http, log and command".to_owned()), "{json}");
        }
    }
}
