//! The request to create a sandbox, as a spec of ours. What Slipway does not have is refused by name, never ignored. Pure.

use super::{
    error::SandboxError,
    view::{ENTRYPOINT, IDLE_ENTRYPOINT},
};
use crate::shell_session::quoted;
use protocol::{
    RestartPolicy, ServiceName, ServiceSpec,
    api::{LimitsSpec, Network, NetworkRules, NetworkSpec, SandboxSpec, Seed},
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

const KIB: f64 = 1024.0;
const MIB_BYTES: f64 = KIB * KIB;
/// The service that an entrypoint becomes.
const SERVICE: &str = "entrypoint";
/// Units of memory, in bytes.
const UNITS: [(&str, f64); 8] = [
    ("Ki", KIB),
    ("Mi", MIB_BYTES),
    ("Gi", MIB_BYTES * KIB),
    ("Ti", MIB_BYTES * KIB * KIB),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
];

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CreateBody {
    image: Option<ImageBody>,
    snapshot_id: Option<String>,
    template_id: Option<String>,
    platform: Option<PlatformBody>,
    timeout: Option<u64>,
    resource_limits: BTreeMap<String, String>,
    env: BTreeMap<String, String>,
    metadata: BTreeMap<String, String>,
    lifecycle: Option<Value>,
    entrypoint: Vec<String>,
    network_policy: Option<NetworkPolicy>,
    credential_proxy: Option<Value>,
    volumes: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
struct ImageBody {
    uri: String,
    #[serde(default)]
    auth: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct PlatformBody {
    os: String,
    arch: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NetworkPolicy {
    #[serde(default)]
    default_action: Option<Action>,
    #[serde(default)]
    egress: Vec<NetworkRule>,
}

#[derive(Debug, Deserialize)]
struct NetworkRule {
    action: Action,
    target: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Allow,
    Deny,
}

impl CreateBody {
    pub fn into_spec(mut self) -> Result<SandboxSpec, SandboxError> {
        self.check_supported()?;
        if self.metadata.contains_key(ENTRYPOINT) {
            return Err(SandboxError::invalid(format!("the metadata {ENTRYPOINT} is Slipway's own")));
        }
        let services = self.service()?;
        if !services.is_empty() {
            let text = serde_json::to_string(&self.entrypoint);
            let text = text.map_err(|error| SandboxError::invalid(error.to_string()))?;
            self.metadata.insert(ENTRYPOINT.to_owned(), text);
        }
        let snapshot = self.snapshot_id.as_deref().map(str::parse).transpose();
        let snapshot =
            snapshot.map_err(|_| SandboxError::invalid("snapshotId is not the id of a snapshot"))?;
        Ok(SandboxSpec {
            image: self.image.map(|image| image.uri),
            seed: snapshot.map(|snapshot| Seed { template: None, snapshot: Some(snapshot) }),
            ttl: self.timeout.map(|seconds| format!("{seconds}s")),
            limits: limits(&self.resource_limits)?,
            env: self.env,
            services,
            network: self.network_policy.as_ref().map(network),
            metadata: self.metadata,
            ..SandboxSpec::default()
        })
    }

    fn check_supported(&self) -> Result<(), SandboxError> {
        let is_set = |value: &Option<Value>| value.as_ref().is_some_and(|value| !value.is_null());
        let wanted = [
            (self.template_id.is_some(), "templates: give an image or a snapshot"),
            (is_set(&self.lifecycle), "lifecycle hooks: run commands after the sandbox was created"),
            (is_set(&self.credential_proxy), "the credential vault"),
            (self.volumes.as_ref().is_some_and(|volumes| !volumes.is_empty()), "volumes"),
            (
                self.image.as_ref().is_some_and(|image| is_set(&image.auth)),
                "credentials of a registry in a request: the operator of the host configures them",
            ),
        ];
        if let Some((_, what)) = wanted.into_iter().find(|(wanted, _)| *wanted) {
            return Err(SandboxError::unsupported(format!("Slipway does not support {what}")));
        }
        let Some(PlatformBody { os, arch }) = &self.platform else { return Ok(()) };
        let own = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        if os == "linux" && arch == own {
            return Ok(());
        }
        Err(SandboxError::unsupported(format!("this host runs linux/{own}, not {os}/{arch}")))
    }

    fn service(&self) -> Result<Vec<ServiceSpec>, SandboxError> {
        if self.entrypoint.is_empty() || self.entrypoint == IDLE_ENTRYPOINT {
            return Ok(Vec::new());
        }
        let words: Vec<String> = self.entrypoint.iter().map(|word| quoted(word)).collect();
        let name = ServiceName::parse(SERVICE).map_err(|error| SandboxError::invalid(error.to_string()))?;
        Ok(vec![ServiceSpec {
            name,
            command: words.join(" "),
            port: None,
            env: BTreeMap::new(),
            cwd: None,
            depends_on: Vec::new(),
            health: None,
            restart: RestartPolicy::Never,
            restart_after_task: false,
            watch: Vec::new(),
        }])
    }
}

fn limits(wanted: &BTreeMap<String, String>) -> Result<LimitsSpec, SandboxError> {
    let mut limits = LimitsSpec::default();
    for (name, text) in wanted {
        let invalid = || SandboxError::invalid(format!("resourceLimits.{name}: {text:?} is no quantity"));
        match name.as_str() {
            "cpu" => limits.cpus = Some(cores(text).ok_or_else(invalid)?),
            "memory" => limits.memory_mb = Some(mebibytes(text).ok_or_else(invalid)?),
            "disk" | "ephemeral-storage" => limits.disk_mb = Some(mebibytes(text).ok_or_else(invalid)?),
            _ => return Err(SandboxError::unsupported(format!("Slipway does not limit {name}"))),
        }
    }
    Ok(limits)
}

/// Cores, as in `2` or `500m`.
fn cores(text: &str) -> Option<f64> {
    let (number, factor) = text.strip_suffix('m').map_or((text, 1.0), |thousandths| (thousandths, 0.001));
    quantity(number).map(|number| number * factor)
}

/// Mebibytes, of a size as in `512Mi`, `2G` or plain bytes.
fn mebibytes(text: &str) -> Option<u64> {
    let unit = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
    let (number, bytes) = unit.unwrap_or((text, 1.0));
    let mebibytes = (quantity(number)? * bytes / MIB_BYTES).ceil();
    // Checked to be a whole number of few digits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (mebibytes < 1e12).then_some(mebibytes as u64)
}

fn quantity(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| text.parse().ok())?.filter(|number: &f64| number.is_finite())
}

fn network(policy: &NetworkPolicy) -> NetworkSpec {
    let targets = |action| {
        let rules = policy.egress.iter().filter(move |rule| rule.action == action);
        rules.map(|rule| rule.target.clone()).collect::<Vec<_>>()
    };
    let (allow, deny) = (targets(Action::Allow), targets(Action::Deny));
    match policy.default_action.unwrap_or(Action::Deny) {
        Action::Allow => {
            NetworkSpec::Rules(NetworkRules { mode: Some(Network::Proxy), deny, ..NetworkRules::default() })
        }
        // Without a rule that allows something an empty list would allow everything.
        Action::Deny if allow.is_empty() => NetworkSpec::Mode(Network::None),
        Action::Deny => NetworkSpec::Rules(NetworkRules {
            mode: Some(Network::Proxy),
            allow,
            deny,
            ..NetworkRules::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(body: Value) -> Result<SandboxSpec, SandboxError> {
        serde_json::from_value::<CreateBody>(body).expect("parsed").into_spec()
    }

    #[test]
    fn a_request_becomes_a_spec() {
        let made = spec(json!({
            "image": {"uri": "python:3.11"}, "timeout": 600, "entrypoint": ["tail", "-f", "/dev/null"],
            "resourceLimits": {"cpu": "500m", "memory": "2Gi"}, "env": {"A": "b"}, "metadata": {"k": "v"},
        }));
        let made = made.expect("good");
        assert_eq!((made.image.as_deref(), made.ttl.as_deref()), (Some("python:3.11"), Some("600s")));
        assert_eq!((made.limits.cpus, made.limits.memory_mb), (Some(0.5), Some(2048)));
        assert_eq!((made.env["A"].as_str(), made.metadata["k"].as_str()), ("b", "v"));
        assert!(made.services.is_empty() && made.network.is_none() && made.metadata.len() == 1);
    }

    #[test]
    fn an_entrypoint_is_a_service_that_is_run_once() {
        let made = spec(json!({"entrypoint": ["python3", "it's.py"]})).expect("good");
        assert_eq!(made.services[0].command, r"'python3' 'it'\''s.py'");
        assert_eq!(made.services[0].restart, RestartPolicy::Never);
        assert_eq!(made.metadata[ENTRYPOINT], r#"["python3","it's.py"]"#);
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        for (body, status) in [
            (json!({"volumes": [{"name": "v"}]}), 400),
            (json!({"templateId": "t"}), 400),
            (json!({"lifecycle": {"preStart": []}}), 400),
            (json!({"credentialProxy": {"enabled": true}}), 400),
            (json!({"image": {"uri": "x", "auth": {"username": "u"}}}), 400),
            (json!({"platform": {"os": "windows", "arch": "amd64"}}), 400),
            (json!({"resourceLimits": {"gpu": "1"}}), 400),
            (json!({"resourceLimits": {"memory": "lots"}}), 400),
            (json!({"resourceLimits": {"cpu": "-1"}}), 400),
            (json!({"resourceLimits": {"memory": "1e99"}}), 400),
            (json!({"snapshotId": "../x"}), 400),
            (json!({"metadata": {ENTRYPOINT: "x"}}), 400),
        ] {
            let text = body.to_string();
            let refused = spec(body).expect_err(&text);
            assert_eq!(refused.status.as_u16(), status, "{text}: {}", refused.message);
        }
    }

    #[test]
    fn a_network_policy_never_allows_more_than_it_says() {
        let of = |policy: Value| network(&serde_json::from_value(policy).expect("parsed"));
        let rule = |action: &str, target: &str| json!({"action": action, "target": target});
        assert_eq!(of(json!({})), NetworkSpec::Mode(Network::None));
        let denied = of(json!({"defaultAction": "deny", "egress": [rule("deny", "a.com")]}));
        assert_eq!(denied, NetworkSpec::Mode(Network::None));
        let NetworkSpec::Rules(rules) =
            of(json!({"defaultAction": "deny", "egress": [rule("allow", "a.com"), rule("deny", "b.com")]}))
        else {
            panic!("rules")
        };
        assert_eq!((rules.allow, rules.deny), (vec!["a.com".to_owned()], vec!["b.com".to_owned()]));
        let NetworkSpec::Rules(rules) =
            of(json!({"defaultAction": "allow", "egress": [rule("deny", "b.com")]}))
        else {
            panic!("rules")
        };
        assert_eq!((rules.mode, rules.allow.len(), rules.deny.len()), (Some(Network::Proxy), 0, 1));
    }
}
