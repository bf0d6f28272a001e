//! Who answers, and in which version of the API.

use super::{
    EngineError, Meeting,
    client::{Ask, Engine, parsed},
    limits::{LIST_WITHIN, PING_WITHIN},
    words,
};
use hyper::Method;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

const ASK_VERSION: &str = "say its version";
const ASK_ABOUT: &str = "describe itself";

/// Docker 20.10, and what Podman speaks.
const OLDEST: Api = Api { major: 1, minor: 41 };
/// The newest that this was written for.
const NEWEST: Api = Api { major: 1, minor: 51 };

/// A version of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Api {
    major: u16,
    minor: u16,
}

/// What holds until the daemon is another.
#[derive(Debug, Clone, Copy)]
pub struct Agreement {
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
struct Version {
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
struct About {
    default_runtime: String,
    /// Only the names matter.
    runtimes: Option<BTreeMap<String, serde::de::IgnoredAny>>,
    security_options: Option<Vec<String>>,
    docker_root_dir: String,
    cgroup_version: String,
    memory_limit: bool,
    pids_limit: bool,
    cpu_cfs_quota: bool,
}

impl Engine {
    /// Asks who it is and agrees on a version of the API: ours or theirs, whichever is lower. To be asked
    /// again whenever the daemon was away: it may have been replaced.
    pub async fn meet(&self) -> Result<Meeting, EngineError> {
        let (version, agreement) = self.version().await?;
        self.agree_on(Some(agreement));
        let about = self.ask_json(Ask::new(ASK_ABOUT, Method::GET, "/info").within(LIST_WITHIN)).await?;
        Ok(meeting(&version, agreement, about))
    }

    /// Whether it is there at all.
    pub async fn ping(&self) -> Result<(), EngineError> {
        let ask = Ask::new("give a sign of life", Method::GET, "/_ping").within(PING_WITHIN);
        self.ask_plainly(ask).await.map(drop)
    }

    pub(super) async fn agree(&self) -> Result<Agreement, EngineError> {
        let (_, agreement) = self.version().await?;
        self.agree_on(Some(agreement));
        Ok(agreement)
    }

    async fn version(&self) -> Result<(Version, Agreement), EngineError> {
        let answer = self.ask_plainly(Ask::new(ASK_VERSION, Method::GET, "/version")).await?;
        let version: Version = parsed(ASK_VERSION, &answer)?;
        let api = common(&version.min_api_version, &version.api_version)?;
        let podman = version.components.iter().any(|component| component.name.starts_with("Podman"));
        Ok((version, Agreement { api, podman }))
    }
}

/// The newest version that both speak.
fn common(min: &str, max: &str) -> Result<Api, EngineError> {
    let unfit = || EngineError::Version {
        min: words::short(min),
        max: words::short(max),
        needed: format!("one of {OLDEST} to {NEWEST}"),
    };
    let theirs = Api::parse(max).ok_or_else(unfit)?;
    // Very old ones do not say their oldest; they are too old by their newest.
    let oldest = if min.is_empty() { OLDEST } else { Api::parse(min).ok_or_else(unfit)? };
    let api = theirs.min(NEWEST);
    if api < OLDEST || api < oldest { Err(unfit()) } else { Ok(api) }
}

fn meeting(version: &Version, agreement: Agreement, about: About) -> Meeting {
    let Agreement { api, podman } = agreement;
    let name = if podman { "Podman" } else { "Docker" };
    let others: BTreeSet<String> = about.runtimes.unwrap_or_default().into_keys().collect();
    let mut runtimes: Vec<String> =
        others.into_iter().filter(|name| *name != about.default_runtime).collect();
    if !about.default_runtime.is_empty() {
        runtimes.insert(0, about.default_runtime);
    }
    Meeting {
        version: format!("{name} {}", words::short(&version.version)),
        podman,
        api: api.to_string(),
        runtimes,
        security: about.security_options.unwrap_or_default(),
        root_dir: about.docker_root_dir,
        cgroup_version: about.cgroup_version.parse().unwrap_or(0),
        memory_limit: about.memory_limit,
        pids_limit: about.pids_limit,
        cpu_limit: about.cpu_cfs_quota,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_both_speak() {
        for (min, max, agreed) in [
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
            let found = common(min, max).ok().map(|api| api.to_string());
            assert_eq!(found.as_deref(), agreed, "{min} to {max}");
        }
    }
}
