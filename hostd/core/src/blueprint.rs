//! Resolves a spec into a blueprint: validated, fully defaulted, immutable. A blueprint contains no facts of
//! the host and no secrets: environment variables, also of services, are kept apart.

use super::{
    Dotfiles, SetupStep, Source,
    egress::RuleSet,
    expiry::ttl_ms,
    provision::{resolve_dotfiles, resolve_setup},
    source::resolve_source,
};
use crate::limits;
use protocol::{
    EnvMap, ProfileName, ServiceSpec,
    api::{
        ApiError, ApiErrorCode, EgressRules, IdlePolicy, Limits, LimitsChange, LimitsSpec, Network,
        NetworkSpec, OnTtl, PreviewHeaders, SandboxScope, SandboxSpec, ScopeKind, Seed, Visibility,
    },
    validate,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// The resolved spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Blueprint {
    pub driver: String,
    /// Absent: the driver's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    pub image: String,
    pub ports: Vec<u16>,
    /// Without their environment.
    pub services: Vec<ServiceSpec>,
    pub limits: Limits,
    /// Absent: the skeleton of the image, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Without their content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dotfiles: Option<Dotfiles>,
    /// Without their environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<SetupStep>,
    pub network: Network,
    /// The rules of its egress proxy; changed while it runs, unlike the other fields.
    #[serde(default, skip_serializing_if = "EgressRules::is_empty")]
    pub egress: EgressRules,
    pub idle_policy: IdlePolicy,
    /// Absent: the host's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    #[serde(default)]
    pub preview_headers: PreviewHeaders,
    pub ttl_ms: Option<u64>,
    /// Changed while it runs, as `ttl_ms`.
    #[serde(default, skip_serializing_if = "OnTtl::is_destroy")]
    pub on_ttl: OnTtl,
}

impl Blueprint {
    /// A sandbox of the host's image that has nothing but its limits: no port, service or network.
    pub fn bare(driver: &str, limits: Limits) -> Self {
        Self {
            driver: driver.to_owned(),
            runtime: None,
            image: "host".to_owned(),
            ports: vec![],
            services: vec![],
            limits,
            seed: None,
            source: None,
            dotfiles: None,
            setup: vec![],
            network: Network::None,
            egress: EgressRules::default(),
            idle_policy: IdlePolicy::Sleep,
            visibility: None,
            preview_headers: PreviewHeaders::Localhost,
            ttl_ms: None,
            on_ttl: OnTtl::Destroy,
        }
    }

    /// Whether a sandbox of it is provisioned before its services start.
    pub fn is_provisioned(&self) -> bool {
        self.source.is_some() || self.dotfiles.is_some() || !self.setup.is_empty()
    }

    /// A blueprint for tests: a web app on port 3000.
    #[cfg(any(test, feature = "test-support"))]
    pub fn sample() -> Self {
        let limits = Limits { memory_mb: 512, cpus: 0.5, pids: 256, disk_mb: None };
        Self { ports: vec![3000], ..Self::bare("oci", limits) }
    }
}

/// Environment variables, kept apart from the blueprint: of the whole sandbox, of single services, and of steps of
/// the setup.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    pub all: EnvMap,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<String, EnvMap>,
    /// By the index of the step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub setup: BTreeMap<usize, EnvMap>,
    /// Lost with a database: running processes may have more variables than are known here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

impl Environment {
    pub fn lost() -> Self {
        Self { lost: true, ..Self::default() }
    }

    /// Services with their full environment: the sandbox's, overridden by their own.
    pub fn with_environment(&self, services: &[ServiceSpec]) -> Vec<ServiceSpec> {
        let with_env = |service: &ServiceSpec| {
            let mut env = self.all.clone();
            env.extend(self.services.get(service.name.as_str()).cloned().unwrap_or_default());
            ServiceSpec { env, ..service.clone() }
        };
        services.iter().map(with_env).collect()
    }
}

/// Defaults and maxima of this host.
#[derive(Debug, Clone)]
pub struct Defaults {
    pub driver: String,
    pub image: String,
    pub memory_max_mb: u64,
    pub cpus_max: f64,
    pub pids_max: u64,
    pub network: Network,
}

/// Resolves a spec into its blueprint and environment.
pub fn blueprint(spec: &SandboxSpec, defaults: &Defaults) -> Result<(Blueprint, Environment), ApiError> {
    check_names(spec)?;
    check_scope(spec.scope.as_ref())?;
    let (services, mut environment) = split_environment(&spec.services, &spec.env)?;
    let setup = resolve_setup(spec.setup.as_ref(), &mut environment)?;
    let source = resolve_source(spec)?;
    let dotfiles = spec.dotfiles.as_ref().map(resolve_dotfiles).transpose()?;
    let (network, egress) = resolve_network(spec.network.as_ref(), defaults)?;
    let blueprint = Blueprint {
        driver: spec.driver.clone().unwrap_or_else(|| defaults.driver.clone()),
        runtime: spec.runtime.clone(),
        image: spec.image.clone().unwrap_or_else(|| defaults.image.clone()),
        ports: ports(spec)?,
        services,
        limits: limits_of(&spec.limits, defaults)?,
        seed: spec.seed.clone(),
        source,
        dotfiles: dotfiles.map(|(dotfiles, _)| dotfiles),
        setup,
        network,
        egress,
        idle_policy: spec.idle_policy.unwrap_or_default(),
        visibility: spec.visibility,
        preview_headers: spec.preview_headers.unwrap_or_default(),
        ttl_ms: spec.ttl.as_deref().map(ttl_ms).transpose()?,
        on_ttl: spec.on_ttl.unwrap_or_default(),
    };
    Ok((blueprint, environment))
}

/// Resolves the network of a spec: its mode, and rules that the mode enforces.
pub fn resolve_network(
    spec: Option<&NetworkSpec>,
    defaults: &Defaults,
) -> Result<(Network, EgressRules), ApiError> {
    let Some(requested) = spec else { return Ok((defaults.network, EgressRules::default())) };
    let (network, egress) = (requested.mode().unwrap_or(defaults.network), requested.egress());
    if network != Network::Proxy && !egress.is_empty() {
        return Err(ApiError::invalid(
            "network",
            "egress rules need mode proxy: other modes do not enforce them",
        ));
    }
    check_egress("network.", &egress)?;
    Ok((network, egress))
}

/// Validates egress rules; `before` is the prefix of their field names.
pub fn check_egress(before: &str, rules: &EgressRules) -> Result<(), ApiError> {
    for (field, list) in [("allow", &rules.allow), ("deny", &rules.deny)] {
        RuleSet::parse(list, &[])
            .map_err(|why| ApiError::invalid(format!("{before}{field}"), why.to_string()))?;
    }
    let most = limits::EGRESS_MAX_MB;
    let good = rules.max_mb.is_none_or(|mb| (1..=most).contains(&mb));
    require(&format!("{before}max_mb"), good, &format!("must be 1 to {most}"))?;
    let good = rules.profile.as_deref().is_none_or(|name| ProfileName::parse(name).is_ok());
    require(&format!("{before}profile"), good, "is not a valid profile name")
}

/// Validates a display name.
pub fn check_name(name: &str) -> Result<(), ApiError> {
    let good = !name.trim().is_empty()
        && name.chars().count() <= limits::NAME_MAX_CHARS
        && !name.chars().any(char::is_control);
    let must = format!("must be 1 to {} characters without control characters", limits::NAME_MAX_CHARS);
    require("name", good, &must)
}

pub fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), ApiError> {
    let bytes: usize = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    let good = metadata.len() <= limits::METADATA_MAX_COUNT && bytes <= limits::METADATA_MAX_BYTES;
    let most = format!(
        "must be at most {} entries of {} bytes",
        limits::METADATA_MAX_COUNT,
        limits::METADATA_MAX_BYTES
    );
    require("metadata", good, &most)
}

fn check_names(spec: &SandboxSpec) -> Result<(), ApiError> {
    if let Some(name) = &spec.name {
        check_name(name)?;
    }
    let is_plain = |text: &str| {
        let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'/' | b':' | b'@');
        !text.is_empty() && text.len() <= 256 && text.bytes().all(safe)
    };
    for (field, value) in [("image", &spec.image), ("driver", &spec.driver), ("runtime", &spec.runtime)] {
        let good = value.as_deref().is_none_or(is_plain);
        require(field, good, "must be 1 to 256 of A-Z a-z 0-9 . _ - / : @")?;
    }
    if let Some(Seed { template, snapshot }) = &spec.seed {
        let one = template.is_some() != snapshot.is_some();
        require("seed", one, "must have either template or snapshot")?;
    }
    if let Some(Seed { template: Some(template), .. }) = &spec.seed {
        let safe = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let good =
            (1..=limits::TEMPLATE_NAME_MAX_BYTES).contains(&template.len()) && template.bytes().all(safe);
        require("seed.template", good, "must be 1 to 64 of a-z 0-9 -")?;
    }
    check_metadata(&spec.metadata)
}

fn check_scope(scope: Option<&SandboxScope>) -> Result<(), ApiError> {
    let Some(scope) = scope else { return Ok(()) };
    let takes_key = match scope.kind {
        ScopeKind::SharedProjectUser => false,
        ScopeKind::AgentRun
        | ScopeKind::AgentInstance
        | ScopeKind::Conversation
        | ScopeKind::RuntimeInstance
        | ScopeKind::Custom => true,
    };
    match (takes_key, &scope.key) {
        (true, Some(_)) | (false, None) => Ok(()),
        (false, Some(_)) => {
            Err(ApiError::invalid("scope.key", "shared-project-user has no key: leave it out"))
        }
        (true, None) => Err(ApiError::invalid("scope.key", format!("{} needs a key", scope.kind.as_str()))),
    }
}

fn ports(spec: &SandboxSpec) -> Result<Vec<u16>, ApiError> {
    require("ports", spec.ports.len() <= limits::PORTS_MAX, &format!("at most {} ports", limits::PORTS_MAX))?;
    require("ports", !spec.ports.contains(&0), "a port is 1 to 65535")?;
    let services = spec.services.iter().filter_map(|service| service.port);
    let all: BTreeSet<u16> = spec.ports.iter().copied().chain(services).collect();
    Ok(all.into_iter().collect())
}

/// Separates services from their environment.
pub fn split_environment(
    services: &[ServiceSpec],
    all: &EnvMap,
) -> Result<(Vec<ServiceSpec>, Environment), ApiError> {
    let most = format!("at most {} services", limits::SERVICES_MAX);
    require("services", services.len() <= limits::SERVICES_MAX, &most)?;
    check_env("env", all)?;
    let mut environment = Environment { all: all.clone(), ..Environment::default() };
    let mut bare = Vec::with_capacity(services.len());
    for service in services {
        let field = format!("services.{}.env", service.name);
        check_env(&field, &service.env)?;
        let env = service.env.clone();
        if environment.services.insert(service.name.to_string(), env).is_some() {
            return Err(ApiError::invalid("services", format!("{} is defined twice", service.name)));
        }
        bare.push(ServiceSpec { env: EnvMap::new(), ..service.clone() });
    }
    environment.services.retain(|_, env| !env.is_empty());
    Ok((bare, environment))
}

pub(crate) fn check_env(field: &str, env: &EnvMap) -> Result<(), ApiError> {
    let bytes: usize = env.iter().map(|(name, value)| name.len() + value.len()).sum();
    let small = env.len() <= limits::ENV_MAX_COUNT && bytes <= limits::ENV_MAX_BYTES;
    let most =
        format!("must be at most {} variables of {} bytes", limits::ENV_MAX_COUNT, limits::ENV_MAX_BYTES);
    require(field, small, &most)?;
    for (name, value) in env {
        let field = format!("{field}.{name}");
        validate::env_name(&field, name)?;
        validate::no_nul(&field, value)?;
    }
    Ok(())
}

fn limits_of(spec: &LimitsSpec, defaults: &Defaults) -> Result<Limits, ApiError> {
    let most_mb = defaults.memory_max_mb;
    let memory_mb = spec.memory_mb.unwrap_or(limits::MEMORY_DEFAULT_MB.min(most_mb));
    check_host_range("limits.memory_mb", memory_mb, limits::MEMORY_MIN_MB, most_mb)?;
    let cpus = spec.cpus.unwrap_or(defaults.cpus_max);
    check_host_range("limits.cpus", cpus, limits::CPUS_MIN, defaults.cpus_max)?;
    let most_pids = defaults.pids_max;
    let pids = spec.pids.unwrap_or(limits::PIDS_DEFAULT.min(most_pids));
    check_host_range("limits.pids", pids, limits::PIDS_MIN, most_pids)?;
    let least = format!("must be at least {}", limits::DISK_MIN_MB);
    require("limits.disk_mb", spec.disk_mb.is_none_or(|mb| mb >= limits::DISK_MIN_MB), &least)?;
    Ok(Limits { memory_mb, cpus, pids, disk_mb: spec.disk_mb })
}

/// Checks new limits as those of a new sandbox. What is not changed is not checked: it may be of a time when the host
/// allowed more.
pub fn check_changed_limits(change: &LimitsChange, defaults: &Defaults) -> Result<(), ApiError> {
    if let Some(memory_mb) = change.memory_mb {
        check_host_range("memory_mb", memory_mb, limits::MEMORY_MIN_MB, defaults.memory_max_mb)?;
    }
    if let Some(cpus) = change.cpus {
        check_host_range("cpus", cpus, limits::CPUS_MIN, defaults.cpus_max)?;
    }
    if let Some(pids) = change.pids {
        check_host_range("pids", pids, limits::PIDS_MIN, defaults.pids_max)?;
    }
    let empty = *change == LimitsChange::default();
    require("memory_mb", !empty, "give memory_mb, cpus or pids")
}

/// The limits of a sandbox after a change.
pub fn applied_limits(now: &Limits, change: &LimitsChange) -> Limits {
    Limits {
        memory_mb: change.memory_mb.unwrap_or(now.memory_mb),
        cpus: change.cpus.unwrap_or(now.cpus),
        pids: change.pids.unwrap_or(now.pids),
        disk_mb: now.disk_mb,
    }
}

/// The larger one of each limit.
pub fn larger_limits(one: &Limits, other: &Limits) -> Limits {
    Limits {
        memory_mb: one.memory_mb.max(other.memory_mb),
        cpus: one.cpus.max(other.cpus),
        pids: one.pids.max(other.pids),
        // No limit is the largest.
        disk_mb: one.disk_mb.zip(other.disk_mb).map(|(one, other)| one.max(other)),
    }
}

/// A value below the minimum is invalid on every host; one above the maximum is unsupported on this one.
fn check_host_range<T: PartialOrd + fmt::Display + Copy>(
    field: &str,
    requested: T,
    least: T,
    most: T,
) -> Result<(), ApiError> {
    if (least..=most).contains(&requested) {
        return Ok(());
    }
    let code = if requested > most { ApiErrorCode::Unsupported } else { ApiErrorCode::InvalidRequest };
    let message = format!("must be {least} to {most} on this host");
    Err(ApiError::new(code, message).with(|detail| detail.field = Some(field.to_owned())))
}

pub(crate) fn require(field: &str, good: bool, message: &str) -> Result<(), ApiError> {
    if good {
        Ok(())
    } else {
        Err(ApiError::new(ApiErrorCode::InvalidRequest, message).with(|d| d.field = Some(field.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> Defaults {
        Defaults {
            driver: "oci".into(),
            image: "host".into(),
            memory_max_mb: 8192,
            cpus_max: 2.0,
            pids_max: 4096,
            network: Network::Proxy,
        }
    }

    #[test]
    fn changed_limits_are_checked_as_those_of_a_new_sandbox() {
        let change = |json| serde_json::from_value::<LimitsChange>(json).expect("a change");
        let table = [
            (serde_json::json!({}), "memory_mb", ApiErrorCode::InvalidRequest),
            (serde_json::json!({"memory_mb": 1}), "memory_mb", ApiErrorCode::InvalidRequest),
            (serde_json::json!({"memory_mb": 9000}), "memory_mb", ApiErrorCode::Unsupported),
            (serde_json::json!({"cpus": 0.0}), "cpus", ApiErrorCode::InvalidRequest),
            (serde_json::json!({"cpus": 3}), "cpus", ApiErrorCode::Unsupported),
            (serde_json::json!({"pids": 1}), "pids", ApiErrorCode::InvalidRequest),
            (serde_json::json!({"pids": 5000}), "pids", ApiErrorCode::Unsupported),
        ];
        for (json, field, code) in table {
            let error = check_changed_limits(&change(json.clone()), &defaults()).expect_err("out of range");
            assert_eq!((error.code, error.detail.field.as_deref()), (code, Some(field)), "{json}");
        }
        let now = Limits { memory_mb: 512, cpus: 1.0, pids: 9_999, disk_mb: Some(64) };
        let one = change(serde_json::json!({"memory_mb": 64}));
        assert_eq!(check_changed_limits(&one, &defaults()), Ok(()), "what is not changed is not checked");
        assert_eq!(applied_limits(&now, &one), Limits { memory_mb: 64, ..now });
        let other = Limits { memory_mb: now.memory_mb - 1, cpus: now.cpus + 1.0, disk_mb: None, ..now };
        assert_eq!(larger_limits(&now, &other), Limits { memory_mb: now.memory_mb, ..other });
        assert_eq!(larger_limits(&now, &other), larger_limits(&other, &now));
    }

    fn of(json: serde_json::Value) -> Result<(Blueprint, Environment), ApiError> {
        blueprint(&serde_json::from_value(json).expect("a spec"), &defaults())
    }

    #[test]
    fn an_empty_spec_is_fully_defaulted() {
        let (blueprint, environment) = of(serde_json::json!({})).expect("the empty spec");
        let expected = serde_json::json!({
            "driver": "oci", "image": "host", "ports": [], "services": [],
            "limits": {"memory_mb": 1024, "cpus": 2.0, "pids": 512},
            "network": "proxy", "idle_policy": "sleep", "preview_headers": "localhost", "ttl_ms": null,
        });
        assert_eq!(serde_json::to_value(&blueprint).expect("JSON"), expected);
        assert!(environment == Environment::default());
    }

    #[test]
    fn a_blueprint_contains_no_environment() {
        let spec = serde_json::json!({
            "env": {"A": "secret1"},
            "services": [{"name": "web", "command": "npm run dev", "port": 3000, "env": {"B": "secret2"}}],
        });
        let (blueprint, environment) = of(spec).expect("a good spec");
        assert!(!serde_json::to_string(&blueprint).expect("JSON").contains("secret"));
        assert_eq!(environment.all["A"], "secret1");
        assert_eq!(environment.services["web"]["B"], "secret2");
        assert_eq!(blueprint.ports, [3000]);
    }

    #[test]
    fn invalid_specs_are_refused_by_field() {
        let table = [
            (serde_json::json!({"name": ""}), "name"),
            (serde_json::json!({"name": "a\nb"}), "name"),
            (serde_json::json!({"image": "a b"}), "image"),
            (serde_json::json!({"runtime": "run\nsc"}), "runtime"),
            (serde_json::json!({"ports": [0]}), "ports"),
            (serde_json::json!({"ports": vec![1; 65]}), "ports"),
            (serde_json::json!({"env": {"A=B": "x"}}), "env.A=B"),
            (serde_json::json!({"limits": {"memory_mb": 1}}), "limits.memory_mb"),
            (serde_json::json!({"limits": {"memory_mb": 9000}}), "limits.memory_mb"),
            (serde_json::json!({"limits": {"cpus": 0.0}}), "limits.cpus"),
            (serde_json::json!({"limits": {"cpus": 64.0}}), "limits.cpus"),
            (serde_json::json!({"limits": {"pids": 1}}), "limits.pids"),
            (serde_json::json!({"limits": {"pids": 5000}}), "limits.pids"),
            (serde_json::json!({"limits": {"disk_mb": 15}}), "limits.disk_mb"),
            (serde_json::json!({"seed": {"template": ""}}), "seed.template"),
            (serde_json::json!({"seed": {"template": "../etc"}}), "seed.template"),
            (serde_json::json!({"seed": {"template": "Web"}}), "seed.template"),
            (serde_json::json!({"seed": {"template": "a".repeat(65)}}), "seed.template"),
            (serde_json::json!({"network": {"allow": ["a b"]}}), "network.allow"),
            (serde_json::json!({"network": {"deny": ["*:0"]}}), "network.deny"),
            (serde_json::json!({"network": {"deny": vec!["a.example"; 300]}}), "network.deny"),
            (serde_json::json!({"network": {"max_mb": 0}}), "network.max_mb"),
            (serde_json::json!({"network": {"profile": "a/b"}}), "network.profile"),
            (serde_json::json!({"network": {"mode": "none", "deny": ["a.example"]}}), "network"),
            (serde_json::json!({"ttl": "4hours"}), "ttl"),
            (serde_json::json!({"ttl": "366d"}), "ttl"),
            (serde_json::json!({"scope": {"kind": "conversation"}}), "scope.key"),
            (serde_json::json!({"scope": {"kind": "shared-project-user", "key": "x"}}), "scope.key"),
            (serde_json::json!({"metadata": {"k": "x".repeat(20_000)}}), "metadata"),
        ];
        for (spec, field) in table {
            let error = of(spec.clone()).err().expect("refused");
            assert_eq!(error.detail.field.as_deref(), Some(field), "{spec}");
        }
    }
}
