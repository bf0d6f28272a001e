//! Networks of the engine. `open` is a bridge of ours on which sandboxes do not reach each other; that is
//! seen on two containers before any sandbox gets it.
//!
//! Docker keeps the containers of one network apart, if it is told to: all sandboxes share one, which stays.
//! Podman keeps only networks apart: each sandbox has its own, which goes with it.

mod apart;

use super::{
    engine::{CreateNetwork, Engine, EngineError},
    limits::INSTANCE_SHORT_BYTES,
    trial::{Trial, Trials},
};
use crate::driver::{
    DriverError,
    local::{ground::explain, init::Init, request::refused},
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
/// Whether containers of one network reach each other.
const APART: (&str, &str) = ("com.docker.network.bridge.enable_icc", "false");

/// What was found out about the networks of one engine.
#[derive(Debug, Clone)]
enum Proof {
    Good,
    Bad(String),
    /// It could not be tried: it is not offered until it could. Why, for those who waited for that.
    Untried(Arc<DriverError>),
}

#[derive(Clone)]
pub struct Networks {
    engine: Engine,
    trials: Trials,
    instance: String,
    proof: Arc<Mutex<Option<Proof>>>,
    /// One proof at a time; how many there were.
    proving: Arc<tokio::sync::Mutex<()>>,
    tries: Arc<AtomicU64>,
}

impl Networks {
    pub fn new(engine: Engine, trials: Trials, instance: &str) -> Self {
        let instance = instance.to_owned();
        let (proof, proving, tries) = (Arc::default(), Arc::default(), Arc::default());
        Self { engine, trials, instance, proof, proving, tries }
    }

    /// Whether a sandbox can have this network; tried with containers that are taken away again, once.
    pub async fn check(&self, network: Network, podman: bool) -> Result<(), DriverError> {
        match network {
            Network::None | Network::Proxy => Ok(()),
            Network::Open => self.prove(podman).await,
        }
    }

    /// What the container of this sandbox is to be given as its network. Made when it is not there.
    pub async fn mode(
        &self,
        network: Network,
        sandbox: &SandboxId,
        podman: bool,
    ) -> Result<String, DriverError> {
        self.check(network, podman).await?;
        match network {
            // With a proxy too: hostd listens inside, on loopback.
            Network::None | Network::Proxy => Ok("none".to_owned()),
            Network::Open => {
                let name = if podman { self.own(sandbox.as_str()) } else { self.shared() };
                self.ensure(&name, podman).await?;
                Ok(name)
            }
        }
    }

    /// After its container is gone.
    pub async fn release(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let name = self.own(sandbox.as_str());
        match self.engine.network(&name).await? {
            Some(found) if self.is_ours(found.labels.as_ref()) => {
                Ok(self.engine.remove_network(&name).await?)
            }
            _ => Ok(()),
        }
    }

    /// What can be asked for, by what is known.
    pub fn words(&self) -> Vec<String> {
        let open = !matches!(*self.proof(), Some(Proof::Bad(_) | Proof::Untried(_)));
        let all = [("none", true), ("proxy", true), ("open", open)];
        all.iter().filter(|(_, can)| *can).map(|(word, _)| (*word).to_owned()).collect()
    }

    /// Another engine answers: what was found out is not about this one.
    pub fn forget(&self) {
        *self.proof() = None;
    }

    async fn prove(&self, podman: bool) -> Result<(), DriverError> {
        let before = self.tries.load(Ordering::SeqCst);
        let _proving = self.proving.lock().await;
        let known = self.proof().clone();
        let waited = self.tries.load(Ordering::SeqCst) != before;
        let proof = match known {
            Some(proof @ (Proof::Good | Proof::Bad(_))) => proof,
            // The try that was waited for is one's own: an engine that hangs is asked once for all.
            Some(proof @ Proof::Untried(_)) if waited => proof,
            Some(Proof::Untried(_)) | None => {
                let tried = self.try_out(podman).await;
                self.tries.fetch_add(1, Ordering::SeqCst);
                tried.unwrap_or_else(|error| Proof::Untried(Arc::new(error)))
            }
        };
        *self.proof() = Some(proof.clone());
        match proof {
            Proof::Good => Ok(()),
            Proof::Bad(why) => Err(closed(&why)),
            Proof::Untried(error) => Err(again(&error)),
        }
    }

    /// As two sandboxes would be.
    async fn try_out(&self, podman: bool) -> Result<Proof, DriverError> {
        let names = if podman {
            vec![self.own("trial-0"), self.own("trial-1")]
        } else {
            vec![self.shared(), self.shared()]
        };
        let tried = self.try_on(&names, podman).await;
        if podman {
            for name in &names {
                self.engine.remove_network(name).await?;
            }
        }
        match tried {
            // It says what it could not do; tomorrow it may.
            Err(DriverError::Failed { message, .. }) => Err(closed(&message)),
            Err(error) => Err(error),
            Ok(None) => Ok(Proof::Good),
            Ok(Some(why)) => Ok(Proof::Bad(why)),
        }
    }

    async fn try_on(&self, names: &[String], podman: bool) -> Result<Option<String>, DriverError> {
        for name in names {
            self.ensure(name, podman).await?;
        }
        let look = |inits: &[Init]| {
            let [first, second] = inits else { return Ok(Some("no containers were started".to_owned())) };
            Ok(apart::flaw(first.pid, second.pid))
        };
        let trials: Vec<Trial> = names.iter().map(|name| Trial::on(name)).collect();
        self.trials.run(&trials, look).await
    }

    /// A network of this name, ours and as it should be.
    async fn ensure(&self, name: &str, podman: bool) -> Result<(), DriverError> {
        let wanted = CreateNetwork {
            name: name.to_owned(),
            driver: "bridge".to_owned(),
            options: BTreeMap::from([(APART.0.to_owned(), APART.1.to_owned())]),
            labels: BTreeMap::from([(INSTANCE.to_owned(), self.instance.clone())]),
        };
        if self.engine.network(name).await?.is_none() {
            match self.engine.create_network(&wanted).await {
                // Somebody else was faster.
                Ok(()) | Err(EngineError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let found = self.engine.network(name).await?;
        let apart = |options: &BTreeMap<String, String>| options.get(APART.0).is_some_and(|is| is == APART.1);
        match found {
            Some(network) if !self.is_ours(network.labels.as_ref()) => {
                Err(DriverError::NameTaken { message: format!("there is a network {name} that is not ours") })
            }
            // Podman does not keep the option.
            Some(network) if !podman && !network.options.as_ref().is_some_and(apart) => {
                let message = format!("the network {name} was changed: remove it");
                Err(DriverError::Failed { message, output: vec![] })
            }
            Some(_) => Ok(()),
            None => Err(DriverError::Unavailable { message: format!("the network {name} is gone again") }),
        }
    }

    fn is_ours(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        labels.and_then(|labels| labels.get(INSTANCE)).is_some_and(|instance| *instance == self.instance)
    }

    fn shared(&self) -> String {
        format!("slipway-{}", self.short())
    }

    fn own(&self, of: &str) -> String {
        format!("slipway-{}-{of}", self.short())
    }

    fn short(&self) -> String {
        self.instance.chars().take(INSTANCE_SHORT_BYTES).collect()
    }

    fn proof(&self) -> std::sync::MutexGuard<'_, Option<Proof>> {
        self.proof.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed(why: &str) -> DriverError {
    let message = format!("this engine cannot give a sandbox an open network: {why}");
    refused("network", message, &["none", "proxy"])
}

/// The same for one more who asked.
fn again(error: &DriverError) -> DriverError {
    match error {
        DriverError::Refused { field, message, supported } => {
            DriverError::Refused { field, message: message.clone(), supported: supported.clone() }
        }
        DriverError::Unavailable { message } => DriverError::Unavailable { message: message.clone() },
        DriverError::NameTaken { message } => DriverError::NameTaken { message: message.clone() },
        DriverError::DiskFull => DriverError::DiskFull,
        DriverError::ImageMissing { .. }
        | DriverError::Failed { .. }
        | DriverError::TimedOut { .. }
        | DriverError::Damaged { .. }
        | DriverError::OtherPidNamespace { .. }
        | DriverError::Io { .. } => DriverError::Failed { message: explain(error), output: vec![] },
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            engine::fake::{Fake, Reply},
            images::fixture,
        },
        *,
    };
    use futures_util::future::join_all;

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_hangs_is_tried_once_for_all_who_wait() {
        let fake = Fake::new(|_| Reply::Hang(vec![]));
        let engine = &fake.engine;
        let trials = Trials::new(engine.clone(), fixture::images(engine, fake.dir.path()), "i");
        let networks = Networks::new(engine.clone(), trials, "i");
        let tried = || fake.asked().iter().filter(|line| line.contains("/networks/")).count();
        for round in 1..=2 {
            let all = join_all((0..5).map(|_| networks.check(Network::Open, false))).await;
            for one in &all {
                assert!(matches!(one, Err(DriverError::Unavailable { .. })), "{one:?}");
            }
            // Whoever comes later tries anew.
            assert_eq!(tried(), round);
        }
        assert_eq!(networks.words(), ["none", "proxy"]);
    }
}
