//! Watchers that clients poll. Each has a subscription of its own to a watch of the files API, which keeps changes until they
//! are fetched. A watcher is not there any more after a restart of hostd: its client is told so, and makes another.

use super::{
    messages::{Empty, EventsResponse, WatchRequest, WatcherCreated, WatcherRequest},
    watch,
    watch_events::{WatchEvents, WatchNews},
};
use crate::e2b::{
    connect::{Code, ConnectError},
    envd::{
        limits::{WATCHER_EVENTS_MAX, WATCHER_IDLE_S, WATCHERS_MAX, WATCHERS_OF_SANDBOX_MAX},
        sandbox_api::SandboxApi,
    },
};
use protocol::api::SandboxId;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

#[derive(Default)]
pub struct Watchers(Mutex<HashMap<String, Watcher>>);

struct Watcher {
    sandbox: SandboxId,
    /// Read by a single poll at a time.
    events: Arc<tokio::sync::Mutex<WatchEvents>>,
    polled: Instant,
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
        api: &SandboxApi,
        request: WatchRequest,
    ) -> Result<WatcherCreated, ConnectError> {
        self.check_room(api)?;
        let events = WatchEvents::open(api, &request).await?;
        self.check_room(api)?;
        let watcher_id = ulid::Ulid::generate().to_string().to_ascii_lowercase();
        let events = Arc::new(tokio::sync::Mutex::new(events));
        let watcher = Watcher { sandbox: api.sandbox, events, polled: Instant::now() };
        self.all().insert(watcher_id.clone(), watcher);
        Ok(WatcherCreated { watcher_id })
    }

    fn check_room(&self, api: &SandboxApi) -> Result<(), ConnectError> {
        let all = self.all();
        let mine = all.values().filter(|watcher| watcher.sandbox == api.sandbox).count();
        if mine >= WATCHERS_OF_SANDBOX_MAX || all.len() >= WATCHERS_MAX {
            let message =
                format!("too many watchers (at most {WATCHERS_OF_SANDBOX_MAX} of a sandbox): remove one");
            return Err(ConnectError::new(Code::ResourceExhausted, message));
        }
        Ok(())
    }

    /// The changes since the last poll. Each is returned once.
    pub async fn events(
        &self,
        api: &SandboxApi,
        request: WatcherRequest,
    ) -> Result<EventsResponse, ConnectError> {
        let shared = {
            let mut all = self.all();
            let watcher = all.get_mut(&request.watcher_id).filter(|watcher| watcher.sandbox == api.sandbox);
            let watcher = watcher.ok_or_else(|| missing(&request))?;
            watcher.polled = Instant::now();
            watcher.events.clone()
        };
        let mut watch = shared.lock().await;
        let mut events = Vec::new();
        while events.len() < WATCHER_EVENTS_MAX {
            match watch.try_next() {
                Some(WatchNews::Changed(changed)) => events.extend(changed),
                Some(WatchNews::Overflow) => return Err(watch::overflow()),
                Some(WatchNews::Ended) if events.is_empty() => {
                    self.all().remove(&request.watcher_id);
                    return Err(missing(&request));
                }
                Some(WatchNews::Ended) | None => break,
            }
        }
        let paths: Vec<_> = events.iter().map(|event| watch.path_to_describe(event)).collect();
        let mut described = Vec::with_capacity(events.len());
        for (event, path) in events.into_iter().zip(paths) {
            described.push(watch::with_entry(api, path, event).await);
        }
        Ok(EventsResponse { events: described })
    }

    #[expect(clippy::unused_async, reason = "called as the other methods are")]
    pub async fn remove(&self, api: &SandboxApi, request: &WatcherRequest) -> Result<Empty, ConnectError> {
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

fn missing(request: &WatcherRequest) -> ConnectError {
    let id: String = request.watcher_id.chars().take(64).collect();
    ConnectError::new(Code::NotFound, format!("watcher with id {id} not found"))
}
