//! Watchers that clients poll. Each has a subscription of its own to a watch of the files API, which keeps changes until they
//! are fetched. A watcher is not there any more after a restart of hostd: its client is told so, and makes another.

use super::{
    messages::{Empty, EventsResponse, FilesystemEvent, WatchRequest, WatcherCreated, WatcherRequest},
    watch,
    watch_events::{WatchEvents, WatchNews},
};
use crate::e2b::{
    connect::{Code, ConnectError},
    envd::{
        limits::{
            WATCHER_EVENTS_MAX, WATCHER_IDLE_S, WATCHER_POLL_MS, WATCHER_QUIET_MS, WATCHERS_MAX,
            WATCHERS_OF_SANDBOX_MAX, WATCHERS_OF_TENANT_MAX,
        },
        sandbox_api::SandboxApi,
    },
};
use protocol::api::{Label, SandboxId};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::time::timeout_at;

#[derive(Default)]
pub struct Watchers(Mutex<HashMap<String, Watcher>>);

struct Watcher {
    sandbox: SandboxId,
    tenant: Label,
    /// Read by a single poll at a time.
    polled_watch: Arc<tokio::sync::Mutex<PolledWatch>>,
    polled: Instant,
}

struct PolledWatch {
    events: WatchEvents,
    /// Changes that no poll has returned.
    pending: Vec<FilesystemEvent>,
}

impl Watchers {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Watcher>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = Duration::from_secs(WATCHER_IDLE_S);
        all.retain(|_, watcher| watcher.polled.elapsed() < idle);
        all
    }

    pub async fn create(
        &self,
        (api, tenant): (&SandboxApi, &Label),
        request: WatchRequest,
    ) -> Result<WatcherCreated, ConnectError> {
        self.check_room(api, tenant)?;
        let events = WatchEvents::open(api, &request).await?;
        self.check_room(api, tenant)?;
        let watcher_id = ulid::Ulid::generate().to_string().to_ascii_lowercase();
        let polled_watch = Arc::new(tokio::sync::Mutex::new(PolledWatch { events, pending: Vec::new() }));
        let (sandbox, tenant) = (api.sandbox, tenant.clone());
        let watcher = Watcher { sandbox, tenant, polled_watch, polled: Instant::now() };
        self.all().insert(watcher_id.clone(), watcher);
        Ok(WatcherCreated { watcher_id })
    }

    fn check_room(&self, api: &SandboxApi, tenant: &Label) -> Result<(), ConnectError> {
        let all = self.all();
        let of_sandbox = all.values().filter(|watcher| watcher.sandbox == api.sandbox).count();
        let of_tenant = all.values().filter(|watcher| watcher.tenant == *tenant).count();
        let fits = of_sandbox < WATCHERS_OF_SANDBOX_MAX && of_tenant < WATCHERS_OF_TENANT_MAX;
        if fits && all.len() < WATCHERS_MAX {
            return Ok(());
        }
        let message = format!(
            "too many watchers (at most {WATCHERS_OF_SANDBOX_MAX} of a sandbox, and {WATCHERS_OF_TENANT_MAX} of all \
             your sandboxes): remove one"
        );
        Err(ConnectError::new(Code::ResourceExhausted, message))
    }

    /// The changes since the last poll. Each is returned once; those of a poll that is cut, by the next one.
    pub async fn events(
        &self,
        api: &SandboxApi,
        request: WatcherRequest,
    ) -> Result<EventsResponse, ConnectError> {
        check_access(api).await?;
        let shared = {
            let mut all = self.all();
            let watcher = all.get_mut(&request.watcher_id).filter(|watcher| watcher.sandbox == api.sandbox);
            let watcher = watcher.ok_or_else(|| missing(&request))?;
            watcher.polled = Instant::now();
            watcher.polled_watch.clone()
        };
        let mut polled = shared.lock().await;
        if polled.collect().await? == Collected::AllThereWas {
            self.all().remove(&request.watcher_id);
            return Err(missing(&request));
        }
        let mut described = Vec::with_capacity(polled.pending.len());
        for event in &polled.pending {
            let path = polled.events.path_to_describe(event);
            described.push(watch::with_entry(api, path, event.clone()).await);
        }
        polled.pending.clear();
        Ok(EventsResponse { events: described })
    }

    pub async fn remove(&self, api: &SandboxApi, request: &WatcherRequest) -> Result<Empty, ConnectError> {
        check_access(api).await?;
        let mut all = self.all();
        match all.get(&request.watcher_id) {
            Some(watcher) if watcher.sandbox == api.sandbox => {
                all.remove(&request.watcher_id);
                Ok(Empty {})
            }
            Some(_) | None => Err(missing(request)),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Collected {
    /// There may be more later.
    Changes,
    /// The watch has ended, and everything of it was returned.
    AllThereWas,
}

impl PolledWatch {
    /// Takes the changes that are there, and waits a moment for those on their way.
    async fn collect(&mut self) -> Result<Collected, ConnectError> {
        let end = Instant::now() + Duration::from_millis(WATCHER_POLL_MS);
        while self.pending.len() < WATCHER_EVENTS_MAX {
            let quiet = Instant::now() + Duration::from_millis(WATCHER_QUIET_MS);
            let until = if self.pending.is_empty() { end } else { end.min(quiet) };
            // What was read of an event is kept; changes that are there are taken also after the end.
            match timeout_at(until.into(), self.events.next()).await {
                Ok(WatchNews::Changed(changed)) => self.pending.extend(changed),
                Ok(WatchNews::Overflow) => return Err(watch::overflow()),
                Ok(WatchNews::Ended) if self.pending.is_empty() => return Ok(Collected::AllThereWas),
                Ok(WatchNews::Ended) | Err(_) => break,
            }
        }
        Ok(Collected::Changes)
    }
}

/// What is in memory is only for callers that the API still lets in.
async fn check_access(api: &SandboxApi) -> Result<(), ConnectError> {
    let _: serde::de::IgnoredAny = api.get("").await?;
    Ok(())
}

fn missing(request: &WatcherRequest) -> ConnectError {
    let id: String = request.watcher_id.chars().take(64).collect();
    ConnectError::new(Code::NotFound, format!("watcher with id {id} not found"))
}
