//! Snapshots as archives (`.tar.zst`): a note, and then the files as a sandbox sees them.
//!
//! The note is the first member, and named without a directory. The files follow, named below `./`: one of a sandbox that
//! has the name of the note is a file like others.
//!
//! An archive is not trusted: its names stay below the directory that it is unpacked into, it has limits, and whoever
//! gives it is asked every few megabytes whether there is room for more.

use super::{
    super::{
        super::DriverError,
        files::{self, failed},
        limits::{ARCHIVE_NOTE_MAX_BYTES, SANDBOX_UID, SNAPSHOT_MAX_BYTES, SNAPSHOT_MAX_ENTRIES},
        trash::NewEntry,
        workspace::Workspaces,
    },
    compressed_pipe::{StallGuard, write_compressed},
    export::write_tree,
};
use hostd_images::{HomeArchive, TreeQuota};
use protocol::api::SnapshotId;
use std::{
    fs::Permissions,
    io::{self, BufWriter, PipeReader, PipeWriter, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
};

pub const NOTE: &str = ".slipway-snapshot.json";
const PLAIN_BUFFER_BYTES: usize = 256 << 10;
/// What the top of a workspace may be: nobody but its user writes it, and the user can.
const TOP_MODE_MAX: u32 = 0o755;
const TOP_MODE_MIN: u32 = 0o700;

/// An archive that is imported, and who is asked whether there is room.
pub struct ImportSource<'a> {
    pub archive: PipeReader,
    /// Called every few megabytes with the bytes that were unpacked so far; an error ends the import.
    pub check_room: &'a mut (dyn FnMut(u64) -> Result<(), DriverError> + Send),
}

impl Workspaces<'_> {
    /// Writes a snapshot as an archive, with a note. Ends with an error when the reader is gone, or stalls.
    pub fn export_snapshot(
        &self,
        snapshot: &SnapshotId,
        note: &[u8],
        out: PipeWriter,
    ) -> Result<(), DriverError> {
        self.with_snapshot(snapshot, "export the snapshot", |tree| {
            write_compressed(out, |packed| write_tree(tree, note, packed))
        })
    }

    /// Writes a snapshot as an archive that is not compressed and has no note.
    pub fn export_snapshot_plain(&self, snapshot: &SnapshotId, out: PipeWriter) -> Result<(), DriverError> {
        self.with_snapshot(snapshot, "export the snapshot", |tree| {
            let mut out = BufWriter::with_capacity(PLAIN_BUFFER_BYTES, StallGuard::of_export(out)?);
            write_tree(tree, b"", &mut out)?;
            out.flush()
        })
    }

    /// Makes a snapshot of an archive. Returns its note, if it has one. Leaves nothing where it fails.
    pub fn import_snapshot(
        &self,
        snapshot: &SnapshotId,
        source: ImportSource<'_>,
    ) -> Result<Option<Vec<u8>>, DriverError> {
        let import = || failed("import the snapshot");
        let entry = NewEntry::reserve(&self.layout.trash(), "layer");
        files::make_dir(entry.path(), 0o750).map_err(import())?;
        let imported = unpack_home(entry.path(), source).and_then(|note| {
            self.publish_tree(snapshot, entry.path())?;
            Ok(note)
        });
        if imported.is_err() {
            self.discard(entry.path());
        }
        imported
    }
}

/// Unpacks an archive into an empty directory, whose top belongs to the user of the sandbox then. Returns its note.
pub(super) fn unpack_home(to: &Path, source: ImportSource<'_>) -> Result<Option<Vec<u8>>, DriverError> {
    let note = unpack(to, source)?;
    set_top(to).map_err(failed("import the snapshot"))?;
    Ok(note)
}

fn unpack(to: &Path, source: ImportSource<'_>) -> Result<Option<Vec<u8>>, DriverError> {
    let ImportSource { archive, check_room } = source;
    let mut quota = TreeQuota::new("the snapshot", SNAPSHOT_MAX_BYTES, SNAPSHOT_MAX_ENTRIES);
    let mut refused = None;
    let mut meter = |bytes: u64| {
        check_room(bytes).map_err(|error| {
            refused = Some(error);
            io::Error::other("there is no room for more")
        })
    };
    let note_max_bytes = ARCHIVE_NOTE_MAX_BYTES;
    let home = HomeArchive { owner: SANDBOX_UID, note: NOTE, note_max_bytes, meter: &mut meter };
    let unpacked = home.unpack(archive, to, &mut quota);
    if let Some(refused) = refused {
        return Err(refused);
    }
    let unpacked = unpacked.map_err(|error| match error.is_disk_full() {
        true => DriverError::DiskFull,
        false => not_a_snapshot(&format!("the archive is not a snapshot: {error}")),
    })?;
    match quota.used_entries() {
        0 => Err(not_a_snapshot("the archive is empty")),
        _ => Ok(unpacked),
    }
}

/// The top belongs to the user of the sandbox, who can enter it, whatever the archive says.
fn set_top(top: &Path) -> io::Result<()> {
    let mode = std::fs::symlink_metadata(top)?.mode() & TOP_MODE_MAX | TOP_MODE_MIN;
    chown(top, Some(SANDBOX_UID), Some(SANDBOX_UID))?;
    std::fs::set_permissions(top, Permissions::from_mode(mode))
}

fn not_a_snapshot(message: &str) -> DriverError {
    let message = message.to_owned();
    DriverError::Refused { field: "archive", message, supported: vec!["tar.zst".to_owned()] }
}
