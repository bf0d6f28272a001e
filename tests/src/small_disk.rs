//! A disk that can be filled: a tmpfs of a few megabytes, or a file system in a file, mounted for one test.

use anyhow::{Context, Result, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statvfs::statvfs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct SmallDisk {
    path: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    Tmpfs,
    Ext4,
    Xfs,
    Btrfs,
}

impl SmallDisk {
    /// Mounts one of this size at `path`, which is made if it is not there.
    pub fn mount(path: &Path, megabytes: usize) -> Result<Self> {
        std::fs::create_dir_all(path)?;
        let options = format!("size={megabytes}m,mode=700");
        mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::empty(), Some(options.as_str()))
            .with_context(|| format!("mount a tmpfs at {}", path.display()))?;
        Ok(Self { path: path.to_owned() })
    }

    /// A file system of this kind, in a file beside `path`. XFS wants 300 megabytes at least.
    pub fn made(kind: FileSystem, path: &Path, megabytes: u64) -> Result<Self> {
        let make: &[&str] = match kind {
            FileSystem::Tmpfs => return Self::mount(path, usize::try_from(megabytes)?),
            // Without the part that is kept for root.
            FileSystem::Ext4 => &["mkfs.ext4", "-q", "-F", "-m", "0"],
            FileSystem::Xfs => &["mkfs.xfs", "-q", "-f"],
            FileSystem::Btrfs => &["mkfs.btrfs", "-q", "-f", "-m", "single"],
        };
        std::fs::create_dir_all(path)?;
        let image = path.with_extension("image");
        std::fs::File::create(&image)?.set_len(megabytes << 20)?;
        run(Command::new(make[0]).args(&make[1..]).arg(&image))?;
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(path))?;
        Ok(Self { path: path.to_owned() })
    }

    pub fn free_bytes(&self) -> Result<u64> {
        let space = statvfs(&self.path)?;
        Ok(space.blocks_available() * space.fragment_size())
    }

    /// Takes all of the space that is left.
    pub fn fill(&self) -> Result<()> {
        self.fill_but(0)
    }

    /// Takes all of the space but so many bytes, which others may use meanwhile.
    pub fn fill_but(&self, left_bytes: u64) -> Result<()> {
        let mut filler = std::fs::File::create(self.filler())?;
        let block = [0; 4096];
        while self.free_bytes()? > left_bytes && filler.write(&block).is_ok_and(|written| written > 0) {}
        Ok(())
    }

    /// Gives the space back that `fill` took.
    pub fn empty(&self) -> Result<()> {
        Ok(std::fs::remove_file(self.filler())?)
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }
}

fn run(command: &mut Command) -> Result<()> {
    let ran = command.output().with_context(|| format!("run {command:?}"))?;
    ensure!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    Ok(())
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A lazy unmount: processes that still use it keep it until they end.
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
    }
}
