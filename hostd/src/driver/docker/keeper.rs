//! The task that keeps in touch with the engine: connects, listens, tries it out, and begins again when it
//! went away.

use super::{
    driver::{Docker, Inner},
    engine::{EngineError, Events, Meeting},
    limits::{
        EVENTS_GATHER_MS, LIST_EVERY_MS, PING_EVERY_MS, PROBE_AGAIN_FIRST_MS, PROBE_AGAIN_MAX_MS,
        RECONNECT_FIRST_MS, RECONNECT_MAX_MS,
    },
    looks::Looks,
    mirror::matters,
    standing::Standing,
};
use crate::driver::local::ground::explain;
use futures_util::{StreamExt, future::BoxFuture};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tracing::{info, warn};

/// Until it is cancelled; safe anywhere, as nothing here is needed by what runs.
pub async fn keep(inner: Arc<Inner>) {
    let mut pause = Duration::from_millis(RECONNECT_FIRST_MS);
    loop {
        let began = Instant::now();
        let why = match connect(&inner).await {
            Ok((meeting, events)) => {
                pause = Duration::from_millis(RECONNECT_FIRST_MS);
                // Whichever ends, both do: listening ends with the connection, trying out never.
                tokio::select! {
                    why = follow(&inner, events) => why,
                    () = qualify(&inner, &meeting) => continue,
                }
            }
            Err(error) => error.to_string(),
        };
        if inner.mirror.check().is_ok() || began.elapsed() > pause {
            warn!(why, "the container engine is away");
        }
        inner.mirror.set_down(why.clone());
        inner.standing.away(why);
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(RECONNECT_MAX_MS));
    }
}

/// Follows first and lists then: what happens in between is not missed.
async fn connect(inner: &Arc<Inner>) -> Result<(Meeting, Events), EngineError> {
    let meeting = inner.engine.meet().await?;
    let events = inner.engine.events(&inner.filter).await?;
    // It may have come back with another configuration.
    inner.networks.forget();
    inner.list_all().await?;
    inner.mirror.set_up();
    inner.sweep();
    info!(engine = meeting.version, api = meeting.api, "the container engine answers");
    Ok((meeting, events))
}

/// Why it ended.
async fn follow(inner: &Arc<Inner>, mut events: Events) -> String {
    let mut relist = interval(Duration::from_millis(LIST_EVERY_MS));
    relist.set_missed_tick_behavior(MissedTickBehavior::Delay);
    relist.reset();
    let mut ping = interval(Duration::from_millis(PING_EVERY_MS));
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looks = Looks::new(|container: String| -> BoxFuture<'_, _> {
        Box::pin(async move { inner.mirror.ask_if_it_can_tell(&container).await })
    });
    let mut gathered = Instant::now();
    loop {
        // An event is taken whole or not at all; the others only wait.
        let done = tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => {
                    ping.reset();
                    if event.action == "oom" {
                        inner.heard_oom(&event.container);
                    }
                    if matters(&event.action) && looks.touch(event.container) {
                        gathered = Instant::now() + Duration::from_millis(EVENTS_GATHER_MS);
                    }
                    Ok(())
                }
                Some(Err(error)) => Err(error),
                None => return "the container engine stopped telling what happens".to_owned(),
            },
            () = sleep_until(gathered), if looks.may_begin() => {
                looks.begin();
                Ok(())
            }
            answered = looks.answered() => answered.map(|container| {
                inner.mirror.by_id(&container).into_iter().for_each(|found| inner.sweep_one(found));
            }),
            _ = relist.tick() => inner.list_all().await,
            // A stream that is silent says nothing about whoever is at its other end.
            _ = ping.tick() => inner.engine.ping().await,
        };
        if let Err(error) = done {
            return error.to_string();
        }
    }
}

/// Tries the engine out until it passes; then waits for ever.
async fn qualify(inner: &Arc<Inner>, meeting: &Meeting) {
    if inner.standing.back(meeting) {
        return std::future::pending().await;
    }
    let docker = Docker::unguarded(inner);
    let mut pause = Duration::from_millis(PROBE_AGAIN_FIRST_MS);
    loop {
        match docker.probe(meeting).await {
            Ok(fitness) => {
                inner.standing.set(Standing::Fit(Arc::new(fitness)));
                return std::future::pending().await;
            }
            Err(error) => {
                let why = explain(&error);
                warn!(engine = meeting.version, why, "the container engine does not run a sandbox");
                inner.standing.set(Standing::Unfit { engine: meeting.version.clone(), why });
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(PROBE_AGAIN_MAX_MS));
    }
}
