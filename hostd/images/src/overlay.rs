//! The layers of an image as one tree, read-only, mounted in a mount namespace of the caller's own: nothing is left on the
//! host when its thread or process ends, however it ends.

use crate::mount_calls::{attach_mount, clone_mount, idmap_mount};
use nix::{
    errno::Errno,
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    sys::stat::Mode,
    unistd::{chdir, mkdir},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
    thread,
};

const NONE: Option<&str> = None;
/// The merged tree, below the directory that it is mounted at.
const MERGED: &str = "root";
/// An empty lower directory: an overlay without an upper one has two lower ones at least.
const EMPTY: &str = "empty";
/// The directories of the mount points need no more.
const MOUNT_POINTS_OPTIONS: &str = "mode=0755,size=1m,nr_inodes=1k";

/// The layers of an image, topmost first, each a directory of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerStack {
    pub layers: Vec<PathBuf>,
}

impl LayerStack {
    /// The path of the tree that is mounted below a directory.
    pub fn merged_path(at: &Path) -> PathBuf {
        at.join(MERGED)
    }

    /// Runs work that sees the merged tree at a path, on a thread with a mount namespace of its own. `at` is an existing
    /// directory; what is in it is covered for that thread alone.
    pub fn with_merged<T: Send>(
        &self,
        at: &Path,
        work: impl FnOnce(&Path) -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let merged = || {
            unshare_mounts()?;
            work(&self.mount(at, None)?)
        };
        let done = thread::scope(|scope| {
            let thread = thread::Builder::new().name("image-tree".to_owned()).spawn_scoped(scope, merged)?;
            thread.join().map_err(|_| io::Error::other("the thread that reads the image panicked"))
        });
        done?
    }

    /// Mounts the tree below a directory, and returns its path. The caller has a mount namespace of its own, and loses its
    /// working directory. With a user namespace, files belong to its users.
    pub fn mount(&self, at: &Path, user_namespace: Option<BorrowedFd<'_>>) -> Result<PathBuf, Errno> {
        let hardened = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), at, Some("tmpfs"), hardened, Some(MOUNT_POINTS_OPTIONS))?;
        for name in [MERGED, EMPTY] {
            mkdir(&at.join(name), Mode::from_bits_truncate(0o755))?;
        }
        // `mount(2)` takes one page of options: layers get short names, relative to the working directory.
        let names: Vec<String> = (0..self.layers.len()).map(|number| number.to_string()).collect();
        for (name, layer) in names.iter().zip(&self.layers) {
            mount_layer(layer, &at.join(name), user_namespace)?;
        }
        chdir(at)?;
        // Undermost: the root has the attributes of the topmost.
        // Layers of workspaces have directories that were moved; the kernel may be built to ignore that.
        let lower = format!("lowerdir={}:{EMPTY},redirect_dir=follow", names.join(":"));
        mount(Some("overlay"), MERGED, Some("overlay"), MsFlags::MS_RDONLY | hardened, Some(lower.as_str()))?;
        // The overlay has its own copies.
        for name in &names {
            umount2(name.as_str(), MntFlags::MNT_DETACH)?;
        }
        chdir("/")?;
        Ok(Self::merged_path(at))
    }
}

fn mount_layer(layer: &Path, at: &Path, user_namespace: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    mkdir(at, Mode::from_bits_truncate(0o755))?;
    let copy = clone_mount(layer)?;
    if let Some(user_namespace) = user_namespace {
        idmap_mount(copy.as_fd(), user_namespace)?;
    }
    attach_mount(copy.as_fd(), at)
}

/// Gives the calling thread a mount namespace: its mounts do not reach the host, those of the host still arrive.
pub fn unshare_mounts() -> Result<(), Errno> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_SLAVE, NONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_upper_layer_covers_a_lower_one_and_the_host_sees_no_mount() {
        let temp = tempfile::tempdir().expect("a directory");
        let at = temp.path().join("at");
        fs::create_dir(&at).expect("made");
        let layer = |name: &str| temp.path().join(name);
        for (name, file, text) in [("a", "same", "upper"), ("b", "same", "lower"), ("b", "other", "lower")] {
            fs::create_dir_all(layer(name)).expect("made");
            fs::write(layer(name).join(file), text).expect("written");
        }
        let stack = LayerStack { layers: vec![layer("a"), layer("b")] };
        let read = stack.with_merged(&at, |tree| {
            assert!(fs::write(tree.join("new"), "").is_err(), "read-only");
            Ok((fs::read_to_string(tree.join("same"))?, fs::read_to_string(tree.join("other"))?))
        });
        assert_eq!(read.expect("mounted"), ("upper".to_owned(), "lower".to_owned()));
        assert_eq!(fs::read_dir(&at).expect("there").count(), 0, "the host sees no mount");
    }

    #[test]
    fn as_many_layers_as_an_image_may_have_are_mounted() {
        let temp = tempfile::tempdir().expect("a directory");
        let at = temp.path().join("at");
        fs::create_dir(&at).expect("made");
        let layers: Vec<PathBuf> = (0..crate::limits::LAYERS_MAX + 1)
            .map(|number| {
                let layer = temp.path().join(format!("{number:064}"));
                fs::create_dir(&layer).expect("made");
                fs::write(layer.join(number.to_string()), "").expect("written");
                layer
            })
            .collect();
        let count =
            LayerStack { layers: layers.clone() }.with_merged(&at, |tree| Ok(fs::read_dir(tree)?.count()));
        assert_eq!(count.expect("mounted"), layers.len());
    }
}
