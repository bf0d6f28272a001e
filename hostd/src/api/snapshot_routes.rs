//! The routes of snapshots, for the table of all routes.

use super::{
    route::{
        RequiredAccess::{Own, Read, Write},
        Route,
    },
    route_params::{NAME_OF_SNAPSHOT, PAGE, SANDBOX_OF_SNAPSHOTS, WAIT},
    snapshot_archives, snapshots,
};
use hyper::Method;
use protocol::api::{
    SandboxView, SnapshotCreate, SnapshotFork, SnapshotRestore, SnapshotVerification, SnapshotView,
};

pub fn all() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes/{id}/snapshots", Own, snapshots::create)
            .operation("createSnapshot", "Take a snapshot of the files of a sandbox, whether it runs or not")
            .json_body::<SnapshotCreate>()
            .idempotent_by_key()
            .returns::<SnapshotView>(201),
        Route::new(Method::GET, "/v1/snapshots", Read, snapshots::list)
            .operation("listSnapshots", "List snapshots, newest first")
            .query(PAGE)
            .query(SANDBOX_OF_SNAPSHOTS)
            .returns_page::<SnapshotView>(200),
        Route::new(Method::GET, "/v1/snapshots/{snapshot}", Read, snapshots::get)
            .operation("getSnapshot", "Get a snapshot")
            .returns::<SnapshotView>(200),
        Route::new(Method::GET, "/v1/snapshots/{snapshot}/manifest", Read, snapshots::manifest)
            .operation("getSnapshotManifest", "Get the hash of each file of a snapshot, one JSON object in a line")
            .returns_media(200, "application/x-ndjson"),
        Route::new(Method::GET, "/v1/snapshots/{snapshot}/archive", Read, snapshot_archives::export)
            .operation("exportSnapshot", "Download a snapshot as an archive, `.tar.zst`")
            .returns_media(200, "application/zstd"),
        Route::new(Method::POST, "/v1/snapshots", Write, snapshot_archives::import)
            .operation("importSnapshot", "Make a snapshot of an archive that was exported, here or on another host")
            .query(NAME_OF_SNAPSHOT)
            .streamed_body()
            .audited()
            .returns::<SnapshotView>(201),
        Route::new(Method::POST, "/v1/snapshots/{snapshot}/verify", Read, snapshots::verify)
            .operation("verifySnapshot", "Read every file of a snapshot and compare it with its hash")
            .returns::<SnapshotVerification>(200),
        Route::new(Method::POST, "/v1/snapshots/{snapshot}/restore", Own, snapshots::restore)
            .operation(
                "restoreSnapshot",
                "Replace the files of a sandbox by those of a snapshot; the old ones come back if it does not start",
            )
            .json_body::<SnapshotRestore>()
            .returns::<SandboxView>(200),
        Route::new(Method::POST, "/v1/snapshots/{snapshot}/fork", Write, snapshots::fork)
            .operation("forkSnapshot", "Create a sandbox with the files of a snapshot")
            .query(WAIT)
            .json_body::<SnapshotFork>()
            .idempotent_by_key()
            .returns::<SandboxView>(201),
        Route::new(Method::DELETE, "/v1/snapshots/{snapshot}", Write, snapshots::remove)
            .operation("deleteSnapshot", "Remove a snapshot; sandboxes made from it stay")
            .returns_media(204, ""),
    ]
}
