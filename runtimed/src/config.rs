//! Configuration from environment variables, without side effects. An error is one line that names the
//! variable and what is allowed.

use crate::limits::{LOG_QUOTA_DEFAULT_BYTES, SHUTDOWN_DEFAULT_MS};
use crate::sys::fs_identity::Identity;
use nix::unistd::{Gid, Uid};
use protocol::{EnvMap, IMAGE_ENV_VARIABLE};
use std::path::PathBuf;

#[derive(Debug, Clone)]
pub struct Config {
    /// Root-only directory: control socket, records and logs.
    pub control_dir: PathBuf,
    /// The socket that sandboxed code may use.
    pub public_socket: PathBuf,
    /// The user that all jobs run as.
    pub uid: u32,
    pub gid: u32,
    pub user: String,
    pub home: PathBuf,
    /// Directory of the app, with the manifest `sandbox.yaml`.
    pub app_dir: PathBuf,
    pub log_quota_bytes: u64,
    pub shutdown_ms: u64,
    /// Whether jobs are pointed to hostd's proxy on loopback.
    pub proxy: bool,
    /// Whether services of the manifest wait until the API has set its own.
    pub services_held: bool,
    /// Variables of the image, for jobs.
    pub image_env: EnvMap,
    /// Enables routes that cause faults, for tests.
    pub faults: bool,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {value:?}: it must be {must}")]
pub struct BadValue {
    pub name: &'static str,
    pub value: String,
    pub must: &'static str,
}

/// The variables, for `--help`: name, default, meaning.
pub const VARIABLES: [(&str, &str, &str); 12] = [
    ("RUNTIMED_DIR", "/run/runtimed", "control directory: socket, records, logs; root only"),
    ("RUNTIMED_PUBLIC_SOCKET", "/run/slipway/sock", "socket for the sandboxed code"),
    ("RUNTIMED_UID", "1000", "user id of everything that is started"),
    ("RUNTIMED_GID", "1000", "group id of everything that is started"),
    ("RUNTIMED_USER", "sandbox", "its name, for $USER"),
    ("RUNTIMED_HOME", "/home/sandbox", "its home, the workspace"),
    ("RUNTIMED_APP_DIR", "$RUNTIMED_HOME/workspace/app", "where the app and sandbox.yaml are"),
    ("RUNTIMED_LOG_BUDGET_MB", "512", "disk space for all logs together"),
    ("RUNTIMED_SHUTDOWN_MS", "8000", "how long a shutdown may take in all"),
    ("RUNTIMED_EGRESS", "none", "proxy: jobs are shown hostd's proxy at 127.0.0.1:900"),
    ("RUNTIMED_SERVICES", "start", "held: those of sandbox.yaml wait until the API has set its own"),
    (IMAGE_ENV_VARIABLE, "{}", "variables of the image, for jobs: a JSON object of texts"),
];

impl Config {
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Result<Self, BadValue> {
        let text = |name: &str, default: &str| get(name).unwrap_or_else(|| default.to_owned());
        let path = |name: &'static str, default: String| {
            let value = get(name).unwrap_or(default);
            // Invalid UTF-8 was replaced by marks, so this would be another path than meant.
            let is_text = !value.contains(char::REPLACEMENT_CHARACTER);
            if value.starts_with('/') && is_text {
                Ok(PathBuf::from(value))
            } else {
                Err(bad(name, value, "an absolute path"))
            }
        };
        let number = |name: &'static str, default: u64, range: std::ops::RangeInclusive<u64>, must| {
            let value = text(name, &default.to_string());
            value.parse().ok().filter(|n| range.contains(n)).ok_or_else(|| bad(name, value, must))
        };
        let proxy = match text("RUNTIMED_EGRESS", "none").as_str() {
            "none" => false,
            "proxy" => true,
            other => return Err(bad("RUNTIMED_EGRESS", other.to_owned(), "none or proxy")),
        };
        let services_held = match text("RUNTIMED_SERVICES", "start").as_str() {
            "start" => false,
            "held" => true,
            other => return Err(bad("RUNTIMED_SERVICES", other.to_owned(), "start or held")),
        };
        let image_env = text(IMAGE_ENV_VARIABLE, "{}");
        let image_env = serde_json::from_str(&image_env)
            .map_err(|_| bad(IMAGE_ENV_VARIABLE, image_env, "a JSON object of texts"))?;
        let home = path("RUNTIMED_HOME", "/home/sandbox".into())?;
        let id = |name| number(name, 1000, 1..=u64::from(u32::MAX - 1), "a user or group id above 0");
        let quota_mb =
            number("RUNTIMED_LOG_BUDGET_MB", LOG_QUOTA_DEFAULT_BYTES >> 20, 16..=1 << 20, "16 to 1048576")?;
        Ok(Self {
            control_dir: path("RUNTIMED_DIR", "/run/runtimed".into())?,
            public_socket: path("RUNTIMED_PUBLIC_SOCKET", "/run/slipway/sock".into())?,
            uid: id("RUNTIMED_UID")? as u32,
            gid: id("RUNTIMED_GID")? as u32,
            user: text("RUNTIMED_USER", "sandbox"),
            app_dir: path("RUNTIMED_APP_DIR", format!("{}/workspace/app", home.display()))?,
            home,
            log_quota_bytes: quota_mb << 20,
            shutdown_ms: number("RUNTIMED_SHUTDOWN_MS", SHUTDOWN_DEFAULT_MS, 100..=600_000, "100 to 600000")?,
            proxy,
            services_held,
            image_env,
            faults: get("RUNTIMED_FAULTS").is_some_and(|value| value == "1"),
        })
    }

    pub fn identity(&self) -> Identity {
        Identity { uid: Uid::from_raw(self.uid), gid: Gid::from_raw(self.gid) }
    }
}

fn bad(name: &'static str, value: String, must: &'static str) -> BadValue {
    BadValue { name, value, must }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pairs: &[(&str, &str)]) -> Result<Config, String> {
        let find = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Config::from_env(find).map_err(|error| error.to_string())
    }

    #[test]
    fn the_app_lives_under_the_home() {
        let config = config(&[("RUNTIMED_HOME", "/ws")]).expect("a good home");
        assert_eq!(config.app_dir, PathBuf::from("/ws/workspace/app"));
        assert_eq!((config.uid, config.shutdown_ms), (1000, 8000));
    }

    #[test]
    fn a_wrong_value_names_its_variable() {
        for (name, value, expected) in [
            ("RUNTIMED_UID", "0", "RUNTIMED_UID is \"0\": it must be a user or group id above 0"),
            ("RUNTIMED_DIR", "x", "RUNTIMED_DIR is \"x\": it must be an absolute path"),
            ("RUNTIMED_LOG_BUDGET_MB", "1", "RUNTIMED_LOG_BUDGET_MB is \"1\": it must be 16 to 1048576"),
            ("RUNTIMED_EGRESS", "open", "RUNTIMED_EGRESS is \"open\": it must be none or proxy"),
            ("RUNTIMED_IMAGE_ENV", "[]", "RUNTIMED_IMAGE_ENV is \"[]\": it must be a JSON object of texts"),
            ("RUNTIMED_SHUTDOWN_MS", "soon", "RUNTIMED_SHUTDOWN_MS is \"soon\": it must be 100 to 600000"),
        ] {
            assert_eq!(config(&[(name, value)]).map(drop), Err(expected.to_owned()));
        }
    }

    #[test]
    fn the_manual_page_lists_the_variables() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/man/runtimed.8");
        let page = std::fs::read_to_string(page).expect("docs/man/runtimed.8");
        let entries = VARIABLES
            .map(|(name, default, meaning)| format!(".TP\n.B {name}\n{meaning} (default: {default}).\n"));
        let list = entries.concat().replace('-', "\\-");
        assert!(page.contains(&list), "docs/man/runtimed.8 must contain this list:\n{list}");
    }
}
