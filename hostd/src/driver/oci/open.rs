//! Opens the driver: finds what this host has, and the first runtime that really runs a sandbox.

use super::{
    super::{Driver, DriverError},
    badge::Sealer,
    cgroup::Hierarchies,
    driver::{Inner, Oci},
    files::{self, failed},
    images::{HostRoot, Images},
    layout::Layout,
    limits::{NOFILE_LOW, NOFILE_MAX, PROBE_ANSWER_MAX_MS},
    netns::Dialer,
    probe::PROBE_ID,
    ranges::Ranges,
    recipe::Recipe,
    sealed::Sealed,
    seccomp, tree,
};
use nix::sys::resource::{Resource, getrlimit};
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
        let mut tried = vec![];
        for name in programs {
            let Some(program) = find_program(&name) else {
                tried.push(format!("{name}: not installed"));
                continue;
            };
            for recipe in Recipe::candidates(&program) {
                let description = recipe.describe();
                match ground.try_recipe(&config, recipe, &tried).await {
                    Ok(driver) => return Ok(driver),
                    Err(error) => tried.push(format!("{description}: {}", explain(&error))),
                }
            }
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
    images: Images,
    runtimed: PathBuf,
    filter: String,
    nofile: u64,
}

impl Ground {
    fn prepare(config: &OciConfig) -> Result<Self, DriverError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if config.instance.is_empty() || config.instance.len() > 64 || !config.instance.bytes().all(plain) {
            return Err(unavailable("the instance must be 1 to 64 letters, digits, - or _"));
        }
        let data = make_data_dir(&config.data_dir)?;
        let host = HostRoot { root: "/".into(), allow: checked_allow(&config.host_image.allow)? };
        refuse_bound(&data, &host)?;
        let layout = Layout::new(data);
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
        let images = Images::open(&layout, &host)?;
        let filter = seccomp::program_base64().map_err(|error| unavailable(&format!("could not {error}")))?;
        let (_, hard) =
            getrlimit(Resource::RLIMIT_NOFILE).map_err(|e| failed("read our limits")(e.into()))?;
        Ok(Self { layout, hierarchies, images, runtimed, filter, nofile: hard.min(NOFILE_MAX) })
    }

    async fn try_recipe(
        &self,
        config: &OciConfig,
        recipe: Recipe,
        tried: &[String],
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
            description: format!("{version}, {}", recipe.describe()),
            warnings: self.warnings(tried),
            layout: self.layout.clone(),
            sealer: Sealer { instance: config.instance.clone(), key: config.key },
            sealed: Sealed::of(&recipe.program)?,
            recipe,
            hierarchies: self.hierarchies.clone(),
            images: self.images.clone(),
            ranges: Ranges::of(&config.instance),
            runtimed: self.runtimed.clone(),
            launcher: config.launcher.clone(),
            filter: self.filter.clone(),
            nofile: self.nofile,
            dialer: Dialer::start().map_err(failed("start the dialer"))?,
            live: Mutex::new(HashMap::new()),
            oom_seen: Mutex::new(HashMap::new()),
        };
        inner.claim_ranges()?;
        let driver = Oci { inner: Arc::new(inner) };
        let probe: SandboxId = PROBE_ID.parse().expect("twenty-six zeros are an id");
        // What a probe of an earlier hostd left, whatever its badge says.
        driver.inner.scrap(&probe).await?;
        let ran = driver.probe(&probe).await;
        driver.erase(&probe, false).await?;
        ran?;
        let stale = tree::stale(&self.layout.trash()).map_err(failed("look into the trash"))?;
        // May take long, and nobody waits for it; what is not done is found by the next hostd.
        tokio::task::spawn_blocking(move || {
            for path in stale {
                if let Err(error) = tree::remove(&path) {
                    tracing::warn!(path = %path.display(), %error, "could not empty the trash");
                }
            }
        });
        Ok(driver)
    }

    /// `tried` is what would have been better.
    fn warnings(&self, tried: &[String]) -> Vec<String> {
        let mut warnings: Vec<String> = tried.iter().map(|what| format!("not used: {what}")).collect();
        if self.nofile < NOFILE_LOW {
            let nofile = self.nofile;
            warnings.push(format!(
                "only {nofile} open files for a sandbox: raise the limit of hostd (LimitNOFILE)"
            ));
        }
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

fn make_data_dir(path: &Path) -> Result<PathBuf, DriverError> {
    let make = || failed("make the data directory");
    std::fs::create_dir_all(path).map_err(make())?;
    let path = std::fs::canonicalize(path).map_err(make())?;
    // The root of a sandbox is nobody here, and must be able to pass to what is its own.
    let mode = std::fs::metadata(&path).map_err(make())?.permissions().mode();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode | 0o011)).map_err(make())?;
    passable(&path)?;
    Ok(path)
}

/// The root of a sandbox is nobody on the host: what it mounts or runs must be in reach of everybody.
fn passable(path: &Path) -> Result<(), DriverError> {
    let blocked =
        |part: &&Path| std::fs::metadata(part).is_ok_and(|meta| meta.permissions().mode() & 0o001 == 0);
    let Some(part) = path.ancestors().find(blocked) else { return Ok(()) };
    let (path, part) = (path.display(), part.display());
    Err(unavailable(&format!(
        "sandboxes cannot reach {path}: make {part} passable (chmod o+x), or use another place"
    )))
}

fn checked_allow(allow: &[PathBuf]) -> Result<Vec<PathBuf>, DriverError> {
    let check = |path: &PathBuf| {
        let real = std::fs::canonicalize(path).ok().filter(|real| real.is_dir());
        let good =
            real.as_ref() == Some(path) && (path.starts_with("/opt") || path.starts_with("/usr/local"));
        let must = "must be a directory in /opt or /usr/local, without links";
        good.then(|| path.clone())
            .ok_or_else(|| unavailable(&format!("{} cannot be shared: it {must}", path.display())))
    };
    allow.iter().map(check).collect()
}

/// Sandboxes would see each other's files.
fn refuse_bound(data: &Path, host: &HostRoot) -> Result<(), DriverError> {
    let bound = host.bound();
    let Some(within) = bound.iter().find(|bound| data.starts_with(bound)) else { return Ok(()) };
    let (data, within) = (data.display(), within.display());
    Err(unavailable(&format!("the data directory {data} is in {within}, which sandboxes see: use another")))
}

fn find_program(name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(is_program);
    }
    PATH.iter().map(|dir| Path::new(dir).join(name)).find(is_program)
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

/// The error, its cause and the last line printed, in one line.
fn explain(error: &DriverError) -> String {
    let mut text = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        text = format!("{text}: {cause}");
    }
    match error {
        DriverError::Failed { output, .. } if output.len() > 1 => {
            format!("{text} [{}]", output.join(" | "))
        }
        _ => text,
    }
}

fn unavailable(message: &str) -> DriverError {
    DriverError::Unavailable { message: message.to_owned() }
}
