//! Tells whether the private index is as a checkpoint left it. An index that the agent wrote could hide a change: it says
//! which files need no look. The times of files in it cannot be forged, since no program sets the time of a change.

use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, SystemTime};

const PIECE_BYTES: usize = 64 << 10;

/// The content of an index, and its own time: files that changed after that are looked at whatever it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexMark {
    hash: String,
    modified: Duration,
}

pub fn of(index: &Path) -> io::Result<IndexMark> {
    let mut file = File::open(index)?;
    let modified = file.metadata()?.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut hash = Sha1::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            read => hash.update(&piece[..read]),
        }
    }
    let hash = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(IndexMark { hash, modified })
}

/// Whether the index is the marked one, which gets its time back.
pub fn restore(index: &Path, mark: &IndexMark) -> bool {
    let time_back =
        || File::options().append(true).open(index)?.set_modified(SystemTime::UNIX_EPOCH + mark.modified);
    of(index).is_ok_and(|found| found.hash == mark.hash) && time_back().is_ok()
}
