//! OCI runtimes beside the engine's default: taken when the engine has them, and when a whole sandbox was
//! run by one as it should be. That is tried once for each engine.

use super::{
    super::{
        Driver, DriverError, Target, Transport,
        local::{ground::explain, limits::DIAL_MAX_MS, trial},
    },
    driver::Docker,
    engine::Meeting,
    standing::Fitness,
    trial::Trial,
    tunnel,
};
use crate::{core::Blueprint, driver::LaunchRequest};
use protocol::api::SandboxId;
use std::{
    collections::HashMap,
    io,
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::timeout;

/// What was found out about each: why it cannot be used, if so.
#[derive(Default)]
pub struct Runtimes {
    known: Mutex<HashMap<String, Option<String>>>,
    /// One sandbox is tried out at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Runtimes {
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// What can be counted on: not what was tried in vain, and a kernel of its own only when it passed.
    pub fn offered(&self, meeting: &Meeting) -> Vec<String> {
        let known = self.known();
        let good = |name: &String| known.get(name).map_or(!is_kernel(name), Option::is_none);
        let asked = askable(meeting);
        let (default, others) = asked.split_at(asked.len().min(1));
        default.iter().chain(others.iter().filter(|name| good(name))).cloned().collect()
    }

    /// Another engine answers.
    pub fn forget(&self) {
        self.known().clear();
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Option<String>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runtimes that are made to confine. An engine may list others, for containers with a device or without
/// any confinement: these are not for whoever asks for a sandbox.
const KNOWN: [&str; 4] = ["runc", "crun", "youki", "runsc"];
/// There are several of these.
const KNOWN_PREFIX: &str = "kata";

/// Hardly ever one of these passes: hostd enters networks and sees processes by the kernel of the host.
fn is_kernel(name: &str) -> bool {
    name == "runsc" || name.starts_with(KNOWN_PREFIX)
}

/// What an engine can be asked to run a container with. Podman takes any name, and its default runs it.
fn askable(meeting: &Meeting) -> Vec<String> {
    let most = if meeting.podman { 1 } else { meeting.runtimes.len() };
    let is_known = |name: &str| KNOWN.contains(&name) || name.starts_with(KNOWN_PREFIX);
    let first = meeting.runtimes.first().into_iter();
    first.chain(meeting.runtimes.iter().take(most).skip(1).filter(|name| is_known(name))).cloned().collect()
}

/// Whether that is another runtime than the default; refused when it cannot be asked for.
fn differs(wanted: &str, meeting: &Meeting, offered: Vec<String>) -> Result<bool, DriverError> {
    match askable(meeting).iter().position(|name| name == wanted) {
        Some(place) => Ok(place > 0),
        None => {
            let why =
                if meeting.podman { "runs every container with its default" } else { "does not offer it" };
            let message = format!("{wanted} cannot be used: {} {why}", meeting.version);
            Err(DriverError::Refused { field: "runtime", message, supported: offered })
        }
    }
}

impl Docker {
    /// Whether sandboxes can be run with it.
    pub(super) async fn check_runtime(
        &self,
        blueprint: &Blueprint,
        fitness: &Fitness,
    ) -> Result<(), DriverError> {
        let Some(wanted) = blueprint.runtime.as_deref() else { return Ok(()) };
        let runtimes = &self.inner.runtimes;
        if !differs(wanted, &fitness.meeting, runtimes.offered(&fitness.meeting))? {
            return Ok(());
        }
        let _turn = runtimes.turn().await;
        let known = runtimes.known().get(wanted).cloned();
        let flaw = match known {
            Some(flaw) => flaw,
            None => {
                let flaw = flaw(self.try_runtime(wanted, fitness).await)?;
                runtimes.known().insert(wanted.to_owned(), flaw.clone());
                flaw
            }
        };
        let Some(why) = flaw else { return Ok(()) };
        let message = format!("{wanted} does not run a sandbox here: {why}");
        let supported = runtimes.offered(&fitness.meeting);
        Err(DriverError::Refused { field: "runtime", message, supported })
    }

    async fn try_runtime(&self, runtime: &str, fitness: &Fitness) -> Result<(), DriverError> {
        // One that is a kernel of its own fails here: hostd could not tell when a sandbox of it ends, nor
        // enter its network.
        self.inner.trials.run(&[Trial::with(runtime)], |_| Ok(())).await?;
        let sandbox = trial::id();
        self.inner.scrap(&sandbox, false).await?;
        let order = trial::order(&sandbox, self.name());
        let blueprint = Blueprint { runtime: Some(runtime.to_owned()), ..(*order.blueprint).clone() };
        let ran = self.prove(&LaunchRequest { blueprint: Arc::new(blueprint), ..order }, fitness).await;
        let gone = self.inner.scrap(&sandbox, false).await;
        ran.and(gone)
    }

    /// A whole sandbox: confined, answering, in the network that hostd enters.
    pub(super) async fn prove(&self, order: &LaunchRequest, fitness: &Fitness) -> Result<(), DriverError> {
        let sandbox = order.label.sandbox;
        let handle = self.inner.bring_up(order, fitness).await?;
        let pid = handle.0["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        trial::check_hardening(pid)?;
        if !trial::answers(self, &sandbox).await {
            let container = handle.0["container"].as_str().unwrap_or_default();
            let output = self.inner.engine.logs(container, 10).await.unwrap_or_default();
            return Err(DriverError::Failed { message: "its PID 1 does not answer".to_owned(), output });
        }
        let reached = timeout(Duration::from_millis(DIAL_MAX_MS), self.is_in_its_network(&sandbox)).await;
        reached.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(|error| {
            let message = format!("hostd cannot enter its network: {error}");
            DriverError::Failed { message, output: vec![] }
        })
    }

    /// PID 1 connects to where hostd listens inside: so both mean the same network.
    async fn is_in_its_network(&self, sandbox: &SandboxId) -> io::Result<()> {
        let listener = self.listen(sandbox, (Ipv4Addr::LOCALHOST, 0).into()).await?;
        let port = listener.local_addr()?.port();
        let control = self.dial(sandbox, Target::Control).await?;
        let (_tunnel, _accepted) = tokio::try_join!(tunnel::open(control, port), listener.accept())?;
        Ok(())
    }
}

/// What is wrong with a runtime, by how its trial ended; an error when that says nothing about it.
fn flaw(tried: Result<(), DriverError>) -> Result<Option<String>, DriverError> {
    match tried {
        Ok(()) => Ok(None),
        Err(error @ (DriverError::Failed { .. } | DriverError::Refused { .. } | DriverError::Io { .. })) => {
            Ok(Some(explain(&error)))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_engine_does_not_have_is_refused_with_what_it_has() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let listed = names(&["runc", "crun", "nvidia", "runsc", "io.containerd.runc.v2"]);
        let docker = Meeting { runtimes: listed, ..Meeting::default() };
        let other = Meeting { runtimes: names(&["own", "kata-fc"]), ..Meeting::default() };
        assert_eq!(askable(&other), ["own", "kata-fc"]);
        let podman = Meeting { podman: true, ..docker.clone() };
        let differs =
            |wanted: &str, meeting: &Meeting| differs(wanted, meeting, Runtimes::default().offered(meeting));
        for (wanted, meeting, expected) in [
            ("runc", &docker, false),
            ("crun", &docker, true),
            ("runsc", &docker, true),
            ("runc", &podman, false),
        ] {
            assert!(matches!(differs(wanted, meeting), Ok(other) if other == expected), "{wanted}");
        }
        for (wanted, meeting, expected) in
            [("nvidia", &docker, names(&["runc", "crun"])), ("crun", &podman, names(&["runc"]))]
        {
            match differs(wanted, meeting) {
                Err(DriverError::Refused { field: "runtime", supported, .. }) => {
                    assert_eq!(supported, expected);
                }
                other => panic!("{wanted}: {other:?}"),
            }
        }
    }

    #[test]
    fn only_what_can_be_counted_on_is_offered() {
        let listed = ["runc", "crun", "youki", "runsc", "kata-fc"].map(str::to_owned).to_vec();
        let meeting = Meeting { runtimes: listed, ..Meeting::default() };
        let runtimes = Runtimes::default();
        assert_eq!(runtimes.offered(&meeting), ["runc", "crun", "youki"]);
        runtimes.known().insert("crun".to_owned(), Some("it fails".to_owned()));
        runtimes.known().insert("kata-fc".to_owned(), None);
        runtimes.known().insert("runc".to_owned(), Some("the default was tried by itself".to_owned()));
        assert_eq!(runtimes.offered(&meeting), ["runc", "youki", "kata-fc"]);
    }

    #[test]
    fn an_engine_that_was_away_says_nothing_about_a_runtime() {
        let failed = DriverError::Failed { message: "no".into(), output: vec![] };
        assert_eq!(flaw(Err(failed)).expect("known").as_deref(), Some("no"));
        assert_eq!(flaw(Ok(())).expect("known"), None);
        assert!(flaw(Err(DriverError::Unavailable { message: "away".into() })).is_err());
    }
}
