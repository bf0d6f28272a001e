//! State that all requests of the edge share.

use super::{auth::PreviewAuth, limits, metrics::EdgeMetrics, wake::Wakes};
use crate::{
    client_hosts::ClientHosts,
    preview_target::{PreviewTarget, RequestPermit, VisitRefused},
    preview_targets::PreviewTargets,
    waker::Waker,
};
use hostd_core::Previews;
use hostd_net::{connection_threads::ConnectionThreads, tls::Tls};
use hostd_store::{Clock, Store};
use nix::sys::resource::{Resource, getrlimit};
use std::{
    io,
    sync::{Arc, OnceLock},
};
use tokio::{sync::Semaphore, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The parts that an edge is made of.
pub struct EdgeParts {
    pub store: Store,
    pub targets: PreviewTargets,
    pub waker: Arc<dyn Waker>,
    pub clock: Clock,
    pub previews: Previews,
    pub auth: PreviewAuth,
    pub tls: Option<Tls>,
}

pub struct Edge {
    pub(super) store: Store,
    pub(super) targets: PreviewTargets,
    pub(super) waker: Arc<dyn Waker>,
    pub(super) clock: Clock,
    pub(super) previews: Previews,
    pub(super) auth: PreviewAuth,
    /// Absent: previews are served in clear text.
    pub(super) tls: Option<Tls>,
    pub(super) metrics: EdgeMetrics,
    pub(super) wakes: Wakes,
    /// Limits the visits at once.
    pub(super) visits: Arc<Semaphore>,
    /// Limits the pages that wait for a port.
    pub(super) waiting_pages: Arc<Semaphore>,
    /// Tasks that outlive the request that began them.
    pub(super) work: TaskTracker,
    pub(super) closing: CancellationToken,
    pub(super) connections_max: usize,
    pub(super) threads: ConnectionThreads,
    /// Set once before the listener is served.
    pub(super) clients: OnceLock<Arc<dyn ClientHosts>>,
}

impl Edge {
    pub fn start(parts: EdgeParts, closing: CancellationToken) -> io::Result<Arc<Self>> {
        let EdgeParts { store, targets, waker, clock, previews, auth, tls } = parts;
        let (wakes, work, connections_max) = (Wakes::default(), TaskTracker::new(), connections_max());
        // A visit has one descriptor at the app's end: as many visits as connections.
        let visits = Arc::new(Semaphore::new(connections_max));
        let waiting_pages = Arc::new(Semaphore::new(limits::WAITING_PAGES_MAX));
        let threads = ConnectionThreads::start("edge")?;
        Ok(Arc::new(Self {
            store,
            targets,
            waker,
            clock,
            previews,
            auth,
            tls,
            metrics: EdgeMetrics::default(),
            wakes,
            visits,
            waiting_pages,
            work,
            closing,
            connections_max,
            threads,
            clients: OnceLock::new(),
        }))
    }

    /// Serves the hostnames of other clients beside previews. Called once, before the listener is served.
    pub fn serve_clients(&self, clients: Arc<dyn ClientHosts>) {
        let first = self.clients.set(clients).is_ok();
        debug_assert!(first, "called once");
    }

    pub fn metrics(&self) -> &EdgeMetrics {
        &self.metrics
    }

    /// Drops idle connections to apps, until hostd ends.
    pub async fn tidy(&self) {
        loop {
            tokio::select! {
                // Both only wait.
                () = self.closing.cancelled() => return,
                () = sleep(limits::PRUNE_EVERY) => {}
            }
            for target in self.targets.all() {
                target.connections.prune();
            }
        }
    }

    /// Counts one more visit, unless this sandbox, its owner or all of them have too many.
    pub(super) fn visit(&self, target: &Arc<PreviewTarget>) -> Result<RequestPermit, VisitRefused> {
        let permit = self.visits.clone().try_acquire_owned().map_err(|_| VisitRefused::TooMany)?;
        target.visit(self.per_peer_max(), permit)
    }

    /// How many connections one sandbox, or one address, may have.
    pub(super) fn per_peer_max(&self) -> usize {
        self.connections_max / limits::PEER_SHARE
    }
}

/// How many connections the descriptor limit allows.
pub(super) fn connections_max() -> usize {
    let (descriptors, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
    let free = descriptors.saturating_sub(limits::DESCRIPTORS_KEPT).max(descriptors / 2);
    usize::try_from(free / limits::DESCRIPTORS_PER_VISIT).unwrap_or(usize::MAX)
}
