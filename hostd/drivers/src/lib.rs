//! Sandboxes on the backends of this host: the trait of a driver (`driver`), its implementations, and the client of
//! the runtimed inside a sandbox (`control`).

// A new variant of an enum must break every match that does not deal with it.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod control;
pub mod docker;
mod driver;
#[cfg(any(test, feature = "test-support"))]
pub mod fake;
pub mod host_memory;
pub mod launcher;
mod local;
mod not_configured;
pub mod oci;
mod registry;
mod snapshot_driver;

pub use driver::{
    BadgeDetails, DiskUsage, Driver, DriverError, FoundSandbox, LaunchRequest, Leftover, OpenWorkspace,
    ProgressSink, SandboxBadge, Stream, Target, Transport, WorkspaceAccess,
};
pub use hostd_core::{ContainerState, Handle};
pub use local::{
    images::{
        CollectedImages, ImagePuller, ImageRecord, ImageStore, LayeredImage, LoginLookup, PullProgress,
        PullRequest, PulledFrom, UnusedFor,
    },
    quota::{QuotaChoice, QuotaSettings},
    snapshots::{
        CopyRoom, Excludes, LayerCharges, ManifestDifference, ReplacementOutcome, RestoredTrees,
        SnapshotMethodSetting, StallGuard, compress_into, remove_unfinished,
    },
    trash::empty as empty_trash,
};
pub use registry::{AbsentDriver, Drivers};
pub use snapshot_driver::{
    CaptureOrder, CaptureOutcome, CopyExtent, RoomCheck, SnapshotContent, SnapshotDriver, Verification,
};
