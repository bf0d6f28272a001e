//! Volumes: a file system in a file that is allocated whole, so that the host has room for all that fits inside.
//!
//! ```text
//! <data>/volumes/<id>.ext4 ──loop device──▶ mounted at <data>/workspaces/<id>
//! ```
//!
//! A new file system has `lost+found` until its first mount: that says that it is not set up yet.

use super::{super::files::errno, loop_device};
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{FallocateFlags, OFlag, fallocate},
    mount::{MntFlags, MsFlags, umount2},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::stat::{Mode, fchmod, fstatat},
    unistd::{UnlinkatFlags, syncfs, unlinkat},
};
use rustix::fs::{AtFlags, StatxAttributes, StatxFlags};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::{
        fd::AsFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    process::{ChildStderr, Command, Stdio},
    time::{Duration, Instant},
};

/// One inode for this many bytes, as a project quota allows too.
pub const BYTES_PER_INODE: u64 = 8192;
const JOURNAL_MB: u64 = 4;
/// ext4 keeps a fiftieth, at most this much, for its own metadata.
const EXT4_KEPT_MAX_BYTES: u64 = 16 << 20;
/// Superblock, group descriptors and bitmaps of a small file system.
const EXT4_FIXED_BYTES: u64 = 1 << 20;
/// How long mkfs may take, and how much longer for each MiB of a volume, of which the content is copied.
const MKFS_MAX_MS: u64 = 60_000;
const MKFS_MAX_MS_PER_MB: u64 = 100;
const MKFS_OUTPUT_MAX_BYTES: usize = 4096;
const MKFS_PATHS: [&str; 3] = ["/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4", "/usr/local/sbin/mkfs.ext4"];
/// The mode of the top of a workspace.
const TOP_MODE: u32 = 0o750;
/// The mode of a directory that only carries a mount.
const MOUNT_POINT_MODE: u32 = 0o000;

/// The size of the file of a volume in which `disk_mb` are free: ext4 takes a part for itself.
pub fn volume_bytes(disk_mb: u64) -> u64 {
    let usable = disk_mb.saturating_mul(1 << 20);
    let inodes = usable / (BYTES_PER_INODE / 256);
    let bitmaps = usable / 8192;
    let kept = (usable / 48).min(EXT4_KEPT_MAX_BYTES);
    let fixed = (JOURNAL_MB << 20) + EXT4_FIXED_BYTES;
    let all = [inodes, bitmaps, kept, fixed].into_iter().fold(usable, u64::saturating_add);
    all.div_ceil(1 << 20).saturating_mul(1 << 20)
}

pub fn find_mkfs() -> Option<PathBuf> {
    MKFS_PATHS.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// Takes the space of a new volume.
pub fn allocate(file: &Path, bytes: u64) -> io::Result<File> {
    let image = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    super::project_ioctl::overwrite_in_place(&image);
    let length = i64::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
    fallocate(&image, FallocateFlags::empty(), 0, length).map_err(errno)?;
    Ok(image)
}

/// Makes the file system of an allocated volume, with the content of a directory. It is on disk when this returns; the
/// caller renames it.
pub fn format(mkfs: &Path, file: &Path, image: &File, content: &Path) -> io::Result<()> {
    let ids = super::super::limits::SANDBOX_UID;
    let mut command = Command::new(mkfs);
    command.args(["-q", "-F", "-b", "4096", "-I", "256", "-i", &BYTES_PER_INODE.to_string(), "-m", "0"]);
    command.args(["-J", &format!("size={JOURNAL_MB}"), "-O", "^resize_inode", "-E"]);
    command.arg(format!("lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner={ids}:{ids}"));
    command.arg("-d").arg(content).arg(file);
    run(command, mkfs_max(image.metadata()?.len()))?;
    image.sync_all()
}

fn mkfs_max(volume_bytes: u64) -> Duration {
    Duration::from_millis(MKFS_MAX_MS.saturating_add((volume_bytes >> 20).saturating_mul(MKFS_MAX_MS_PER_MB)))
}

/// Runs a program to its end; its message is in the error.
fn run(mut command: Command, max: Duration) -> io::Result<()> {
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let read = |stderr: ChildStderr| read_until_closed(stderr, Instant::now() + max);
    let output = match child.stderr.take().map_or(Ok(vec![]), read) {
        Ok(output) => output,
        Err(error) => {
            child.kill()?;
            child.wait()?;
            return Err(error);
        }
    };
    if child.wait()?.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output);
    if text.contains("No space left") || text.contains("Could not allocate block") {
        return Err(io::Error::from_raw_os_error(Errno::ENOSPC as i32));
    }
    Err(io::Error::other(format!("mkfs.ext4: {}", text.trim().replace('\n', "; "))))
}

/// The output of a program, which closes it when it ends; bounded in time, and its start in size.
fn read_until_closed(mut stderr: ChildStderr, deadline: Instant) -> io::Result<Vec<u8>> {
    let (mut output, mut piece) = (Vec::new(), [0; 1024]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let mut waited = [PollFd::new(stderr.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waited, timeout) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Err(Errno::EINTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(errno(error)),
        }
        match stderr.read(&mut piece)? {
            0 => return Ok(output),
            length if output.len() < MKFS_OUTPUT_MAX_BYTES => output.extend_from_slice(&piece[..length]),
            _ => {}
        }
    }
}

/// Mounts a volume, unless it is mounted there. Returns the device number of its files.
pub fn mount(volume: &Path, at: &Path) -> io::Result<u64> {
    // Held open until it is mounted: the kernel detaches a device that has no use.
    let device = loop_device::attach(volume)?;
    let number = device.number()?;
    if is_mount_point(at)? {
        if std::fs::symlink_metadata(at)?.dev() == number {
            return Ok(number);
        }
        detach(at)?;
    }
    make_mount_point(at)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    nix::mount::mount(Some(&device.path), at, Some("ext4"), flags, None::<&str>).map_err(errno)?;
    if let Err(error) = set_up(at) {
        detach(at)?;
        return Err(error);
    }
    Ok(number)
}

/// Finishes a new file system: the mode of its top, which mkfs does not set. May be repeated.
fn set_up(top: &Path) -> io::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let dir = Dir::open(top, flags, Mode::empty()).map_err(errno)?;
    let new = fstatat(&dir, c"lost+found", nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| stat.st_uid == 0);
    if !new {
        return Ok(());
    }
    fchmod(dir.as_fd(), Mode::from_bits_truncate(TOP_MODE)).map_err(errno)?;
    match unlinkat(&dir, c"lost+found", UnlinkatFlags::RemoveDir) {
        // Not the one of mkfs.
        Ok(()) | Err(Errno::ENOTDIR | Errno::ENOTEMPTY) => Ok(()),
        Err(error) => Err(errno(error)),
    }
}

/// Writes a mounted volume to disk, so that its unmount, under a lock, is short.
pub fn flush(at: &Path) -> io::Result<()> {
    if !is_mount_point(at)? {
        return Ok(());
    }
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let top = nix::fcntl::open(at, flags, Mode::empty()).map_err(errno)?;
    syncfs(top).map_err(errno)
}

/// Whether a file system is mounted at a directory; not when the directory does not exist.
pub fn is_mount_point(path: &Path) -> io::Result<bool> {
    // The device alone does not tell: a subvolume of btrfs has its own.
    match rustix::fs::statx(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE) {
        Ok(found) => Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
        Err(error) if is_absent(&error.into()) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Unmounts a volume that has no use, and removes its mount point; one in use stays.
pub fn unmount(at: &Path) -> io::Result<()> {
    if is_mount_point(at)? {
        match umount2(at, MntFlags::UMOUNT_NOFOLLOW) {
            Err(Errno::EBUSY) => return Ok(()),
            Err(error) => return Err(errno(error)),
            Ok(()) => {}
        }
    }
    remove_mount_point(at)
}

/// Unmounts whatever is mounted at a directory, also when it is in use: it goes with its last user.
pub fn detach(at: &Path) -> io::Result<()> {
    while is_mount_point(at)? {
        match umount2(at, MntFlags::UMOUNT_NOFOLLOW) {
            Ok(()) => {}
            Err(Errno::EBUSY) => {
                umount2(at, MntFlags::UMOUNT_NOFOLLOW | MntFlags::MNT_DETACH).map_err(errno)?;
            }
            Err(error) => return Err(errno(error)),
        }
    }
    remove_mount_point(at)
}

/// Makes the empty directory that carries a mount.
pub fn make_mount_point(at: &Path) -> io::Result<()> {
    super::super::files::make_dir(at, MOUNT_POINT_MODE)
}

/// Removes the empty directory that carried a mount. A workspace has an owner other than root.
fn remove_mount_point(at: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(at) {
        Ok(meta) if meta.is_dir() && meta.uid() == 0 && meta.mode() & 0o7777 == MOUNT_POINT_MODE => {
            std::fs::remove_dir(at)
        }
        Ok(_) => Ok(()),
        Err(error) if is_absent(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::statvfs::statvfs;

    #[test]
    fn a_larger_volume_may_take_longer() {
        let (small, large) = (mkfs_max(16 << 20), mkfs_max(100 << 30));
        assert!((60..62).contains(&small.as_secs()), "{small:?}");
        assert!(large.as_secs() > 10_000, "{large:?}");
    }

    #[test]
    fn a_volume_has_the_room_that_was_asked_for_and_little_more() {
        let temp = tempfile::tempdir().expect("a directory");
        let mkfs = find_mkfs().expect("e2fsprogs is installed");
        for disk_mb in [16, 64, 300, 1024] {
            let content = temp.path().join("content");
            std::fs::create_dir_all(content.join("workspace/app")).expect("made");
            let (file, at) = (temp.path().join(format!("{disk_mb}.ext4")), temp.path().join("mnt"));
            let image = allocate(&file, volume_bytes(disk_mb)).expect("there is room");
            format(&mkfs, &file, &image, &content).expect("made");
            assert_eq!(std::fs::metadata(&file).expect("there").len(), volume_bytes(disk_mb));
            let number = mount(&file, &at).expect("mounted");
            assert_eq!(mount(&file, &at).expect("mounted already"), number);
            assert!(at.join("workspace/app").is_dir() && !at.join("lost+found").exists());
            let meta = std::fs::metadata(&at).expect("there");
            assert_eq!((meta.uid(), meta.mode() & 0o7777), (1000, TOP_MODE));
            let disk = statvfs(&at).expect("mounted");
            let free_kb = (disk.blocks_available() * disk.fragment_size()) >> 10;
            let wanted_kb = disk_mb << 10;
            assert!(
                (wanted_kb..wanted_kb + wanted_kb / 20 + 1024).contains(&free_kb),
                "{disk_mb}: {free_kb}"
            );
            // In use: an ordinary unmount leaves it, and a detach takes it away.
            let used = std::fs::File::open(&at).expect("open");
            unmount(&at).expect("left");
            assert!(is_mount_point(&at).expect("asked"));
            detach(&at).expect("taken away");
            assert!(!at.exists());
            drop(used);
            assert!(loop_device::find(&file).expect("asked").is_none(), "detached with its last use");
        }
    }
}
