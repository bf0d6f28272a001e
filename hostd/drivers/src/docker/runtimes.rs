//! OCI runtimes besides the engine's default: offered when the engine has them, accepted after a probe
//! sandbox ran under one. The probe runs once for each engine.

use super::{
    super::{
        Driver, DriverError, Target, Transport,
        local::{host_checks::describe_error, limits::DIAL_MAX_MS, probe_sandbox},
    },
    driver::Docker,
    engine::EngineInfo,
    engine_health::FitEngine,
    test_containers::TestContainer,
    tunnel,
};
use crate::LaunchRequest;
use hostd_core::{AppPort, Blueprint};
use protocol::api::SandboxId;
use std::{
    collections::HashMap,
    io,
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::timeout;

/// Probe results by runtime: why it cannot be used, or `None` if it can.
#[derive(Default)]
pub struct Runtimes {
    known: Mutex<HashMap<String, Option<String>>>,
    /// One probe sandbox at a time.
    probe_lock: tokio::sync::Mutex<()>,
}

impl Runtimes {
    pub async fn lock_probe(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.probe_lock.lock().await
    }

    /// Runtimes that can be requested: not those that failed the probe, and those with a kernel of their own
    /// only after they passed.
    pub fn offered(&self, info: &EngineInfo) -> Vec<String> {
        let known = self.known();
        let good = |name: &String| known.get(name).map_or(!has_own_kernel(name), Option::is_none);
        let asked = supported_runtimes(info);
        let (default, others) = asked.split_at(asked.len().min(1));
        default.iter().chain(others.iter().filter(|name| good(name))).cloned().collect()
    }

    /// Forgets the results, for another engine.
    pub fn forget(&self) {
        self.known().clear();
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Option<String>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runtimes that are made to confine. An engine may list others, for containers with a device or without
/// confinement: tenants must not get those.
const KNOWN: [&str; 4] = ["runc", "crun", "youki", "runsc"];
/// Prefix of the Kata runtimes.
const KNOWN_PREFIX: &str = "kata";

/// Whether a runtime brings its own kernel. Few pass the probe: hostd enters network namespaces and watches
/// processes through the host's kernel.
fn has_own_kernel(name: &str) -> bool {
    name == "runsc" || name.starts_with(KNOWN_PREFIX)
}

/// Runtimes that the engine can be asked for, its default first. Podman accepts any name and runs its
/// default.
fn supported_runtimes(info: &EngineInfo) -> Vec<String> {
    let max = if info.podman { 1 } else { info.runtimes.len() };
    let is_known = |name: &str| KNOWN.contains(&name) || name.starts_with(KNOWN_PREFIX);
    let first = info.runtimes.first().into_iter();
    first.chain(info.runtimes.iter().take(max).skip(1).filter(|name| is_known(name))).cloned().collect()
}

/// Whether a runtime is another one than the default; an error when it cannot be requested.
fn is_not_default(wanted: &str, info: &EngineInfo, offered: Vec<String>) -> Result<bool, DriverError> {
    match supported_runtimes(info).iter().position(|name| name == wanted) {
        Some(place) => Ok(place > 0),
        None => {
            let why = if info.podman { "runs every container with its default" } else { "does not offer it" };
            let message = format!("{wanted} cannot be used: {} {why}", info.version);
            Err(DriverError::Refused { field: "runtime", message, supported: offered })
        }
    }
}

impl Docker {
    /// Checks that the requested runtime can run sandboxes; probes it the first time.
    pub(super) async fn check_runtime(
        &self,
        blueprint: &Blueprint,
        fit_engine: &FitEngine,
    ) -> Result<(), DriverError> {
        let Some(wanted) = blueprint.runtime.as_deref() else { return Ok(()) };
        let runtimes = &self.inner.runtimes;
        if !is_not_default(wanted, &fit_engine.info, runtimes.offered(&fit_engine.info))? {
            return Ok(());
        }
        let _lock = runtimes.lock_probe().await;
        let known = runtimes.known().get(wanted).cloned();
        let flaw = match known {
            Some(flaw) => flaw,
            None => {
                let flaw = flaw_of(self.test_runtime(wanted, fit_engine).await)?;
                runtimes.known().insert(wanted.to_owned(), flaw.clone());
                flaw
            }
        };
        let Some(why) = flaw else { return Ok(()) };
        let message = format!("{wanted} does not run a sandbox here: {why}");
        let supported = runtimes.offered(&fit_engine.info);
        Err(DriverError::Refused { field: "runtime", message, supported })
    }

    async fn test_runtime(&self, runtime: &str, fit_engine: &FitEngine) -> Result<(), DriverError> {
        // A runtime with its own kernel fails here: hostd could neither notice the exit of its PID 1 nor
        // enter its network.
        self.inner.test_containers.run(&[TestContainer::with_runtime(runtime)], |_| Ok(())).await?;
        let sandbox = probe_sandbox::probe_id();
        self.inner.destroy_unchecked(&sandbox, false).await?;
        let order = probe_sandbox::probe_order(&sandbox, self.name());
        let blueprint = Blueprint { runtime: Some(runtime.to_owned()), ..(*order.blueprint).clone() };
        let ran =
            self.run_probe(&LaunchRequest { blueprint: Arc::new(blueprint), ..order }, fit_engine).await;
        let gone = self.inner.destroy_unchecked(&sandbox, false).await;
        ran.and(gone)
    }

    /// Launches a sandbox and checks that it is confined, answers, and is in the network namespace that hostd
    /// enters.
    pub(super) async fn run_probe(
        &self,
        order: &LaunchRequest,
        fit_engine: &FitEngine,
    ) -> Result<(), DriverError> {
        let sandbox = order.badge.sandbox;
        let handle = self.inner.launch(order, fit_engine).await?;
        let pid = handle.0["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        probe_sandbox::check_hardening(pid)?;
        if !probe_sandbox::wait_until_answering(self, &sandbox).await {
            let container = handle.0["container"].as_str().unwrap_or_default();
            let output = self.inner.engine.logs(container, 10).await.unwrap_or_default();
            return Err(DriverError::Failed { message: "its PID 1 does not answer".to_owned(), output });
        }
        let reached = timeout(Duration::from_millis(DIAL_MAX_MS), self.shares_network(&sandbox)).await;
        reached.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(|error| {
            let message = format!("hostd cannot enter its network: {error}");
            DriverError::Failed { message, output: vec![] }
        })
    }

    /// PID 1 connects to a listener that hostd opened inside: so both use the same network namespace.
    async fn shares_network(&self, sandbox: &SandboxId) -> io::Result<()> {
        let listener = self.listen(sandbox, (Ipv4Addr::LOCALHOST, 0).into()).await?;
        let port = AppPort::new(listener.local_addr()?.port()).ok_or(io::ErrorKind::AddrInUse)?;
        let control = self.dial(sandbox, Target::Control).await?;
        let (_tunnel, _accepted) = tokio::try_join!(tunnel::open(control, port), listener.accept())?;
        Ok(())
    }
}

/// The flaw that a failed probe shows; an error when the failure says nothing about the runtime.
fn flaw_of(tried: Result<(), DriverError>) -> Result<Option<String>, DriverError> {
    match tried {
        Ok(()) => Ok(None),
        Err(error @ (DriverError::Failed { .. } | DriverError::Refused { .. } | DriverError::Io { .. })) => {
            Ok(Some(describe_error(&error)))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsupported_runtime_is_refused_with_the_supported_ones() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let listed = names(&["runc", "crun", "nvidia", "runsc", "io.containerd.runc.v2"]);
        let docker = EngineInfo { runtimes: listed, ..EngineInfo::default() };
        let other = EngineInfo { runtimes: names(&["own", "kata-fc"]), ..EngineInfo::default() };
        assert_eq!(supported_runtimes(&other), ["own", "kata-fc"]);
        let podman = EngineInfo { podman: true, ..docker.clone() };
        let is_not_default =
            |wanted: &str, info: &EngineInfo| is_not_default(wanted, info, Runtimes::default().offered(info));
        for (wanted, info, expected) in [
            ("runc", &docker, false),
            ("crun", &docker, true),
            ("runsc", &docker, true),
            ("runc", &podman, false),
        ] {
            assert!(matches!(is_not_default(wanted, info), Ok(other) if other == expected), "{wanted}");
        }
        for (wanted, info, expected) in
            [("nvidia", &docker, names(&["runc", "crun"])), ("crun", &podman, names(&["runc"]))]
        {
            match is_not_default(wanted, info) {
                Err(DriverError::Refused { field: "runtime", supported, .. }) => {
                    assert_eq!(supported, expected);
                }
                other => panic!("{wanted}: {other:?}"),
            }
        }
    }

    #[test]
    fn only_runtimes_that_did_not_fail_are_offered() {
        let listed = ["runc", "crun", "youki", "runsc", "kata-fc"].map(str::to_owned).to_vec();
        let info = EngineInfo { runtimes: listed, ..EngineInfo::default() };
        let runtimes = Runtimes::default();
        assert_eq!(runtimes.offered(&info), ["runc", "crun", "youki"]);
        runtimes.known().insert("crun".to_owned(), Some("it fails".to_owned()));
        runtimes.known().insert("kata-fc".to_owned(), None);
        runtimes.known().insert("runc".to_owned(), Some("the default was tried by itself".to_owned()));
        assert_eq!(runtimes.offered(&info), ["runc", "youki", "kata-fc"]);
    }

    #[test]
    fn an_unreachable_engine_proves_nothing_about_a_runtime() {
        let failed = DriverError::Failed { message: "no".into(), output: vec![] };
        assert_eq!(flaw_of(Err(failed)).expect("known").as_deref(), Some("no"));
        assert_eq!(flaw_of(Ok(())).expect("known"), None);
        assert!(flaw_of(Err(DriverError::Unavailable { message: "away".into() })).is_err());
    }
}
