//! Waking a sandbox for whoever asks, once however many ask, and waiting until its port is listened on.
//!
//! ```text
//!  request ─┐
//!  request ─┼─▶ flight of a preview: starting ──▶ listening ──▶ ready
//!  request ─┘    (one task)              └───────────┴─────────▶ failed
//! ```
//!
//! Requests are held where they stand: their bodies stay with the browser until there is somebody to take
//! them.

use super::{
    limits,
    pass::{self, Trouble},
    state::Edge,
};
use crate::{
    core::{Preview, edge::on_its_way},
    reconcile::{FleetError, PreviewTarget},
};
use std::{
    collections::HashMap,
    io,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// How far it is.
#[derive(Debug, Clone)]
pub enum Stage {
    Starting,
    Listening,
    Ready(Steps),
    Failed(Failed),
}

/// How long each step took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Steps {
    pub start: Duration,
    pub listen: Duration,
}

#[derive(Debug, Clone)]
pub enum Failed {
    /// The sandbox did not come up.
    Sandbox(Arc<FleetError>),
    /// It is up, nothing listens there, and nothing is on its way that would.
    Port,
}

#[derive(Default)]
pub struct Flights {
    /// Those that are watched, or were a moment ago.
    going: Mutex<HashMap<Preview, Weak<watch::Sender<Stage>>>>,
}

impl Flights {
    fn going(&self) -> MutexGuard<'_, HashMap<Preview, Weak<watch::Sender<Stage>>>> {
        self.going.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one off that nobody watches.
    fn abandon(&self, preview: &Preview, stage: &watch::Sender<Stage>) -> bool {
        let mut going = self.going();
        // With the lock held: nobody joins it now.
        let abandoned = stage.receiver_count() == 0;
        if abandoned {
            going.remove(preview);
        }
        abandoned
    }
}

impl Edge {
    /// What becomes of a preview within this time.
    pub(super) async fn landing(
        self: &Arc<Self>,
        site: &Arc<PreviewTarget>,
        preview: Preview,
        within: Duration,
    ) -> Stage {
        let begun = Instant::now();
        let mut again = true;
        loop {
            // So many ports are waited for that this one is not.
            let Some(flight) = self.flight(site, preview) else { return Stage::Starting };
            // It was up for that flight and is not now: it was stopped before this request came.
            let lost = matches!(*flight.borrow(), Stage::Listening) && !site.is_up();
            let stage = outcome(flight, within.saturating_sub(begun.elapsed())).await;
            if !(again && lost && matches!(stage, Stage::Failed(Failed::Port))) {
                return stage;
            }
            again = false;
        }
    }

    /// The flight of a preview, if there is one.
    pub(super) fn going(&self, preview: Preview) -> Option<watch::Receiver<Stage>> {
        self.flights.going().get(&preview).and_then(Weak::upgrade).map(|stage| stage.subscribe())
    }

    /// The flight of a preview, begun if there is none and the sandbox has few enough.
    pub(super) fn flight(
        self: &Arc<Self>,
        site: &Arc<PreviewTarget>,
        preview: Preview,
    ) -> Option<watch::Receiver<Stage>> {
        let mut going = self.flights.going();
        if let Some(stage) = going.get(&preview).and_then(Weak::upgrade) {
            return Some(stage.subscribe());
        }
        if going.keys().filter(|other| other.sandbox == preview.sandbox).count() >= limits::FLIGHTS_MAX {
            return None;
        }
        let (stage, seen) = watch::channel(Stage::Starting);
        let stage = Arc::new(stage);
        going.insert(preview, Arc::downgrade(&stage));
        let (edge, site) = (self.clone(), site.clone());
        self.work.spawn(async move {
            let mut flown = pin!(edge.fly(&site, preview.port, &stage));
            let ended = loop {
                let unwatched = async {
                    stage.closed().await;
                    sleep(limits::UNWATCHED_MAX).await;
                };
                tokio::select! {
                    // Nothing is half done: the owner of the sandbox goes on.
                    () = edge.closing.cancelled() => break cut_off(),
                    ended = flown.as_mut() => break ended,
                    () = unwatched => if edge.flights.abandon(&preview, &stage) { return },
                }
            };
            // Away before it is told: who comes now begins another.
            edge.flights.going().remove(&preview);
            stage.send_replace(ended);
        });
        Some(seen)
    }

    async fn fly(&self, site: &PreviewTarget, port: u16, stage: &watch::Sender<Stage>) -> Stage {
        let begun = Instant::now();
        let mut tries = limits::WAKE_TRIES;
        // It keeps it awake until somebody is served.
        let _control = loop {
            tries -= 1;
            match self.fleet.wake_for_work(&site.id).await {
                Ok((_, control)) => break control,
                // Somebody stopped it meanwhile: it is asleep now, and can be woken.
                Err(FleetError::NotRunning { .. }) if tries > 0 => {}
                Err(error) => return Stage::Failed(Failed::Sandbox(Arc::new(error))),
            }
        };
        let start = begun.elapsed();
        stage.send_replace(Stage::Listening);
        let listening = tokio::select! {
            // Both only look.
            () = site.down() => false,
            listening = timeout(limits::LISTEN_MAX, self.listens(site, port)) => listening.unwrap_or(false),
        };
        if listening {
            Stage::Ready(Steps { start, listen: begun.elapsed() - start })
        } else {
            Stage::Failed(Failed::Port)
        }
    }

    /// Whether the port is listened on, now or after what is on its way has come.
    async fn listens(&self, site: &PreviewTarget, port: u16) -> bool {
        let begun = Instant::now();
        let mut ask_at = begun + limits::ASK_FIRST;
        let (made_with, mut comes) = (site.record().blueprint.ports.clone(), true);
        loop {
            let busy = match pass::dial(site, port).await {
                Ok(line) => {
                    site.lines.put(port, line);
                    return true;
                }
                // It was not even tried.
                Err(Trouble::Dial(error)) => error.kind() == io::ErrorKind::ResourceBusy,
                Err(_) => false,
            };
            // What was on its way a moment ago has had its try above.
            if !comes && !busy {
                return false;
            }
            if Instant::now() >= ask_at {
                ask_at = Instant::now() + limits::ASK_EVERY;
                let now_ms = self.fleet.clock().now_ms();
                // A PID 1 that is late tells nothing, neither yes nor no.
                let told = site.status().await;
                comes = told.is_none_or(|status| on_its_way(&status, port, &made_with, now_ms));
                if !comes {
                    continue;
                }
            }
            // The longer it took already, the less a moment matters.
            sleep((begun.elapsed() / 8).clamp(limits::TRY_MIN, limits::TRY_MAX)).await;
        }
    }
}

/// What becomes of it within this time.
async fn outcome(mut flight: watch::Receiver<Stage>, within: Duration) -> Stage {
    let ended = |stage: &Stage| matches!(stage, Stage::Ready(_) | Stage::Failed(_));
    let waited = timeout(within, flight.wait_for(ended)).await;
    if let Ok(Err(_)) = waited {
        // Its task was cut off, which only the end of hostd does.
        return cut_off();
    }
    drop(waited);
    flight.borrow().clone()
}

fn cut_off() -> Stage {
    Stage::Failed(Failed::Sandbox(Arc::new(FleetError::ShuttingDown)))
}

impl Steps {
    /// As `Server-Timing`.
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
