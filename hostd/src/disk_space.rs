//! Room on the disk of the data directory: how much there is, and what hostd has set aside for itself.
//!
//! `<data>/reserve` is space that nobody else gets. It is given up piece by piece when the disk has no room for
//! what makes room (a sandbox that is woken to delete files, a command in it, a row of the database), and is
//! taken again once there is space. What is *decided* is in `core::disk_room`.
//!
//! A handle: clones share everything. Must not: wait, or fail for lack of a reserve.

use crate::core::{DiskSample, DiskThresholds};
use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, fallocate},
    sys::statvfs::{Statvfs, statvfs},
};
use protocol::api::DiskLevel;
use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU8, Ordering},
    },
};
use tracing::{info, warn};

const FILE: &str = "reserve";
/// The reserve is released in so many pieces: whoever fills the disk does not get all of it at once.
const PIECES: u64 = 4;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// What a caller is told about the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskState {
    pub level: DiskLevel,
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// Below this creates and wakes are refused.
    pub floor_bytes: u64,
}

#[derive(Clone)]
pub struct DiskSpace {
    inner: Arc<DiskSpaceInner>,
}

struct DiskSpaceInner {
    data_dir: PathBuf,
    marks: DiskThresholds,
    reserve: Mutex<Reserve>,
    /// The level of the last sample, for those who only glance at it.
    level: AtomicU8,
}

/// `<data>/reserve`, and how much of it is in place.
struct Reserve {
    path: PathBuf,
    file: Option<File>,
    held_bytes: u64,
    /// Whether it could not be taken at the last try.
    failing: bool,
}

impl DiskSpace {
    /// Takes the reserve, if there is space for it. Without one hostd works all the same.
    pub fn open(data_dir: &Path, floor_bytes: Option<u64>) -> Self {
        let total = statvfs(data_dir).map_or(0, |disk| bytes(&disk, disk.blocks()));
        Self::with(data_dir, DiskThresholds::of(total, floor_bytes))
    }

    /// The same with marks of the caller's choice.
    pub fn with(data_dir: &Path, marks: DiskThresholds) -> Self {
        let inner = DiskSpaceInner {
            data_dir: data_dir.to_owned(),
            marks,
            reserve: Mutex::new(Reserve::open(data_dir.join(FILE))),
            level: AtomicU8::new(DiskLevel::Ok as u8),
        };
        let room = Self { inner: Arc::new(inner) };
        room.refresh();
        room
    }

    /// How much room there is now. Asks the file system, which takes microseconds.
    pub fn state(&self) -> DiskState {
        let missing = self.inner.marks.reserve_bytes.saturating_sub(self.reserve().held_bytes);
        self.sampled(missing)
    }

    /// The level of the last sample.
    pub fn level(&self) -> DiskLevel {
        match self.inner.level.load(Ordering::Relaxed) {
            0 => DiskLevel::Ok,
            1 => DiskLevel::Low,
            _ => DiskLevel::Full,
        }
    }

    pub fn marks(&self) -> DiskThresholds {
        self.inner.marks
    }

    /// To be called about once a second: samples the disk, and takes the reserve again when there is space.
    pub fn refresh(&self) -> DiskState {
        let mut reserve = self.reserve();
        let wanted = self.inner.marks.reserve_bytes;
        let state = self.sampled(wanted.saturating_sub(reserve.held_bytes));
        if state.level != DiskLevel::Full && reserve.held_bytes < wanted {
            let taken = reserve.take(wanted);
            match &taken {
                Ok(()) => info!(reserve_bytes = wanted, "disk space set aside"),
                // Said once: it is tried again every second.
                Err(error) if !reserve.failing => warn!(%error, "could not set disk space aside"),
                Err(_) => {}
            }
            reserve.failing = taken.is_err();
        }
        state
    }

    /// Sees to it that a few small files can be written: releases a piece of the reserve where the disk has no
    /// room for them. Whether there is room now.
    pub fn ensure_free(&self) -> bool {
        let mut reserve = self.reserve();
        let piece = self.inner.marks.reserve_bytes / PIECES;
        // A file system that does not tell how full it is is not taken for full.
        let free = || match statvfs(&self.inner.data_dir) {
            Ok(disk) if disk.blocks() > 0 => bytes(&disk, disk.blocks_available()),
            Ok(_) | Err(_) => u64::MAX,
        };
        while free() < piece {
            if reserve.held_bytes == 0 {
                return false;
            }
            let left = reserve.held_bytes.saturating_sub(piece);
            if let Err(error) = reserve.shrink(left) {
                warn!(%error, "could not release the disk space that was set aside");
                return false;
            }
            self.inner.level.store(DiskLevel::Full as u8, Ordering::Relaxed);
            warn!(left_bytes = left, "the disk is full: released space that was set aside");
        }
        true
    }

    fn reserve(&self) -> MutexGuard<'_, Reserve> {
        self.inner.reserve.lock().expect("no panic while held")
    }

    /// `missing_bytes` of the reserve are not in place: they count as used.
    fn sampled(&self, missing_bytes: u64) -> DiskState {
        let (before, floor_bytes) = (self.level(), self.inner.marks.floor_bytes);
        let disk = match statvfs(&self.inner.data_dir) {
            Ok(disk) if disk.blocks() > 0 => disk,
            Ok(_) => return DiskState { level: before, floor_bytes, ..DiskState::default() },
            Err(error) => {
                warn!(%error, "could not ask how full the disk is");
                return DiskState { level: before, floor_bytes, ..DiskState::default() };
            }
        };
        let free_bytes = bytes(&disk, disk.blocks_available()).saturating_sub(missing_bytes);
        let sample = DiskSample { free_bytes, inodes: disk.files(), free_inodes: disk.files_available() };
        let level = self.inner.marks.level(before, sample);
        self.inner.level.store(level as u8, Ordering::Relaxed);
        if level != before {
            log_level_change(level, free_bytes, floor_bytes);
        }
        DiskState { level, total_bytes: bytes(&disk, disk.blocks()), free_bytes, floor_bytes }
    }
}

fn log_level_change(level: DiskLevel, free_bytes: u64, floor_bytes: u64) {
    match level {
        DiskLevel::Ok => info!(free_bytes, floor_bytes, "the disk has room again"),
        DiskLevel::Low => warn!(free_bytes, floor_bytes, "disk low: creates and wakes are refused"),
        DiskLevel::Full => warn!(free_bytes, floor_bytes, "disk full: sandboxes that grow are stopped"),
    }
}

fn bytes(disk: &Statvfs, blocks: u64) -> u64 {
    blocks.saturating_mul(disk.fragment_size())
}

impl Reserve {
    /// With what an earlier hostd left of it.
    fn open(path: PathBuf) -> Self {
        let mut reserve = Self { path, file: None, held_bytes: 0, failing: false };
        if let Ok(file) = File::options().read(true).write(true).open(&reserve.path) {
            reserve.held_bytes =
                file.metadata().map_or(0, |meta| meta.len().min(meta.blocks().saturating_mul(512)));
            reserve.file = Some(file);
        }
        reserve
    }

    /// All of it or what there was.
    fn take(&mut self, wanted: u64) -> io::Result<()> {
        if self.file.is_none() {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            self.file = Some(options.open(&self.path)?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let taken = allocate(file, self.held_bytes, wanted);
        match taken {
            Ok(()) => self.held_bytes = wanted,
            // What was allocated of the rest goes back.
            Err(_) => file.set_len(self.held_bytes)?,
        }
        taken
    }

    fn shrink(&mut self, to: u64) -> io::Result<()> {
        if let Some(file) = &self.file {
            file.set_len(to)?;
        }
        self.held_bytes = to;
        Ok(())
    }
}

/// Real space for a file from `from` to `to`, also where a file system can only be made to give it by writing.
fn allocate(file: &mut File, from: u64, to: u64) -> io::Result<()> {
    let length = to.saturating_sub(from);
    match fallocate(&*file, FallocateFlags::empty(), offset(from)?, offset(length)?) {
        Ok(()) => Ok(()),
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {
            file.seek(SeekFrom::Start(from))?;
            let mut left = length;
            while left > 0 {
                let part = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS.len());
                file.write_all(&ZEROS[..part])?;
                left -= part as u64;
            }
            Ok(())
        }
        Err(error) => Err(io::Error::from_raw_os_error(error as i32)),
    }
}

fn offset(bytes: u64) -> io::Result<i64> {
    i64::try_from(bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u64 = 256 << 10;

    fn marks(floor_bytes: u64) -> DiskThresholds {
        DiskThresholds { floor_bytes, reserve_bytes: PIECES * PIECE, journal_bytes: 0 }
    }

    #[test]
    fn the_reserve_is_real_space_kept_by_the_next_hostd_and_taken_only_where_there_is_room() {
        let dir = tempfile::tempdir().expect("a directory");
        let allocated = || std::fs::metadata(dir.path().join(FILE)).map_or(0, |meta| meta.blocks() * 512);
        // Nothing is ever enough for this floor.
        let full = DiskSpace::with(dir.path(), marks(u64::MAX));
        assert_eq!((full.level(), allocated()), (DiskLevel::Full, 0));
        let room = DiskSpace::with(dir.path(), marks(0));
        assert_eq!(room.level(), DiskLevel::Ok);
        assert!(allocated() >= PIECES * PIECE);
        // There is room: none of it is released.
        assert!(room.ensure_free() && allocated() >= PIECES * PIECE);
        let next = DiskSpace::with(dir.path(), marks(u64::MAX));
        assert_eq!(next.reserve().held_bytes, PIECES * PIECE);
        next.reserve().shrink(PIECE).expect("it shrinks");
        assert!((PIECE..2 * PIECE).contains(&allocated()));
        // What is missing counts as used, and comes back.
        let again = DiskSpace::with(dir.path(), marks(0));
        assert_eq!(again.reserve().held_bytes, PIECES * PIECE);
    }
}
