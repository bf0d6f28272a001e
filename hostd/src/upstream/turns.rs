//! Whose turn it is at a port: as many at once as its window allows.

use crate::core::edge::{TURNS_FIRST, Window};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};
use tokio::sync::Semaphore;

#[derive(Debug)]
pub struct Turns {
    free: Semaphore,
    /// Turns that are out and will not be free again: the window became smaller.
    owed: AtomicUsize,
    window: Mutex<Window>,
    full: AtomicBool,
}

/// One of the requests that a port may have at once.
#[derive(Debug)]
pub struct Turn {
    of: Arc<Turns>,
    told: bool,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            free: Semaphore::new(TURNS_FIRST),
            owed: AtomicUsize::new(0),
            window: Mutex::default(),
            full: AtomicBool::new(false),
        }
    }
}

impl Turns {
    pub async fn turn(self: Arc<Self>) -> Turn {
        self.free.acquire().await.expect("never closed").forget();
        Turn { of: self, told: false }
    }

    fn give(&self) {
        let owed = self.owed.load(Relaxed) > 0
            && self.owed.fetch_update(Relaxed, Relaxed, |owed| owed.checked_sub(1)).is_ok();
        if !owed {
            self.free.add_permits(1);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Window) -> usize) -> usize {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let by = change(&mut window);
        self.full.store(window.is_full(), Relaxed);
        by
    }
}

impl Turn {
    /// The app has the request: others may follow. Told once.
    pub fn heard(&mut self) {
        if !self.told && !self.of.full.load(Relaxed) {
            self.told = true;
            for _ in 0..self.of.change(Window::heard) {
                self.of.give();
            }
        }
    }

    /// It has not, though it should.
    pub fn unheard(&self) {
        let fewer = self.of.change(|window| window.unheard(Instant::now()));
        let owed = fewer - self.of.free.forget_permits(fewer);
        self.of.owed.fetch_add(owed, Relaxed);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.of.give();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn all(turns: &Arc<Turns>) -> Vec<Turn> {
        std::iter::from_fn(|| turns.clone().turn().now_or_never()).collect()
    }

    #[test]
    fn a_port_that_hears_has_more_turns_and_one_that_does_not_has_fewer() {
        let turns = Arc::<Turns>::default();
        let mut taken = all(&turns);
        assert_eq!(taken.len(), TURNS_FIRST);
        taken.iter_mut().for_each(Turn::heard);
        taken.iter_mut().for_each(Turn::heard);
        drop(taken);
        let mut taken = all(&turns);
        assert_eq!(taken.len(), 2 * TURNS_FIRST, "each counts once");
        // Half of them were too many: they are gone when they come back.
        taken[0].unheard();
        taken.truncate(TURNS_FIRST);
        assert!(all(&turns).is_empty());
        drop(taken);
        assert_eq!(all(&turns).len(), TURNS_FIRST);
    }
}
