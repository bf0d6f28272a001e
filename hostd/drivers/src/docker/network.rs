//! Networks of the engine. `open` is a bridge on which sandboxes cannot reach each other; that is tested on
//! two containers before any sandbox gets it.
//!
//! Docker can isolate the containers of one network from each other: all sandboxes share one network, which
//! stays. Podman isolates only networks: each sandbox has its own, which is removed with it.

mod isolation_test;

use super::{
    engine::{CreateNetwork, Engine, EngineError},
    limits::INSTANCE_SHORT_BYTES,
    test_containers::{TestContainer, TestContainers},
};
use crate::{
    DriverError,
    local::{blueprint_checks::refused, host_checks::describe_error, init::Init},
};
use protocol::api::{Network, SandboxId};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

const INSTANCE: &str = "dev.slipway.instance";
/// Bridge option that disables traffic between containers.
const NO_ICC: (&str, &str) = ("com.docker.network.bridge.enable_icc", "false");

/// Whether sandboxes on an open network are isolated from each other.
#[derive(Debug, Clone)]
enum Isolation {
    Proven,
    Missing(String),
    /// The test could not run; `open` is not offered until it could. Holds the error for callers that waited
    /// for that test.
    Untested(Arc<DriverError>),
}

#[derive(Clone)]
pub struct Networks {
    engine: Engine,
    test_containers: TestContainers,
    instance: String,
    isolation: Arc<Mutex<Option<Isolation>>>,
    /// One test at a time; `tests` counts them.
    testing: Arc<tokio::sync::Mutex<()>>,
    tests: Arc<AtomicU64>,
}

impl Networks {
    pub fn new(engine: Engine, test_containers: TestContainers, instance: &str) -> Self {
        let instance = instance.to_owned();
        let (isolation, testing, tests) = (Arc::default(), Arc::default(), Arc::default());
        Self { engine, test_containers, instance, isolation, testing, tests }
    }

    /// Checks that a sandbox can have this network. The first check of `open` tests it with containers.
    pub async fn check(&self, network: Network, podman: bool) -> Result<(), DriverError> {
        match network {
            Network::None | Network::Proxy => Ok(()),
            Network::Open => self.require_isolation(podman).await,
        }
    }

    /// The network mode of a sandbox's container. Creates the network if there is none.
    pub async fn mode(
        &self,
        network: Network,
        sandbox: &SandboxId,
        podman: bool,
    ) -> Result<String, DriverError> {
        self.check(network, podman).await?;
        match network {
            // With a proxy too: hostd listens on loopback inside.
            Network::None | Network::Proxy => Ok("none".to_owned()),
            Network::Open => {
                let name =
                    if podman { self.sandbox_network(sandbox.as_str()) } else { self.shared_network() };
                self.ensure(&name, podman).await?;
                Ok(name)
            }
        }
    }

    /// Removes the network of a sandbox, after its container is gone.
    pub async fn release(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let name = self.sandbox_network(sandbox.as_str());
        let found = self.engine.network(&name).await?;
        if found.is_some_and(|found| self.is_ours(found.labels.as_ref())) {
            self.engine.remove_network(&name).await?;
        }
        Ok(())
    }

    /// Networks that can be requested, by what is known now.
    pub fn offered(&self) -> Vec<String> {
        let open = !matches!(*self.isolation(), Some(Isolation::Missing(_) | Isolation::Untested(_)));
        let all = [("none", true), ("proxy", true), ("open", open)];
        all.iter().filter(|(_, can)| *can).map(|(word, _)| (*word).to_owned()).collect()
    }

    /// Forgets the test result, for another engine.
    pub fn forget(&self) {
        *self.isolation() = None;
    }

    async fn require_isolation(&self, podman: bool) -> Result<(), DriverError> {
        let before = self.tests.load(Ordering::SeqCst);
        let _testing = self.testing.lock().await;
        let known = self.isolation().clone();
        let waited = self.tests.load(Ordering::SeqCst) != before;
        let isolation = match known {
            Some(isolation @ (Isolation::Proven | Isolation::Missing(_))) => isolation,
            // The result of the test that was waited for counts for every waiter: an engine that hangs is
            // tested once for all.
            Some(isolation @ Isolation::Untested(_)) if waited => isolation,
            Some(Isolation::Untested(_)) | None => {
                let tested = self.test_isolation(podman).await;
                self.tests.fetch_add(1, Ordering::SeqCst);
                tested.unwrap_or_else(|error| Isolation::Untested(Arc::new(error)))
            }
        };
        *self.isolation() = Some(isolation.clone());
        match isolation {
            Isolation::Proven => Ok(()),
            Isolation::Missing(why) => Err(open_network_refused(&why)),
            Isolation::Untested(error) => Err(copy_error(&error)),
        }
    }

    /// Tests isolation with two containers, set up as two sandboxes would be.
    async fn test_isolation(&self, podman: bool) -> Result<Isolation, DriverError> {
        let names = if podman {
            vec![self.sandbox_network("trial-0"), self.sandbox_network("trial-1")]
        } else {
            vec![self.shared_network(), self.shared_network()]
        };
        let tested = self.test_on(&names, podman).await;
        if podman {
            for name in &names {
                self.engine.remove_network(name).await?;
            }
        }
        match tested {
            // The engine cannot do it now; a later test may pass.
            Err(DriverError::Failed { message, .. }) => Err(open_network_refused(&message)),
            Err(error) => Err(error),
            Ok(None) => Ok(Isolation::Proven),
            Ok(Some(why)) => Ok(Isolation::Missing(why)),
        }
    }

    async fn test_on(&self, names: &[String], podman: bool) -> Result<Option<String>, DriverError> {
        for name in names {
            self.ensure(name, podman).await?;
        }
        let inspect = |inits: &[Init]| {
            let [first, second] = inits else { return Ok(Some("no containers were started".to_owned())) };
            Ok(isolation_test::isolation_flaw(first.pid, second.pid))
        };
        let test_containers: Vec<TestContainer> =
            names.iter().map(|name| TestContainer::on_network(name)).collect();
        self.test_containers.run(&test_containers, inspect).await
    }

    /// Ensures that a network of this name exists, is ours and has the option set.
    async fn ensure(&self, name: &str, podman: bool) -> Result<(), DriverError> {
        let wanted = CreateNetwork {
            name: name.to_owned(),
            driver: "bridge".to_owned(),
            options: BTreeMap::from([(NO_ICC.0.to_owned(), NO_ICC.1.to_owned())]),
            labels: BTreeMap::from([(INSTANCE.to_owned(), self.instance.clone())]),
        };
        if self.engine.network(name).await?.is_none() {
            match self.engine.create_network(&wanted).await {
                // Created concurrently.
                Ok(()) | Err(EngineError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let found = self.engine.network(name).await?;
        let has_no_icc =
            |options: &BTreeMap<String, String>| options.get(NO_ICC.0).is_some_and(|is| is == NO_ICC.1);
        match found {
            Some(network) if !self.is_ours(network.labels.as_ref()) => Err(DriverError::NameTaken {
                message: format!("a network {name} exists that is not ours: remove or rename it"),
            }),
            // Podman does not keep the option.
            Some(network) if !podman && !network.options.as_ref().is_some_and(has_no_icc) => {
                let message = format!("the network {name} was changed: remove it");
                Err(DriverError::Failed { message, output: vec![] })
            }
            Some(_) => Ok(()),
            None => Err(DriverError::Unavailable {
                message: format!("the network {name} was removed right after it was created"),
            }),
        }
    }

    fn is_ours(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        labels.and_then(|labels| labels.get(INSTANCE)).is_some_and(|instance| *instance == self.instance)
    }

    fn shared_network(&self) -> String {
        format!("slipway-{}", self.instance_prefix())
    }

    fn sandbox_network(&self, of: &str) -> String {
        format!("slipway-{}-{of}", self.instance_prefix())
    }

    fn instance_prefix(&self) -> String {
        self.instance.chars().take(INSTANCE_SHORT_BYTES).collect()
    }

    fn isolation(&self) -> std::sync::MutexGuard<'_, Option<Isolation>> {
        self.isolation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_network_refused(why: &str) -> DriverError {
    let message = format!("this engine cannot give a sandbox an open network: {why}");
    refused("network", message, &["none", "proxy"])
}

/// A copy of the error for another caller.
fn copy_error(error: &DriverError) -> DriverError {
    match error {
        DriverError::Refused { field, message, supported } => {
            DriverError::Refused { field, message: message.clone(), supported: supported.clone() }
        }
        DriverError::Unavailable { message } => DriverError::Unavailable { message: message.clone() },
        DriverError::NameTaken { message } => DriverError::NameTaken { message: message.clone() },
        DriverError::Conflict { message } => DriverError::Conflict { message: message.clone() },
        DriverError::DiskFull => DriverError::DiskFull,
        DriverError::ImageMissing { .. }
        | DriverError::NoDiskRoom { .. }
        | DriverError::Failed { .. }
        | DriverError::TimedOut { .. }
        | DriverError::Damaged { .. }
        | DriverError::OtherPidNamespace { .. }
        | DriverError::MemoryInUse { .. }
        | DriverError::Io { .. } => DriverError::Failed { message: describe_error(error), output: vec![] },
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            engine::fake_engine::{FakeEngine, FakeReply},
            images::fixture,
        },
        *,
    };
    use futures_util::future::join_all;

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_hangs_is_tested_once_for_all_waiters() {
        let fake = FakeEngine::new(|_| FakeReply::Hang(vec![]));
        let engine = &fake.engine;
        let test_containers =
            TestContainers::new(engine.clone(), fixture::images(engine, fake.dir.path()), "i");
        let networks = Networks::new(engine.clone(), test_containers, "i");
        let tested = || fake.requests().iter().filter(|line| line.contains("/networks/")).count();
        for round in 1..=2 {
            let all = join_all((0..5).map(|_| networks.check(Network::Open, false))).await;
            for one in &all {
                assert!(matches!(one, Err(DriverError::Unavailable { .. })), "{one:?}");
            }
            // A later caller starts a new test.
            assert_eq!(tested(), round);
        }
        assert_eq!(networks.offered(), ["none", "proxy"]);
    }
}
