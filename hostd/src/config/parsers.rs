//! Parsers of single values. An error names the key and what its value may be.

use super::{Auth, ConfigError, DriverChoice, Files, bad, keys::variable};
use crate::agents::{AgentConfigError, AgentTable};
use hostd_clients::Protocol;
use hostd_core::{
    BudgetBounds, Scheme,
    egress::{Destination, Exceptions},
    limits::METRICS_SANDBOXES_MAX,
    parse_duration_ms, parse_quota, unsupported_driver,
};
use hostd_drivers::{QuotaChoice, SnapshotMethodSetting};
use hostd_store::HistoryPolicy;
use protocol::api::Quota;
use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf};

pub fn agents(given: &toml::Table, default: Option<&str>) -> Result<AgentTable, ConfigError> {
    let wrong = |AgentConfigError { key, message }: AgentConfigError| {
        // Agents are defined in the file only; the default agent may be in the environment.
        bad(&if key == "agent" { variable(&key) } else { key }, message)
    };
    let table = AgentTable::new(given).map_err(wrong)?;
    match default {
        Some(name) => table.with_default(name).map_err(wrong),
        None => Ok(table),
    }
}

pub fn history(keep: &str, events: Option<u64>) -> Result<HistoryPolicy, ConfigError> {
    let keep_ms = parse_duration_ms(keep);
    let keep_ms = keep_ms.map_err(|why| bad(&variable("history_keep"), format!("{why}, not {keep:?}")))?;
    Ok(HistoryPolicy { keep_ms, keep_events: events.filter(|events| *events > 0) })
}

pub fn absolute(key: &str, text: &str) -> Result<PathBuf, ConfigError> {
    let path = PathBuf::from(text);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(bad(&variable(key), format!("must be an absolute path, not {text:?}")))
    }
}

pub fn address(key: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    text.parse().map_err(|_| {
        bad(&variable(key), format!("must be an address and a port, as in 127.0.0.1:9090, not {text:?}"))
    })
}

pub fn clients(text: &str) -> Result<BTreeSet<Protocol>, ConfigError> {
    if text == "none" {
        return Ok(BTreeSet::new());
    }
    let mut enabled = BTreeSet::new();
    for name in text.split(',').map(str::trim) {
        let named = Protocol::ALL.into_iter().filter(|protocol| protocol.name() == name);
        let before = enabled.len();
        enabled.extend(named);
        if enabled.len() == before {
            let message = format!(
                "must be none, or names from e2b, cloudflare, mcp, acp and opensandbox, each once, not {text:?}"
            );
            return Err(bad("SLIPWAY_CLIENTS", message));
        }
    }
    Ok(enabled)
}

pub fn domain(text: &str) -> Result<String, ConfigError> {
    let label = |part: &str| {
        let safe = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        !part.is_empty() && part.len() <= 63 && part.bytes().all(safe)
    };
    let good = text.len() <= 200 && text.split('.').all(label);
    let wrong =
        || bad("SLIPWAY_PREVIEW_DOMAIN", format!("must be a domain name, as in example.com, not {text:?}"));
    if good { Ok(text.to_ascii_lowercase()) } else { Err(wrong()) }
}

pub fn public(text: &str) -> Result<(Scheme, u16), ConfigError> {
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

/// Parses the files of `<listener>_tls_cert` and `<listener>_tls_key`: both or none.
pub fn tls(
    listener: &str,
    cert: Option<String>,
    key: Option<String>,
) -> Result<Option<(PathBuf, PathBuf)>, ConfigError> {
    let (cert_name, key_name) = (format!("{listener}_tls_cert"), format!("{listener}_tls_key"));
    let missing = |name: &str, given: &str| {
        Err(bad(&variable(name), format!("must be given with {}", variable(given))))
    };
    match (cert, key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some((absolute(&cert_name, &cert)?, absolute(&key_name, &key)?))),
        (Some(_), None) => missing(&key_name, &cert_name),
        (None, Some(_)) => missing(&cert_name, &key_name),
    }
}

pub fn driver(text: &str) -> Result<DriverChoice, ConfigError> {
    match text {
        "auto" => Ok(DriverChoice::Auto),
        "oci" => Ok(DriverChoice::Oci),
        "docker" => Ok(DriverChoice::Docker),
        other => {
            let why =
                unsupported_driver(other).map(|known| format!("; {}", known.reason)).unwrap_or_default();
            let message = format!("must be auto, oci or docker: there is no driver {other:?}{why}");
            Err(bad("SLIPWAY_DRIVER", message))
        }
    }
}

pub fn quota(text: &str) -> Result<QuotaChoice, ConfigError> {
    let wrong = |()| bad("SLIPWAY_QUOTA", format!("must be auto, project, loop or measured, not {text:?}"));
    text.parse().map_err(wrong)
}

pub fn snapshots(text: &str) -> Result<SnapshotMethodSetting, ConfigError> {
    let wrong = |()| bad("SLIPWAY_SNAPSHOTS", format!("must be auto, btrfs, overlay or copy, not {text:?}"));
    text.parse().map_err(wrong)
}

/// Parses the quota of tenants or principals without one of their own.
pub fn owner_quota(key: &str, text: Option<String>) -> Result<Option<Quota>, ConfigError> {
    let wrong = |why| bad(&variable(key), format!("must be as in sandboxes=20,running=5,memory=8g: {why}"));
    text.map(|text| parse_quota(&text).map_err(wrong)).transpose()
}

/// Parses a path, also with the `unix://` of DOCKER_HOST.
pub fn docker_socket(text: &str) -> Result<PathBuf, ConfigError> {
    let path = PathBuf::from(text.strip_prefix("unix://").unwrap_or(text));
    if path.is_absolute() {
        return Ok(path);
    }
    let message = format!(
        "must be the path of a Unix socket on this machine, as in /var/run/docker.sock, not {text:?}"
    );
    Err(bad("SLIPWAY_DOCKER_SOCKET", message))
}

pub fn files(text: &str) -> Result<Files, ConfigError> {
    match text {
        "host" => Ok(Files::Host),
        "sandbox" => Ok(Files::Sandbox),
        other => Err(bad("SLIPWAY_FILES", format!("must be host or sandbox, not {other:?}"))),
    }
}

pub fn auth(text: &str) -> Result<Auth, ConfigError> {
    match text {
        "required" => Ok(Auth::Required),
        "off" => Ok(Auth::Off),
        other => Err(bad("SLIPWAY_AUTH", format!("must be required or off, not {other:?}"))),
    }
}

/// Checks how many sandboxes have metrics of their own.
pub fn metrics_sandboxes(count: Option<u64>) -> Result<usize, ConfigError> {
    let count = usize::try_from(count.unwrap_or(0)).ok().filter(|count| *count <= METRICS_SANDBOXES_MAX);
    count.ok_or_else(|| bad("SLIPWAY_METRICS_SANDBOXES", format!("must be at most {METRICS_SANDBOXES_MAX}")))
}

pub fn registries(list: Vec<String>) -> Result<Vec<String>, ConfigError> {
    match list.iter().find(|one| Destination::parse(one, Some(443)).is_err()) {
        None => Ok(list),
        Some(wrong) => {
            let message =
                format!("must be hosts, with a port if it is written, as in 10.0.0.5:5000, not {wrong:?}");
            Err(bad("SLIPWAY_IMAGE_REGISTRIES", message))
        }
    }
}

pub fn exceptions(key: &str, list: &[String]) -> Result<Exceptions, ConfigError> {
    Exceptions::parse(list)
        .map_err(|error| bad(&variable(key), format!("must be hosts and ports, as in 10.0.0.5:443: {error}")))
}

/// Parses `tokens=2000000,cost_usd=5,requests=500`; an absent measure has no bound.
pub fn budget(text: &str) -> Result<BudgetBounds, ConfigError> {
    const MICRO: f64 = 1_000_000.0;
    let wrong = || {
        let message = format!("must be as in tokens=2000000,cost_usd=5,requests=500, not {text:?}");
        bad("SLIPWAY_TASK_BUDGET", message)
    };
    let mut bounds = BudgetBounds::default();
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
