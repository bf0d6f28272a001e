//! The connections of one sandbox to servers of `http://` that are kept for the next request.

use super::{
    limits::{LINE_IDLE_MAX_MS, LINES_ALL_MAX, LINES_MAX},
    line::Line,
};
use crate::core::egress::Asked;
use std::{
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Of all sandboxes: each is a descriptor.
static PLACES: Semaphore = Semaphore::const_new(LINES_ALL_MAX);

#[derive(Default)]
pub struct Lines {
    /// The one used last is last.
    kept: Mutex<Vec<Idle>>,
}

struct Idle {
    asked: Asked,
    line: Box<Line>,
    since: Instant,
    _place: SemaphorePermit<'static>,
}

impl Idle {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() <= Duration::from_millis(LINE_IDLE_MAX_MS)
    }
}

impl Lines {
    /// The one used last that leads there, to an address that it `may` lead to, and is still good.
    pub fn take(&self, asked: &Asked, may: impl Fn(IpAddr) -> bool) -> Option<Box<Line>> {
        let mut kept = self.kept();
        kept.retain(Idle::is_fresh);
        loop {
            let at = kept.iter().rposition(|idle| idle.asked == *asked && may(idle.line.address))?;
            let mut line = kept.remove(at).line;
            if line.is_free() {
                return Some(line);
            }
        }
    }

    /// Keeps a line, if it can be used again and there are not many.
    pub fn put(&self, asked: &Asked, mut line: Box<Line>) {
        if !line.is_free() {
            return;
        }
        let mut kept = self.kept();
        kept.retain(Idle::is_fresh);
        if kept.len() >= LINES_MAX {
            kept.remove(0);
        }
        let Ok(place) = PLACES.try_acquire() else { return };
        kept.push(Idle { asked: asked.clone(), line, since: Instant::now(), _place: place });
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
