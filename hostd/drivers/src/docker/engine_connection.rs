//! The task that maintains the connection to the engine: connects, follows events, probes the engine, and
//! reconnects with backoff.

use super::{
    container_cache::changes_state,
    driver::{Docker, DockerInner},
    engine::{EngineError, EngineInfo, Events},
    engine_health::EngineHealth,
    inspect_queue::InspectQueue,
    limits::{
        EVENT_DEBOUNCE_MS, PING_EVERY_MS, PROBE_RETRY_FIRST_MS, PROBE_RETRY_MAX_MS, RECONNECT_FIRST_MS,
        RECONNECT_MAX_MS, RELIST_EVERY_MS,
    },
};
use crate::local::host_checks::describe_error;
use futures_util::{StreamExt, future::BoxFuture};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tracing::{info, warn};

/// Runs until cancelled. Cancelling is safe anywhere: running sandboxes do not depend on this task.
pub async fn run(inner: Arc<DockerInner>) {
    let mut pause = Duration::from_millis(RECONNECT_FIRST_MS);
    loop {
        let began = Instant::now();
        let why = match connect(&inner).await {
            Ok((info, events)) => {
                pause = Duration::from_millis(RECONNECT_FIRST_MS);
                // `follow_events` ends with the connection, `probe_until_fit` never; dropping the other one
                // loses nothing.
                tokio::select! {
                    why = follow_events(&inner, events) => why,
                    () = probe_until_fit(&inner, &info) => continue,
                }
            }
            Err(error) => error.to_string(),
        };
        if inner.cache.check_connected().is_ok() || began.elapsed() > pause {
            warn!(why, "container engine is unreachable");
        }
        inner.cache.set_disconnected(why.clone());
        inner.health.set_unreachable(why);
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(RECONNECT_MAX_MS));
    }
}

/// Subscribes first and lists then, so that no change in between is missed.
async fn connect(inner: &Arc<DockerInner>) -> Result<(EngineInfo, Events), EngineError> {
    let info = inner.engine.connect().await?;
    let events = inner.engine.events(&inner.filter).await?;
    // The engine may be back with another configuration.
    inner.networks.forget();
    inner.relist_all().await?;
    inner.cache.set_connected();
    inner.remove_destroyed();
    info!(engine = info.version, api = info.api, "connected to the container engine");
    Ok((info, events))
}

/// Follows the event stream; returns why it ended.
async fn follow_events(inner: &Arc<DockerInner>, mut events: Events) -> String {
    let mut relist = interval(Duration::from_millis(RELIST_EVERY_MS));
    relist.set_missed_tick_behavior(MissedTickBehavior::Delay);
    relist.reset();
    let mut ping = interval(Duration::from_millis(PING_EVERY_MS));
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut queue = InspectQueue::new(|container: String| -> BoxFuture<'_, _> {
        Box::pin(async move { inner.cache.try_refresh(&container).await })
    });
    let mut flush_at = Instant::now();
    loop {
        // An event is consumed whole or not at all; cancelling the other arms loses nothing.
        let done = tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => {
                    ping.reset();
                    if event.action == "oom" {
                        inner.record_oom(&event.container);
                    }
                    if changes_state(&event.action) && queue.enqueue(event.container) {
                        flush_at = Instant::now() + Duration::from_millis(EVENT_DEBOUNCE_MS);
                    }
                    Ok(())
                }
                Some(Err(error)) => Err(error),
                None => return "the event stream of the container engine ended".to_owned(),
            },
            () = sleep_until(flush_at), if queue.can_start() => {
                queue.start();
                Ok(())
            }
            refreshed = queue.next_done() => refreshed.map(|container| {
                inner.cache.by_id(&container).into_iter().for_each(|found| inner.remove_if_destroyed(found));
            }),
            _ = relist.tick() => inner.relist_all().await,
            // A silent stream does not prove that the daemon is alive.
            _ = ping.tick() => inner.engine.ping().await,
        };
        if let Err(error) = done {
            return error.to_string();
        }
    }
}

/// Probes the engine until it passes; then never returns.
async fn probe_until_fit(inner: &Arc<DockerInner>, info: &EngineInfo) {
    if inner.health.restore_if_same(info) {
        return std::future::pending().await;
    }
    let docker = Docker::without_connection(inner);
    let mut pause = Duration::from_millis(PROBE_RETRY_FIRST_MS);
    loop {
        match docker.probe(info).await {
            Ok(fit_engine) => {
                inner.health.set(EngineHealth::Fit(Arc::new(fit_engine)));
                return std::future::pending().await;
            }
            Err(error) => {
                let why = describe_error(&error);
                warn!(engine = info.version, why, "the container engine failed the probe");
                inner.health.set(EngineHealth::Unfit { engine: info.version.clone(), why });
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(PROBE_RETRY_MAX_MS));
    }
}
