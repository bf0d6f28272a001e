//! Removal of snapshots and layers beside their use.

use super::*;
use crate::DriverError;
use std::io::{self, Read};

/// A sandbox with two snapshots.
fn two_snapshots(host: &Host) -> (SandboxId, [SnapshotId; 2]) {
    let sandbox = id::<SandboxId>();
    let workspace = host.make(&sandbox);
    fill(&workspace);
    let first = host.take(&sandbox, &Excludes::default(), None);
    write(&workspace, "workspace/app/main.js", "second");
    (sandbox, [first, host.take(&sandbox, &Excludes::default(), None)])
}

#[test]
fn layers_of_a_snapshot_that_is_captured_outlive_its_sandbox_until_it_is_published() {
    for (kind, method, ids) in all_ways() {
        for at_rest in [true, false] {
            let host = Host::on(kind, method, ids);
            let (sandbox, snapshots) = two_snapshots(&host);
            let before = tree(&host.layout.workspace(&sandbox));
            let (workspaces, snapshot) = (host.workspaces(), id::<SnapshotId>());
            host.prepare(&sandbox, &snapshot);
            assert_eq!(host.capture_changes(&sandbox, &snapshot, at_rest), CaptureOutcome::Captured);
            workspaces.remove(&sandbox).expect("removed");
            snapshots.iter().for_each(|snapshot| workspaces.remove_snapshot(snapshot).expect("removed"));
            workspaces.publish_snapshot(&snapshot).expect("published");
            let (forked, fork) = host.fork(&snapshot);
            assert_eq!(tree(&fork), before, "{kind} {method} {at_rest}");
            workspaces.remove(&forked).expect("removed");
            workspaces.remove_snapshot(&snapshot).expect("removed");
            assert_eq!((host.layers(), host.trash()), (0, 0), "{kind} {method} {at_rest}");
        }
    }
}

#[test]
fn a_snapshot_without_all_of_its_layers_is_not_published() {
    let host = Host::on("host", SnapshotMethod::Overlay, StackIds::OnDisk);
    let (sandbox, [first, _]) = two_snapshots(&host);
    let snapshot = id::<SnapshotId>();
    assert_eq!(host.capture_changes(&sandbox, &snapshot, true), CaptureOutcome::Captured);
    // Not by hostd.
    fs::remove_dir_all(host.record(&first).layers[0].dir(&host.layout)).expect("removed");
    let refused = host.workspaces().publish_snapshot(&snapshot).expect_err("a layer is gone");
    assert!(matches!(refused, DriverError::Damaged { .. }), "{refused:?}");
    assert_eq!(SnapshotRecord::read(&host.layout, &snapshot).expect("read"), None);
}

#[test]
fn a_record_that_cannot_be_read_keeps_layers_and_no_snapshot_from_being_removed() {
    let host = Host::on("host", SnapshotMethod::Overlay, StackIds::OnDisk);
    let (sandbox, [first, second]) = two_snapshots(&host);
    let (workspaces, layers) = (host.workspaces(), host.layers());
    let path = host.layout.snapshot(&first);
    let record = fs::read(&path).expect("read");
    fs::write(&path, "").expect("cut off");
    workspaces.remove_snapshot(&second).expect("removed");
    workspaces.remove(&sandbox).expect("removed");
    assert_eq!(host.layers(), layers);
    assert_eq!(workspaces.recorded_snapshots().expect("listed"), [first]);
    fs::write(&path, record).expect("written");
    assert!(workspaces.remove_unreferenced_layers().expect("removed") > 0);
    host.fork(&first);
    fs::write(&path, "{").expect("cut off");
    workspaces.remove_snapshot(&first).expect("one that cannot be read can be removed");
    assert!(workspaces.recorded_snapshots().expect("listed").is_empty());
}

#[test]
fn an_export_that_nobody_reads_holds_up_no_removal_and_keeps_its_layers() {
    let host = Host::on("host", SnapshotMethod::Overlay, StackIds::OnDisk);
    let (sandbox, [first, second]) = two_snapshots(&host);
    let mut noise = vec![0; 4 << 20];
    fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut noise)).expect("read");
    fs::write(host.layout.workspace(&sandbox).join("noise"), &noise).expect("written");
    let large = host.take(&sandbox, &Excludes::default(), None);
    let workspaces = host.workspaces();
    let (reader, writer) = io::pipe().expect("a pipe");
    std::thread::scope(|scope| {
        let export = scope.spawn(|| host.workspaces().export_snapshot(&large, b"{}", writer));
        // Closed when this ends, however it does.
        let mut reader = reader;
        // It has begun, and waits: the pipe holds a small part.
        reader.read_exact(&mut [0]).expect("begun");
        for snapshot in [first, second, large] {
            workspaces.remove_snapshot(&snapshot).expect("removed");
        }
        workspaces.remove(&sandbox).expect("removed");
        drop(host.snapshots.lease(&sandbox));
        assert!(!export.is_finished());
        assert!(host.layers() > 0);
        io::copy(&mut reader, &mut io::sink()).expect("read");
        export.join().expect("not panicked").expect("exported");
    });
    workspaces.remove_unreferenced_layers().expect("removed");
    assert_eq!(host.layers(), 0);
}

#[test]
fn a_snapshot_that_is_removed_while_it_is_hashed_leaves_no_manifest() {
    let host = Host::on("host", SnapshotMethod::Overlay, StackIds::OnDisk);
    let sandbox = id::<SandboxId>();
    fill(&host.make(&sandbox));
    for _ in 0..20 {
        let snapshot = host.take(&sandbox, &Excludes::default(), None);
        std::thread::scope(|scope| {
            // Fails where the snapshot went first.
            scope.spawn(|| host.workspaces().write_manifest(&snapshot).map(drop));
            scope.spawn(|| host.workspaces().remove_snapshot(&snapshot).expect("removed"));
        });
        assert!(host.workspaces().recorded_snapshots().expect("listed").is_empty());
    }
}
