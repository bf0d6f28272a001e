//! Opens the driver: finds what this host has, and the first runtime that really runs a sandbox.

use super::{
    super::{Driver, DriverError},
    badge::Sealer,
    cgroup::Hierarchies,
    dial::Reach,
    driver::{Inner, Oci},
    files::{self, failed},
    ground::{
        self, check_instance, checked_allow, explain, make_data_dir, nofile, refuse_bound, unavailable,
    },
    images::{HostRoot, Images},
    layout::Layout,
    limits::PROBE_ANSWER_MAX_MS,
    pid_namespace,
    ranges::Ranges,
    recipe::Recipe,
    sealed::Sealed,
    seccomp, trial,
};
use crate::core::PidNamespace;
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

/// In this order, unless one is named.
const RUNTIMES: [&str; 3] = ["crun", "runc", "youki"];
/// Which of them was tried last and ran, in the data directory.
const REMEMBERED: &str = "runtime";
const REMEMBERED_MAX_BYTES: u64 = 4096;
/// With less than this free, what fails fails for that.
const PROBE_ROOM_BYTES: u64 = 256 << 10;
const PATH: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

pub struct OciConfig {
    pub data_dir: PathBuf,
    /// runtimed, static, on this host.
    pub runtimed: PathBuf,
    /// hostd itself: run as `hostd launch …`.
    pub launcher: PathBuf,
    /// `crun`, `runc`, `youki` or a path; the first that works when absent.
    pub runtime: Option<String>,
    /// Tells apart the hostds of one machine.
    pub instance: String,
    /// Authenticates badges.
    pub key: [u8; 32],
    pub host_image: HostImage,
    /// Agents that every sandbox sees, read-only, while they are there.
    pub agents: Option<PathBuf>,
}

/// What of the host the image `host` has beside /usr.
#[derive(Debug, Clone, Default)]
pub struct HostImage {
    /// Directories of /opt and /usr/local.
    pub allow: Vec<PathBuf>,
}

impl Oci {
    pub async fn open(config: OciConfig) -> Result<Self, DriverError> {
        let programs = match &config.runtime {
            Some(name) => vec![name.clone()],
            None => RUNTIMES.map(str::to_owned).to_vec(),
        };
        let ground = Ground::prepare(&config)?;
        let (mut tried, mut full) = (vec![], false);
        for name in &programs {
            let Some(program) = find_program(name) else {
                tried.push(format!("{name}: not installed"));
                continue;
            };
            for recipe in Recipe::candidates(&program) {
                let description = recipe.describe();
                match ground.try_recipe(&config, recipe, &tried).await {
                    Ok(driver) => {
                        ground.remember(&driver);
                        return Ok(driver);
                    }
                    Err(error) => {
                        full |= matches!(error, DriverError::DiskFull) || ground.has_no_room();
                        tried.push(format!("{description}: {}", explain(&error)));
                    }
                }
            }
        }
        if full {
            // Nothing can be tried on a full disk; and what is to make room again must start.
            return ground.as_remembered(&config, &programs).await;
        }
        let tried = tried.join("; ");
        let message =
            format!("no OCI runtime runs a sandbox here ({tried}); install crun, or name one that works");
        Err(DriverError::Unavailable { message })
    }
}

/// What does not depend on the runtime.
struct Ground {
    layout: Layout,
    hierarchies: Hierarchies,
    pid_namespace: PidNamespace,
    images: Images,
    runtimed: PathBuf,
    filter: String,
    nofile: u64,
}

impl Ground {
    fn prepare(config: &OciConfig) -> Result<Self, DriverError> {
        check_instance(&config.instance)?;
        let pid_namespace = pid_namespace::own()?;
        let data = make_data_dir(&config.data_dir)?;
        let host = HostRoot { root: "/".into(), allow: checked_allow(&config.host_image.allow)? };
        let bound: Vec<PathBuf> = host.bound().into_iter().chain(config.agents.clone()).collect();
        refuse_bound(&data, &bound)?;
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
        let images = Images::open(&layout, &host, config.agents.clone())?;
        let filter = seccomp::program_base64().map_err(|error| unavailable(&format!("could not {error}")))?;
        Ok(Self { layout, hierarchies, pid_namespace, images, runtimed, filter, nofile: nofile()? })
    }

    async fn try_recipe(
        &self,
        config: &OciConfig,
        recipe: Recipe,
        tried: &[String],
    ) -> Result<Oci, DriverError> {
        let driver = self.driver(config, recipe, self.warnings(tried)).await?;
        let probe = trial::id();
        // What a probe of an earlier hostd left, whatever its badge says.
        driver.inner.scrap(&probe).await?;
        let ran = driver.probe(&probe).await;
        driver.destroy(&probe, false).await?;
        ran?;
        Ok(driver)
    }

    /// Not tried yet.
    async fn driver(
        &self,
        config: &OciConfig,
        recipe: Recipe,
        warnings: Vec<String>,
    ) -> Result<Oci, DriverError> {
        let version = version_of(&recipe.program).await?;
        // With idmapped mounts files on disk have plain owners: nobody else on the host may get to them.
        // Otherwise the root of a sandbox, who is nobody here, must.
        let mode = if recipe.idmapped { 0o700 } else { 0o711 };
        for place in [self.layout.sandboxes(), self.layout.workspaces()] {
            let set = std::fs::set_permissions(&place, std::fs::Permissions::from_mode(mode));
            set.map_err(failed("close the data directory"))?;
        }
        let inner = Inner {
            description: description(&version, &recipe),
            warnings,
            layout: self.layout.clone(),
            sealer: Sealer { instance: config.instance.clone(), key: config.key },
            sealed: Sealed::of(&recipe.program)?,
            recipe,
            hierarchies: self.hierarchies.clone(),
            pid_namespace: self.pid_namespace,
            images: self.images.clone(),
            ranges: Ranges::of(&config.instance),
            runtimed: self.runtimed.clone(),
            launcher: config.launcher.clone(),
            filter: self.filter.clone(),
            nofile: self.nofile,
            reach: Reach::start().map_err(failed("start the dialer"))?,
            oom_seen: Mutex::new(HashMap::new()),
            ended: Mutex::new(HashMap::new()),
        };
        inner.claim_ranges()?;
        Ok(Oci { inner: Arc::new(inner) })
    }

    /// Keeps which one was tried last and ran: program, version and recipe. Best effort.
    fn remember(&self, driver: &Oci) {
        let (path, text) = (self.layout.data().join(REMEMBERED), driver.describe());
        if self.remembered().is_some_and(|known| known == text) {
            return;
        }
        if let Err(error) = files::replace(&path, text.as_bytes(), 0o600) {
            tracing::warn!(%error, "could not keep which OCI runtime works");
        }
    }

    fn remembered(&self) -> Option<String> {
        files::read_text(&self.layout.data().join(REMEMBERED), REMEMBERED_MAX_BYTES).ok()
    }

    fn has_no_room(&self) -> bool {
        let free = statvfs(self.layout.data()).map(|disk| disk.blocks_available() * disk.fragment_size());
        free.is_ok_and(|free| free < PROBE_ROOM_BYTES)
    }

    /// The one that was tried last and ran, if it is still there and the same.
    async fn as_remembered(&self, config: &OciConfig, programs: &[String]) -> Result<Oci, DriverError> {
        let known = self.remembered().ok_or(DriverError::DiskFull)?;
        let mut warnings = self.warnings(&[]);
        warnings
            .push("the disk was full when hostd started: the OCI runtime is as it was last tried".to_owned());
        let there = programs.iter().filter_map(|name| find_program(name));
        for recipe in there.flat_map(|program| Recipe::candidates(&program)) {
            // One that does not even say its version is another.
            let Ok(version) = version_of(&recipe.program).await else { continue };
            if description(&version, &recipe) == known {
                let driver = self.driver(config, recipe, warnings).await?;
                driver.inner.scrap(&trial::id()).await?;
                return Ok(driver);
            }
        }
        Err(DriverError::DiskFull)
    }

    /// `tried` is what would have been better.
    fn warnings(&self, tried: &[String]) -> Vec<String> {
        let mut warnings: Vec<String> = tried.iter().map(|what| format!("not used: {what}")).collect();
        warnings.extend(ground::warnings(self.nofile));
        if std::fs::read_to_string("/proc/self/oom_score_adj").is_ok_and(|text| text.trim().starts_with('-'))
        {
            warnings
                .push("hostd is protected from the kernel's memory killer, and so are sandboxes".to_owned());
        }
        warnings
    }
}

impl Inner {
    /// Ranges that badges name, also those of sandboxes that do not run.
    fn claim_ranges(&self) -> Result<(), DriverError> {
        for name in self.names()? {
            let Ok(sandbox) = name.parse::<SandboxId>() else { continue };
            if let Ok(kept) = self.sealer.read(&self.dir(&sandbox), &sandbox) {
                self.ranges.claim(kept.uid_base);
            }
        }
        Ok(())
    }
}

/// Where runtimes would be: the one that is named, or all that are tried.
pub fn programs(runtime: Option<&str>) -> Vec<PathBuf> {
    runtime.map_or_else(|| RUNTIMES.to_vec(), |name| vec![name]).into_iter().flat_map(places).collect()
}

fn places(name: &str) -> Vec<PathBuf> {
    if name.contains('/') {
        return vec![PathBuf::from(name)];
    }
    PATH.iter().map(|dir| Path::new(dir).join(name)).collect()
}

fn find_program(name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    places(name).into_iter().find(is_program)
}

fn description(version: &str, recipe: &Recipe) -> String {
    format!("{version}, {}", recipe.describe())
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
