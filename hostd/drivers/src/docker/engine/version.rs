//! Identifies the engine and negotiates the API version.

use super::{
    EngineError, EngineInfo,
    client::{Engine, EngineRequest, parse_json},
    error_response,
    limits::{LIST_DEADLINE, PING_DEADLINE},
};
use hyper::Method;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

const GET_VERSION: &str = "report its version";
const GET_INFO: &str = "describe itself";

/// Docker 20.10 and Podman 4.
const OLDEST: Api = Api { major: 1, minor: 41 };
/// The newest version that this client was written for.
const NEWEST: Api = Api { major: 1, minor: 51 };

/// A version of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Api {
    major: u16,
    minor: u16,
}

/// API version and kind of engine; valid until the daemon is replaced.
#[derive(Debug, Clone, Copy)]
pub struct NegotiatedVersion {
    pub api: Api,
    pub podman: bool,
}

impl Api {
    fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct VersionResponse {
    #[serde(default)]
    version: String,
    api_version: String,
    #[serde(rename = "MinAPIVersion", default)]
    min_api_version: String,
    #[serde(default)]
    components: Vec<Component>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Component {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct InfoResponse {
    default_runtime: String,
    /// Keyed by name; the values are not used.
    runtimes: Option<BTreeMap<String, serde::de::IgnoredAny>>,
    security_options: Option<Vec<String>>,
    docker_root_dir: String,
    cgroup_version: String,
    memory_limit: bool,
    pids_limit: bool,
    cpu_cfs_quota: bool,
}

impl Engine {
    /// Identifies the engine and negotiates the API version: the lower of both sides' newest. Repeat after
    /// every reconnect: the daemon may have been replaced.
    pub async fn connect(&self) -> Result<EngineInfo, EngineError> {
        let (version, negotiated) = self.version().await?;
        self.set_negotiated(Some(negotiated));
        let info = self
            .call_json(EngineRequest::new(GET_INFO, Method::GET, "/info").deadline(LIST_DEADLINE))
            .await?;
        Ok(engine_info(&version, negotiated, info))
    }

    /// Checks that the daemon answers at all.
    pub async fn ping(&self) -> Result<(), EngineError> {
        let request = EngineRequest::new("answer a ping", Method::GET, "/_ping").deadline(PING_DEADLINE);
        self.call_unversioned(request).await.map(drop)
    }

    pub(super) async fn negotiate(&self) -> Result<NegotiatedVersion, EngineError> {
        let (_, negotiated) = self.version().await?;
        self.set_negotiated(Some(negotiated));
        Ok(negotiated)
    }

    async fn version(&self) -> Result<(VersionResponse, NegotiatedVersion), EngineError> {
        let answer = self.call_unversioned(EngineRequest::new(GET_VERSION, Method::GET, "/version")).await?;
        let version: VersionResponse = parse_json(GET_VERSION, &answer)?;
        let api = highest_common(&version.min_api_version, &version.api_version)?;
        let podman = version.components.iter().any(|component| component.name.starts_with("Podman"));
        Ok((version, NegotiatedVersion { api, podman }))
    }
}

/// The newest version that both sides speak.
fn highest_common(min: &str, max: &str) -> Result<Api, EngineError> {
    let unsupported = || EngineError::UnsupportedVersion {
        min: error_response::sanitize(min),
        max: error_response::sanitize(max),
        needed: format!("one of {OLDEST} to {NEWEST}"),
    };
    let theirs = Api::parse(max).ok_or_else(unsupported)?;
    // Very old daemons do not say their oldest version; their newest is too old already.
    let oldest = if min.is_empty() { OLDEST } else { Api::parse(min).ok_or_else(unsupported)? };
    let api = theirs.min(NEWEST);
    if api < OLDEST || api < oldest { Err(unsupported()) } else { Ok(api) }
}

fn engine_info(version: &VersionResponse, negotiated: NegotiatedVersion, info: InfoResponse) -> EngineInfo {
    let NegotiatedVersion { api, podman } = negotiated;
    let name = if podman { "Podman" } else { "Docker" };
    let others: BTreeSet<String> = info.runtimes.unwrap_or_default().into_keys().collect();
    let mut runtimes: Vec<String> = others.into_iter().filter(|name| *name != info.default_runtime).collect();
    if !info.default_runtime.is_empty() {
        runtimes.insert(0, info.default_runtime);
    }
    let supported =
        [("memory", info.memory_limit), ("processes", info.pids_limit), ("cpu", info.cpu_cfs_quota)];
    EngineInfo {
        version: format!("{name} {}", error_response::sanitize(&version.version)),
        podman,
        api: api.to_string(),
        runtimes,
        security: info.security_options.unwrap_or_default(),
        root_dir: info.docker_root_dir,
        cgroup_version: info.cgroup_version.parse().unwrap_or(0),
        missing_limits: supported.into_iter().filter(|(_, can)| !can).map(|(limit, _)| limit).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_both_speak() {
        for (min, max, negotiated) in [
            ("1.12", "1.41", Some("1.41")),
            ("1.24", "1.43", Some("1.43")),
            ("1.44", "1.52", Some("1.51")),
            ("1.51", "1.51", Some("1.51")),
            ("", "1.41", Some("1.41")),
            ("1.52", "1.60", None),
            ("1.12", "1.40", None),
            ("", "1.9", None),
            ("1.24", "", None),
            ("1.24", "one", None),
            ("1.24", "1.99999999", None),
        ] {
            let found = highest_common(min, max).ok().map(|api| api.to_string());
            assert_eq!(found.as_deref(), negotiated, "{min} to {max}");
        }
    }
}
