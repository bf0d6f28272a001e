//! Opens the drivers of this hostd, and chooses the default driver of sandboxes that name none.

use super::failed;
use crate::{
    agents::Agents,
    api::ImageBackend,
    command::Failure,
    config::{Config, DriverChoice},
};
use hostd_drivers::{
    AbsentDriver, Driver, DriverError, Drivers, LoginLookup, QuotaSettings,
    docker::{Docker, DockerConfig},
    empty_trash,
    oci::{self, HostImage, Oci, OciConfig, PullSettings},
};
use hostd_images::RegistryAllowlist;
use hostd_net::outbound::OutboundConnector;
use hostd_store::identity_files::IdentityFiles;
use protocol::api::{DOCKER_SOCKET, PODMAN_SOCKET};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tracing::warn;

const OCI: &str = "oci";
const DOCKER: &str = "docker";

/// The opened drivers.
pub struct OpenedDrivers {
    pub drivers: Drivers,
    /// The name of the default driver.
    pub default: &'static str,
    pub images: ImageBackend,
}

/// The inputs from which drivers are opened.
struct DriverInputs<'a> {
    config: &'a Config,
    files: &'a IdentityFiles,
    agents: &'a Agents,
    pulls: PullSettings,
    runtimed: PathBuf,
}

/// Returns where images may be pulled from, with which logins.
pub fn pulls(config: &Config, connector: OutboundConnector, logins: LoginLookup) -> PullSettings {
    PullSettings { connector, registries: RegistryAllowlist::new(config.image_registries.clone()), logins }
}

/// Opens the drivers. The default must work, except for a Docker that is down, which recovers by itself. The
/// other driver is opened where possible.
pub async fn open(
    config: &Config,
    files: &IdentityFiles,
    agents: &Agents,
    pulls: PullSettings,
) -> Result<OpenedDrivers, Failure> {
    let inputs = DriverInputs { config, files, agents, pulls, runtimed: runtimed(config)? };
    // Runs in the background and ends with hostd at the latest.
    drop(empty_trash(&config.data_dir));
    let socket = EngineSocket::find(config.docker_socket.as_deref(), Path::exists);
    let oci = Oci::open(inputs.oci()).await;
    // A full disk is no reason to fall back to another driver.
    if matches!(oci, Err(DriverError::DiskFull)) && config.driver != DriverChoice::Docker {
        return Err(disk_full(&config.data_dir));
    }
    let Some(default) = default(config.driver, oci.is_ok(), socket.expected()) else {
        return Err(no_driver(config, oci.err(), &socket));
    };
    let (mut all, mut absent): (Vec<Arc<dyn Driver>>, Vec<AbsentDriver>) = (Vec::new(), Vec::new());
    let mut images = ImageBackend::Absent;
    match oci {
        Ok(oci) => {
            images = ImageBackend::with_puller(oci.images().clone(), oci.puller().clone());
            all.push(Arc::new(oci));
        }
        Err(error) => absent.push(AbsentDriver {
            name: OCI,
            backend_paths: oci::programs(config.oci_runtime.as_deref()),
            why: error.to_string(),
        }),
    }
    // An engine that was not configured is left alone where it is not needed.
    if default == DOCKER || socket.configured || has_sandboxes(&config.data_dir) {
        match inputs.docker(&socket).await {
            Ok(docker) => {
                if matches!(images, ImageBackend::Absent) {
                    images = ImageBackend::new(docker.images().clone());
                }
                all.push(Arc::new(docker));
            }
            Err(error) if default == DOCKER => return Err(Failure::Failed(error.to_string())),
            Err(error) => absent.push(AbsentDriver {
                name: DOCKER,
                backend_paths: socket.signs(),
                why: error.to_string(),
            }),
        }
    } else {
        absent.push(AbsentDriver { name: DOCKER, backend_paths: socket.signs(), why: socket.absent() });
    }
    all.sort_by_key(|driver| driver.name() != default);
    for driver in &all {
        for warning in driver.warnings() {
            warn!(driver = driver.name(), warning, "driver warning");
        }
        if let Err(error) = driver.health() {
            warn!(driver = driver.name(), %error, "driver unavailable; retrying");
        }
    }
    Ok(OpenedDrivers { drivers: Drivers::new(all).with_absent(absent), default, images })
}

fn disk_full(data_dir: &Path) -> Failure {
    let data_dir = data_dir.display();
    Failure::Failed(format!(
        "the disk of {data_dir} is full, and no OCI runtime was tried on it before: free some space and start hostd \
         again"
    ))
}

/// Returns the default driver.
fn default(choice: DriverChoice, oci_works: bool, docker_expected: bool) -> Option<&'static str> {
    match choice {
        DriverChoice::Docker => Some(DOCKER),
        DriverChoice::Oci | DriverChoice::Auto if oci_works => Some(OCI),
        DriverChoice::Auto if docker_expected => Some(DOCKER),
        DriverChoice::Oci | DriverChoice::Auto => None,
    }
}

/// Explains why there is no driver. Only `oci` can be missing here: it was configured, or there is no engine.
fn no_driver(config: &Config, error: Option<DriverError>, socket: &EngineSocket) -> Failure {
    let error = error.map(|error| error.to_string()).unwrap_or_default();
    match (&config.oci_runtime, config.driver) {
        // The configured runtime does not work.
        (Some(_), _) => Failure::Usage(format!("SLIPWAY_OCI_RUNTIME: {error}")),
        (None, DriverChoice::Auto) => Failure::Failed(format!("{error}; and {}", socket.absent())),
        (None, DriverChoice::Oci | DriverChoice::Docker) => Failure::Failed(error),
    }
}

/// The socket of the container engine.
struct EngineSocket {
    path: PathBuf,
    /// The path was configured, so the engine is expected.
    configured: bool,
    exists: bool,
}

impl EngineSocket {
    /// Finds the socket: the configured one, else Docker's, else Podman's.
    fn find(configured: Option<&Path>, exists: impl Fn(&Path) -> bool) -> Self {
        if let Some(path) = configured {
            return Self { path: path.to_owned(), configured: true, exists: exists(path) };
        }
        let usual = [DOCKER_SOCKET, PODMAN_SOCKET].map(Path::new);
        let found = usual.into_iter().find(|path| exists(path));
        let path = found.unwrap_or(usual[0]).to_owned();
        Self { path, configured: false, exists: found.is_some() }
    }

    fn expected(&self) -> bool {
        self.configured || self.exists
    }

    /// Returns paths of which any shows that an engine exists.
    fn signs(&self) -> Vec<PathBuf> {
        let mut signs = vec![self.path.clone()];
        if !self.configured {
            signs.extend([DOCKER_SOCKET, PODMAN_SOCKET].map(PathBuf::from));
        }
        signs
    }

    fn absent(&self) -> String {
        if self.exists {
            let path = self.path.display();
            return format!(
                "the engine at {path} is left alone, since it is not configured: start hostd with \
                 SLIPWAY_DOCKER_SOCKET={path}"
            );
        }
        format!(
            "neither {DOCKER_SOCKET} nor {PODMAN_SOCKET} existed when hostd started: start Docker or Podman, or \
             name its socket with SLIPWAY_DOCKER_SOCKET, and start hostd again"
        )
    }
}

/// Returns whether an earlier hostd made sandboxes with Docker: they are driven wherever the engine is now.
fn has_sandboxes(data_dir: &Path) -> bool {
    std::fs::read_dir(data_dir.join(DOCKER)).is_ok_and(|mut entries| entries.next().is_some())
}

fn runtimed(config: &Config) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|error| failed("find its own program", &error))?;
    let path = config.runtimed.clone().unwrap_or_else(|| own.with_file_name("runtimed"));
    if path.is_file() {
        return Ok(path);
    }
    Err(Failure::Usage(format!("SLIPWAY_RUNTIMED: there is no {}; say where runtimed is", path.display())))
}

impl DriverInputs<'_> {
    fn oci(&self) -> OciConfig {
        OciConfig {
            data_dir: self.config.data_dir.clone(),
            runtimed: self.runtimed.clone(),
            // The running program, even after its file was replaced by another version.
            launcher: PathBuf::from("/proc/self/exe"),
            runtime: self.config.oci_runtime.clone(),
            instance: self.files.instance.clone(),
            key: self.files.key,
            host_image: HostImage { allow: self.config.host_image_dirs.clone() },
            agents: self.agents.dir().map(Path::to_owned),
            quota: self.quota(),
            snapshots: self.config.snapshots,
            pulls: self.pulls.clone(),
            templates: self.config.templates.clone(),
        }
    }

    fn quota(&self) -> QuotaSettings {
        let floor_bytes = self.config.disk_floor_mb.map(|mb| mb.saturating_mul(1 << 20));
        QuotaSettings { choice: self.config.quota, floor_bytes }
    }

    async fn docker(&self, socket: &EngineSocket) -> Result<Docker, DriverError> {
        let docker = DockerConfig {
            data_dir: self.config.data_dir.clone(),
            socket: socket.path.clone(),
            runtimed: self.runtimed.clone(),
            instance: self.files.instance.clone(),
            key: self.files.key,
            host_dirs: self.config.host_image_dirs.clone(),
            agents: self.agents.dir().map(Path::to_owned),
            registries: self.config.image_registries.clone(),
            quota: self.quota(),
            snapshots: self.config.snapshots,
            templates: self.config.templates.clone(),
        };
        Docker::open(docker).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_what_was_asked_for_or_the_first_that_is_there() {
        use DriverChoice::{Auto, Docker, Oci};
        let table = [
            (Auto, true, true, Some(OCI)),
            (Auto, true, false, Some(OCI)),
            (Auto, false, true, Some(DOCKER)),
            (Auto, false, false, None),
            (Oci, true, true, Some(OCI)),
            (Oci, false, true, None),
            (Docker, true, true, Some(DOCKER)),
            // The engine is expected to recover.
            (Docker, false, false, Some(DOCKER)),
        ];
        for (choice, oci, docker, expected) in table {
            assert_eq!(default(choice, oci, docker), expected, "{choice:?} {oci} {docker}");
        }
    }

    #[test]
    fn the_socket_is_the_given_one_or_the_first_of_the_usual_ones() {
        let table: [(Option<&str>, &[&str], &str, bool); 5] = [
            (None, &[DOCKER_SOCKET, PODMAN_SOCKET], DOCKER_SOCKET, true),
            (None, &[PODMAN_SOCKET], PODMAN_SOCKET, true),
            (None, &[], DOCKER_SOCKET, false),
            (Some("/x.sock"), &[DOCKER_SOCKET], "/x.sock", true),
            (Some("/x.sock"), &[], "/x.sock", true),
        ];
        for (configured, exists, path, expected) in table {
            let socket = EngineSocket::find(configured.map(Path::new), |path| {
                exists.iter().any(|exists| path == *exists)
            });
            assert_eq!((socket.path.as_path(), socket.expected()), (Path::new(path), expected));
            assert_eq!(socket.configured, configured.is_some());
        }
    }
}
