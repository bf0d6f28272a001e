//! Space on the disk of the data directory: how much is free, and the reserve that hostd holds.
//!
//! `<data>/reserve` is space that only hostd can use. It is released piece by piece when the disk has no
//! space for what frees space (waking a sandbox to delete files, a command in it, a row of the database), and
//! taken again once there is space. Decisions are in `core::disk_room`.
//!
//! A handle: clones share everything. Must not wait, nor fail for lack of a reserve.

use hostd_core::{DiskSample, DiskThresholds};
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
/// The reserve is released in this many pieces, so that the program that fills the disk does not get all of
/// it at once.
const PIECES: u64 = 4;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The state of the data disk, as the API shows it.
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
    /// The level of the last sample, for cheap reads.
    level: AtomicU8,
}

/// `<data>/reserve`, and how much of it is allocated.
struct Reserve {
    path: PathBuf,
    file: Option<File>,
    held_bytes: u64,
    /// Whether the last attempt to allocate the reserve failed.
    failing: bool,
}

impl DiskSpace {
    /// Opens the reserve, and allocates it if there is space. hostd works without one, too.
    pub fn open(data_dir: &Path, floor_bytes: Option<u64>) -> Self {
        let total = statvfs(data_dir).map_or(0, |disk| bytes(&disk, disk.blocks()));
        Self::with(data_dir, DiskThresholds::of(total, floor_bytes))
    }

    /// Opens the reserve with the given marks.
    pub fn with(data_dir: &Path, marks: DiskThresholds) -> Self {
        let inner = DiskSpaceInner {
            data_dir: data_dir.to_owned(),
            marks,
            reserve: Mutex::new(Reserve::open(data_dir.join(FILE))),
            level: AtomicU8::new(DiskLevel::Ok as u8),
        };
        let space = Self { inner: Arc::new(inner) };
        space.refresh();
        space
    }

    /// Samples the disk, which takes microseconds.
    pub fn state(&self) -> DiskState {
        let missing = self.inner.marks.reserve_bytes.saturating_sub(self.reserve().held_bytes);
        self.sampled(missing)
    }

    /// Returns the level of the last sample.
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

    /// Samples the disk and allocates the reserve when there is space. To be called about once a second.
    pub fn refresh(&self) -> DiskState {
        let mut reserve = self.reserve();
        let wanted = self.inner.marks.reserve_bytes;
        let state = self.sampled(wanted.saturating_sub(reserve.held_bytes));
        if state.level != DiskLevel::Full && reserve.held_bytes < wanted {
            let taken = reserve.take(wanted);
            match &taken {
                Ok(()) => info!(reserve_bytes = wanted, "disk reserve allocated"),
                // Logged once: the allocation is tried again every second.
                Err(error) if !reserve.failing => warn!(%error, "failed to allocate the disk reserve"),
                Err(_) => {}
            }
            reserve.failing = taken.is_err();
        }
        state
    }

    /// Ensures that a few small files can be written: releases pieces of the reserve while the disk has no
    /// space for them. Returns whether there is space.
    pub fn ensure_free(&self) -> bool {
        let mut reserve = self.reserve();
        let piece = self.inner.marks.reserve_bytes / PIECES;
        // A file system that does not report its size is not taken for full.
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
                warn!(%error, "failed to release disk reserve");
                return false;
            }
            self.inner.level.store(DiskLevel::Full as u8, Ordering::Relaxed);
            warn!(left_bytes = left, "disk full: released part of the reserve");
        }
        true
    }

    fn reserve(&self) -> MutexGuard<'_, Reserve> {
        self.inner.reserve.lock().expect("no panic while held")
    }

    /// Samples the disk. `missing_bytes` of the reserve are not allocated, and count as used.
    fn sampled(&self, missing_bytes: u64) -> DiskState {
        let (before, floor_bytes) = (self.level(), self.inner.marks.floor_bytes);
        let disk = match statvfs(&self.inner.data_dir) {
            Ok(disk) if disk.blocks() > 0 => disk,
            Ok(_) => return DiskState { level: before, floor_bytes, ..DiskState::default() },
            Err(error) => {
                warn!(%error, "failed to read the free space of the data disk");
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
        DiskLevel::Ok => info!(free_bytes, floor_bytes, "disk space is sufficient again"),
        DiskLevel::Low => warn!(free_bytes, floor_bytes, "disk low: creates and wakes are refused"),
        DiskLevel::Full => warn!(free_bytes, floor_bytes, "disk full: sandboxes that grow are stopped"),
    }
}

fn bytes(disk: &Statvfs, blocks: u64) -> u64 {
    blocks.saturating_mul(disk.fragment_size())
}

impl Reserve {
    /// Opens the reserve as an earlier hostd left it.
    fn open(path: PathBuf) -> Self {
        let mut reserve = Self { path, file: None, held_bytes: 0, failing: false };
        if let Ok(file) = File::options().read(true).write(true).open(&reserve.path) {
            reserve.held_bytes =
                file.metadata().map_or(0, |meta| meta.len().min(meta.blocks().saturating_mul(512)));
            reserve.file = Some(file);
        }
        reserve
    }

    /// Allocates the whole reserve, or keeps what there was.
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
            // A partial allocation is returned.
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

/// Allocates the blocks of a file from `from` to `to`, by writing where the file system cannot preallocate.
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
        // No disk has this much free space.
        let full = DiskSpace::with(dir.path(), marks(u64::MAX));
        assert_eq!((full.level(), allocated()), (DiskLevel::Full, 0));
        let space = DiskSpace::with(dir.path(), marks(0));
        assert_eq!(space.level(), DiskLevel::Ok);
        assert!(allocated() >= PIECES * PIECE);
        // There is space: none of the reserve is released.
        assert!(space.ensure_free() && allocated() >= PIECES * PIECE);
        let next = DiskSpace::with(dir.path(), marks(u64::MAX));
        assert_eq!(next.reserve().held_bytes, PIECES * PIECE);
        next.reserve().shrink(PIECE).expect("it shrinks");
        assert!((PIECE..2 * PIECE).contains(&allocated()));
        // A missing part counts as used, and is allocated again.
        let again = DiskSpace::with(dir.path(), marks(0));
        assert_eq!(again.reserve().held_bytes, PIECES * PIECE);
    }
}
