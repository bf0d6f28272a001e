//! The stand-in for a driver that hostd was started without: every verb fails, nothing is touched.

use super::{
    ContainerState, Driver, DriverError, FoundSandbox, Handle, LaunchRequest, Stream, Target, Transport,
    WorkspaceAccess,
};
use async_trait::async_trait;
use hostd_core::Blueprint;
use protocol::api::{Capabilities, Limits, SandboxId, StatsView};
use std::{io, net::SocketAddr, path::PathBuf};
use tokio::net::TcpListener;

pub(super) struct NotConfigured {
    name: String,
}

impl NotConfigured {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    fn unavailable<T>(&self) -> Result<T, DriverError> {
        let message =
            format!("this hostd runs without the driver {}: configure it and start again", self.name);
        Err(DriverError::Unavailable { message })
    }
}

#[async_trait]
impl Transport for NotConfigured {
    async fn dial(&self, _: &SandboxId, _: Target) -> io::Result<Box<dyn Stream>> {
        Err(io::ErrorKind::NotConnected.into())
    }

    async fn listen(&self, _: &SandboxId, _: SocketAddr) -> io::Result<TcpListener> {
        Err(io::ErrorKind::NotConnected.into())
    }
}

#[async_trait]
impl Driver for NotConfigured {
    fn name(&self) -> &'static str {
        "missing"
    }

    fn describe(&self) -> String {
        format!("{} is not configured", self.name)
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            networks: vec![],
            limits: vec![],
            disk_limit: None,
            snapshots: None,
            pause: false,
            runtimes: vec![],
            images: vec![],
            isolation: vec![],
        }
    }

    async fn check(&self, _: &Blueprint) -> Result<(), DriverError> {
        self.unavailable()
    }

    async fn launch(&self, _: &LaunchRequest) -> Result<Handle, DriverError> {
        self.unavailable()
    }

    async fn inspect(&self, _: &SandboxId) -> Result<ContainerState, DriverError> {
        self.unavailable()
    }

    async fn died(&self, _: &SandboxId) -> Result<(), DriverError> {
        std::future::pending().await
    }

    async fn freeze(&self, _: &SandboxId) -> Result<(), DriverError> {
        self.unavailable()
    }

    async fn thaw(&self, _: &SandboxId) -> Result<(), DriverError> {
        self.unavailable()
    }

    async fn terminate(&self, _: &SandboxId, _: u64) -> Result<(), DriverError> {
        self.unavailable()
    }

    async fn clean_up(&self, _: &SandboxId) -> Result<(), DriverError> {
        self.unavailable()
    }

    async fn destroy(&self, _: &SandboxId, _: bool) -> Result<(), DriverError> {
        self.unavailable()
    }

    async fn reset_workspace(&self, _: &SandboxId) -> Result<(), DriverError> {
        self.unavailable()
    }

    fn logs(&self, _: &SandboxId) -> Option<PathBuf> {
        None
    }

    async fn open_workspace(&self, _: &SandboxId) -> Result<WorkspaceAccess, DriverError> {
        self.unavailable()
    }

    async fn workspace_bytes(&self, _: &SandboxId) -> Result<Option<u64>, DriverError> {
        self.unavailable()
    }

    async fn stats(&self, _: &SandboxId) -> Result<StatsView, DriverError> {
        self.unavailable()
    }

    async fn resize(&self, _: &SandboxId, _: &Limits) -> Result<(), DriverError> {
        self.unavailable()
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, DriverError> {
        Ok(Vec::new())
    }
}
