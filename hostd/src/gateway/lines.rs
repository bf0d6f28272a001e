//! The connections to providers that are kept for the next call.

use super::{
    limits::{LINE_IDLE_MAX_MS, LINES_ALL_MAX, LINES_MAX},
    line::Line,
    origin::Origin,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    time::{Duration, Instant},
};

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Lines {
    kept: Arc<Mutex<HashMap<Origin, Vec<Idle>>>>,
}

struct Idle {
    line: Box<Line>,
    since: Instant,
}

impl Idle {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() <= Duration::from_millis(LINE_IDLE_MAX_MS)
    }
}

impl Lines {
    /// The one used last that is still good.
    pub fn take(&self, origin: &Origin) -> Option<Box<Line>> {
        let mut kept = self.kept();
        let idle = kept.get_mut(origin)?;
        // Nobody is to be woken: it is only asked.
        let mut cx = Context::from_waker(Waker::noop());
        while let Some(mut last) = idle.pop() {
            if last.is_fresh() && last.line.is_free(&mut cx) {
                return Some(last.line);
            }
        }
        None
    }

    /// Keeps a line, if it can be used again and there are not many.
    pub fn put(&self, origin: &Origin, mut line: Box<Line>) {
        if !line.is_free(&mut Context::from_waker(Waker::noop())) {
            return;
        }
        let mut kept = self.kept();
        for idle in kept.values_mut() {
            idle.retain(Idle::is_fresh);
        }
        kept.retain(|known, idle| known == origin || !idle.is_empty());
        if kept.values().map(Vec::len).sum::<usize>() >= LINES_ALL_MAX {
            return;
        }
        let idle = kept.entry(origin.clone()).or_default();
        if idle.len() >= LINES_MAX {
            idle.remove(0);
        }
        idle.push(Idle { line, since: Instant::now() });
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Origin, Vec<Idle>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
