//! The loop of a watch: waits, collects, reports.

use super::{
    lines,
    scan::Report,
    tree::Tree,
    watcher::{NotOpened, Watcher},
};
use crate::{
    Exchange, FilesError,
    limits::{WATCH_BATCH_MS, WATCH_IDLE_MS, WATCH_INCOMPLETE_MS, WATCH_SETTLE_MS, WATCH_SETTLE_TRIES},
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use protocol::files::WatchLine;
use std::{
    os::fd::AsFd,
    time::{Duration, Instant},
};

/// Reads of the kernel's queue before the clock is looked at.
const READS_MAX: usize = 64;
/// Reads that empty a full queue, however fast it is filled.
const DISCARD_MAX: usize = 65_536;

/// When something is due.
struct Timers {
    /// The batch is reported.
    batch: Option<Instant>,
    /// Extensions of the batch for what is half seen.
    tries: u32,
    /// A line is sent after a silence.
    idle: Instant,
    /// A scan for directories that could not be watched.
    incomplete: Option<Instant>,
}

impl Timers {
    fn new() -> Self {
        Self { batch: None, tries: 0, idle: after(WATCH_IDLE_MS), incomplete: None }
    }

    fn next(&self) -> Instant {
        let timers = self.batch.into_iter().chain(self.incomplete);
        timers.fold(self.idle, Instant::min)
    }
}

fn after(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

fn is_due(timer: Option<Instant>) -> bool {
    timer.is_some_and(|at| at <= Instant::now())
}

impl Watcher<'_> {
    pub fn run(&mut self, exchange: &mut dyn Exchange) -> Result<(), FilesError> {
        let mut timers = Timers::new();
        self.scan(exchange, self.tree.top(), Report::Nothing)?;
        lines::send(exchange, &WatchLine::Ready)?;
        loop {
            self.tell_incomplete(exchange, &mut timers)?;
            self.wait(exchange, &timers)?;
            self.read(exchange)?;
            if let Some(reason) = self.ended {
                self.send_batch(exchange)?;
                return lines::send(exchange, &WatchLine::Overflow { reason: reason.to_owned() });
            }
            if let Some(reason) = self.overflow.take() {
                self.recover(exchange, reason)?;
                timers = Timers { incomplete: timers.incomplete, ..Timers::new() };
                continue;
            }
            if timers.batch.is_none() && !(self.batch.is_empty() && self.missed.is_empty()) {
                (timers.batch, timers.tries) = (Some(after(WATCH_BATCH_MS)), 0);
            }
            if is_due(timers.batch) {
                self.end_batch(exchange, &mut timers)?;
            } else if is_due(timers.incomplete) {
                timers.incomplete = None;
                self.overflow = Some("a part of the tree is not watched");
            } else if timers.batch.is_none() && is_due(Some(timers.idle)) {
                self.send_idle(exchange)?;
                timers.idle = after(WATCH_IDLE_MS);
            }
        }
    }

    /// Waits for changes, the next timer, or the end of the caller.
    fn wait(&self, exchange: &dyn Exchange, timers: &Timers) -> Result<(), FilesError> {
        if exchange.is_cancelled() {
            return Err(FilesError::Cancelled);
        }
        let waits = self.overflow.is_none() && self.ended.is_none();
        let left =
            if waits { timers.next().saturating_duration_since(Instant::now()) } else { Duration::ZERO };
        // Rounded up: no second round for the rest of a millisecond.
        let timeout = PollTimeout::try_from(left.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX);
        let mut fds = vec![PollFd::new(self.inotify.as_fd(), PollFlags::POLLIN)];
        fds.extend(exchange.cancel_fd().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(FilesError::at("wait for changes", &self.top)(errno)),
        }
        match fds.get(1).and_then(PollFd::any) {
            Some(true) => Err(FilesError::Cancelled),
            Some(false) | None => Ok(()),
        }
    }

    fn read(&mut self, exchange: &mut dyn Exchange) -> Result<(), FilesError> {
        for _ in 0..READS_MAX {
            let events = match self.inotify.read_events() {
                Ok(events) => events,
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(()),
                Err(errno) => return Err(FilesError::at("read changes", &self.top)(errno)),
            };
            for event in events {
                self.handle(exchange, event)?;
                self.send_if_full(exchange)?;
            }
            if self.overflow.is_some() || self.ended.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reports the batch, once nothing in it is half seen or that took too long.
    fn end_batch(&mut self, exchange: &mut dyn Exchange, timers: &mut Timers) -> Result<(), FilesError> {
        self.retry_missed(exchange)?;
        let waits_for_half = self.batch.has_halves() && timers.tries == 0;
        let waits_for_directory = !self.missed.is_empty() && timers.tries < WATCH_SETTLE_TRIES;
        if waits_for_half || waits_for_directory {
            timers.batch = Some(after(WATCH_SETTLE_MS));
            timers.tries += 1;
            return Ok(());
        }
        timers.batch = None;
        if !self.missed.is_empty() {
            self.overflow = Some("directories were moved faster than they could be followed");
        }
        timers.idle = after(WATCH_IDLE_MS);
        self.send_batch(exchange)
    }

    pub fn send_if_full(&mut self, exchange: &mut dyn Exchange) -> Result<(), FilesError> {
        if self.batch.is_full() { self.send_batch(exchange) } else { Ok(()) }
    }

    fn send_batch(&mut self, exchange: &mut dyn Exchange) -> Result<(), FilesError> {
        let taken = self.batch.take();
        self.changed_in_move = false;
        for key in taken.left {
            // Unless it was found at another place meanwhile.
            if self.tree.path(key).is_none() {
                self.remove(key);
            }
        }
        lines::send_changes(exchange, taken.changes)
    }

    /// Scans the whole tree again after a loss. Reported afterwards: what the caller lists then is not older than the
    /// watches.
    fn recover(&mut self, exchange: &mut dyn Exchange, reason: &str) -> Result<(), FilesError> {
        self.send_batch(exchange)?;
        for _ in 0..DISCARD_MAX {
            if self.inotify.read_events().is_err() {
                break;
            }
        }
        self.missed.clear();
        self.incomplete = None;
        if !self.is_top_there() {
            return Ok(());
        }
        let top = self.tree.top();
        let Some(id) = self.tree.id(top) else { return Ok(()) };
        let before = std::mem::replace(&mut self.tree, Tree::new(top, id));
        self.scan(exchange, top, Report::Nothing)?;
        let unseen: Vec<_> = before.keys().filter(|key| !self.tree.contains(*key)).collect();
        self.forget(&unseen);
        lines::send(exchange, &WatchLine::Overflow { reason: reason.to_owned() })
    }

    /// Reports, once, that a part of the tree is not watched.
    fn tell_incomplete(&self, exchange: &mut dyn Exchange, timers: &mut Timers) -> Result<(), FilesError> {
        match &self.incomplete {
            Some(reason) if timers.incomplete.is_none() && self.overflow.is_none() => {
                timers.incomplete = Some(after(WATCH_INCOMPLETE_MS));
                lines::send(exchange, &WatchLine::Overflow { reason: reason.clone() })
            }
            Some(_) => Ok(()),
            None => {
                timers.incomplete = None;
                Ok(())
            }
        }
    }

    fn send_idle(&mut self, exchange: &mut dyn Exchange) -> Result<(), FilesError> {
        if self.is_top_there() { lines::send(exchange, &WatchLine::Idle) } else { Ok(()) }
    }

    /// Whether the path still leads to the watched directory. A move of a directory above it is no event of it.
    fn is_top_there(&mut self) -> bool {
        match self.open(self.tree.top()) {
            Ok(_) | Err(NotOpened::Unreadable) => true,
            Err(NotOpened::Elsewhere) => {
                self.ended = Some("the watched directory was moved or deleted");
                false
            }
        }
    }
}
