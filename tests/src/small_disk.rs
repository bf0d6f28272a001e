//! A disk that can be filled: a tmpfs of a few megabytes, mounted for one test.

use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statvfs::statvfs;
use std::io::Write;
use std::path::{Path, PathBuf};

pub struct SmallDisk {
    path: PathBuf,
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

    pub fn free_bytes(&self) -> Result<u64> {
        let space = statvfs(&self.path)?;
        Ok(space.blocks_available() * space.fragment_size())
    }

    /// Takes all of the space that is left.
    pub fn fill(&self) -> Result<()> {
        let mut filler = std::fs::File::create(self.filler())?;
        let block = [0; 4096];
        while filler.write(&block).is_ok_and(|written| written > 0) {}
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

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: whoever still uses it keeps it until it ends.
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
    }
}
