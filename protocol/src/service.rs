//! Services: processes that should keep running.

use crate::{EnvMap, Exit, ServiceName};
use serde::{Deserialize, Serialize};

/// How to run one service, from the manifest or from the API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceSpec {
    pub name: ServiceName,
    /// A shell line.
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default, skip_serializing_if = "EnvMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub env: EnvMap,
    /// Absolute, or relative to the app directory, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<ServiceName>,
    /// Absent: the port where there is one, else running is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    #[serde(default)]
    pub restart: RestartPolicy,
    #[serde(default)]
    pub restart_after_task: bool,
    /// Files or directories, relative to the app directory, whose change restarts the service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ServiceHealth))]
#[serde(try_from = "HealthFields")]
pub struct Health {
    #[serde(flatten)]
    pub check: HealthCheck,
    /// Between checks once ready.
    pub interval_ms: u64,
    /// For one check.
    pub timeout_ms: u64,
}

/// A check as it is written: one of the four kinds, beside the times.
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

/// When a service counts as ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum HealthCheck {
    /// Something accepts connections on this loopback port.
    Tcp(u16),
    /// `GET` on this path of the service's port answers below 500.
    Http(String),
    /// A line of output matches this regular expression.
    Log(String),
    /// This shell line exits 0.
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
    /// Waits for what it depends on.
    Waiting {
        on: Vec<ServiceName>,
    },
    Starting,
    Ready {
        since_ms: u64,
    },
    /// Runs, and its check fails now.
    Unhealthy {
        since_ms: u64,
        reason: String,
    },
    /// Ended or could not start; tried again at `next_try_ms`, or at once when a file changes.
    Backoff {
        next_try_ms: u64,
        failures: u32,
    },
    Stopping,
    Stopped,
    /// Something it depends on is stopped for good.
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
    /// Starts after the first.
    pub restarts: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<Exit>,
    /// The end of the log, given while the service is not well: of this start alone while it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
}

/// `PUT /v1/services`: the whole set of services that come from the API.
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
