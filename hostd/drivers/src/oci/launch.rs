//! Launches a sandbox. Leftovers of an earlier attempt are used, or removed first.
//!
//! ```text
//! lock ─▶ already running? ─▶ clear leftovers ─▶ files, badge, groups, bundle ─▶ runtime ─▶ PID 1 checked
//! ```

use super::{
    super::{ContainerState, DriverError, Handle, LaunchRequest},
    blueprint_checks::{check_limits, refused},
    bundle::Bundle,
    cgroup::Cgroup,
    chown_tree,
    driver::OciInner,
    files::{self, failed},
    id_map::IdMap,
    images::{PullProgress, PullRequest, RootTree, Rootfs},
    init::Init,
    init_exit::stdio_lines,
    layout::SandboxDir,
    limits::{LAUNCH_WAIT_MAX_MS, POLL_MS, UID_RANGE},
    mounts::SandboxMounts,
    signed_badge::BadgeRecord,
    spawn_runtime::{self, MergedLayers, RuntimeCommand},
};
use crate::local::{local_driver::LocalDriver, snapshots::Unsynced};
use hostd_core::{Blueprint, image_env};
use protocol::api::{Network, SandboxId};
use std::{
    fs::{File, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// What a launch needs on disk.
struct PreparedLaunch {
    record: BadgeRecord,
    /// Present if it was written now.
    badge: Option<File>,
    unsynced: Unsynced,
}

impl OciInner {
    /// Refuses what this driver cannot do, before anything is created.
    pub fn check(&self, blueprint: &Blueprint) -> Result<(), DriverError> {
        if blueprint.network == Network::Open {
            return Err(refused(
                "network",
                "this driver gives a sandbox no network but loopback and hostd's proxy there".into(),
                &["none", "proxy"],
            ));
        }
        let own = self.profile.name();
        if blueprint.runtime.as_ref().is_some_and(|wanted| *wanted != own) {
            let message = format!("this driver runs every sandbox with {own}");
            return Err(refused("runtime", message, &[&own]));
        }
        check_limits(&blueprint.limits)?;
        self.workspaces().check(&blueprint.limits)?;
        if self.images.has(&blueprint.image) {
            return self.images.find(&blueprint.image).map(drop);
        }
        self.puller.check(&blueprint.image).map(drop)
    }

    pub async fn launch(self: &Arc<Self>, order: &LaunchRequest) -> Result<Handle, DriverError> {
        self.check(&order.blueprint)?;
        let sandbox = order.badge.sandbox;
        let (dir, group) = (self.dir(&sandbox), self.cgroup(&sandbox));
        // Before the lock: a pull may take minutes.
        let rootfs = self.find_rootfs(order).await?;
        let begun = Instant::now();
        let lock = self.lock_launch(&dir).await?;
        if let Some(record) = self.read_badge(&sandbox)?
            && let Some(init) = find_init(&dir, &group)?
        {
            return Ok(handle(&init, record.uid_base));
        }
        self.refuse_other_namespace(&sandbox, false)?;
        if matches!(self.leftovers(&sandbox), ContainerState::Dead(_)) {
            self.clean_up(&sandbox).await?;
        }
        let wanted = order.clone();
        // The lock moves along: the work goes on when the caller is cancelled.
        let prepare =
            move |inner: &Self| inner.prepare(&wanted, &rootfs).map(|prepared| (prepared, rootfs, lock));
        let (PreparedLaunch { record, badge, unsynced }, rootfs, lock) = self.spawn_blocking(prepare).await?;
        let prepared = begun.elapsed();
        // The badge and the workspace are synced to disk while the runtime works.
        let sync = move || badge.map_or(Ok(()), |file| file.sync_all()).and_then(|()| unsynced.sync());
        let kept_on_disk = tokio::task::spawn_blocking(sync);
        let started = spawn_runtime::run_to_end(self.runtime_command(&record, &rootfs, lock), &group).await;
        let synced = kept_on_disk.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        started.map_err(|error| with_stdio(error, &dir))?;
        synced.map_err(failed("sync the badge and the workspace"))?;
        let init = find_init(&dir, &group)?.ok_or_else(|| exited_at_once(&dir))?;
        tracing::debug!(%sandbox, pid = init.pid, ?prepared, launched = ?begun.elapsed(), "sandbox launched");
        Ok(handle(&init, record.uid_base))
    }

    /// Finds the image of a sandbox: the one of its earlier launches, or one of this name, or one that is pulled.
    async fn find_rootfs(&self, order: &LaunchRequest) -> Result<Rootfs, DriverError> {
        let (name, dir) = (&order.blueprint.image, self.dir(&order.badge.sandbox));
        let damaged = || DriverError::Damaged { message: format!("the image {name} has no layers") };
        if let Some(record) = self.images.pinned(&dir, name) {
            return self.images.rootfs(&record).ok_or_else(damaged);
        }
        let record = if self.images.has(name) {
            let named = self.images.record(name).filter(|record| record.layered.is_some());
            let Some(record) = named else { return self.images.find(name) };
            record
        } else {
            let request = PullRequest {
                reference: &self.puller.check(name)?,
                tenant: order.badge.owner.tenant.as_str(),
                progress: &order.progress,
                counters: &Arc::new(PullProgress::default()),
                name: None,
            };
            self.puller.ensure(&request).await?
        };
        files::make_dir(dir.path(), 0o711).map_err(failed("make the sandbox directory"))?;
        self.images.pin(&dir, &record)?;
        self.images.rootfs(&record).ok_or_else(damaged)
    }

    /// Waits for any other launch of this sandbox to finish.
    async fn lock_launch(&self, dir: &SandboxDir) -> Result<File, DriverError> {
        files::make_dir(dir.path(), 0o711).map_err(failed("make the sandbox directory"))?;
        let deadline = Instant::now() + Duration::from_millis(LAUNCH_WAIT_MAX_MS);
        loop {
            let file = open_lock(dir).map_err(failed("open the launch lock"))?;
            match file.try_lock() {
                Ok(()) => {
                    // The previous holder's pid must not be taken for ours.
                    file.set_len(0).map_err(failed("empty the launch lock"))?;
                    return Ok(file);
                }
                Err(TryLockError::Error(error)) => return Err(failed("lock the launch")(error)),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                    let what = "another launch of this sandbox";
                    return Err(DriverError::TimedOut { what, after_ms: LAUNCH_WAIT_MAX_MS });
                }
                Err(TryLockError::WouldBlock) => tokio::time::sleep(Duration::from_millis(POLL_MS)).await,
            }
        }
    }

    fn runtime_command(&self, record: &BadgeRecord, rootfs: &Rootfs, lock: File) -> RuntimeCommand {
        let sandbox = &record.badge.sandbox;
        let dir = self.dir(sandbox);
        let merge = match &rootfs.tree {
            RootTree::Directory(_) => None,
            RootTree::Layers { stack, merge_at, .. } => Some(MergedLayers {
                at: merge_at.clone(),
                layers: stack.layers.clone(),
                ids: self.profile.idmapped().then_some(record.uid_base),
            }),
        };
        RuntimeCommand {
            launcher: self.launcher.clone(),
            lock,
            stdio: dir.stdio(),
            tasks: if self.profile.launcher_joins() { self.cgroup(sandbox).join_files() } else { vec![] },
            hide: self.hierarchies.to_hide().filter(|_| self.profile.launcher_joins()).map(Path::to_owned),
            shield: self.profile.idmapped().then(|| self.layout.data().to_owned()),
            keep: self.workspaces().is_mounted(sandbox).then(|| self.layout.workspace(sandbox)),
            merge,
            command: self.profile.run_command(self.sealed_program.as_ref(), &self.layout, &dir, sandbox),
        }
    }

    /// Makes the files of a restored sandbox, with a badge of this hostd, as its next launch would.
    pub async fn make_restored(self: &Arc<Self>, order: &LaunchRequest) -> Result<(), DriverError> {
        let order = order.clone();
        self.spawn_blocking(move |inner| {
            let sandbox = order.badge.sandbox;
            if !inner.workspaces().is_restored(&sandbox) {
                return Ok(());
            }
            let dir = inner.dir(&sandbox);
            let make = || failed("make the directories of the sandbox");
            let dirs = [(dir.path().to_owned(), 0o711), (dir.control(), 0o700), (dir.public(), 0o755)];
            for (path, mode) in dirs {
                files::make_dir(&path, mode).map_err(make())?;
            }
            let (record, badge) = inner.write_badge(&order, &dir)?;
            badge.map_or(Ok(()), |file| file.sync_all()).map_err(failed("sync the badge"))?;
            let unsynced = inner.make_workspace(&sandbox, &order.blueprint)?;
            unsynced.sync().map_err(failed("sync the workspace"))?;
            let changed = inner.chown_files(&sandbox, record.uid_base);
            changed.map_err(failed("change the owner of the sandbox's files"))
        })
        .await
    }

    /// Prepares everything on disk that a launch needs. May be repeated.
    fn prepare(&self, order: &LaunchRequest, rootfs: &Rootfs) -> Result<PreparedLaunch, DriverError> {
        let sandbox = order.badge.sandbox;
        let dir = self.dir(&sandbox);
        let make = || failed("make the directories of the sandbox");
        for (path, mode) in [(dir.bundle(), 0o700), (dir.control(), 0o700), (dir.public(), 0o755)] {
            files::make_dir(&path, mode).map_err(make())?;
        }
        let (record, badge) = self.write_badge(order, &dir)?;
        let unsynced = self.make_workspace(&sandbox, &order.blueprint)?;
        self.chown_files(&sandbox, record.uid_base)
            .map_err(failed("change the owner of the sandbox's files"))?;
        let group = self.cgroup(&sandbox);
        group.make(&order.blueprint.limits).map_err(failed("make the control groups"))?;
        let config = self.bundle_config(&record, rootfs, &group)?;
        files::replace(&dir.config(), &config, 0o600).map_err(failed("write the bundle"))?;
        Ok(PreparedLaunch { record, badge, unsynced })
    }

    /// Writes the badge, unless it is up to date.
    fn write_badge(
        &self,
        order: &LaunchRequest,
        dir: &SandboxDir,
    ) -> Result<(BadgeRecord, Option<File>), DriverError> {
        let old = self.read_badge(&order.badge.sandbox)?;
        let uid_base = match &old {
            Some(record) => record.uid_base,
            None => self.uid_ranges.allocate().ok_or_else(|| DriverError::Unavailable {
                message: "all ranges of user ids are in use: remove sandboxes first".to_owned(),
            })?,
        };
        let (instance, badge) = (self.signer.instance.clone(), order.badge.clone());
        let (blueprint, pid_namespace) = ((*order.blueprint).clone(), Some(self.pid_namespace));
        let record = BadgeRecord { instance, badge, blueprint, uid_base, pid_namespace };
        if old.as_ref() == Some(&record) {
            return Ok((record, None));
        }
        let file = self.signer.write(dir, &record).map_err(failed("write the badge"))?;
        Ok((record, Some(file)))
    }

    /// Makes the sandbox own its files, as this runtime profile requires.
    fn chown_files(&self, sandbox: &SandboxId, uid_base: u32) -> io::Result<()> {
        // The layers of a stack are mounted with the ids of the sandbox.
        let stacked = self.workspaces().has_stack(sandbox);
        let base = if self.profile.idmapped() { 0 } else { uid_base };
        let ids = IdMap::single_range(base, UID_RANGE);
        if !stacked {
            chown_tree::chown_workspace(&self.layout, sandbox, &ids)?;
        }
        chown_tree::chown_control_files(&self.layout, sandbox, &ids)
    }

    fn bundle_config(
        &self,
        record: &BadgeRecord,
        rootfs: &Rootfs,
        group: &Cgroup,
    ) -> Result<Vec<u8>, DriverError> {
        let sandbox = record.badge.sandbox;
        let (blueprint, dir, workspace) =
            (&record.blueprint, self.dir(&sandbox), self.layout.workspace(&sandbox));
        let mounts = SandboxMounts {
            rootfs,
            dir: &dir,
            workspace: &workspace,
            runtimed: &self.runtimed,
            group,
            memory_bytes: blueprint.limits.memory_mb << 20,
            idmapped: self.profile.idmapped(),
            stacked: self.workspaces().has_stack(&sandbox),
        };
        let bundle = Bundle {
            profile: &self.profile,
            mounts,
            hostname: sandbox.as_str(),
            uid_base: record.uid_base,
            limits: &blueprint.limits,
            proxy: blueprint.network == Network::Proxy,
            services_held: blueprint.is_provisioned(),
            image_env: image_env(&rootfs.variables),
            nofile: self.nofile,
            cgroups_path: self.hierarchies.path_of(&sandbox),
            filter: &self.filter,
        };
        bundle.config().map_err(|error| failed("make the bundle")(io::Error::other(error)))
    }
}

pub fn open_lock(dir: &SandboxDir) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(nix::libc::O_NOFOLLOW).open(dir.lock())
}

pub fn find_init(dir: &SandboxDir, group: &Cgroup) -> Result<Option<Init>, DriverError> {
    Init::find(dir, |cgroup| group.contains_process(cgroup)).map_err(failed("find PID 1"))
}

pub fn handle(init: &Init, uid_base: u32) -> Handle {
    let (pid, start_time) = (init.pid, init.start_time);
    Handle(serde_json::json!({ "pid": pid, "start_time": start_time, "uid_base": uid_base }))
}

fn with_stdio(mut error: DriverError, dir: &SandboxDir) -> DriverError {
    if let DriverError::Failed { output, .. } = &mut error {
        // Some runtimes print a message in both places.
        let more: Vec<String> = stdio_lines(dir).into_iter().filter(|line| !output.contains(line)).collect();
        output.extend(more);
    }
    error
}

fn exited_at_once(dir: &SandboxDir) -> DriverError {
    let output = stdio_lines(dir);
    let why = output.last().map_or_else(|| "it printed nothing".to_owned(), Clone::clone);
    DriverError::Failed { message: format!("PID 1 ended as soon as it was started: {why}"), output }
}
