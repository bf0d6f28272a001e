//! A driver in memory that misbehaves as told: for the simulation. Every verb may fail, fail after having
//! done its work, hang before or after it, or be followed by a sudden death.

mod faults;
mod runtimed;

pub(crate) use faults::{Dice, Fault, Faults};

use super::{Driver, DriverError, Found, Handle, Order, Sight, Stream, Target, Transport};
use crate::core::{Blueprint, Death};
use async_trait::async_trait;
use protocol::api::{SandboxId, StatsView};
use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
};
use tokio::{net::TcpListener, sync::watch};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Running { frozen: bool },
    Dead,
}

#[derive(Default)]
pub(crate) struct Fake {
    bodies: Arc<Mutex<HashMap<SandboxId, Body>>>,
    /// Files that exist, running or not.
    files: Mutex<HashMap<SandboxId, Order>>,
    faults: Mutex<Faults>,
    /// What must never happen, and did.
    violations: Mutex<Vec<String>>,
    changed: watch::Sender<u64>,
}

impl Fake {
    pub(crate) fn misbehave(&self, faults: Faults) {
        *self.faults.lock().expect("no panic while held") = faults;
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.violations.lock().expect("no panic while held").clone()
    }

    pub(crate) fn body(&self, id: &SandboxId) -> Option<Body> {
        self.bodies.lock().expect("no panic while held").get(id).copied()
    }

    pub(crate) fn has_files(&self, id: &SandboxId) -> bool {
        self.files.lock().expect("no panic while held").contains_key(id)
    }

    /// PID 1 is killed from outside.
    pub(crate) fn kill(&self, id: &SandboxId) {
        if let Some(body) = self.bodies.lock().expect("no panic while held").get_mut(id) {
            *body = Body::Dead;
        }
        self.notify();
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Does `work` in the way the dice say.
    async fn verb<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> Result<T, DriverError> {
        let fault = self.faults.lock().expect("no panic while held").roll(what);
        let failed = || DriverError::Failed { message: format!("{what} failed as told"), output: Vec::new() };
        match fault {
            Fault::None => Ok(self.done(work)),
            Fault::Fails => Err(failed()),
            Fault::Unavailable => Err(DriverError::Unavailable { message: "gone fishing".to_owned() }),
            Fault::FailsAfter => {
                self.done(work);
                Err(failed())
            }
            Fault::Hangs => std::future::pending().await,
            Fault::HangsAfter => {
                self.done(work);
                std::future::pending().await
            }
        }
    }

    fn done<T>(&self, work: impl FnOnce() -> T) -> T {
        let value = work();
        self.notify();
        value
    }

    fn set(&self, id: &SandboxId, body: Option<Body>) {
        let mut bodies = self.bodies.lock().expect("no panic while held");
        match body {
            Some(body) => bodies.insert(*id, body),
            None => bodies.remove(id),
        };
    }

    fn violate(&self, text: String) {
        self.violations.lock().expect("no panic while held").push(text);
    }
}

#[async_trait]
impl Transport for Fake {
    async fn dial(&self, id: &SandboxId, target: Target) -> io::Result<Box<dyn Stream>> {
        match (self.body(id), target) {
            (Some(Body::Running { frozen: false }), Target::Control) => {
                let (ours, theirs) = tokio::io::duplex(64 << 10);
                let (bodies, changed, id) = (self.bodies.clone(), self.changed.subscribe(), *id);
                tokio::spawn(runtimed::serve(theirs, bodies, changed, id));
                Ok(Box::new(ours))
            }
            // A frozen one accepts and never answers.
            (Some(Body::Running { frozen: true }), _) => {
                let (ours, theirs) = tokio::io::duplex(64);
                tokio::spawn(async move {
                    let _open = theirs;
                    std::future::pending::<()>().await;
                });
                Ok(Box::new(ours))
            }
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    async fn listen(&self, _: &SandboxId, _: SocketAddr) -> io::Result<TcpListener> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[async_trait]
impl Driver for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn describe(&self) -> String {
        "in memory".to_owned()
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    async fn check(&self, _: &Blueprint) -> Result<(), DriverError> {
        Ok(())
    }

    async fn launch(&self, order: &Order) -> Result<Handle, DriverError> {
        let id = order.badge.sandbox;
        if let Some(Body::Running { .. }) = self.body(&id) {
            self.violate(format!("{id} was launched while it ran"));
        }
        self.verb("launch", || {
            self.files.lock().expect("no panic while held").insert(id, order.clone());
            self.set(&id, Some(Body::Running { frozen: false }));
        })
        .await?;
        Ok(Handle(serde_json::json!({"attempt": order.attempt})))
    }

    async fn look(&self, id: &SandboxId) -> Result<Sight, DriverError> {
        let sight = match self.body(id) {
            None => Sight::Absent,
            Some(Body::Running { frozen }) => {
                Sight::Running { frozen, handle: Handle(serde_json::Value::Null) }
            }
            Some(Body::Dead) => Sight::Dead(Death::default()),
        };
        self.verb("look", || sight).await
    }

    async fn died(&self, id: &SandboxId) -> Result<(), DriverError> {
        let mut changed = self.changed.subscribe();
        while let Some(Body::Running { .. }) = self.body(id) {
            if changed.changed().await.is_err() {
                break;
            }
        }
        Ok(())
    }

    async fn freeze(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.verb("freeze", || self.set(id, self.body(id).map(|_| Body::Running { frozen: true }))).await
    }

    async fn thaw(&self, id: &SandboxId) -> Result<(), DriverError> {
        self.verb("thaw", || self.set(id, self.body(id).map(|_| Body::Running { frozen: false }))).await
    }

    async fn terminate(&self, id: &SandboxId, _: u64) -> Result<(), DriverError> {
        self.verb("terminate", || self.set(id, self.body(id).map(|_| Body::Dead))).await
    }

    async fn clear(&self, id: &SandboxId) -> Result<(), DriverError> {
        if let Some(Body::Running { .. }) = self.body(id) {
            self.violate(format!("{id} was cleared away while it ran"));
        }
        self.verb("clear", || self.set(id, None)).await
    }

    async fn erase(&self, id: &SandboxId, keep_workspace: bool) -> Result<(), DriverError> {
        if let Some(Body::Running { .. }) = self.body(id) {
            self.violate(format!("{id} was erased while it ran"));
        }
        self.verb("erase", || {
            self.set(id, None);
            if !keep_workspace {
                self.files.lock().expect("no panic while held").remove(id);
            }
        })
        .await
    }

    async fn reset_workspace(&self, id: &SandboxId) -> Result<(), DriverError> {
        if let Some(Body::Running { .. }) = self.body(id) {
            self.violate(format!("the files of {id} were emptied while it ran"));
        }
        self.verb("empty", || ()).await
    }

    fn logs(&self, _: &SandboxId) -> Option<PathBuf> {
        None
    }

    async fn workspace_bytes(&self, id: &SandboxId) -> Result<Option<u64>, DriverError> {
        Ok(self.has_files(id).then_some(0))
    }

    async fn stats(&self, _: &SandboxId) -> Result<StatsView, DriverError> {
        Err(DriverError::Unavailable { message: "no numbers in memory".to_owned() })
    }

    async fn list(&self) -> Result<Vec<Found>, DriverError> {
        let files = self.files.lock().expect("no panic while held");
        let ours = |order: &Order| Found::Ours {
            badge: order.badge.clone(),
            blueprint: Box::new(order.blueprint.as_ref().clone()),
        };
        Ok(files.values().map(ours).collect())
    }
}
