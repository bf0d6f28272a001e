//! Stacks of layers: how they are made, and how they stay shallow.

use super::*;

#[test]
fn stacks_do_not_grow_without_bound_and_space_comes_back_with_the_last_user() {
    for (kind, method, ids) in [("host", SnapshotMethod::Overlay, StackIds::From(0x9000_0000)), all_ways()[5]]
    {
        let host = Host::on(kind, method, ids);
        let sandbox = id::<SandboxId>();
        let workspace = host.make(&sandbox);
        let mut taken = vec![];
        for number in 0..LAYERS_MAX + 3 {
            write(&workspace, &format!("workspace/app/{number}"), "here");
            taken.push((host.take(&sandbox, &Excludes::default(), None), tree(&workspace)));
        }
        for (snapshot, expected) in &taken {
            let record = SnapshotRecord::read(&host.layout, snapshot).expect("read").expect("there");
            assert!(record.layers.len() <= LAYERS_MAX, "{}", record.layers.len());
            let (forked, fork) = host.fork(snapshot);
            assert_eq!(tree(&fork), *expected, "{kind}");
            host.workspaces().remove(&forked).expect("removed");
        }
        for (snapshot, _) in &taken {
            host.workspaces().remove_snapshot(snapshot).expect("removed");
        }
        assert_eq!(tree(&workspace), taken.last().expect("some").1, "the workspace needs no snapshot");
        host.workspaces().remove(&sandbox).expect("removed");
        assert_eq!(host.layers(), 0, "{kind}");
        assert_eq!(fs::read_dir(host.layout.trash()).expect("there").count(), 0, "{kind}");
        assert!(!workspace.exists());
    }
}

#[test]
fn a_workspace_in_use_is_copied_instead_of_sealed() {
    let host = Host::on("host", SnapshotMethod::Overlay, StackIds::OnDisk);
    let sandbox = id::<SandboxId>();
    let workspace = host.make(&sandbox);
    fill(&workspace);
    // By root: the ids of this stack are those on disk.
    let mut file =
        fs::OpenOptions::new().append(true).open(workspace.join("workspace/app/main.js")).expect("open");
    let lease = host.snapshots.lease(&sandbox);
    let snapshot = host.take(&sandbox, &Excludes::default(), None);
    std::io::Write::write_all(&mut file, b" and later").expect("written");
    drop(lease);
    let fork = host.fork(&snapshot).1;
    assert_eq!(fs::read_to_string(fork.join("workspace/app/main.js")).expect("there"), "first");
    assert_eq!(
        fs::read_to_string(workspace.join("workspace/app/main.js")).expect("there"),
        "first and later"
    );
}

#[test]
fn a_fork_that_lost_its_record_with_the_power_keeps_what_it_wrote() {
    let host = Host::on("host", SnapshotMethod::Overlay, StackIds::OnDisk);
    let sandbox = id::<SandboxId>();
    fill(&host.make(&sandbox));
    let snapshot = host.take(&sandbox, &Excludes::default(), None);
    let (fork, workspace) = host.fork(&snapshot);
    write(&workspace, "workspace/app/main.js", "written since");
    let written = tree(&workspace);
    host.workspaces().unmount(&fork).expect("unmounted");
    fs::write(host.layout.stack(&fork).record(), "").expect("emptied");
    host.fork_into(&fork, &snapshot).sync().expect("synced");
    assert_eq!(tree(&workspace), written);
    assert_eq!(host.trash(), 0);
}
