//! Limits the concurrent requests to a port to its window, which `AimdWindow` sizes.

use hostd_core::edge::{AimdWindow, WINDOW_INITIAL};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};
use tokio::sync::Semaphore;

#[derive(Debug)]
pub struct ConcurrencyWindow {
    free: Semaphore,
    /// Permits in use that are not returned when dropped: the window shrank meanwhile.
    surplus: AtomicUsize,
    window: Mutex<AimdWindow>,
    full: AtomicBool,
}

/// The permit of one request.
#[derive(Debug)]
pub struct WindowPermit {
    window: Arc<ConcurrencyWindow>,
    counted: bool,
}

impl Default for ConcurrencyWindow {
    fn default() -> Self {
        Self {
            free: Semaphore::new(WINDOW_INITIAL),
            surplus: AtomicUsize::new(0),
            window: Mutex::default(),
            full: AtomicBool::new(false),
        }
    }
}

impl ConcurrencyWindow {
    pub async fn acquire(self: Arc<Self>) -> WindowPermit {
        self.free.acquire().await.expect("never closed").forget();
        WindowPermit { window: self, counted: false }
    }

    fn release(&self) {
        let surplus = self.surplus.load(Relaxed) > 0
            && self.surplus.fetch_update(Relaxed, Relaxed, |surplus| surplus.checked_sub(1)).is_ok();
        if !surplus {
            self.free.add_permits(1);
        }
    }

    fn change(&self, change: impl FnOnce(&mut AimdWindow) -> usize) -> usize {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let by = change(&mut window);
        self.full.store(window.is_full(), Relaxed);
        by
    }
}

impl WindowPermit {
    /// Called when the app has the request; counts once, and may grow the window.
    pub fn on_delivered(&mut self) {
        if !self.counted && !self.window.full.load(Relaxed) {
            self.counted = true;
            for _ in 0..self.window.change(AimdWindow::on_delivered) {
                self.window.release();
            }
        }
    }

    /// Called when the app did not get the request in time; may shrink the window.
    pub fn on_undelivered(&self) {
        let fewer = self.window.change(|window| window.on_undelivered(Instant::now()));
        let surplus = fewer - self.window.free.forget_permits(fewer);
        self.window.surplus.fetch_add(surplus, Relaxed);
    }
}

impl Drop for WindowPermit {
    fn drop(&mut self) {
        self.window.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn all(window: &Arc<ConcurrencyWindow>) -> Vec<WindowPermit> {
        std::iter::from_fn(|| window.clone().acquire().now_or_never()).collect()
    }

    #[test]
    fn a_window_grows_with_delivered_requests_and_shrinks_with_lost_ones() {
        let window = Arc::<ConcurrencyWindow>::default();
        let mut taken = all(&window);
        assert_eq!(taken.len(), WINDOW_INITIAL);
        taken.iter_mut().for_each(WindowPermit::on_delivered);
        taken.iter_mut().for_each(WindowPermit::on_delivered);
        drop(taken);
        let mut taken = all(&window);
        assert_eq!(taken.len(), 2 * WINDOW_INITIAL, "each counts once");
        // Half of the permits are surplus: they are not returned when dropped.
        taken[0].on_undelivered();
        taken.truncate(WINDOW_INITIAL);
        assert!(all(&window).is_empty());
        drop(taken);
        assert_eq!(all(&window).len(), WINDOW_INITIAL);
    }
}
