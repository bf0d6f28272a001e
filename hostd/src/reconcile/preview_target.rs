//! A sandbox as the edge sees it: whether it is up, and the ways to its ports. Changes nothing but what it
//! counts.

use crate::{
    control::{Control, ControlPool, Lease},
    core::State,
    driver::{Driver, Stream, Target},
    store::SandboxRecord,
    traffic::Traffic,
    upstream::UpstreamPool,
};
use protocol::{Status, api::SandboxId};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch};

/// How old what PID 1 told may be, or that it told nothing; and how long it may take to tell.
const TOLD_FRESH: Duration = Duration::from_millis(200);
const SILENT_FRESH: Duration = Duration::from_secs(1);
const TELL_MAX: Duration = Duration::from_secs(2);
/// Pages that may wait for one sandbox.
const WAITERS_MAX: usize = 64;

pub struct PreviewTarget {
    pub id: SandboxId,
    pub connections: UpstreamPool,
    pub traffic: Traffic,
    record: watch::Receiver<Arc<SandboxRecord>>,
    pool: ControlPool,
    driver: Arc<dyn Driver>,
    visits: AtomicUsize,
    told: Mutex<Option<(Instant, Option<Arc<Status>>)>>,
    /// The port that was looked at last, and whether it took a connection.
    looked: Mutex<Option<(Instant, u16, bool)>>,
    waiters: Arc<Semaphore>,
}

/// Somebody visits: a request, or a connection that was one.
pub struct RequestPermit {
    site: Arc<PreviewTarget>,
    /// Of all visits, to whatever sandbox.
    _place: OwnedSemaphorePermit,
}

/// A page waits for it, as long as this lives.
pub type WaitPermit = OwnedSemaphorePermit;

impl PreviewTarget {
    pub(super) fn new(
        record: watch::Receiver<Arc<SandboxRecord>>,
        pool: ControlPool,
        traffic: Traffic,
        driver: Arc<dyn Driver>,
    ) -> Self {
        let id = record.borrow().id;
        let (connections, visits) = (UpstreamPool::default(), AtomicUsize::new(0));
        let (told, looked, waiters) =
            (Mutex::default(), Mutex::default(), Arc::new(Semaphore::new(WAITERS_MAX)));
        Self { id, connections, traffic, record, pool, driver, visits, told, looked, waiters }
    }

    pub fn record(&self) -> Arc<SandboxRecord> {
        self.record.borrow().clone()
    }

    /// Whether it is up now. Whoever wants it to stay so takes a lease first.
    pub fn is_up(&self) -> bool {
        let record = self.record.borrow();
        record.state.is_up() && !record.other_pid_namespace
    }

    /// Returns when the record is another than this.
    pub async fn changed(&self, seen: &SandboxRecord) {
        let mut record = self.record.clone();
        // An owner that ended is a change too.
        let _ = record.wait_for(|record| record.generation != seen.generation).await;
    }

    /// Returns when it is not up, and on no way to be.
    pub async fn down(&self) {
        let mut record = self.record.clone();
        // One without an owner is not. One that was to be put to sleep this moment may stay up after all.
        let rests = |state: &State| state.operation.is_none() && !state.is_up();
        let _ = record.wait_for(|record| rests(&record.state)).await;
    }

    pub fn lease(&self) -> Lease {
        Lease::take(&self.pool)
    }

    pub async fn dial(&self, port: u16) -> io::Result<Box<dyn Stream>> {
        self.driver.dial(&self.id, Target::Port(port)).await
    }

    /// What PID 1 tells; asked once at a time however many want to know, and not more often than it changes
    /// for people.
    pub async fn status(&self) -> Option<Arc<Status>> {
        let mut told = self.told.lock().await;
        if let Some((at, status)) = &*told
            // Who waited for an answer that never came does not ask again.
            && at.elapsed() < if status.is_some() { TOLD_FRESH } else { SILENT_FRESH }
        {
            return status.clone();
        }
        let control = Control::new(self.id, self.driver.clone(), self.pool.clone());
        let status = control.get::<Status>("/v1/status", TELL_MAX).await.ok().map(Arc::new);
        *told = Some((Instant::now(), status.clone()));
        status
    }

    /// Whether a port takes connections: tried once at a time, like that.
    pub async fn listens(&self, port: u16) -> bool {
        let mut looked = self.looked.lock().await;
        if let Some((at, its, listens)) = *looked
            && its == port
            && at.elapsed() < TOLD_FRESH
        {
            return listens;
        }
        let listens = self.dial(port).await.is_ok();
        *looked = Some((Instant::now(), port, listens));
        listens
    }

    /// One more visit, if there are fewer than this; `place` is its place among all visits.
    pub fn visit(self: &Arc<Self>, most: usize, place: OwnedSemaphorePermit) -> Option<RequestPermit> {
        let before = self.visits.fetch_add(1, Ordering::Relaxed);
        let visit = RequestPermit { site: self.clone(), _place: place };
        (before < most).then_some(visit)
    }

    /// One more page that waits, if there are not too many.
    pub fn wait(&self) -> Option<WaitPermit> {
        self.waiters.clone().try_acquire_owned().ok()
    }
}

impl RequestPermit {
    pub fn site(&self) -> &Arc<PreviewTarget> {
        &self.site
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.site.visits.fetch_sub(1, Ordering::Relaxed);
    }
}
