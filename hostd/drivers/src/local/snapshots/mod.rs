//! Snapshots of workspaces, and workspaces made from them.
//!
//! ```text
//! <data>/workspace-layers/<layer>   directories that never change again
//! <data>/snapshots/<id>.json        a snapshot: its layers, topmost first
//! <data>/stacks/<sandbox>/          a workspace of layers: stack.json, live/upper (what differs), live/work
//! <data>/workspaces/<sandbox>       the overlay of a stack is mounted here
//! <data>/restored-workspaces/<sandbox>.json   the layers of a workspace that is made of a backup
//! ```
//!
//! A snapshot at rest seals the workspace: it is renamed and becomes a layer, and the workspace a stack above it. A
//! snapshot of a sandbox that runs copies what differs from its layers: most of it while the sandbox goes on, the rest
//! while it is frozen.
//!
//! **Invariants:** a layer is on disk, whole, before anything names it. A layer that a snapshot or a stack names,
//! or that is pinned (`pins.rs`), is not removed. Which layers a workspace has is read from the disk, never remembered.

mod archive;
mod btrfs;
mod capture;
mod captured;
mod charges;
mod compressed_pipe;
mod content_hash;
mod copy_room;
mod excludes;
mod export;
mod extents;
mod fork;
mod leases;
mod manifest;
mod method;
mod mirror;
mod pins;
mod publish;
mod record;
mod remove;
mod replace;
mod restored;
mod seal;
mod stack;
mod stack_mount;
mod state;
mod tree_limit;
mod unsynced;
mod verify;
mod walk;

pub use archive::ImportSource;
pub use btrfs::create as make_subvolume;
pub use capture::{CaptureRequest, sync_file_system};
pub use charges::LayerCharges;
pub use compressed_pipe::{StallGuard, compress_into};
pub use copy_room::CopyRoom;
pub use excludes::Excludes;
pub use fork::StackIds;
pub use leases::WorkspaceLease;
pub use manifest::ManifestSummary;
pub use method::{SnapshotMethod, SnapshotMethodSetting};
pub use record::{SnapshotRecord, sync_dir};
pub use replace::ReplacementOutcome;
pub use restored::{RestoredTrees, remove_unfinished};
pub use state::Snapshots;
pub use tree_limit::{deleted, no_files, typed};
pub use unsynced::Unsynced;
pub use verify::{Comparison, ManifestDifference};

#[cfg(test)]
mod tests;
