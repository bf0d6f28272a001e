//! State shared by all requests.

use super::{
    agent_versions::AgentVersions,
    audit_writer::AuditWriter,
    files::{FileWatches, FilesBackend},
    image_pulls::ImagePulls,
    images::ImageBackend,
    limits,
    metrics::{self, ApiMetrics},
    snapshot_permits::{SnapshotCaptures, SnapshotTransfers},
    stream_limits::StreamLimits,
    warm_agents::WarmAgents,
};
use crate::{agents::Agents, backup::BackupSettings, git::GitGateway, reconcile::Fleet, webhooks::Webhooks};
use hostd_clients::{ClientKey, Protocol};
use hostd_core::{Defaults, FileLinkSigner, Previews};
use hostd_drivers::Drivers;
use hostd_edge::{EdgeMetrics, egress::Egress, preview_links::PreviewLinks};
use hostd_metrics::Registry;
use hostd_models::{Models, gateway::Gateway};
use hostd_net::{keyed_locks::KeyedLocks, tls::Tls};
use hostd_store::{Clock, Secrets, Store, disk_space::DiskSpace};
use hostd_trace::Tracer;
use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    Required,
    /// Every caller over loopback is the operator.
    Off,
}

/// Settings that `main` passes to the API.
#[derive(Clone)]
pub struct Settings {
    /// SHA-256 of the operator's token.
    pub admin_hash: [u8; 32],
    pub auth: Auth,
    /// Host names under which the API is served, beside loopback and the address it is bound to.
    pub names: Vec<String>,
    /// The address the API is bound to, and whether it speaks TLS there.
    pub bind: SocketAddr,
    pub encrypted: bool,
    /// The certificates of all listeners.
    pub certificates: Vec<Tls>,
    pub previews: Previews,
    pub instance: String,
    pub data_dir: PathBuf,
    pub images: ImageBackend,
    pub links: PreviewLinks,
    pub file_links: FileLinkSigner,
    /// Protocols of other clients that are served, and the key of what they hand out.
    pub protocols: BTreeSet<Protocol>,
    pub client_key: ClientKey,
    /// Whether verbs on files are performed inside the sandbox, also where hostd could reach them.
    pub files_in_sandbox: bool,
    /// The most sandboxes that have metrics of their own.
    pub metrics_sandboxes: usize,
    /// Records traces of requests; absent where none are exported.
    pub tracer: Option<Tracer>,
    /// The configuration that backups have.
    pub backup: BackupSettings,
}

/// The parts of hostd that requests use.
pub struct ApiParts {
    pub fleet: Fleet,
    pub store: Store,
    pub drivers: Drivers,
    pub defaults: Defaults,
    pub agents: Agents,
    pub models: Models,
    pub gateway: Gateway,
    pub git: GitGateway,
    pub egress: Egress,
    pub webhooks: Webhooks,
    pub disk: DiskSpace,
    pub clock: Clock,
    pub edge_metrics: EdgeMetrics,
    pub settings: Settings,
}

pub struct Api {
    pub fleet: Fleet,
    pub(super) store: Store,
    pub(super) drivers: Drivers,
    pub(super) defaults: Defaults,
    pub(super) agents: Agents,
    pub(super) models: Models,
    pub(super) secrets: Secrets,
    pub(super) gateway: Gateway,
    pub(super) git: GitGateway,
    pub(super) egress: Egress,
    pub(super) webhooks: Webhooks,
    pub(super) disk: DiskSpace,
    pub(super) clock: Clock,
    pub settings: Settings,
    pub(super) audit: AuditWriter,
    pub metrics: ApiMetrics,
    /// The metrics of all layers.
    pub(super) registry: Registry,
    /// Locks for each `Idempotency-Key`, and for each scope that `ensure` repairs.
    pub(super) key_locks: KeyedLocks<String>,
    /// Permits for SSE streams and terminal viewers.
    pub(super) stream_limits: StreamLimits,
    pub(super) agent_versions: AgentVersions,
    /// Agents started in advance, until their tasks come.
    pub(super) warm_agents: WarmAgents,
    pub(super) files: FilesBackend,
    pub(super) file_watches: FileWatches,
    pub(super) image_pulls: ImagePulls,
    /// Exports, imports and verifications of snapshots.
    pub(super) snapshot_transfers: SnapshotTransfers,
    pub(super) snapshot_captures: SnapshotCaptures,
    /// The permit of a backup: one is made at a time.
    pub(super) backups: Arc<Semaphore>,
    /// Tasks that outlive their requests.
    pub(super) work: TaskTracker,
    /// Cancelled when hostd begins to shut down: streams end.
    pub(super) closing: CancellationToken,
}

impl Api {
    /// Starts the task that writes the audit log; call it inside the runtime.
    pub fn new(parts: ApiParts, closing: CancellationToken) -> Arc<Self> {
        let metrics = ApiMetrics::default();
        let registry = metrics::registry(&parts, &metrics);
        let ApiParts {
            fleet,
            store,
            drivers,
            defaults,
            agents,
            models,
            gateway,
            git,
            egress,
            webhooks,
            disk,
            clock,
            edge_metrics: _,
            settings,
        } = parts;
        let secrets = Secrets::new(store.clone(), &settings.data_dir);
        let audit = AuditWriter::start(store.clone(), clock, metrics.clone());
        let (key_locks, work) = (KeyedLocks::default(), TaskTracker::new());
        let (stream_limits, agent_versions, warm_agents) =
            (StreamLimits::default(), AgentVersions::default(), WarmAgents::default());
        let (files, file_watches) = (FilesBackend::default(), FileWatches::default());
        Arc::new(Self {
            fleet,
            store,
            drivers,
            defaults,
            agents,
            models,
            secrets,
            gateway,
            git,
            egress,
            webhooks,
            disk,
            clock,
            settings,
            audit,
            metrics,
            registry,
            key_locks,
            stream_limits,
            agent_versions,
            warm_agents,
            files,
            file_watches,
            image_pulls: ImagePulls::default(),
            snapshot_transfers: SnapshotTransfers::default(),
            snapshot_captures: SnapshotCaptures::default(),
            backups: Arc::new(Semaphore::new(1)),
            work,
            closing,
        })
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Call it after `serve` has returned: waits for the work that requests started, and for the audit log.
    pub async fn finish(&self) {
        self.work.close();
        if timeout(Duration::from_millis(limits::DRAIN_MAX_MS), self.work.wait()).await.is_err() {
            warn!(left = self.work.len(), "shutdown cut off requests in flight");
        }
        self.audit.shut_down().await;
    }
}
