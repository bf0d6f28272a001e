//! A cache of the state of our containers, kept current by the engine's event stream, so that an inspect
//! needs no request.
//!
//! ```text
//!                   connect: subscribe, then list          event: inspect
//!    disconnected ────────────────────────────────▶ connected ◀───────────┐
//!         ▲                                          │    └───────────────┘
//!         └───────────── event stream ended ─────────┘
//! ```
//!
//! **Invariant:** the cache holds what the engine reported a moment ago. Before acting on the end of a
//! sandbox, refresh; whether PID 1 lives is asked of the kernel.

use super::{
    engine::{Engine, EngineError, InspectedContainer},
    labels::Labels,
    limits::INSPECTS_MAX,
};
use crate::DriverError;
use futures_util::{StreamExt, stream};
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::sync::watch;

pub struct ContainerCache {
    engine: Engine,
    /// Label filter that matches our containers.
    filter: String,
    state: Mutex<CacheState>,
    /// Counts changes.
    changed: watch::Sender<u64>,
}

struct CacheState {
    link: EngineLink,
    /// Counts connections: every reconnect is a new version for all waiters.
    connections: u64,
    /// By container name.
    containers: HashMap<String, InspectedContainer>,
    /// Time of the last OOM event by container id, for this connection only.
    ooms: HashMap<String, Instant>,
}

/// Whether the event stream of the engine is followed.
enum EngineLink {
    Connected,
    Disconnected { why: String },
}

/// Result of refreshing one container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    Done,
    /// The engine is reachable, but did not answer in time about this container.
    TimedOut,
}

/// Identifies a cached state, to notice changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerVersion {
    connections: u64,
    container: Option<(String, String, bool, i64, String)>,
}

impl ContainerCache {
    pub fn new(engine: Engine, filter: String) -> Self {
        let state = CacheState {
            link: EngineLink::Disconnected { why: "it was not reached yet".to_owned() },
            connections: 0,
            containers: HashMap::new(),
            ooms: HashMap::new(),
        };
        Self { engine, filter, state: Mutex::new(state), changed: watch::channel(0).0 }
    }

    /// Fails while the engine is disconnected and the cache may be stale.
    pub fn check_connected(&self) -> Result<(), DriverError> {
        match &self.state().link {
            EngineLink::Connected => Ok(()),
            EngineLink::Disconnected { why } => Err(DriverError::Unavailable { message: why.clone() }),
        }
    }

    pub fn get(&self, name: &str) -> Option<InspectedContainer> {
        self.state().containers.get(name).cloned()
    }

    pub fn all(&self) -> Vec<InspectedContainer> {
        let mut all: Vec<InspectedContainer> = self.state().containers.values().cloned().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    pub fn by_id(&self, id: &str) -> Option<InspectedContainer> {
        self.state().containers.values().find(|known| known.id == id).cloned()
    }

    /// Age of the last OOM event of a container, if there was one.
    pub fn oom_event_age_ms(&self, container: &str) -> Option<u64> {
        let age = self.state().ooms.get(container)?.elapsed();
        Some(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn version(&self, name: &str) -> ContainerVersion {
        let state = self.state();
        let container = state.containers.get(name).map(|found| {
            let state = &found.state;
            let (status, started_at) = (state.status.clone(), state.started_at.clone());
            (found.id.clone(), status, state.paused, state.pid, started_at)
        });
        ContainerVersion { connections: state.connections, container }
    }

    /// Returns when the cached state differs from `version`.
    pub async fn changed_since(&self, name: &str, version: &ContainerVersion) {
        let mut changes = self.changed.subscribe();
        // The channel closes only with the cache itself.
        while self.version(name) == *version && changes.changed().await.is_ok() {}
    }

    /// Inspects a container and updates the cache.
    pub async fn refresh(&self, container: &str) -> Result<Option<InspectedContainer>, EngineError> {
        let found = self.engine.inspect(container).await?.map(strip_slash);
        self.change(|state| match &found {
            Some(found) if has_label(labels_of(found), &self.filter) => {
                state.containers.retain(|name, known| known.id != found.id || *name == found.name);
                state.containers.insert(found.name.clone(), found.clone());
            }
            // A container of another instance.
            Some(_) => {}
            None => {
                state.containers.retain(|name, known| name != container && known.id != container);
                state.ooms.remove(container);
            }
        });
        Ok(found)
    }

    /// Lists our containers and inspects those that changed: a list has no start times.
    pub async fn relist(&self) -> Result<(), EngineError> {
        let listed = self.engine.list(&self.filter).await?;
        let ids: HashSet<&str> = listed.iter().map(|listed| listed.id.as_str()).collect();
        self.change(|state| state.containers.retain(|_, known| ids.contains(known.id.as_str())));
        let changed = listed.into_iter().filter(|listed| !self.is_current(&listed.id, &listed.state));
        let refreshes: Vec<_> =
            changed.map(|listed| async move { self.try_refresh(&listed.id).await }).collect();
        let mut results = stream::iter(refreshes).buffer_unordered(INSPECTS_MAX);
        while let Some(result) = results.next().await {
            result?;
        }
        Ok(())
    }

    /// Refreshes one container. An engine that fails on one container is not disconnected: the cached state
    /// of that container stays as it was.
    pub async fn try_refresh(&self, container: &str) -> Result<Refresh, EngineError> {
        match self.refresh(container).await {
            Ok(_) => Ok(Refresh::Done),
            Err(error @ EngineError::Unreachable { .. }) => Err(error),
            Err(error) => {
                tracing::warn!(container, %error, "failed to inspect a container");
                if !matches!(error, EngineError::TimedOut { .. }) {
                    return Ok(Refresh::Done);
                }
                self.engine.ping().await.map(|()| Refresh::TimedOut)
            }
        }
    }

    /// Whether the cached status equals the listed one, so that an inspect would tell nothing new.
    fn is_current(&self, id: &str, listed: &str) -> bool {
        let state = self.state();
        matches!(state.link, EngineLink::Connected)
            && state.containers.values().any(|known| known.id == id && known.state.status == listed)
    }

    pub fn record_oom(&self, container: &str) {
        self.state().ooms.insert(container.to_owned(), Instant::now());
    }

    /// Marks the engine as connected: events are followed and all containers are listed.
    pub fn set_connected(&self) {
        self.change(|state| {
            state.link = EngineLink::Connected;
            state.connections += 1;
        });
    }

    pub fn set_disconnected(&self, why: String) {
        self.change(|state| {
            state.link = EngineLink::Disconnected { why };
            state.ooms.clear();
        });
    }

    fn change(&self, change: impl FnOnce(&mut CacheState)) {
        change(&mut self.state());
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn state(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static NO_LABELS: Labels = Labels::new();

pub fn labels_of(container: &InspectedContainer) -> &Labels {
    container.config.labels.as_ref().unwrap_or(&NO_LABELS)
}

/// Whether the labels match a filter `name=value`.
fn has_label(labels: &Labels, filter: &str) -> bool {
    let (name, value) = filter.split_once('=').unwrap_or((filter, ""));
    labels.get(name).is_some_and(|found| found == value)
}

/// Docker puts a slash before the name.
fn strip_slash(mut container: InspectedContainer) -> InspectedContainer {
    container.name = container.name.trim_start_matches('/').to_owned();
    container
}

/// Whether an event can have changed the cached state.
pub fn changes_state(action: &str) -> bool {
    const IDLE: [&str; 8] =
        ["attach", "detach", "top", "resize", "copy", "archive-path", "extract-to-dir", "export"];
    !action.starts_with("exec_") && !action.starts_with("health_status") && !IDLE.contains(&action)
}
