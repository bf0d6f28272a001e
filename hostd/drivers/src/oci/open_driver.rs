//! Opens the driver: checks the host, and finds the first runtime that passes the probe.

use super::{
    super::{Driver, DriverError},
    cgroup::Hierarchies,
    driver::{Oci, OciInner},
    files::{self, failed},
    host_checks::{
        self, check_host_dirs, check_instance, check_not_shared, describe_error, make_data_dir, nofile_limit,
        unavailable,
    },
    images::{HostRootfs, ImagePuller, ImageStore, LoginLookup},
    layout::Layout,
    limits::PROBE_ANSWER_MAX_MS,
    pid_namespace, probe_sandbox,
    quota::{Quota, QuotaSettings},
    runtime_profile::RuntimeProfile,
    sandbox_dialer::SandboxDialer,
    sealed_program::SealedProgram,
    seccomp,
    signed_badge::InstanceSigner,
    uid_ranges::UidRanges,
};
use crate::local::{
    local_driver::LocalDriver,
    resizes::Resizes,
    snapshots::{SnapshotMethodSetting, Snapshots},
};
use hostd_core::PidNamespace;
use hostd_images::{RegistryAllowlist, RegistryClient};
use hostd_net::outbound::OutboundConnector;
use nix::sys::statvfs::statvfs;
use protocol::api::SandboxId;
use std::{
    collections::HashMap,
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{process::Command, time::timeout};

/// Tried in this order, unless the configuration names one.
const RUNTIMES: [&str; 3] = ["crun", "runc", "youki"];
/// File in the data directory with the runtime that passed the probe last.
const REMEMBERED_RUNTIME: &str = "runtime";
const REMEMBERED_RUNTIME_MAX_BYTES: u64 = 4096;
/// With less free space, a failed probe is blamed on the disk.
const PROBE_FREE_MIN_BYTES: u64 = 256 << 10;
const PATH: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

pub struct OciConfig {
    pub data_dir: PathBuf,
    /// Path of the static runtimed binary on this host.
    pub runtimed: PathBuf,
    /// The hostd binary, run as `hostd launch …`.
    pub launcher: PathBuf,
    /// `crun`, `runc`, `youki` or a path; `None` takes the first that works.
    pub runtime: Option<String>,
    /// Tells apart several hostds on one machine.
    pub instance: String,
    /// Authenticates badges.
    pub key: [u8; 32],
    pub host_image: HostImage,
    /// Directory of coding agents, mounted read-only into every sandbox while it exists.
    pub agents: Option<PathBuf>,
    pub quota: QuotaSettings,
    /// How snapshots are taken.
    pub snapshots: SnapshotMethodSetting,
    /// Pulls images that the store does not have.
    pub pulls: PullSettings,
    /// Directory of the templates of workspaces; `templates` in the data directory unless given.
    pub templates: Option<PathBuf>,
}

/// Where images may be pulled from, and with which logins.
#[derive(Clone)]
pub struct PullSettings {
    pub connector: OutboundConnector,
    /// Registries that may have a private address.
    pub registries: RegistryAllowlist,
    pub logins: LoginLookup,
}

impl PullSettings {
    /// Public registries, without a login.
    pub fn anonymous() -> Self {
        Self {
            connector: OutboundConnector::from_host_config(),
            registries: RegistryAllowlist::default(),
            logins: Arc::new(|_, _| Box::pin(async { Ok(None) })),
        }
    }

    fn puller(&self, store: ImageStore) -> ImagePuller {
        let client = RegistryClient::new(self.connector.clone(), self.registries.clone());
        ImagePuller::new(store, client, self.registries.clone(), Arc::clone(&self.logins))
    }
}

/// Contents of the image `host` besides /usr.
#[derive(Debug, Clone, Default)]
pub struct HostImage {
    /// Allowed directories of /opt and /usr/local.
    pub allow: Vec<PathBuf>,
}

impl Oci {
    pub async fn open(config: OciConfig) -> Result<Self, DriverError> {
        let programs = match &config.runtime {
            Some(name) => vec![name.clone()],
            None => RUNTIMES.map(str::to_owned).to_vec(),
        };
        let setup = DriverSetup::prepare(&config)?;
        let (mut tried, mut full) = (vec![], false);
        for name in &programs {
            let Some(program) = find_program(name) else {
                tried.push(format!("{name}: not installed"));
                continue;
            };
            for profile in RuntimeProfile::candidates(&program) {
                let description = profile.describe();
                match setup.try_profile(&config, profile, &tried).await {
                    Ok(driver) => {
                        setup.remember(&driver);
                        return Ok(driver);
                    }
                    Err(error) => {
                        full |= matches!(error, DriverError::DiskFull) || setup.is_disk_full();
                        tried.push(format!("{description}: {}", describe_error(&error)));
                    }
                }
            }
        }
        if full {
            // No probe can run on a full disk, and hostd must start so that space can be freed.
            return setup.open_remembered(&config, &programs).await;
        }
        let tried = tried.join("; ");
        let message =
            format!("no OCI runtime runs a sandbox here ({tried}); install crun, or name one that works");
        Err(DriverError::Unavailable { message })
    }
}

/// Everything that does not depend on the runtime.
struct DriverSetup {
    layout: Layout,
    hierarchies: Hierarchies,
    pid_namespace: PidNamespace,
    images: ImageStore,
    runtimed: PathBuf,
    filter: String,
    nofile: u64,
    quota: Arc<Quota>,
    snapshots: Arc<Snapshots>,
}

impl DriverSetup {
    fn prepare(config: &OciConfig) -> Result<Self, DriverError> {
        check_instance(&config.instance)?;
        let pid_namespace = pid_namespace::own()?;
        let data = make_data_dir(&config.data_dir)?;
        let host = HostRootfs { root: "/".into(), allow: check_host_dirs(&config.host_image.allow)? };
        let bound: Vec<PathBuf> = host.bound().into_iter().chain(config.agents.clone()).collect();
        check_not_shared(&data, &bound)?;
        let layout = Layout::new(data, "oci");
        for (path, mode) in [
            (layout.sandboxes(), 0o711),
            (layout.states(), 0o700),
            (layout.workspaces(), 0o711),
            (layout.trash(), 0o700),
        ] {
            files::make_dir(&path, mode).map_err(failed("make the data directory"))?;
        }
        let runtimed = std::fs::canonicalize(&config.runtimed)
            .map_err(|error| unavailable(&format!("{}: {error}", config.runtimed.display())))?;
        let hierarchies =
            Hierarchies::discover(&config.instance).map_err(failed("find the control groups"))?;
        let images = ImageStore::open(&layout, &host, config.agents.clone())?;
        let filter = seccomp::bpf_base64().map_err(|error| unavailable(&format!("could not {error}")))?;
        let quota = Arc::new(Quota::open(&layout, &config.quota, None));
        let snapshots = Arc::new(Snapshots::open(&layout, config.snapshots, true)?);
        let nofile = nofile_limit()?;
        Ok(Self { layout, hierarchies, pid_namespace, images, runtimed, filter, nofile, quota, snapshots })
    }

    async fn try_profile(
        &self,
        config: &OciConfig,
        profile: RuntimeProfile,
        tried: &[String],
    ) -> Result<Oci, DriverError> {
        let driver = self.build_driver(config, profile, self.warnings(tried)).await?;
        let probe = probe_sandbox::probe_id();
        // Left by a probe of an earlier hostd, whatever its badge says.
        driver.inner.destroy_unchecked(&probe).await?;
        let ran = driver.probe(&probe).await;
        driver.destroy(&probe, false).await?;
        ran?;
        Ok(driver)
    }

    /// Builds the driver for a runtime profile, not probed yet.
    async fn build_driver(
        &self,
        config: &OciConfig,
        profile: RuntimeProfile,
        warnings: Vec<String>,
    ) -> Result<Oci, DriverError> {
        let version = version_of(&profile.program).await?;
        // With idmapped mounts, files on disk belong to real users of the host: no other user may enter.
        // Without, the root of a sandbox is an unprivileged user on the host and must be able to traverse.
        let mode = if profile.idmapped() { 0o700 } else { 0o711 };
        for dir in [self.layout.sandboxes(), self.layout.workspaces()] {
            let set = std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(mode));
            set.map_err(failed("set the mode of the data directory"))?;
        }
        let inner = OciInner {
            description: description(&version, &profile),
            warnings,
            layout: self.layout.clone(),
            signer: InstanceSigner { instance: config.instance.clone(), key: config.key },
            sealed_program: SealedProgram::of(&profile.program)?,
            profile,
            hierarchies: self.hierarchies.clone(),
            pid_namespace: self.pid_namespace,
            images: self.images.clone(),
            puller: config.pulls.puller(self.images.clone()),
            uid_ranges: UidRanges::of(&config.instance),
            runtimed: self.runtimed.clone(),
            launcher: config.launcher.clone(),
            filter: self.filter.clone(),
            nofile: self.nofile,
            dialer: SandboxDialer::start().map_err(failed("start the dialer"))?,
            quota: Arc::clone(&self.quota),
            snapshots: Arc::clone(&self.snapshots),
            templates: self.layout.templates(config.templates.as_deref()),
            resizes: Resizes::default(),
            oom_kills_seen: Mutex::new(HashMap::new()),
            exit_statuses: Mutex::new(HashMap::new()),
        };
        inner.claim_ranges()?;
        Ok(Oci { inner: Arc::new(inner) })
    }

    /// Remembers the runtime that passed the probe: program, version and profile. Best effort.
    fn remember(&self, driver: &Oci) {
        let (path, text) = (self.layout.data().join(REMEMBERED_RUNTIME), driver.describe());
        if self.remembered().is_some_and(|known| known == text) {
            return;
        }
        if let Err(error) = files::replace(&path, text.as_bytes(), 0o600) {
            tracing::warn!(%error, "failed to remember the working OCI runtime");
        }
    }

    fn remembered(&self) -> Option<String> {
        files::read_text(&self.layout.data().join(REMEMBERED_RUNTIME), REMEMBERED_RUNTIME_MAX_BYTES).ok()
    }

    fn is_disk_full(&self) -> bool {
        let free = statvfs(self.layout.data()).map(|disk| disk.blocks_available() * disk.fragment_size());
        free.is_ok_and(|free| free < PROBE_FREE_MIN_BYTES)
    }

    /// Opens with the remembered runtime, if it is still installed and unchanged.
    async fn open_remembered(&self, config: &OciConfig, programs: &[String]) -> Result<Oci, DriverError> {
        let known = self.remembered().ok_or(DriverError::DiskFull)?;
        let mut warnings = self.warnings(&[]);
        warnings.push(
            "the disk was full when hostd started: using the OCI runtime that passed the last probe"
                .to_owned(),
        );
        let installed = programs.iter().filter_map(|name| find_program(name));
        for profile in installed.flat_map(|program| RuntimeProfile::candidates(&program)) {
            // A program that does not print its version is not the remembered one.
            let Ok(version) = version_of(&profile.program).await else { continue };
            if description(&version, &profile) == known {
                let driver = self.build_driver(config, profile, warnings).await?;
                driver.inner.destroy_unchecked(&probe_sandbox::probe_id()).await?;
                return Ok(driver);
            }
        }
        Err(DriverError::DiskFull)
    }

    /// Warnings for operators. `tried` lists better profiles that failed.
    fn warnings(&self, tried: &[String]) -> Vec<String> {
        let mut warnings: Vec<String> = tried.iter().map(|what| format!("not used: {what}")).collect();
        warnings.extend(host_checks::host_warnings(self.nofile));
        warnings.extend(self.quota.warnings());
        warnings.extend(self.snapshots.warnings());
        if std::fs::read_to_string("/proc/self/oom_score_adj").is_ok_and(|text| text.trim().starts_with('-'))
        {
            warnings.push("hostd has a negative oom_score_adj, and sandboxes inherit it".to_owned());
        }
        warnings
    }
}

impl OciInner {
    /// Claims the ranges that badges name, also of sandboxes that do not run.
    fn claim_ranges(&self) -> Result<(), DriverError> {
        for name in self.names()? {
            let Ok(sandbox) = name.parse::<SandboxId>() else { continue };
            if let Ok(record) = self.signer.read(&self.dir(&sandbox), &sandbox) {
                self.uid_ranges.claim(record.uid_base);
            }
        }
        Ok(())
    }
}

/// Paths where runtimes may be: of the one that is named, or of all that are tried.
pub fn programs(runtime: Option<&str>) -> Vec<PathBuf> {
    runtime.map_or_else(|| RUNTIMES.to_vec(), |name| vec![name]).into_iter().flat_map(program_paths).collect()
}

fn program_paths(name: &str) -> Vec<PathBuf> {
    if name.contains('/') {
        return vec![PathBuf::from(name)];
    }
    PATH.iter().map(|dir| Path::new(dir).join(name)).collect()
}

fn find_program(name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    program_paths(name).into_iter().find(is_program)
}

fn description(version: &str, profile: &RuntimeProfile) -> String {
    format!("{version}, {}", profile.describe())
}

async fn version_of(program: &Path) -> Result<String, DriverError> {
    let mut command = Command::new(program);
    command.arg("--version").env_clear().kill_on_drop(true);
    let run = || failed(format!("run {}", program.display()));
    let ended = timeout(Duration::from_millis(PROBE_ANSWER_MAX_MS), command.output()).await;
    let output = ended.map_err(|_| run()(io::ErrorKind::TimedOut.into()))?.map_err(run())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().next().unwrap_or("unknown version").trim().to_owned())
}
