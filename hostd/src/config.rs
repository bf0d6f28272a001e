//! Configuration, out of strings: a TOML file under environment variables. Nothing is opened or bound
//! here; what is wrong is named by its key, with what it may be.

use crate::{
    agents::{BadAgent, Table},
    core::{
        Bounds, Scheme,
        egress::{Asked, Exceptions},
        unsupported,
    },
    limits,
};
use serde::Deserialize;
use std::{fmt, net::SocketAddr, path::PathBuf};

pub const DEFAULT_FILE: &str = "/etc/slipway/slipway.toml";

#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub data_dir: PathBuf,
    pub api_bind: SocketAddr,
    pub preview_bind: SocketAddr,
    pub preview_domain: String,
    /// How browsers reach previews, where that is not how hostd serves them: a proxy is in front.
    pub preview_public: Option<(Scheme, u16)>,
    /// Certificate chain and key, in PEM: previews are served by TLS.
    pub preview_tls: Option<(PathBuf, PathBuf)>,
    pub driver: DriverChoice,
    /// Of Docker or Podman; a usual place unless given.
    pub docker_socket: Option<PathBuf>,
    pub oci_runtime: Option<String>,
    pub image: String,
    /// Registries that an engine may fetch from though they are not of the public network.
    pub image_registries: Vec<String>,
    pub idle_s: u64,
    pub auth: Auth,
    /// Names, beside loopback and the bind address, under which the API may be called.
    pub api_hosts: Vec<String>,
    /// How long a provider of models may say nothing in the middle of an answer.
    pub model_idle_s: u64,
    /// The static runtimed; beside hostd unless given.
    pub runtimed: Option<PathBuf>,
    /// Directories of the host that the image `host` shows beside /usr, read-only.
    pub host_image_dirs: Vec<PathBuf>,
    /// Most that one sandbox may have; the host's unless given.
    pub memory_max_mb: Option<u64>,
    pub cpus_max: Option<f64>,
    /// Space on the data disk below which nothing new is begun; a part of it unless given.
    pub disk_floor_mb: Option<u64>,
    /// The agents there are, and who does a task that names nobody.
    pub agents: Table,
    /// Where they are installed; a usual place unless given.
    pub agents_dir: Option<PathBuf>,
    /// What they are told first, instead of what is built in.
    pub briefing_file: Option<PathBuf>,
    /// What sandboxes may reach though it is not public.
    pub egress_private: Exceptions,
    /// What a task may use of models that says nothing else.
    pub task_budget: Bounds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverChoice {
    /// `oci` where it works, else `docker`.
    Auto,
    Oci,
    Docker,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    Required,
    Off,
}

/// A wrong value: the key, and what it may be.
#[derive(Debug, PartialEq, Eq)]
pub struct BadConfig {
    key: String,
    message: String,
}

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for BadConfig {}

fn bad(key: &str, message: impl Into<String>) -> BadConfig {
    BadConfig { key: key.to_owned(), message: message.into() }
}

/// The file as written; every key may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    data_dir: Option<String>,
    api_bind: Option<String>,
    preview_bind: Option<String>,
    preview_domain: Option<String>,
    preview_public: Option<String>,
    preview_tls_cert: Option<String>,
    preview_tls_key: Option<String>,
    driver: Option<String>,
    docker_socket: Option<String>,
    oci_runtime: Option<String>,
    image: Option<String>,
    image_registries: Vec<String>,
    idle_seconds: Option<u64>,
    model_idle_seconds: Option<u64>,
    auth: Option<String>,
    api_hosts: Vec<String>,
    runtimed: Option<String>,
    host_image_dirs: Vec<String>,
    memory_max_mb: Option<u64>,
    cpus_max: Option<f64>,
    disk_floor_mb: Option<u64>,
    agent: Option<String>,
    agents: toml::Table,
    agents_dir: Option<String>,
    briefing_file: Option<String>,
    egress_private: Vec<String>,
    task_budget: Option<String>,
}

impl Config {
    /// `file` is the text of the TOML file, if there is one; `env` finds an environment variable.
    pub fn parse(file: Option<&str>, env: impl Fn(&str) -> Option<String>) -> Result<Self, BadConfig> {
        let file: File = match file {
            Some(text) => toml::from_str(text)
                .map_err(|error| bad("configuration file", one_line(&error.to_string())))?,
            None => File::default(),
        };
        let text = |key: &str, in_file: &Option<String>, default: &str| {
            env(&variable(key)).or_else(|| in_file.clone()).unwrap_or_else(|| default.to_owned())
        };
        let optional = |key: &str, in_file: &Option<String>| {
            env(&variable(key)).or_else(|| in_file.clone()).filter(|value| !value.is_empty())
        };
        let config = Self {
            data_dir: absolute("data_dir", &text("data_dir", &file.data_dir, "/var/lib/slipway"))?,
            api_bind: address("api_bind", &text("api_bind", &file.api_bind, "127.0.0.1:9090"))?,
            preview_bind: address(
                "preview_bind",
                &text("preview_bind", &file.preview_bind, "127.0.0.1:8080"),
            )?,
            preview_domain: domain(&text("preview_domain", &file.preview_domain, "localhost"))?,
            preview_public: optional("preview_public", &file.preview_public)
                .map(|text| public(&text))
                .transpose()?,
            preview_tls: tls(
                optional("preview_tls_cert", &file.preview_tls_cert),
                optional("preview_tls_key", &file.preview_tls_key),
            )?,
            driver: driver(&text("driver", &file.driver, "auto"))?,
            docker_socket: optional("docker_socket", &file.docker_socket)
                .map(|text| docker_socket(&text))
                .transpose()?,
            oci_runtime: optional("oci_runtime", &file.oci_runtime),
            image: text("image", &file.image, "host"),
            image_registries: registries(list(env(&variable("image_registries")), file.image_registries))?,
            idle_s: number("idle_seconds", env(&variable("idle_seconds")), file.idle_seconds)?
                .unwrap_or(limits::IDLE_DEFAULT_S),
            model_idle_s: number(
                "model_idle_seconds",
                env(&variable("model_idle_seconds")),
                file.model_idle_seconds,
            )?
            .unwrap_or(limits::MODEL_IDLE_DEFAULT_S),
            auth: auth(&text("auth", &file.auth, "required"))?,
            api_hosts: list(env(&variable("api_hosts")), file.api_hosts),
            runtimed: optional("runtimed", &file.runtimed)
                .map(|path| absolute("runtimed", &path))
                .transpose()?,
            host_image_dirs: list(env(&variable("host_image_dirs")), file.host_image_dirs)
                .iter()
                .map(|path| absolute("host_image_dirs", path))
                .collect::<Result<_, _>>()?,
            memory_max_mb: number("memory_max_mb", env(&variable("memory_max_mb")), file.memory_max_mb)?,
            cpus_max: number("cpus_max", env(&variable("cpus_max")), file.cpus_max)?,
            disk_floor_mb: number("disk_floor_mb", env(&variable("disk_floor_mb")), file.disk_floor_mb)?,
            agents: agents(&file.agents, optional("agent", &file.agent).as_deref())?,
            agents_dir: optional("agents_dir", &file.agents_dir)
                .map(|path| absolute("agents_dir", &path))
                .transpose()?,
            briefing_file: optional("briefing_file", &file.briefing_file)
                .map(|path| absolute("briefing_file", &path))
                .transpose()?,
            egress_private: exceptions(&list(env(&variable("egress_private")), file.egress_private))?,
            task_budget: budget(&text("task_budget", &file.task_budget, ""))?,
        };
        config.check()
    }

    /// What must hold between values.
    fn check(self) -> Result<Self, BadConfig> {
        if self.auth == Auth::Off && !self.api_bind.ip().is_loopback() {
            return Err(bad("SLIPWAY_AUTH", "may be off only when SLIPWAY_API_BIND is a loopback address"));
        }
        if self.idle_s == 0 {
            return Err(bad(
                "SLIPWAY_IDLE_SECONDS",
                "must be at least 1; a sandbox stays up with idle_policy always_on",
            ));
        }
        if self.model_idle_s == 0 {
            return Err(bad("SLIPWAY_MODEL_IDLE_SECONDS", "must be at least 1"));
        }
        if self.cpus_max.is_some_and(|cpus| !cpus.is_finite() || cpus < limits::CPUS_MIN) {
            return Err(bad("SLIPWAY_CPUS_MAX", format!("must be at least {}", limits::CPUS_MIN)));
        }
        if self.memory_max_mb.is_some_and(|mb| mb < limits::MEMORY_MIN_MB) {
            return Err(bad("SLIPWAY_MEMORY_MAX_MB", format!("must be at least {}", limits::MEMORY_MIN_MB)));
        }
        Ok(self)
    }
}

fn agents(given: &toml::Table, default: Option<&str>) -> Result<Table, BadConfig> {
    let wrong = |BadAgent { key, message }: BadAgent| {
        // Agents are in the file alone; who is the default may be in the environment.
        bad(&if key == "agent" { variable(&key) } else { key }, message)
    };
    let table = Table::new(given).map_err(wrong)?;
    match default {
        Some(name) => table.with_default(name).map_err(wrong),
        None => Ok(table),
    }
}

fn variable(key: &str) -> String {
    format!("SLIPWAY_{}", key.to_ascii_uppercase())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn absolute(key: &str, text: &str) -> Result<PathBuf, BadConfig> {
    let path = PathBuf::from(text);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(bad(&variable(key), format!("must be an absolute path, not {text:?}")))
    }
}

fn address(key: &str, text: &str) -> Result<SocketAddr, BadConfig> {
    text.parse().map_err(|_| {
        bad(&variable(key), format!("must be an address and a port, as in 127.0.0.1:9090, not {text:?}"))
    })
}

fn domain(text: &str) -> Result<String, BadConfig> {
    let label = |part: &str| {
        let safe = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        !part.is_empty() && part.len() <= 63 && part.bytes().all(safe)
    };
    let good = text.len() <= 200 && text.split('.').all(label);
    let wrong =
        || bad("SLIPWAY_PREVIEW_DOMAIN", format!("must be a domain name, as in example.com, not {text:?}"));
    if good { Ok(text.to_ascii_lowercase()) } else { Err(wrong()) }
}

fn public(text: &str) -> Result<(Scheme, u16), BadConfig> {
    let wrong = || {
        let message =
            format!("must be http or https, with a port if it is another, as in https:8443, not {text:?}");
        bad("SLIPWAY_PREVIEW_PUBLIC", message)
    };
    let (word, port) = text.split_once(':').map_or((text, None), |(word, port)| (word, Some(port)));
    let scheme = match word {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ => return Err(wrong()),
    };
    let port = port.map(|port| port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)).transpose()?;
    Ok((scheme, port.unwrap_or_else(|| scheme.port())))
}

fn tls(cert: Option<String>, key: Option<String>) -> Result<Option<(PathBuf, PathBuf)>, BadConfig> {
    match (cert, key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => {
            Ok(Some((absolute("preview_tls_cert", &cert)?, absolute("preview_tls_key", &key)?)))
        }
        (Some(_), None) => Err(bad("SLIPWAY_PREVIEW_TLS_KEY", "must be given with SLIPWAY_PREVIEW_TLS_CERT")),
        (None, Some(_)) => Err(bad("SLIPWAY_PREVIEW_TLS_CERT", "must be given with SLIPWAY_PREVIEW_TLS_KEY")),
    }
}

fn driver(text: &str) -> Result<DriverChoice, BadConfig> {
    match text {
        "auto" => Ok(DriverChoice::Auto),
        "oci" => Ok(DriverChoice::Oci),
        "docker" => Ok(DriverChoice::Docker),
        other => {
            let why = unsupported(other).map(|known| format!("; {}", known.why)).unwrap_or_default();
            let message = format!("must be auto, oci or docker: there is no driver {other:?}{why}");
            Err(bad("SLIPWAY_DRIVER", message))
        }
    }
}

/// A path, also in the form that DOCKER_HOST has.
fn docker_socket(text: &str) -> Result<PathBuf, BadConfig> {
    let path = PathBuf::from(text.strip_prefix("unix://").unwrap_or(text));
    if path.is_absolute() {
        return Ok(path);
    }
    let message = format!(
        "must be the path of a Unix socket on this machine, as in /var/run/docker.sock, not {text:?}"
    );
    Err(bad("SLIPWAY_DOCKER_SOCKET", message))
}

fn auth(text: &str) -> Result<Auth, BadConfig> {
    match text {
        "required" => Ok(Auth::Required),
        "off" => Ok(Auth::Off),
        other => Err(bad("SLIPWAY_AUTH", format!("must be required or off, not {other:?}"))),
    }
}

fn registries(list: Vec<String>) -> Result<Vec<String>, BadConfig> {
    match list.iter().find(|one| Asked::parse(one, Some(443)).is_err()) {
        None => Ok(list),
        Some(wrong) => {
            let message =
                format!("must be hosts, with a port if it is written, as in 10.0.0.5:5000, not {wrong:?}");
            Err(bad("SLIPWAY_IMAGE_REGISTRIES", message))
        }
    }
}

fn exceptions(list: &[String]) -> Result<Exceptions, BadConfig> {
    Exceptions::parse(list).map_err(|error| {
        bad("SLIPWAY_EGRESS_PRIVATE", format!("must be hosts and ports, as in 10.0.0.5:443: {error}"))
    })
}

fn number<T: std::str::FromStr>(
    key: &str,
    in_env: Option<String>,
    in_file: Option<T>,
) -> Result<Option<T>, BadConfig> {
    match in_env.filter(|text| !text.is_empty()) {
        Some(text) => {
            text.parse().map(Some).map_err(|_| bad(&variable(key), format!("must be a number, not {text:?}")))
        }
        None => Ok(in_file),
    }
}

/// As in `tokens=2000000,cost_usd=5,requests=500`; what is absent has no bound.
fn budget(text: &str) -> Result<Bounds, BadConfig> {
    const MICRO: f64 = 1_000_000.0;
    let wrong = || {
        let message = format!("must be as in tokens=2000000,cost_usd=5,requests=500, not {text:?}");
        bad("SLIPWAY_TASK_BUDGET", message)
    };
    let mut bounds = Bounds::default();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(wrong)?;
        let count = || value.parse::<u64>().ok().filter(|count| *count > 0).ok_or_else(wrong);
        match name.trim() {
            "tokens" => bounds.tokens = Some(count()?),
            "requests" => bounds.requests = Some(count()?),
            "cost_usd" => {
                let usd: f64 = value.parse().map_err(|_| wrong())?;
                let micro = (usd * MICRO).round();
                bounds.cost_micro_usd = Some((micro >= 1.0).then_some(micro as u64).ok_or_else(wrong)?);
            }
            _ => return Err(wrong()),
        }
    }
    Ok(bounds)
}

/// In the environment: separated by commas.
fn list(in_env: Option<String>, in_file: Vec<String>) -> Vec<String> {
    let parts = |text: String| {
        text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
    };
    in_env.map_or(in_file, parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(file: Option<&str>, env: &[(&str, &str)]) -> Result<Config, String> {
        let find =
            |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Config::parse(file, find).map_err(|error| error.to_string())
    }

    #[test]
    fn everything_has_a_default_and_the_environment_wins() {
        let config = parse(None, &[]).expect("defaults");
        assert_eq!(config.data_dir, PathBuf::from("/var/lib/slipway"));
        assert_eq!((config.idle_s, config.auth), (2100, Auth::Required));
        let config = parse(Some("task_budget = \"tokens=9, cost_usd=0.5\""), &[]).expect("a budget");
        let expected = Bounds { tokens: Some(9), cost_micro_usd: Some(500_000), requests: None };
        assert_eq!(config.task_budget, expected);
        for (given, path) in
            [("unix:///run/x.sock", Some("/run/x.sock")), ("/y.sock", Some("/y.sock")), ("", None)]
        {
            let config = parse(None, &[("SLIPWAY_DOCKER_SOCKET", given)]).expect("a socket");
            assert_eq!(config.docker_socket, path.map(PathBuf::from));
        }
        let file = "idle_seconds = 5\napi_bind = \"127.0.0.1:0\"";
        let config = parse(Some(file), &[("SLIPWAY_IDLE_SECONDS", "7")]).expect("both");
        assert_eq!((config.idle_s, config.api_bind.port()), (7, 0));
    }

    /// A file, a variable, and what is said.
    const WRONG: &[(Option<&str>, (&str, &str), &str)] = &[
        (
            None,
            ("SLIPWAY_API_BIND", "nine"),
            "SLIPWAY_API_BIND: must be an address and a port, as in 127.0.0.1:9090, not \"nine\"",
        ),
        (None, ("SLIPWAY_DATA_DIR", "data"), "SLIPWAY_DATA_DIR: must be an absolute path, not \"data\""),
        (
            None,
            ("SLIPWAY_DRIVER", "lima"),
            "SLIPWAY_DRIVER: must be auto, oci or docker: there is no driver \"lima\"; hostd does not start virtual machines: run hostd inside the Linux machine, with the driver oci or docker",
        ),
        (
            None,
            ("SLIPWAY_DRIVER", "dokcer"),
            "SLIPWAY_DRIVER: must be auto, oci or docker: there is no driver \"dokcer\"",
        ),
        (
            None,
            ("SLIPWAY_DOCKER_SOCKET", "tcp://10.0.0.1:2375"),
            "SLIPWAY_DOCKER_SOCKET: must be the path of a Unix socket on this machine, as in /var/run/docker.sock, not \"tcp://10.0.0.1:2375\"",
        ),
        (None, ("SLIPWAY_AUTH", "on"), "SLIPWAY_AUTH: must be required or off, not \"on\""),
        (None, ("SLIPWAY_IDLE_SECONDS", "x"), "SLIPWAY_IDLE_SECONDS: must be a number, not \"x\""),
        (
            None,
            ("SLIPWAY_IDLE_SECONDS", "0"),
            "SLIPWAY_IDLE_SECONDS: must be at least 1; a sandbox stays up with idle_policy always_on",
        ),
        (None, ("SLIPWAY_MODEL_IDLE_SECONDS", "0"), "SLIPWAY_MODEL_IDLE_SECONDS: must be at least 1"),
        (
            None,
            ("SLIPWAY_TASK_BUDGET", "tokens=0"),
            "SLIPWAY_TASK_BUDGET: must be as in tokens=2000000,cost_usd=5,requests=500, not \"tokens=0\"",
        ),
        (
            None,
            ("SLIPWAY_PREVIEW_DOMAIN", "a b"),
            "SLIPWAY_PREVIEW_DOMAIN: must be a domain name, as in example.com, not \"a b\"",
        ),
        (
            None,
            ("SLIPWAY_PREVIEW_PUBLIC", "ftp"),
            "SLIPWAY_PREVIEW_PUBLIC: must be http or https, with a port if it is another, as in https:8443, not \"ftp\"",
        ),
        (
            None,
            ("SLIPWAY_PREVIEW_TLS_CERT", "/cert.pem"),
            "SLIPWAY_PREVIEW_TLS_KEY: must be given with SLIPWAY_PREVIEW_TLS_CERT",
        ),
        (
            None,
            ("SLIPWAY_IMAGE_REGISTRIES", "a.example, 10.0.0.5:5000/app"),
            "SLIPWAY_IMAGE_REGISTRIES: must be hosts, with a port if it is written, as in 10.0.0.5:5000, not \"10.0.0.5:5000/app\"",
        ),
        (
            None,
            ("SLIPWAY_EGRESS_PRIVATE", "10.0.0.5:x"),
            "SLIPWAY_EGRESS_PRIVATE: must be hosts and ports, as in 10.0.0.5:443: \"10.0.0.5:x\" has no good port: write 443, or 80,443, or 8000-8999",
        ),
        (
            Some("auth = \"off\""),
            ("SLIPWAY_API_BIND", "0.0.0.0:9090"),
            "SLIPWAY_AUTH: may be off only when SLIPWAY_API_BIND is a loopback address",
        ),
    ];

    #[test]
    fn what_is_wrong_is_named() {
        for (file, variable, expected) in WRONG {
            assert_eq!(parse(*file, &[*variable]).expect_err("refused"), *expected);
        }
        let agent = parse(Some("[agents.mine]\nspeaks = \"acp\""), &[]).expect_err("refused");
        assert!(agent.starts_with("agents.mine.find: must be "), "{agent}");
        let nobody = parse(None, &[("SLIPWAY_AGENT", "nobody")]).expect_err("refused");
        assert!(nobody.starts_with("SLIPWAY_AGENT: there is no agent \"nobody\"; there are: "), "{nobody}");
        let unknown = parse(Some("idle = 3"), &[]).expect_err("refused");
        assert!(unknown.contains("unknown field `idle`"), "{unknown}");
    }
}
