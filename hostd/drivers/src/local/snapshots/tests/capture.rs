//! How snapshots are taken: what is lost to nobody, and what is not left behind.

use super::*;
use crate::DriverError;
use crate::local::snapshots::{
    btrfs,
    record::{LayerId, StackRecord},
};
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::mman::{MapFlags, ProtFlags, mmap},
};
use std::{
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

#[test]
fn a_capture_that_would_copy_everything_asks_for_a_preparation() {
    for (kind, method, ids) in all_ways() {
        let host = Host::on(kind, method, ids);
        let sandbox = id::<SandboxId>();
        let workspace = host.make(&sandbox);
        fill(&workspace);
        let lease = host.snapshots.lease(&sandbox);
        let unprepared = match method {
            SnapshotMethod::Btrfs => CaptureOutcome::Captured,
            SnapshotMethod::Overlay | SnapshotMethod::Copy => CaptureOutcome::PrepareAgain,
        };
        for at_rest in [true, false] {
            let snapshot = id::<SnapshotId>();
            assert_eq!(host.capture_changes(&sandbox, &snapshot, at_rest), unprepared, "{kind} {method}");
            host.prepare(&sandbox, &snapshot);
            assert_eq!(host.capture_changes(&sandbox, &snapshot, at_rest), CaptureOutcome::Captured);
            host.workspaces().abandon_capture(&snapshot);
        }
        drop(lease);
        // A snapshot at rest takes the files away from the one that was prepared.
        let snapshot = id::<SnapshotId>();
        host.prepare(&sandbox, &snapshot);
        host.take(&sandbox, &Excludes::default(), None);
        let sealed = if method == SnapshotMethod::Copy { CaptureOutcome::Captured } else { unprepared };
        assert_eq!(host.capture_changes(&sandbox, &snapshot, false), sealed, "{kind} {method}");
        host.prepare(&sandbox, &snapshot);
        assert_eq!(host.capture_changes(&sandbox, &snapshot, false), CaptureOutcome::Captured);
        host.workspaces().publish_snapshot(&snapshot).expect("published");
        assert_eq!(tree(&host.fork(&snapshot).1), tree(&workspace), "{kind} {method}");
        assert_eq!(host.trash(), 0, "{kind} {method}");
    }
}

#[test]
fn a_copy_of_files_that_were_replaced_meanwhile_is_of_no_use() {
    let with_volume = Limits { disk_mb: Some(16), ..LIMITS };
    let excludes = Excludes::parse(&["left-out".to_owned()]).expect("a pattern");
    let ways = all_ways().into_iter().map(|way| (way, &LIMITS));
    for ((kind, method, ids), limits) in ways.chain([(all_ways()[1], &with_volume)]) {
        let host = Host::on(kind, method, ids);
        let sandbox = id::<SandboxId>();
        let workspace = host.make_with(&sandbox, limits);
        fill(&workspace);
        let saved = host.take(&sandbox, &excludes, Some(&|| ()));
        let before = tree(&workspace);
        write(&workspace, "workspace/app/main.js", "changed");
        let (snapshot, workspaces) = (id::<SnapshotId>(), host.workspaces());
        let room = CopyRoom::default();
        let request =
            CaptureRequest { sandbox: &sandbox, snapshot: &snapshot, excludes: &excludes, room: &room };
        workspaces.prepare_capture(&request).expect("prepared");
        // Its files are older than the copy, and others.
        workspaces.unmount(&sandbox).expect("unmounted");
        workspaces.replace(&sandbox, &host.record(&saved), limits).expect("replaced");
        workspaces.finish_replacement(&sandbox, ReplacementOutcome::KeepNew).expect("kept");
        let outcome = workspaces.capture(&request, false, CopyExtent::Changes).expect("not failed");
        assert_eq!(outcome, CaptureOutcome::PrepareAgain, "{kind} {method} {limits:?}");
        workspaces.prepare_capture(&request).expect("prepared");
        let outcome = workspaces.capture(&request, false, CopyExtent::Changes).expect("not failed");
        assert_eq!(outcome, CaptureOutcome::Captured, "{kind} {method} {limits:?}");
        workspaces.publish_snapshot(&snapshot).expect("published");
        assert_eq!(tree(&host.fork(&snapshot).1), before, "{kind} {method} {limits:?}");
    }
}

#[test]
fn a_copy_for_which_there_is_no_room_ends_and_leaves_nothing() {
    const FILE_BYTES: usize = 8 << 20;
    let host = Host::on("host", SnapshotMethod::Copy, StackIds::OnDisk);
    let sandbox = id::<SandboxId>();
    let workspace = host.make(&sandbox);
    for number in 0..5 {
        fs::write(workspace.join(format!("{number}")), vec![7; FILE_BYTES]).expect("written");
    }
    let asked = Arc::new(Mutex::new(vec![]));
    for room_bytes in [2 * FILE_BYTES as u64, u64::MAX] {
        let told = asked.clone();
        let room = CopyRoom::checked_by(move |bytes| {
            told.lock().expect("no panic").push(bytes);
            if bytes >= room_bytes { Err(DriverError::DiskFull) } else { Ok(()) }
        });
        let (snapshot, excludes) = (id(), Excludes::default());
        let request =
            CaptureRequest { sandbox: &sandbox, snapshot: &snapshot, excludes: &excludes, room: &room };
        let prepared = host.workspaces().prepare_capture(&request);
        assert_eq!(prepared.is_err(), room_bytes != u64::MAX);
        assert_eq!(host.trash() > 0, room_bytes == u64::MAX, "nothing of a copy that ended");
        host.workspaces().abandon_capture(&snapshot);
    }
    let every = 2 * FILE_BYTES as u64;
    assert_eq!(*asked.lock().expect("no panic"), [every, every, 2 * every]);
}

#[test]
fn attributes_that_were_removed_after_the_first_copy_are_not_in_the_snapshot() {
    for (kind, method, ids) in all_ways() {
        let host = Host::on(kind, method, ids);
        let sandbox = id::<SandboxId>();
        let workspace = host.make(&sandbox);
        fill(&workspace);
        let dir = workspace.join("workspace/app");
        let set = |name: &str| rustix::fs::setxattr(&dir, name, b"x", rustix::fs::XattrFlags::empty());
        let names = |dir: &Path| {
            let mut names = vec![0; 1024];
            let length = rustix::fs::listxattr(dir, &mut names).expect("listed");
            String::from_utf8(names[..length].to_vec()).expect("text")
        };
        set("user.first").and_then(|()| set("user.second")).expect("set");
        let snapshot = host.take(
            &sandbox,
            &Excludes::default(),
            Some(&|| rustix::fs::removexattr(&dir, "user.first").expect("removed")),
        );
        let found = names(&host.fork(&snapshot).1.join("workspace/app"));
        assert!(!found.contains("user.first") && found.contains("user.second"), "{kind} {method}: {found}");
    }
}

#[test]
fn a_file_that_is_written_during_a_flatten_is_kept() {
    let host = Host::on("host", SnapshotMethod::Overlay, StackIds::OnDisk);
    let sandbox = id::<SandboxId>();
    let workspace = host.make(&sandbox);
    fill(&workspace);
    // The copy takes longer than many writes.
    let many = workspace.join("workspace/app/many");
    fs::create_dir(&many).expect("made");
    (0..1000).for_each(|number| fs::write(many.join(number.to_string()), "content").expect("written"));
    let depth =
        || StackRecord::read(&host.layout.stack(&sandbox)).expect("read").expect("a stack").layers.len();
    let mut flattened = 0;
    for round in 0..3 {
        while !host.layout.stack(&sandbox).record().exists() || depth() < LAYERS_MAX {
            host.take(&sandbox, &Excludes::default(), None);
        }
        let (done, written) = (AtomicBool::new(false), &AtomicBool::new(false));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut number = 0;
                while !done.load(Ordering::Relaxed) {
                    let lease = host.snapshots.lease(&sandbox);
                    host.workspaces().mount(&sandbox).expect("mounted");
                    fs::write(workspace.join(format!("{round}-{number}")), "kept").expect("written");
                    drop(lease);
                    written.store(true, Ordering::Relaxed);
                    number += 1;
                    // Until the end, or the next write.
                    std::thread::park_timeout(Duration::from_millis(2));
                }
                number
            });
            while !written.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            host.take(&sandbox, &Excludes::default(), None);
            done.store(true, Ordering::Relaxed);
            let count = writer.join().expect("not panicked");
            host.workspaces().mount(&sandbox).expect("mounted");
            for number in 0..count {
                assert!(workspace.join(format!("{round}-{number}")).exists(), "{round}-{number} of {count}");
            }
        });
        flattened += usize::from(depth() < LAYERS_MAX);
    }
    assert!(flattened > 0, "no stack was flattened");
}

/// A page of a file that stays mapped and writable.
struct MappedPage(*mut u8);

impl MappedPage {
    #[allow(unsafe_code)]
    fn of(path: &Path) -> Self {
        let file = fs::OpenOptions::new().read(true).write(true).open(path).expect("open");
        let (length, access) = (NonZeroUsize::MIN, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE);
        // SAFETY: a new mapping at a place of the kernel's choice.
        let page = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, file, 0) };
        Self(page.expect("mapped").as_ptr().cast())
    }

    #[allow(unsafe_code)]
    fn write(&self, byte: u8) {
        // SAFETY: the mapping has a byte, and lives as long as the process.
        unsafe { self.0.write_volatile(byte) }
    }
}

/// Waits until the clock of a file system has gone on for a while.
fn pass_on_disk(probe: &Path, time: Duration) {
    let now = || {
        fs::write(probe, "").expect("written");
        fs::metadata(probe).and_then(|meta| meta.modified()).expect("there")
    };
    let end = now() + time;
    while now() < end {
        std::thread::yield_now();
    }
}

#[test]
fn what_is_written_through_a_mapping_after_the_first_copy_is_in_the_snapshot() {
    let with_volume = Limits { disk_mb: Some(16), ..LIMITS };
    for (limits, method) in [
        (&LIMITS, SnapshotMethod::Copy),
        (&with_volume, SnapshotMethod::Copy),
        (&with_volume, SnapshotMethod::Overlay),
    ] {
        let host = Host::on("host", method, StackIds::OnDisk);
        let sandbox = id::<SandboxId>();
        let workspace = host.make_with(&sandbox, limits);
        write(&workspace, "mapped", "_");
        let page = MappedPage::of(&workspace.join("mapped"));
        page.write(b'1');
        // Beyond the margin for coarse clocks: the page is dirty, and the time of the file is in the past.
        pass_on_disk(&host.layout.data().join("clock"), Duration::from_millis(300));
        let snapshot = host.take(&sandbox, &Excludes::default(), Some(&|| page.write(b'2')));
        let fork = host.fork(&snapshot).1;
        assert_eq!(fs::read_to_string(fork.join("mapped")).expect("there"), "2", "{limits:?} {method}");
    }
}

#[test]
fn subvolumes_that_a_sandbox_made_are_in_the_snapshot() {
    let (kind, method, ids) = all_ways()[5];
    let host = Host::on(kind, method, ids);
    let sandbox = id::<SandboxId>();
    let workspace = host.make(&sandbox);
    fill(&workspace);
    let fast = host.take(&sandbox, &Excludes::default(), None);
    let nested = workspace.join("workspace/app/nested");
    btrfs::create(&nested).expect("made");
    std::os::unix::fs::chown(&nested, Some(1000), Some(1000)).expect("given");
    write(&workspace, "workspace/app/nested/file", "inside");
    let before = tree(&workspace);
    for meanwhile in [None, Some(&(|| ()) as &dyn Fn())] {
        let snapshot = host.take(&sandbox, &Excludes::default(), meanwhile);
        assert_eq!(tree(&host.fork(&snapshot).1), before);
        host.workspaces().replace(&sandbox, &host.record(&snapshot), &LIMITS).expect("replaced");
        host.workspaces().finish_replacement(&sandbox, ReplacementOutcome::KeepNew).expect("kept");
        assert_eq!(tree(&workspace), before);
    }
    for snapshot in [fast, host.take(&sandbox, &Excludes::default(), None)] {
        let layer = host.record(&snapshot).layers[0].dir(&host.layout);
        assert!(btrfs::is_subvolume(&layer), "forks of it take no time");
    }
    assert_eq!(host.trash(), 0);
}

#[test]
fn a_copy_that_is_of_no_use_is_removed() {
    for (kind, method, ids) in all_ways() {
        let host = Host::on(kind, method, ids);
        let sandbox = id::<SandboxId>();
        let workspace = host.make(&sandbox);
        fill(&workspace);
        let (workspaces, excludes) = (host.workspaces(), Excludes::default());
        // Stopped after the preparation.
        let [snapshot, failing] = [id(), id()];
        host.prepare(&sandbox, &snapshot);
        host.prepare(&sandbox, &snapshot);
        assert_eq!(host.capture_changes(&sandbox, &snapshot, true), CaptureOutcome::Captured);
        workspaces.publish_snapshot(&snapshot).expect("published");
        assert_eq!(host.trash(), 0, "{kind} {method}");
        // Files that no copy takes.
        workspaces.mount(&sandbox).expect("mounted");
        let mut deep = PathBuf::from("workspace");
        (0..500).for_each(|_| deep.push("d"));
        as_owner(&workspace, || fs::create_dir_all(workspace.join(&deep)).expect("made"));
        if method != SnapshotMethod::Btrfs {
            let request = CaptureRequest {
                sandbox: &sandbox,
                snapshot: &failing,
                excludes: &excludes,
                room: &CopyRoom::default(),
            };
            workspaces.prepare_capture(&request).expect_err("nested too deep");
            workspaces.capture(&request, false, CopyExtent::Everything).expect_err("nested too deep");
            assert_eq!(host.trash(), 0, "{kind} {method}");
        }
        workspaces.abandon_capture(&failing);
    }
}

#[test]
fn a_first_seal_that_was_cut_off_leaves_a_plain_workspace() {
    let host = Host::on("host", SnapshotMethod::Overlay, StackIds::From(0x9000_0000));
    let sandbox = id::<SandboxId>();
    let workspace = host.make(&sandbox);
    fill(&workspace);
    let (before, stack) = (tree(&workspace), host.layout.stack(&sandbox));
    files::make_dir(stack.path(), 0o700).expect("made");
    let cut_off = StackRecord { layers: vec![], sealing: Some(LayerId::generate()) };
    cut_off.write(&stack).expect("written");
    let workspaces = host.workspaces();
    assert!(!workspaces.has_stack(&sandbox) && !workspaces.is_mounted(&sandbox));
    assert!(!workspaces.mount(&sandbox).expect("nothing to mount"));
    assert_eq!(host.make(&sandbox), workspace);
    assert_eq!(tree(&workspace), before);
    // The next one is not.
    let snapshot = host.take(&sandbox, &Excludes::default(), None);
    assert!(workspaces.has_stack(&sandbox));
    assert_eq!(tree(&host.fork(&snapshot).1), before);
}

#[test]
fn a_stack_that_was_not_mounted_since_its_seal_is_sealed_again() {
    let host = Host::on("host", SnapshotMethod::Overlay, StackIds::OnDisk);
    let sandbox = id::<SandboxId>();
    let workspace = host.make(&sandbox);
    fill(&workspace);
    let before = tree(&workspace);
    for _ in 0..3 {
        let snapshot = id::<SnapshotId>();
        assert_eq!(host.capture_changes(&sandbox, &snapshot, true), CaptureOutcome::Captured);
        host.workspaces().publish_snapshot(&snapshot).expect("published");
        assert_eq!(tree(&host.fork(&snapshot).1), before);
    }
}

#[test]
fn a_seal_that_fails_leaves_the_workspace_as_it_was() {
    let host = Host::on("host", SnapshotMethod::Overlay, StackIds::OnDisk);
    let sandbox = id::<SandboxId>();
    let workspace = host.make(&sandbox);
    fill(&workspace);
    let layers = host.layout.workspace_layers();
    for is_stack in [false, true] {
        let before = tree(&workspace);
        // Nothing can be renamed to another file system.
        mount(Some("tmpfs"), &layers, Some("tmpfs"), MsFlags::empty(), None::<&str>).expect("mounted");
        let (snapshot, excludes) = (id(), Excludes::default());
        let request = CaptureRequest {
            sandbox: &sandbox,
            snapshot: &snapshot,
            excludes: &excludes,
            room: &CopyRoom::default(),
        };
        let captured = host.workspaces().capture(&request, true, CopyExtent::Everything);
        umount2(&layers, MntFlags::empty()).expect("unmounted");
        captured.expect_err("not renamed");
        assert_eq!(host.workspaces().has_stack(&sandbox), is_stack);
        host.workspaces().mount(&sandbox).expect("as before");
        assert_eq!(tree(&workspace), before);
        host.take(&sandbox, &Excludes::default(), None);
    }
}

#[test]
fn a_mount_that_waited_for_a_seal_has_the_new_layers() {
    let host = Host::on("host", SnapshotMethod::Overlay, StackIds::OnDisk);
    let sandbox = id::<SandboxId>();
    let workspace = host.make(&sandbox);
    fill(&workspace);
    host.take(&sandbox, &Excludes::default(), None);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // As the measurement of a workspace does, without a lease.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = host.workspaces().mount(&sandbox);
            }
        });
        for round in 0..8 {
            let name = format!("{round}");
            fs::write(workspace.join(&name), "x").expect("written");
            let snapshot = host.take(&sandbox, &Excludes::default(), None);
            assert_eq!(fs::read_to_string(workspace.join(&name)).expect("sealed"), "x", "{round}");
            // A write goes to what differs, and not to the layer that was sealed.
            fs::write(workspace.join(&name), "changed").expect("written");
            let sealed = host.record(&snapshot).layers[0].dir(&host.layout).join(&name);
            assert_eq!(fs::read_to_string(sealed).expect("there"), "x", "{round}");
        }
        done.store(true, Ordering::Relaxed);
    });
}
