//! Snapshots on each file system and by each method: the same must hold on all.

use super::{
    super::{
        capabilities, files,
        layout::Layout,
        quota::{Quota, QuotaMeans, QuotaSettings},
        seed::SeedSource,
        workspace::{NewWorkspace, WorkspaceIds, Workspaces},
    },
    capture::CaptureRequest,
    copy_room::CopyRoom,
    excludes::Excludes,
    fork::StackIds,
    manifest::write_tree,
    method::{SnapshotMethod, SnapshotMethodSetting},
    record::{SnapshotRecord, sync_dir},
    replace::ReplacementOutcome,
    stack::LAYERS_MAX,
    state::Snapshots,
    unsynced::Unsynced,
};
use crate::snapshot_driver::{CaptureOutcome, CopyExtent};
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use protocol::api::{Limits, SandboxId, SnapshotId};
use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

mod archives;
mod capture;
mod charges;
mod content;
mod manifests;
mod power_loss;
mod removal;
mod replace;
mod stacks;

const LIMITS: Limits = Limits { memory_mb: 64, cpus: 1.0, pids: 64, disk_mb: None };

struct Ids(StackIds);

impl WorkspaceIds for Ids {
    fn can_stack(&self) -> bool {
        true
    }

    fn stack_ids(&self, _: &SandboxId) -> Option<StackIds> {
        Some(self.0)
    }
}

/// A file system in a file, mounted until this is dropped.
struct Disk {
    temp: tempfile::TempDir,
}

impl Disk {
    fn make(kind: &str) -> Self {
        let temp = tempfile::tempdir().expect("a directory");
        let disk = Self { temp };
        fs::create_dir(disk.data()).expect("made");
        if kind == "host" {
            return disk;
        }
        let image = disk.image();
        fs::File::create(&image).and_then(|file| file.set_len(400 << 20)).expect("made");
        run(Command::new(format!("/usr/sbin/mkfs.{kind}")).arg("-q").arg(&image));
        disk.mount();
        disk
    }

    fn mount(&self) {
        run(Command::new("mount").args(["-o", "loop"]).arg(self.image()).arg(self.data()));
    }

    fn image(&self) -> PathBuf {
        self.temp.path().join("image")
    }

    fn data(&self) -> PathBuf {
        self.temp.path().join("data")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let below = self.data();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
        let mut points: Vec<PathBuf> = points.filter(|at| at.starts_with(&below)).collect();
        points.sort();
        for at in points.iter().rev() {
            let _ = nix::mount::umount2(at, nix::mount::MntFlags::MNT_DETACH);
        }
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("the program is installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

struct Host {
    disk: Disk,
    layout: Layout,
    quota: Quota,
    snapshots: Snapshots,
    ids: Ids,
}

impl Host {
    fn on(kind: &str, method: SnapshotMethod, ids: StackIds) -> Self {
        let host = Self::open(Disk::make(kind), method, ids);
        assert_eq!(host.snapshots.method(), method, "{kind}");
        host
    }

    fn open(disk: Disk, method: SnapshotMethod, ids: StackIds) -> Self {
        let layout = Layout::new(disk.data(), "oci");
        for dir in [layout.trash(), layout.workspaces()] {
            files::make_dir(&dir, 0o700).expect("made");
        }
        let idmapped = ids != StackIds::OnDisk;
        let snapshots =
            Snapshots::open(&layout, SnapshotMethodSetting::Only(method), idmapped).expect("opened");
        let settings = QuotaSettings { floor_bytes: Some(0), ..QuotaSettings::default() };
        let quota = Quota::open(&layout, &settings, None);
        Self { disk, layout, quota, snapshots, ids: Ids(ids) }
    }

    fn workspaces(&self) -> Workspaces<'_> {
        Workspaces {
            layout: &self.layout,
            quota: &self.quota,
            means: Some(QuotaMeans::Loop),
            snapshots: &self.snapshots,
            ids: &self.ids,
        }
    }

    fn make(&self, sandbox: &SandboxId) -> PathBuf {
        self.make_with(sandbox, &LIMITS)
    }

    fn make_with(&self, sandbox: &SandboxId, limits: &Limits) -> PathBuf {
        let unsynced = self.workspaces().make(sandbox, &NewWorkspace { limits, seed: &|| Ok(None) });
        unsynced.expect("made").sync().expect("synced");
        self.layout.workspace(sandbox)
    }

    fn record(&self, snapshot: &SnapshotId) -> SnapshotRecord {
        SnapshotRecord::read(&self.layout, snapshot).expect("read").expect("published")
    }

    /// Captures without a copy of everything.
    fn capture_changes(&self, sandbox: &SandboxId, snapshot: &SnapshotId, at_rest: bool) -> CaptureOutcome {
        let request =
            CaptureRequest { sandbox, snapshot, excludes: &Excludes::default(), room: &CopyRoom::default() };
        self.workspaces().capture(&request, at_rest, CopyExtent::Changes).expect("not failed")
    }

    fn prepare(&self, sandbox: &SandboxId, snapshot: &SnapshotId) {
        let request =
            CaptureRequest { sandbox, snapshot, excludes: &Excludes::default(), room: &CopyRoom::default() };
        self.workspaces().prepare_capture(&request).expect("prepared");
    }

    fn trash(&self) -> usize {
        fs::read_dir(self.layout.trash()).expect("there").count()
    }

    fn fork(&self, snapshot: &SnapshotId) -> (SandboxId, PathBuf) {
        let sandbox = id::<SandboxId>();
        self.fork_into(&sandbox, snapshot).sync().expect("synced");
        (sandbox, self.layout.workspace(&sandbox))
    }

    fn fork_into(&self, sandbox: &SandboxId, snapshot: &SnapshotId) -> Unsynced {
        let record = self.record(snapshot);
        let seed = || Ok(Some(SeedSource::Snapshot(record.clone())));
        self.workspaces().make(sandbox, &NewWorkspace { limits: &LIMITS, seed: &seed }).expect("forked")
    }

    /// Takes a snapshot; `meanwhile` changes the workspace after the first copy.
    fn take(&self, sandbox: &SandboxId, excludes: &Excludes, meanwhile: Option<&dyn Fn()>) -> SnapshotId {
        let snapshot = id::<SnapshotId>();
        let request = CaptureRequest { sandbox, snapshot: &snapshot, excludes, room: &CopyRoom::default() };
        let workspaces = self.workspaces();
        if let Some(meanwhile) = meanwhile {
            workspaces.prepare_capture(&request).expect("prepared");
            meanwhile();
        }
        let outcome = workspaces.capture(&request, meanwhile.is_none(), CopyExtent::Everything);
        assert_eq!(outcome.expect("captured"), CaptureOutcome::Captured);
        workspaces.publish_snapshot(&snapshot).expect("published");
        workspaces.write_manifest(&snapshot).expect("hashed");
        workspaces.mount(sandbox).expect("mounted again");
        snapshot
    }

    fn layers(&self) -> usize {
        fs::read_dir(self.layout.workspace_layers()).expect("there").count() - 1
    }
}

fn id<T: std::str::FromStr<Err: std::fmt::Debug>>() -> T {
    ulid::Ulid::generate().to_string().parse().expect("an id")
}

/// Does work as the user that owns the workspace.
fn as_owner(workspace: &Path, work: impl Fn() + Sync) {
    let owner = fs::metadata(workspace).expect("there");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            setfsgid(Gid::from_raw(owner.gid()));
            setfsuid(Uid::from_raw(owner.uid()));
            // To pass the directories above.
            capabilities::raise_all().expect("raised");
            work();
        });
    });
}

fn write(workspace: &Path, name: &str, text: &str) {
    as_owner(workspace, || fs::write(workspace.join(name), text).expect("written"));
}

/// The content as a sandbox sees it, without the ids of the host.
fn tree(workspace: &Path) -> String {
    let first = fs::metadata(workspace).expect("there").uid() - 1000;
    let text = String::from_utf8(write_tree(workspace, vec![]).expect("read").0).expect("text");
    text.replace(&format!("id\":{}", first + 1000), "id\":1000").replace(&format!("id\":{first}"), "id\":0")
}

fn all_ways() -> Vec<(&'static str, SnapshotMethod, StackIds)> {
    let from = StackIds::From(0x9000_0000);
    vec![
        ("host", SnapshotMethod::Overlay, from),
        ("host", SnapshotMethod::Copy, StackIds::OnDisk),
        ("ext4", SnapshotMethod::Overlay, StackIds::OnDisk),
        ("xfs", SnapshotMethod::Overlay, from),
        ("btrfs", SnapshotMethod::Overlay, from),
        ("btrfs", SnapshotMethod::Btrfs, StackIds::OnDisk),
    ]
}

fn fill(workspace: &Path) {
    as_owner(workspace, || {
        let app = workspace.join("workspace/app");
        fs::write(app.join("main.js"), "first").expect("written");
        fs::write(app.join("gone"), "still here").expect("written");
        fs::create_dir_all(app.join("node_modules/left")).expect("made");
        fs::write(app.join("node_modules/left/index.js"), "pad").expect("written");
        symlink("main.js", app.join("link")).expect("linked");
        fs::hard_link(app.join("main.js"), app.join("same")).expect("linked");
    });
}
