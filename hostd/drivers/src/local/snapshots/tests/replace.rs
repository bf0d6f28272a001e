//! Restores.

use super::*;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

#[test]
fn a_replacement_can_be_kept_or_undone() {
    for (kind, method, ids) in all_ways() {
        let host = Host::on(kind, method, ids);
        let sandbox = id::<SandboxId>();
        let workspace = host.make(&sandbox);
        files::make_dir(&host.layout.sandboxes(), 0o700).expect("made");
        files::make_dir(host.layout.sandbox(&sandbox).path(), 0o700).expect("made");
        fill(&workspace);
        let snapshot = host.take(&sandbox, &Excludes::default(), None);
        let saved = tree(&workspace);
        write(&workspace, "workspace/app/main.js", "broken");
        let broken = tree(&workspace);
        let record = SnapshotRecord::read(&host.layout, &snapshot).expect("read").expect("there");
        let workspaces = host.workspaces();
        workspaces.replace(&sandbox, &record, &LIMITS).expect("replaced");
        assert_eq!(tree(&workspace), saved, "{kind} {method}");
        // As after a crash before the new workspace was there.
        workspaces.remove_current(&sandbox).expect("removed");
        workspaces.replace(&sandbox, &record, &LIMITS).expect("replaced");
        assert_eq!(tree(&workspace), saved, "{kind} {method}");
        assert_eq!(workspaces.replacements().expect("listed"), [sandbox]);
        workspaces.finish_replacement(&sandbox, ReplacementOutcome::RollBack).expect("undone");
        workspaces.mount(&sandbox).expect("mounted");
        assert_eq!(tree(&workspace), broken, "{kind} {method}");
        workspaces.replace(&sandbox, &record, &LIMITS).expect("replaced");
        workspaces.finish_replacement(&sandbox, ReplacementOutcome::KeepNew).expect("kept");
        assert_eq!(tree(&workspace), saved, "{kind} {method}");
        assert_eq!(workspaces.replacements().expect("listed"), []);
    }
}

#[test]
fn a_restore_after_one_that_did_not_end_has_its_own_files_and_its_own_backup() {
    for (kind, method, ids) in all_ways() {
        let host = Host::on(kind, method, ids);
        let sandbox = id::<SandboxId>();
        let workspace = host.make(&sandbox);
        fill(&workspace);
        let first = host.take(&sandbox, &Excludes::default(), None);
        write(&workspace, "workspace/app/main.js", "of the second");
        let second = host.take(&sandbox, &Excludes::default(), None);
        let of_second = tree(&workspace);
        let workspaces = host.workspaces();
        workspaces.replace(&sandbox, &host.record(&first), &LIMITS).expect("replaced");
        // It was neither kept nor rolled back, and the sandbox goes on with the new files.
        write(&workspace, "workspace/app/later", "since then");
        let since_then = tree(&workspace);
        workspaces.replace(&sandbox, &host.record(&second), &LIMITS).expect("replaced");
        assert_eq!(tree(&workspace), of_second, "{kind} {method}");
        workspaces.finish_replacement(&sandbox, ReplacementOutcome::RollBack).expect("rolled back");
        workspaces.mount(&sandbox).expect("mounted");
        assert_eq!(tree(&workspace), since_then, "{kind} {method}");
    }
}

#[test]
fn a_sandbox_that_is_removed_during_a_restore_leaves_nothing() {
    for (keep_workspace, method) in [(false, SnapshotMethod::Overlay), (true, SnapshotMethod::Copy)] {
        let host = Host::on("host", method, StackIds::OnDisk);
        let sandbox = id::<SandboxId>();
        let workspace = host.make(&sandbox);
        fill(&workspace);
        let snapshot = host.take(&sandbox, &Excludes::default(), None);
        let workspaces = host.workspaces();
        workspaces.replace(&sandbox, &host.record(&snapshot), &LIMITS).expect("replaced");
        workspaces.remove_files(&sandbox, keep_workspace).expect("removed");
        assert_eq!(fs::read_dir(host.layout.replaced()).expect("there").count(), 0);
        assert_eq!(workspace.exists(), keep_workspace);
        workspaces.remove_snapshot(&snapshot).expect("removed");
        assert_eq!((host.layers(), host.trash()), (0, 0));
    }
}

#[test]
fn a_replacement_that_was_kept_is_never_rolled_back() {
    for method in [SnapshotMethod::Overlay, SnapshotMethod::Copy] {
        let host = Host::on("host", method, StackIds::OnDisk);
        let sandbox = id::<SandboxId>();
        let workspace = host.make(&sandbox);
        fill(&workspace);
        let snapshot = host.take(&sandbox, &Excludes::default(), None);
        let saved = tree(&workspace);
        write(&workspace, "workspace/app/main.js", "broken");
        let workspaces = host.workspaces();
        for again in [false, true] {
            workspaces.replace(&sandbox, &host.record(&snapshot), &LIMITS).expect("replaced");
            // The backup cannot be moved to another file system.
            let trash = host.layout.trash();
            mount(Some("tmpfs"), &trash, Some("tmpfs"), MsFlags::empty(), None::<&str>).expect("mounted");
            let kept = workspaces.finish_replacement(&sandbox, ReplacementOutcome::KeepNew);
            umount2(&trash, MntFlags::empty()).expect("unmounted");
            kept.expect_err("the backup is still there");
            if again {
                workspaces.replace(&sandbox, &host.record(&snapshot), &LIMITS).expect("replaced again");
                workspaces.finish_replacement(&sandbox, ReplacementOutcome::KeepNew).expect("kept");
            } else {
                // As the next hostd does where the sandbox does not run.
                workspaces.finish_replacement(&sandbox, ReplacementOutcome::RollBack).expect("finished");
            }
            workspaces.mount(&sandbox).expect("mounted");
            assert_eq!(tree(&workspace), saved, "{method} {again}");
            assert_eq!(fs::read_dir(host.layout.replaced()).expect("there").count(), 0);
        }
    }
}

#[test]
fn a_backup_that_nothing_took_the_place_of_is_kept_with_the_workspace() {
    for method in [SnapshotMethod::Overlay, SnapshotMethod::Copy] {
        let host = Host::on("host", method, StackIds::OnDisk);
        let sandbox = id::<SandboxId>();
        let workspace = host.make(&sandbox);
        fill(&workspace);
        let snapshot = host.take(&sandbox, &Excludes::default(), None);
        let workspaces = host.workspaces();
        write(&workspace, "workspace/app/main.js", "newest");
        let newest = tree(&workspace);
        workspaces.replace(&sandbox, &host.record(&snapshot), &LIMITS).expect("replaced");
        // As after a crash before the new workspace was there.
        workspaces.remove_current(&sandbox).expect("removed");
        workspaces.remove_files(&sandbox, true).expect("destroyed, and its workspace kept");
        workspaces.mount(&sandbox).expect("mounted");
        assert_eq!(tree(&workspace), newest, "{method}");
        assert_eq!(fs::read_dir(host.layout.replaced()).expect("there").count(), 0);
    }
}

#[test]
fn requests_for_files_do_not_keep_a_workspace_from_being_removed() {
    let host = Host::on("host", SnapshotMethod::Overlay, StackIds::OnDisk);
    let first = id::<SandboxId>();
    fill(&host.make(&first));
    let snapshot = host.take(&first, &Excludes::default(), None);
    let (done, current) = (AtomicBool::new(false), Mutex::new(first));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let sandbox = *current.lock().expect("no panic");
                // Fails where there is none any more.
                drop(host.workspaces().open(&sandbox));
            }
        });
        for _ in 0..50 {
            let (sandbox, workspace) = host.fork(&snapshot);
            *current.lock().expect("no panic") = sandbox;
            let removed = host.workspaces().remove(&sandbox);
            let left = workspace.exists() || host.layout.stack(&sandbox).path().exists();
            if removed.is_err() || left {
                done.store(true, Ordering::Relaxed);
            }
            removed.expect("removed");
            assert!(!left, "nothing is mounted again");
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_restore_of_a_snapshot_that_is_gone_changes_nothing() {
    let host = Host::on("host", SnapshotMethod::Copy, StackIds::OnDisk);
    let sandbox = id::<SandboxId>();
    let workspace = host.make(&sandbox);
    fill(&workspace);
    let snapshot = host.take(&sandbox, &Excludes::default(), None);
    let (record, before) = (host.record(&snapshot), tree(&workspace));
    host.workspaces().remove_snapshot(&snapshot).expect("removed");
    host.workspaces().replace(&sandbox, &record, &LIMITS).expect_err("its layer is gone");
    assert_eq!(tree(&workspace), before);
    assert_eq!(fs::read_dir(host.layout.replaced()).expect("there").count(), 0);
}
