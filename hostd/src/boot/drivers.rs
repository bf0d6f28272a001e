//! Which drivers this hostd has, and which of them makes a sandbox that names none.

use super::failed;
use crate::{
    agents::Agents,
    api::Images,
    command::Failure,
    config::{Config, DriverChoice},
    driver::{
        Driver, Drivers, empty_trash,
        oci::{HostImage, Oci, OciConfig},
    },
    identity_files::IdentityFiles,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tracing::warn;

const OCI: &str = "oci";

/// What was opened.
pub struct Opened {
    pub drivers: Drivers,
    /// The name of the one for sandboxes that name none.
    pub default: &'static str,
    pub images: Images,
}

/// What drivers are made of.
struct Ground<'a> {
    config: &'a Config,
    files: &'a IdentityFiles,
    agents: &'a Agents,
    runtimed: PathBuf,
}

/// It must work.
pub async fn open(config: &Config, files: &IdentityFiles, agents: &Agents) -> Result<Opened, Failure> {
    if config.driver == DriverChoice::Docker {
        return Err(Failure::Usage("SLIPWAY_DRIVER: must be auto or oci".to_owned()));
    }
    let ground = Ground { config, files, agents, runtimed: runtimed(config)? };
    // Goes on beside everything else, and ends with hostd at the latest.
    drop(empty_trash(&config.data_dir));
    let oci = Oci::open(ground.oci()).await.map_err(|error| match &config.oci_runtime {
        // It was named, and it will not do.
        Some(_) => Failure::Usage(format!("SLIPWAY_OCI_RUNTIME: {error}")),
        None => Failure::Failed(error.to_string()),
    })?;
    let (images, oci): (_, Arc<dyn Driver>) = (Images::new(oci.images().clone()), Arc::new(oci));
    for warning in oci.warnings() {
        warn!(driver = oci.name(), warning, "this host");
    }
    Ok(Opened { drivers: Drivers::new(vec![oci]), default: OCI, images })
}

fn runtimed(config: &Config) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|error| failed("find its own program", &error))?;
    let path = config.runtimed.clone().unwrap_or_else(|| own.with_file_name("runtimed"));
    if path.is_file() {
        return Ok(path);
    }
    Err(Failure::Usage(format!("SLIPWAY_RUNTIMED: there is no {}; say where runtimed is", path.display())))
}

impl Ground<'_> {
    fn oci(&self) -> OciConfig {
        OciConfig {
            data_dir: self.config.data_dir.clone(),
            runtimed: self.runtimed.clone(),
            // Itself, also after its file was replaced by another version.
            launcher: PathBuf::from("/proc/self/exe"),
            runtime: self.config.oci_runtime.clone(),
            instance: self.files.instance.clone(),
            key: self.files.key,
            host_image: HostImage { allow: self.config.host_image_dirs.clone() },
            agents: self.agents.dir().map(Path::to_owned),
        }
    }
}
