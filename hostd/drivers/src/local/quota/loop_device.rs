//! Loop devices: finds the one of a file, or attaches one that the kernel detaches after its last use.
//!
//! **Invariant:** a file has at most one device. Two would be two block devices over the same bytes, and two mounts of
//! them would destroy the file system. Callers hold the lock of the quota.

#![allow(unsafe_code)] // ioctls of loop devices

use nix::{errno::Errno, libc};
use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Path, PathBuf},
};

const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4c82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4c0a;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4c05;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// Tries of finding a free device that another program takes first.
const ATTACH_TRIES_MAX: usize = 64;

/// `struct loop_info64`
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl LoopInfo {
    const EMPTY: Self = Self {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        sizelimit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
}

/// `struct loop_config`
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// A device with a file attached. While it is open, the kernel does not detach it.
pub struct LoopDevice {
    file: File,
    pub path: PathBuf,
}

impl LoopDevice {
    /// The device number, which is that of files on it.
    pub fn number(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.rdev())
    }
}

/// The device of a file: the one it has, or a new one.
pub fn attach(image: &Path) -> io::Result<LoopDevice> {
    if let Some(device) = find(image)? {
        return Ok(device);
    }
    let backing = OpenOptions::new().read(true).write(true).open(image)?;
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    for _ in 0..ATTACH_TRIES_MAX {
        // SAFETY: this ioctl has no argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        let number = Errno::result(number)?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let info = LoopInfo { flags: LO_FLAGS_AUTOCLEAR, file_name: name_of(image), ..LoopInfo::EMPTY };
        let fd = u32::try_from(backing.as_raw_fd()).unwrap_or_default();
        let config = LoopConfig { fd, block_size: 0, info, reserved: [0; 8] };
        // SAFETY: the descriptor is open, and the kernel reads a `loop_config` from the pointer.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
        match Errno::result(done) {
            Ok(_) => return Ok(LoopDevice { file, path }),
            Err(Errno::EBUSY) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other("every free loop device is taken by another program first"))
}

/// The device that a file is attached to, if it is.
pub fn find(image: &Path) -> io::Result<Option<LoopDevice>> {
    let meta = std::fs::metadata(image)?;
    let name = image.file_name().unwrap_or_default().as_bytes();
    for entry in std::fs::read_dir("/sys/block")? {
        let entry = entry?;
        // Names of files are compared first, which opens no device of another program.
        let Ok(backing) = std::fs::read(entry.path().join("loop/backing_file")) else { continue };
        if memchr::memmem::find(&backing, name).is_none() {
            continue;
        }
        let path = Path::new("/dev").join(entry.file_name());
        let Ok(file) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        if status(&file).is_ok_and(|info| (info.device, info.inode) == (meta.dev(), meta.ino())) {
            return Ok(Some(LoopDevice { file, path }));
        }
    }
    Ok(None)
}

fn status(device: &File) -> io::Result<LoopInfo> {
    let mut info = LoopInfo::EMPTY;
    // SAFETY: the descriptor is open, and the kernel writes a `loop_info64` to the pointer.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) };
    Errno::result(done)?;
    Ok(info)
}

/// The name that `losetup` shows, cut to its field.
fn name_of(image: &Path) -> [u8; 64] {
    let mut name = [0; 64];
    let bytes = image.file_name().unwrap_or_default().as_bytes();
    let length = bytes.len().min(name.len() - 1);
    name[..length].copy_from_slice(&bytes[..length]);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_large_as_the_kernels() {
        assert_eq!((size_of::<LoopInfo>(), size_of::<LoopConfig>()), (232, 304));
    }

    #[test]
    fn a_file_is_attached_once_and_detached_after_its_last_use() {
        let temp = tempfile::tempdir().expect("a directory");
        let image = temp.path().join(format!("{}.img", ulid::Ulid::generate()));
        File::create(&image).and_then(|file| file.set_len(1 << 20)).expect("made");
        assert!(find(&image).expect("asked").is_none());
        let first = attach(&image).expect("this host has loop devices");
        let second = attach(&image).expect("attached");
        assert_eq!(first.path, second.path);
        drop((first, second));
        assert!(find(&image).expect("asked").is_none());
    }
}
