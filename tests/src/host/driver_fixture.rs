//! The embedded driver by itself, on data of its own: for what no route of the API does yet.

use super::cleanup;
use crate::{
    Client,
    launch::{directory, program},
};
use anyhow::{Context, Result};
use hostd_core::Blueprint;
use hostd_drivers::oci::{HostImage, Oci, OciConfig, PullSettings};
use hostd_drivers::{Driver, LaunchRequest, ProgressSink, QuotaSettings, SandboxBadge};
use protocol::api::{Label, Limits, Owner, SandboxId};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

pub struct DriverFixture {
    dir: TempDir,
    pub driver: Oci,
}

impl DriverFixture {
    pub async fn open() -> Result<Self> {
        let dir = directory()?;
        let instance = dir.path().file_name().context("a name")?.to_string_lossy().replace('.', "-");
        let data_dir = dir.path().join("data");
        std::fs::create_dir(&data_dir)?;
        std::fs::write(data_dir.join("instance"), &instance)?;
        let config = OciConfig {
            data_dir,
            runtimed: program("runtimed")?,
            launcher: program("hostd")?,
            runtime: None,
            instance,
            key: [7; 32],
            host_image: HostImage::default(),
            agents: None,
            quota: QuotaSettings::default(),
            snapshots: Default::default(),
            pulls: PullSettings::anonymous(),
            templates: None,
        };
        Ok(Self { driver: Oci::open(config).await?, dir })
    }

    /// A sandbox that runs and answers.
    pub async fn launch(&self, number: u32) -> Result<SandboxId> {
        let sandbox: SandboxId = format!("{number:026}").parse()?;
        self.driver.launch(&order(sandbox)?).await?;
        let client = self.client(&sandbox);
        let answers =
            async || Ok(client.get("/healthz").await.is_ok_and(|answer| answer.status == 200).then_some(()));
        super::until("it answers", answers).await?;
        Ok(sandbox)
    }

    /// Its runtimed, past the driver.
    pub fn client(&self, sandbox: &SandboxId) -> Client {
        Client::new(self.control(sandbox).join("sock"))
    }

    pub fn control(&self, sandbox: &SandboxId) -> PathBuf {
        self.dir.path().join("data/oci").join(sandbox.as_str()).join("control")
    }
}

impl Drop for DriverFixture {
    fn drop(&mut self) {
        cleanup::clear(&self.dir.path().join("data"));
    }
}

fn order(sandbox: SandboxId) -> Result<LaunchRequest> {
    let label = |text: &str| Label::parse(text).map_err(anyhow::Error::from);
    let owner = Owner { tenant: label("acme")?, principal: label("ann")?, project: label("default")? };
    let (name, details) = ("driven".to_owned(), None);
    let badge = SandboxBadge { sandbox, name, owner, scope: None, created_ms: 0, details };
    let blueprint = Blueprint::bare("oci", Limits { memory_mb: 256, cpus: 1.0, pids: 256, disk_mb: None });
    Ok(LaunchRequest { badge, attempt: 1, blueprint: Arc::new(blueprint), progress: ProgressSink::default() })
}
