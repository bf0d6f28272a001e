//! The parts that hostd is made of, opened in their order, before anything is served.

use super::{
    DATABASE, bind, drivers, drivers::OpenedDrivers, failed, git_settings::git_settings, local_address,
    registry_logins::registry_logins, scheme_of,
};
use crate::{
    agents::Agents,
    api::{self, ApiParts, ImageBackend},
    backup::BackupSettings,
    command::Failure,
    config::{self, Config},
    git::GitGateway,
    inside::InsideServer,
    reconcile::{Fleet, FleetParts, Timing},
    webhooks::{EndpointClient, WebhookParts, Webhooks},
};
use hostd_clients::ClientKey;
use hostd_core::{Defaults, FileLinkSigner, PassSigner, Previews, limits};
use hostd_drivers::{
    Drivers,
    host_memory::{HostMemory, MemorySettings},
};
use hostd_edge::{
    Edge, PreviewTargets,
    egress::{Egress, EgressParts, Profiles},
    preview_links::PreviewLinks,
};
use hostd_models::{Models, gateway::Gateway};
use hostd_net::{outbound::OutboundConnector, tls::Tls};
use hostd_store::{
    Clock, OpenError, Secrets, Store, StoreError,
    disk_space::DiskSpace,
    identity_files::{IdentityFiles, load_or_create},
};
use hostd_trace::Tracer;
use protocol::api::{Network, Visibility};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};
use tokio::net::TcpListener;
use tracing::warn;

pub struct Parts {
    pub disk: DiskSpace,
    pub memory: HostMemory,
    pub clock: Clock,
    pub files: IdentityFiles,
    pub store: Store,
    pub agents: Agents,
    pub drivers: Drivers,
    pub images: ImageBackend,
    pub defaults: Defaults,
    pub previews: Previews,
    pub models: Models,
    pub gateway: Gateway,
    pub git: GitGateway,
    pub egress: Egress,
    pub webhooks: Webhooks,
}

impl Parts {
    /// Opens them, and the listener of previews, whose port is in the URLs of previews.
    pub async fn open(config: &Config) -> Result<(Self, TcpListener), Failure> {
        let disk =
            DiskSpace::open(&config.data_dir, config.disk_floor_mb.map(|mb| mb.saturating_mul(1 << 20)));
        // Frees space for the writes of the start on a full disk.
        disk.ensure_free();
        let files =
            load_or_create(&config.data_dir).map_err(|error| failed("write its identity files", &error))?;
        let memory = HostMemory::open(&config.data_dir, &files.instance, memory_settings(config));
        let store = open_store(&config.data_dir.join(DATABASE), &disk).await?;
        set_default_quotas(config, &store).await?;
        let agents = Agents::open(
            config.agents.clone(),
            config.agents_dir.as_deref(),
            config.briefing_file.as_deref(),
        );
        let agents = agents.map_err(|error| Failure::Usage(error.to_string()))?;
        disk.ensure_free();
        let (clock, outside) = (Clock::new(), OutboundConnector::from_host_config());
        let secrets = Secrets::new(store.clone(), &config.data_dir);
        let git =
            GitGateway::new(store.clone(), secrets.clone(), outside.clone(), clock, git_settings(config)?);
        let logins = registry_logins(secrets, clock);
        let pulls = drivers::pulls(config, outside.clone(), logins);
        let OpenedDrivers { drivers, default, images } =
            drivers::open(config, &files, &agents, pulls).await?;
        let listener = bind("SLIPWAY_PREVIEW_BIND", config.preview_bind).await?;
        let previews = previews(config, local_address(&listener)?.port());
        let models = Models::load(store.clone(), &config.data_dir, config.task_budget).await;
        let models = models.map_err(|error| failed("load the model providers", &error))?;
        let model_idle = Duration::from_secs(config.model_idle_s);
        let gateway = Gateway::new(models.clone(), outside.clone()).with_idle(model_idle);
        let webhooks = webhooks(config, &store, clock, outside.clone());
        let egress = egress(config, &store, &previews, outside).await?;
        let defaults = defaults(config, default);
        let parts = Self {
            disk,
            memory,
            clock,
            files,
            store,
            agents,
            drivers,
            images,
            defaults,
            previews,
            models,
            gateway,
            git,
            egress,
            webhooks,
        };
        Ok((parts, listener))
    }

    pub fn fleet(&self, config: &Config, inside: InsideServer, targets: PreviewTargets) -> FleetParts {
        FleetParts {
            store: self.store.clone(),
            drivers: self.drivers.clone(),
            timing: Timing { idle_ms: config.idle_s.saturating_mul(1000), ..Timing::default() },
            inside,
            agents: self.agents.clone(),
            models: self.models.clone(),
            disk: self.disk.clone(),
            memory: self.memory.clone(),
            targets,
            snapshot_retention: config.snapshot_retention(),
            clock: self.clock,
        }
    }

    pub fn preview_links(&self) -> PreviewLinks {
        PreviewLinks::new(self.store.clone(), PassSigner::new(&self.files.key, self.previews.clone()))
    }

    pub fn api(
        &self,
        config: &Config,
        (certificates, tracer): (Vec<Tls>, Option<Tracer>),
        (fleet, links): (Fleet, PreviewLinks),
        edge: &Edge,
    ) -> ApiParts {
        let settings = api::Settings {
            admin_hash: api::token_hash(&self.files.admin_token),
            auth: match config.auth {
                config::Auth::Required => api::Auth::Required,
                config::Auth::Off => api::Auth::Off,
            },
            names: config.api_hosts.clone(),
            bind: config.api_bind,
            encrypted: config.api_tls.is_some(),
            certificates,
            previews: self.previews.clone(),
            instance: self.files.instance.clone(),
            data_dir: config.data_dir.clone(),
            images: self.images.clone(),
            links,
            file_links: FileLinkSigner::new(&self.files.key),
            protocols: config.clients.clone(),
            client_key: ClientKey::new(&self.files.key),
            files_in_sandbox: config.files == config::Files::Sandbox,
            metrics_sandboxes: config.metrics_sandboxes,
            tracer,
            backup: BackupSettings {
                written: config.written.clone(),
                api_tls: config.api_tls.clone(),
                preview_tls: config.preview_tls.clone(),
            },
        };
        ApiParts {
            fleet,
            store: self.store.clone(),
            drivers: self.drivers.clone(),
            defaults: self.defaults.clone(),
            agents: self.agents.clone(),
            models: self.models.clone(),
            gateway: self.gateway.clone(),
            git: self.git.clone(),
            egress: self.egress.clone(),
            webhooks: self.webhooks.clone(),
            disk: self.disk.clone(),
            clock: self.clock,
            edge_metrics: edge.metrics().clone(),
            settings,
        }
    }
}

fn memory_settings(config: &Config) -> MemorySettings {
    let bytes = |mb: u64| mb.saturating_mul(1 << 20);
    MemorySettings {
        reserve_bytes: config.memory_reserve_mb.map(bytes),
        admission_bytes: bytes(config.memory_admission_mb),
        total_bytes: config.memory_total_mb.map(bytes),
    }
}

/// Opens the store. On a full disk a sandbox may take released space first, so it is tried for a while.
async fn open_store(path: &Path, disk: &DiskSpace) -> Result<Store, Failure> {
    let deadline = Instant::now() + Duration::from_millis(limits::STORE_OPEN_FULL_MAX_MS);
    loop {
        match Store::open_on(path, disk.clone()) {
            Err(OpenError::Full) if Instant::now() < deadline => {
                disk.ensure_free();
                tokio::time::sleep(Duration::from_millis(limits::STORE_OPEN_RETRY_MS)).await;
            }
            opened => return opened.map_err(|error| Failure::Failed(error.to_string())),
        }
    }
}

/// Puts the default quotas of the configuration in force. On a full disk those of the last start stay: hostd has to
/// start, so that space can be freed.
async fn set_default_quotas(config: &Config, store: &Store) -> Result<(), Failure> {
    match store.set_default_quotas(config.tenant_quota.clone(), config.principal_quota.clone()).await {
        Err(error @ StoreError::Full) => {
            warn!(%error, "failed to write the default quotas: those of the last start are in force");
            Ok(())
        }
        written => written.map_err(|error| failed("write the default quotas", &error)),
    }
}

fn webhooks(config: &Config, store: &Store, clock: Clock, outside: OutboundConnector) -> Webhooks {
    Webhooks::new(WebhookParts {
        store: store.clone(),
        clock,
        data_dir: config.data_dir.clone(),
        client: EndpointClient::new(outside, config.webhook_allow.clone()),
        attempts_max: config.webhook_attempts,
    })
}

async fn egress(
    config: &Config,
    store: &Store,
    previews: &Previews,
    outside: OutboundConnector,
) -> Result<Egress, Failure> {
    let profiles = Profiles::load(store.clone()).await;
    let parts = EgressParts {
        connector: outside,
        previews: previews.clone(),
        profiles: profiles.map_err(|error| Failure::Failed(error.to_string()))?,
        exceptions: config.egress_private.clone(),
        store: store.clone(),
    };
    Ok(Egress::new(parts))
}

/// Returns the defaults of sandboxes. One sandbox may have all of the host, unless configured.
fn defaults(config: &Config, driver: &str) -> Defaults {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cores = f64::from(u32::try_from(cores).unwrap_or(u32::MAX));
    let memory_mb = nix::sys::sysinfo::sysinfo().map_or(1024, |info| info.ram_total() >> 20);
    Defaults {
        driver: driver.to_owned(),
        image: config.image.clone(),
        memory_max_mb: config.memory_max_mb.unwrap_or(memory_mb),
        cpus_max: config.cpus_max.unwrap_or(cores),
        pids_max: pids_max(),
        network: Network::Proxy,
    }
}

/// Returns the limit of processes of one sandbox: a quarter of the host's process ids.
fn pids_max() -> u64 {
    let text = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    let all: u64 = text.trim().parse().unwrap_or(limits::PIDS_MAX);
    (all / 4).clamp(limits::PIDS_MIN, limits::PIDS_MAX)
}

/// Returns previews as browsers see them. A client that can reach loopback only is trusted as the operator.
fn previews(config: &Config, bound: u16) -> Previews {
    let (scheme, port) = config.preview_public.unwrap_or((scheme_of(config), bound));
    let local = config.preview_bind.ip().is_loopback() && config.preview_public.is_none();
    let visibility = if local { Visibility::Public } else { Visibility::Private };
    Previews { domain: config.preview_domain.clone(), scheme, port, visibility }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previews_are_private_wherever_more_than_this_host_can_ask() {
        let table = [
            (&[][..], Visibility::Public),
            (&[("SLIPWAY_PREVIEW_BIND", "[::1]:80")], Visibility::Public),
            (&[("SLIPWAY_PREVIEW_BIND", "0.0.0.0:80")], Visibility::Private),
            (&[("SLIPWAY_PREVIEW_BIND", "192.0.2.1:80")], Visibility::Private),
            // Behind a proxy every client comes from loopback.
            (&[("SLIPWAY_PREVIEW_PUBLIC", "https")], Visibility::Private),
        ];
        for (variables, expected) in table {
            let find = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            let config = Config::parse(None, find).expect("good");
            assert_eq!(previews(&config, 80).visibility, expected, "{variables:?}");
        }
    }
}
