//! For whom the space of layers counts: all of it, once, for one of those that keep it.

use super::*;
use crate::local::{disk_usage::tree_bytes, snapshots::LayerCharges};
use std::collections::BTreeMap;

const FILE_BYTES: u64 = 1 << 20;

impl Host {
    /// What counts now; all of it is on the disk, and all that is on the disk is in it.
    fn charges(&self) -> LayerCharges {
        let charges = self.workspaces().layer_charges().expect("measured");
        let counted: u64 = charges.snapshots.values().chain(charges.sandboxes.values()).sum();
        let layers = tree_bytes(&self.layout.workspace_layers()).expect("measured").expect("there");
        let tops = u64::try_from(self.layers() + 1).expect("few") * 4096;
        let manifests = tree_bytes(&self.layout.snapshots()).expect("measured").expect("there");
        assert!(
            counted + tops >= layers && counted <= layers + manifests,
            "{counted} of {layers} and {manifests}: {charges:?}"
        );
        charges
    }
}

fn write_large(workspace: &Path, name: &str) {
    as_owner(workspace, || {
        let content = vec![b'x'; usize::try_from(FILE_BYTES).expect("fits")];
        fs::write(workspace.join(name), content).expect("written");
    });
}

/// The keys for which at least a large file counts.
fn large<K: Copy>(charges: &BTreeMap<K, u64>) -> Vec<K> {
    charges.iter().filter(|(_, bytes)| **bytes >= FILE_BYTES).map(|(key, _)| *key).collect()
}

#[test]
fn a_layer_counts_for_the_oldest_of_those_that_keep_it() {
    let host = Host::on("host", SnapshotMethod::Overlay, StackIds::From(0x9000_0000));
    let sandbox = id::<SandboxId>();
    write_large(&host.make(&sandbox), "large");
    assert_eq!(host.charges(), LayerCharges::default(), "a plain workspace has no layers");

    let first = host.take(&sandbox, &Excludes::default(), None);
    let second = host.take(&sandbox, &Excludes::default(), None);
    let (fork, _) = host.fork(&first);
    let (charges, oldest) = (host.charges(), fork.min(sandbox));
    assert_eq!(large(&charges.snapshots), [first], "once, however many have it in common");
    assert_eq!(large(&charges.sandboxes), []);

    host.workspaces().remove_snapshot(&first).expect("removed");
    assert_eq!(large(&host.charges().snapshots), [second]);
    host.workspaces().remove_snapshot(&second).expect("removed");
    assert_eq!(large(&host.charges().sandboxes), [oldest], "only sandboxes keep it now");
    host.workspaces().remove(&oldest).expect("removed");
    assert_eq!(large(&host.charges().sandboxes), [fork.max(sandbox)]);
    host.workspaces().remove(&fork.max(sandbox)).expect("removed");
    assert_eq!(host.charges(), LayerCharges::default());
}

#[test]
fn what_is_hidden_by_later_layers_counts() {
    let host = Host::on("host", SnapshotMethod::Overlay, StackIds::OnDisk);
    let sandbox = id::<SandboxId>();
    let workspace = host.make(&sandbox);
    write_large(&workspace, "large");
    let first = host.take(&sandbox, &Excludes::default(), None);
    fs::remove_file(workspace.join("large")).expect("removed");
    let second = host.take(&sandbox, &Excludes::default(), None);
    host.workspaces().remove_snapshot(&first).expect("removed");
    assert_eq!(large(&host.charges().snapshots), [second], "its files are few, and it keeps the others");
}

#[test]
fn a_restore_keeps_the_layers_of_both_until_it_ends() {
    let host = Host::on("host", SnapshotMethod::Overlay, StackIds::OnDisk);
    let sandbox = id::<SandboxId>();
    let workspace = host.make(&sandbox);
    let empty = host.take(&sandbox, &Excludes::default(), None);
    write_large(&workspace, "large");
    let full = host.take(&sandbox, &Excludes::default(), None);
    host.workspaces().unmount(&sandbox).expect("unmounted");
    host.workspaces().replace(&sandbox, &host.record(&empty), &LIMITS).expect("replaced");
    host.workspaces().remove_snapshot(&full).expect("removed");
    assert_eq!(large(&host.charges().sandboxes), [sandbox], "its backup has it");
    host.workspaces().finish_replacement(&sandbox, ReplacementOutcome::KeepNew).expect("finished");
    assert_eq!(large(&host.charges().sandboxes), []);
}

#[test]
fn copies_and_subvolumes_count_too() {
    for (kind, method) in [("host", SnapshotMethod::Copy), ("btrfs", SnapshotMethod::Btrfs)] {
        let host = Host::on(kind, method, StackIds::OnDisk);
        let sandbox = id::<SandboxId>();
        write_large(&host.make(&sandbox), "large");
        let snapshots = [(); 2].map(|()| host.take(&sandbox, &Excludes::default(), None));
        assert_eq!(large(&host.charges().snapshots), snapshots, "{kind}: each has files of its own");
    }
}
