//! Wakes a sandbox, once however many requests ask for it, and waits until the port is listened on.
//!
//! ```text
//!  request ─┐
//!  request ─┼─▶ wake of a preview: starting ──▶ listening ──▶ ready
//!  request ─┘    (one task)            └────────────┴────────▶ failed
//! ```
//!
//! Requests wait where they are: their bodies stay with the browser until the app can take them.

mod thaw;

pub use thaw::thaw_same_epoch;

use super::{error_page::Unserved, forward, limits, metrics::ConnectionSource, state::Edge};
use crate::{preview_target::PreviewTarget, waker::WakeError};
use hostd_core::{NoResponse, Preview, edge::expects_listener};
use protocol::api::ApiErrorCode;
use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// How far the wake of a preview is.
#[derive(Debug, Clone)]
pub enum WakeStage {
    Starting,
    Listening,
    Ready(WakeTimings),
    Failed(NoResponse),
}

/// How long each step took.
#[derive(Debug, Clone, Copy, Default)]
pub struct WakeTimings {
    pub start: Duration,
    pub listen: Duration,
}

#[derive(Default)]
pub struct Wakes {
    /// Wakes that are watched, or were a moment ago.
    running: Mutex<HashMap<Preview, Weak<watch::Sender<WakeStage>>>>,
}

impl Wakes {
    fn running(&self) -> MutexGuard<'_, HashMap<Preview, Weak<watch::Sender<WakeStage>>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a wake that has no watcher; whether it did.
    fn abandon(&self, preview: &Preview, stage: &watch::Sender<WakeStage>) -> bool {
        let mut running = self.running();
        // Checked with the lock held: no watcher can join now.
        let abandoned = stage.receiver_count() == 0;
        if abandoned {
            running.remove(preview);
        }
        abandoned
    }
}

impl Edge {
    /// Returns the stage that a preview reached within this time.
    pub(super) async fn wake_within(
        self: &Arc<Self>,
        target: &Arc<PreviewTarget>,
        preview: Preview,
        within: Duration,
    ) -> WakeStage {
        let started = Instant::now();
        let mut again = true;
        loop {
            // So many ports of the sandbox are waited for that this one is not.
            let Some(wake) = self.wake(target, preview) else { return WakeStage::Starting };
            // The sandbox was up for that wake and is not now: it was stopped before this request came.
            let stopped = matches!(*wake.borrow(), WakeStage::Listening) && !target.is_up();
            let stage = outcome(wake, within.saturating_sub(started.elapsed())).await;
            if !(again && stopped && matches!(stage, WakeStage::Failed(NoResponse::PortClosed))) {
                return stage;
            }
            again = false;
        }
    }

    /// Returns the running wake of a preview, if there is one.
    pub(super) fn running_wake(&self, preview: Preview) -> Option<watch::Receiver<WakeStage>> {
        self.wakes.running().get(&preview).and_then(Weak::upgrade).map(|stage| stage.subscribe())
    }

    /// Joins the wake of a preview; begins one if there is none and the sandbox has few enough.
    pub(super) fn wake(
        self: &Arc<Self>,
        target: &Arc<PreviewTarget>,
        preview: Preview,
    ) -> Option<watch::Receiver<WakeStage>> {
        let mut running = self.wakes.running();
        if let Some(stage) = running.get(&preview).and_then(Weak::upgrade) {
            return Some(stage.subscribe());
        }
        if running.keys().filter(|other| other.sandbox == preview.sandbox).count() >= limits::WAKES_MAX {
            return None;
        }
        let (stage, watcher) = watch::channel(WakeStage::Starting);
        let stage = Arc::new(stage);
        running.insert(preview, Arc::downgrade(&stage));
        let (edge, target) = (self.clone(), target.clone());
        self.work.spawn(async move {
            let mut woken = pin!(edge.run_wake(&target, preview.port, &stage));
            let ended = loop {
                let unwatched = async {
                    stage.closed().await;
                    sleep(limits::UNWATCHED_MAX).await;
                };
                tokio::select! {
                    // Nothing is half done: the actor of the sandbox goes on.
                    () = edge.closing.cancelled() => break shutting_down(),
                    ended = woken.as_mut() => break ended,
                    () = unwatched => if edge.wakes.abandon(&preview, &stage) { return },
                }
            };
            // Removed before the end is published: a request that comes now begins another wake.
            edge.wakes.running().remove(&preview);
            edge.count_wake(&ended);
            stage.send_replace(ended);
        });
        Some(watcher)
    }

    fn count_wake(&self, ended: &WakeStage) {
        match ended {
            WakeStage::Ready(timings) => self.metrics.count_ready(timings),
            WakeStage::Failed(_) => {
                self.metrics.failed_wakes.inc();
            }
            WakeStage::Starting | WakeStage::Listening => {}
        }
    }

    async fn run_wake(
        &self,
        target: &PreviewTarget,
        port: u16,
        stage: &watch::Sender<WakeStage>,
    ) -> WakeStage {
        let started = Instant::now();
        let mut tries = limits::WAKE_TRIES;
        // Its lease keeps the sandbox awake until the first request is served.
        let _control = loop {
            tries -= 1;
            match self.waker.wake(&target.id).await {
                Ok(control) => break control,
                // Stopped by another caller meanwhile: it is asleep now, and can be woken.
                Err(WakeError::Stopped { .. }) if tries > 0 => {}
                Err(WakeError::Stopped { message }) => return wake_failed(ApiErrorCode::Waking, message),
                Err(WakeError::Failed { code, message }) => return wake_failed(code, message),
            }
        };
        let start = started.elapsed();
        stage.send_replace(WakeStage::Listening);
        let listening = tokio::select! {
            // Both only observe.
            () = target.down() => false,
            listening = timeout(limits::LISTEN_MAX, self.wait_for_listener(target, port)) => listening.unwrap_or(false),
        };
        if listening {
            WakeStage::Ready(WakeTimings { start, listen: started.elapsed() - start })
        } else {
            WakeStage::Failed(NoResponse::PortClosed)
        }
    }

    /// Waits until the port is listened on; false when no service is expected to listen there.
    async fn wait_for_listener(&self, target: &PreviewTarget, port: u16) -> bool {
        let started = Instant::now();
        let mut ask_at = started + limits::STATUS_FIRST;
        let (spec_ports, mut expected) = (target.record().blueprint.ports.clone(), true);
        loop {
            let not_tried = match forward::dial(target, port).await {
                Ok(connection) => {
                    self.metrics.upstream_connections.of(ConnectionSource::Opened).inc();
                    target.connections.put(port, connection);
                    return true;
                }
                Err(Unserved::Refused(_)) => true,
                Err(Unserved::NoResponse(_)) => false,
            };
            // A service that was expected a moment ago has had its try above.
            if !expected && !not_tried {
                return false;
            }
            if Instant::now() >= ask_at {
                ask_at = Instant::now() + limits::STATUS_EVERY;
                let now_ms = self.clock.now_ms();
                // A PID 1 that is late says neither yes nor no.
                let status = target.status().await;
                expected = status.is_none_or(|status| expects_listener(&status, port, &spec_ports, now_ms));
                if !expected {
                    continue;
                }
            }
            // The longer it took already, the less a moment matters.
            sleep((started.elapsed() / 8).clamp(limits::TRY_MIN, limits::TRY_MAX)).await;
        }
    }
}

/// Returns the stage that a wake reached within this time.
async fn outcome(mut wake: watch::Receiver<WakeStage>, within: Duration) -> WakeStage {
    let ended = |stage: &WakeStage| matches!(stage, WakeStage::Ready(_) | WakeStage::Failed(_));
    let waited = timeout(within, wake.wait_for(ended)).await;
    if let Ok(Err(_)) = waited {
        // The task of the wake was aborted, which only happens when hostd ends.
        return shutting_down();
    }
    drop(waited);
    wake.borrow().clone()
}

fn shutting_down() -> WakeStage {
    wake_failed(ApiErrorCode::ShuttingDown, "hostd is shutting down".to_owned())
}

fn wake_failed(code: ApiErrorCode, message: String) -> WakeStage {
    WakeStage::Failed(NoResponse::WakeFailed { code, message })
}

impl WakeTimings {
    /// The value of `Server-Timing`.
    pub fn header(&self, held: Duration) -> String {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        format!(
            "start;dur={:.1};desc=\"sandbox up\", listen;dur={:.1};desc=\"port listened on\", hold;dur={:.1}",
            ms(self.start),
            ms(self.listen),
            ms(held)
        )
    }
}
