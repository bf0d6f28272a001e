//! The probe of an engine: it must run a whole sandbox, confined as requested, before it is used.

use super::{
    super::{
        Driver, DriverError,
        local::{
            files::failed, limits::DISK_MIN_MB, local_driver::LocalDriver, probe_sandbox, quota::QuotaMeans,
        },
    },
    driver::{Docker, DockerInner},
    engine::EngineInfo,
    engine_checks::{self, IdMap},
    engine_health::FitEngine,
};
use std::{fs::Permissions, os::unix::fs::PermissionsExt, path::PathBuf, sync::atomic::Ordering};

impl Docker {
    pub(super) async fn probe(&self, info: &EngineInfo) -> Result<FitEngine, DriverError> {
        engine_checks::check_limits(info)?;
        let _lock = self.inner.runtimes.lock_probe().await;
        // Earlier results may be about another engine.
        self.inner.networks.forget();
        self.inner.runtimes.forget();
        let sandbox = probe_sandbox::probe_id();
        // Left by a probe of an earlier hostd.
        self.inner.destroy_unchecked(&sandbox, false).await?;
        let id_map = engine_checks::discover_id_map(&self.inner.test_containers).await?;
        self.inner.set_dir_modes(&id_map)?;
        let fit_engine = FitEngine { info: info.clone(), id_map, warnings: vec![] };
        // An engine in a mount namespace of its own is found out here, and the limits are kept in another way.
        self.inner.volumes_hidden.store(false, Ordering::Relaxed);
        let tries_volume = self.inner.disk_means() == Some(QuotaMeans::Loop)
            && self.inner.workspaces().check_room(DISK_MIN_MB).is_ok();
        let mut probed = Ok(());
        if tries_volume {
            let order = probe_sandbox::probe_order_with_disk(&sandbox, self.name());
            probed = self.run_probe(&order, &fit_engine).await;
            if let Err(error) = &probed {
                // A remapped engine cannot even enter the directory below a mount that it does not see.
                tracing::info!(%error, "the engine does not run a sandbox with a volume; trying without");
                self.inner.volumes_hidden.store(true, Ordering::Relaxed);
            }
        }
        if !tries_volume || self.inner.volumes_hidden.load(Ordering::Relaxed) {
            self.inner.destroy_unchecked(&sandbox, false).await?;
            probed = self.run_probe(&probe_sandbox::probe_order(&sandbox, self.name()), &fit_engine).await;
        }
        let gone = self.inner.destroy_unchecked(&sandbox, false).await;
        probed.and(gone)?;
        Ok(fit_engine)
    }
}

impl DockerInner {
    /// Sets the mode of the data directories. With a user namespace the root of a sandbox is an unprivileged
    /// user on the host and must be able to traverse them. Without one, files belong to real users of the
    /// host: no other user may enter.
    fn set_dir_modes(&self, id_map: &IdMap) -> Result<(), DriverError> {
        let set = |dir: PathBuf, mode: u32| {
            let set = std::fs::set_permissions(dir, Permissions::from_mode(mode));
            set.map_err(failed("set the mode of the data directory"))
        };
        let mode = if id_map.is_identity() { 0o700 } else { 0o711 };
        set(self.layout.sandboxes(), mode)?;
        set(self.layout.workspaces(), mode)
    }
}
