//! The lines to one sandbox that are kept for the next request, and the turns at its ports. Emptied when the
//! sandbox stops: every socket keeps its network namespace alive.

use super::{
    line::Line,
    turns::{Turn, Turns},
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

/// Lines kept for one port, and for all of them, and how long.
const IDLE_MAX: usize = 128;
const IDLE_ALL_MAX: usize = 256;
const IDLE_FOR_MAX: Duration = Duration::from_secs(30);
/// Ports that are remembered without a line.
const PORTS_MAX: usize = 64;

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Lines {
    kept: Arc<Kept>,
}

#[derive(Default)]
struct Kept {
    ports: Mutex<Ports>,
    epoch: AtomicU64,
}

#[derive(Default)]
struct Ports {
    by_number: HashMap<u16, Port>,
    /// Lines of all of them.
    idle: usize,
}

#[derive(Default)]
struct Port {
    /// The one used last is last.
    idle: Vec<Idle>,
    turns: Arc<Turns>,
}

struct Idle {
    line: Box<Line>,
    since: Instant,
}

impl Lines {
    /// Grows each time the sandbox stops.
    pub fn epoch(&self) -> u64 {
        self.kept.epoch.load(Ordering::SeqCst)
    }

    /// Waits for a turn at this port.
    pub async fn turn(&self, port: u16) -> Turn {
        let turns = self.ports().by_number.entry(port).or_default().turns.clone();
        turns.turn().await
    }

    /// The line used last that is still good, is at home in this thread, and was idle for no longer than this.
    pub fn take(&self, port: u16, idle_for_max: Duration) -> Option<Box<Line>> {
        let idle_for_max = idle_for_max.min(IDLE_FOR_MAX);
        let (here, now) = (thread::current().id(), Instant::now());
        let mut ports = self.ports();
        let Ports { by_number, idle: all } = &mut *ports;
        let idle = &mut by_number.get_mut(&port)?.idle;
        // Nobody is to be woken: it is only asked.
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            let fresh = |kept: &Idle| now.saturating_duration_since(kept.since) <= idle_for_max;
            let at = idle.iter().rposition(|kept| kept.line.home == here && fresh(kept))?;
            let mut line = idle.remove(at).line;
            *all -= 1;
            if line.is_free(&mut cx) {
                return Some(line);
            }
        }
    }

    /// Keeps a line that is free, unless the sandbox stopped since or there are many.
    pub fn put(&self, port: u16, line: Box<Line>) {
        let mut ports = self.ports();
        // Looked at with the lock held, as `clear` does: afterwards nothing old is put.
        if line.epoch != self.epoch() || line.place.is_scarce() {
            return;
        }
        let Ports { by_number, idle: all } = &mut *ports;
        let port = by_number.entry(port).or_default();
        if port.idle.len() >= IDLE_MAX {
            port.idle.remove(0);
        } else if *all >= IDLE_ALL_MAX {
            return;
        } else {
            *all += 1;
        }
        port.idle.push(Idle { line, since: Instant::now() });
    }

    /// The sandbox stopped.
    pub fn clear(&self) {
        let mut ports = self.ports();
        self.kept.epoch.fetch_add(1, Ordering::SeqCst);
        *ports = Ports::default();
    }

    /// Lets go of lines that were idle for long.
    pub fn prune(&self) {
        let mut ports = self.ports();
        let Ports { by_number, idle: all } = &mut *ports;
        *all = 0;
        for port in by_number.values_mut() {
            port.idle.retain(|kept| kept.since.elapsed() <= IDLE_FOR_MAX);
            *all += port.idle.len();
        }
        if by_number.len() > PORTS_MAX {
            by_number.retain(|_, port| !port.idle.is_empty() || Arc::strong_count(&port.turns) > 1);
        }
    }

    fn ports(&self) -> MutexGuard<'_, Ports> {
        self.kept.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Sockets;
    use tokio::io::duplex;

    /// Of one that has so many sockets: how many lines are kept of 50 for each of these ports.
    async fn kept(sockets: usize, ports: u16) -> usize {
        let sockets: &'static Sockets = Box::leak(Box::new(Sockets::new(sockets)));
        let lines = Lines::default();
        for n in 0..ports * 50 {
            let Some(place) = sockets.take() else { break };
            let line = Line::over(Box::new(duplex(64).0), place, lines.epoch()).await.expect("a line");
            lines.put(n % ports, Box::new(line));
        }
        lines.prune();
        let counted = lines.ports().by_number.values().map(|port| port.idle.len()).sum();
        assert_eq!(lines.ports().idle, counted);
        counted
    }

    #[tokio::test]
    async fn a_sandbox_keeps_no_more_lines_than_it_may_and_fewer_where_sockets_are_scarce() {
        assert_eq!(kept(10_000, 1).await, 50);
        assert_eq!(kept(10_000, 40).await, IDLE_ALL_MAX);
        assert_eq!(kept(20, 40).await, 10);
    }
}
