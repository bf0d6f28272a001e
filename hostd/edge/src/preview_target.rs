//! A sandbox as the edge sees it: whether it is up, and the connections to its ports. Changes nothing but counters.

use crate::{connection_quotas::OwnerConnections, traffic::Traffic, upstream::UpstreamPool};
use hostd_core::{AppPort, State};
use hostd_drivers::{
    Driver, Stream, Target,
    control::{Control, ControlPool, Lease},
};
use hostd_store::SandboxRecord;
use protocol::{
    Status,
    api::{QuotaScope, SandboxId},
};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch};

/// How old a status of PID 1 may be, how old a missing one, and how long PID 1 has to answer.
const STATUS_FRESH: Duration = Duration::from_millis(200);
const NO_STATUS_FRESH: Duration = Duration::from_secs(1);
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
/// The most pages that wait for one sandbox.
const WAITERS_MAX: usize = 64;

pub struct PreviewTarget {
    pub id: SandboxId,
    pub connections: UpstreamPool,
    pub traffic: Traffic,
    record: watch::Receiver<Arc<SandboxRecord>>,
    pool: ControlPool,
    driver: Arc<dyn Driver>,
    /// Requests with a permit.
    requests: AtomicUsize,
    /// The same, of all sandboxes of the owner.
    owner_connections: OwnerConnections,
    /// The newest status of PID 1, or that it gave none.
    status: Mutex<Option<(Instant, Option<Arc<Status>>)>>,
    /// The port that was probed last, and whether it took a connection.
    probed: Mutex<Option<(Instant, u16, bool)>>,
    waiters: Arc<Semaphore>,
}

/// A permit for one request to a preview, or for a connection that was one.
pub struct RequestPermit {
    target: Arc<PreviewTarget>,
    /// Of the limit over all sandboxes.
    _global: OwnedSemaphorePermit,
}

/// Why a request gets no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisitRefused {
    /// The sandbox, or all of them, have too many.
    TooMany,
    /// The quota of its owner is used up.
    Quota(QuotaScope),
}

/// A permit for a page that waits for the sandbox.
pub type WaitPermit = OwnedSemaphorePermit;

impl PreviewTarget {
    pub fn new(
        record: watch::Receiver<Arc<SandboxRecord>>,
        pool: ControlPool,
        traffic: Traffic,
        driver: Arc<dyn Driver>,
    ) -> Self {
        let id = record.borrow().id;
        let (connections, requests) = (UpstreamPool::default(), AtomicUsize::new(0));
        let (status, probed, waiters) =
            (Mutex::default(), Mutex::default(), Arc::new(Semaphore::new(WAITERS_MAX)));
        let owner_connections = OwnerConnections::default();
        Self {
            id,
            connections,
            traffic,
            record,
            pool,
            driver,
            requests,
            owner_connections,
            status,
            probed,
            waiters,
        }
    }

    /// Counts connections for its owner too.
    pub fn counted_for(self, owner_connections: OwnerConnections) -> Self {
        Self { owner_connections, ..self }
    }

    pub fn record(&self) -> Arc<SandboxRecord> {
        self.record.borrow().clone()
    }

    /// Whether the sandbox is up now. A caller that needs it to stay up takes a lease first.
    pub fn is_up(&self) -> bool {
        let record = self.record.borrow();
        record.state.is_up() && !record.other_pid_namespace
    }

    /// Returns when the record has changed.
    pub async fn changed(&self, seen: &SandboxRecord) {
        let mut record = self.record.clone();
        // The end of the actor is a change too.
        let _ = record.wait_for(|record| record.generation != seen.generation).await;
    }

    /// Returns when the sandbox is settled and not up.
    pub async fn down(&self) {
        let mut record = self.record.clone();
        // The end of the actor counts too. A sandbox that is just being put to sleep may stay up after all.
        let is_down = |state: &State| state.operation.is_none() && !state.is_up();
        let _ = record.wait_for(|record| is_down(&record.state)).await;
    }

    pub fn lease(&self) -> Lease {
        Lease::take(&self.pool)
    }

    /// Connects to a port of the app. On hostd's own port inside there is no app, whatever listens there.
    pub async fn dial(&self, port: u16) -> io::Result<Box<dyn Stream>> {
        let port = AppPort::new(port).ok_or(io::ErrorKind::ConnectionRefused)?;
        self.driver.dial(&self.id, Target::Port(port)).await
    }

    /// The status of PID 1: one request at a time however many callers want it, and none while the newest one is
    /// fresh.
    pub async fn status(&self) -> Option<Arc<Status>> {
        let mut newest = self.status.lock().await;
        if let Some((at, status)) = &*newest
            // Callers that waited for a request in vain do not each make another one.
            && at.elapsed() < if status.is_some() { STATUS_FRESH } else { NO_STATUS_FRESH }
        {
            return status.clone();
        }
        let control = Control::new(self.id, self.driver.clone(), self.pool.clone());
        let status = control.get::<Status>("/v1/status", STATUS_TIMEOUT).await.ok().map(Arc::new);
        *newest = Some((Instant::now(), status.clone()));
        status
    }

    /// Whether a port takes connections: one probe at a time, and none while the newest one is fresh.
    pub async fn listens(&self, port: u16) -> bool {
        let mut newest = self.probed.lock().await;
        if let Some((at, probed, listens)) = *newest
            && probed == port
            && at.elapsed() < STATUS_FRESH
        {
            return listens;
        }
        let listens = self.dial(port).await.is_ok();
        *newest = Some((Instant::now(), port, listens));
        listens
    }

    /// A permit for one more request, if fewer than `most` have one and the quotas of the owner allow it; `place` is its
    /// permit among all sandboxes.
    pub fn visit(
        self: &Arc<Self>,
        most: usize,
        place: OwnedSemaphorePermit,
    ) -> Result<RequestPermit, VisitRefused> {
        let before = self.requests.fetch_add(1, Ordering::Relaxed);
        let within_quota = self.owner_connections.enter();
        // Dropped, and not counted any more, where it is refused.
        let permit = RequestPermit { target: self.clone(), _global: place };
        if before >= most {
            return Err(VisitRefused::TooMany);
        }
        within_quota.map(|()| permit).map_err(VisitRefused::Quota)
    }

    /// A permit for one more page that waits, if there are not too many.
    pub fn wait(&self) -> Option<WaitPermit> {
        self.waiters.clone().try_acquire_owned().ok()
    }
}

impl RequestPermit {
    pub fn target(&self) -> &Arc<PreviewTarget> {
        &self.target
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.target.requests.fetch_sub(1, Ordering::Relaxed);
        self.target.owner_connections.leave();
    }
}
