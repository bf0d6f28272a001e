//! The layers of an image as one tree, read-only, mounted in a mount namespace of the caller's own: nothing is left on the
//! host when its thread ends, however it ends.

use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    unistd::chdir,
};
use std::{
    io,
    path::{Path, PathBuf},
    thread,
};

const NONE: Option<&str> = None;

/// Where the layers of an image lie, topmost first, each a directory of its own; two at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerStack {
    pub dir: PathBuf,
    pub names: Vec<String>,
}

impl LayerStack {
    /// Runs work that sees the merged tree at a path, on a thread with a mount namespace of its own: on the host nothing
    /// is mounted.
    pub fn with_merged<T: Send>(&self, work: impl FnOnce(&Path) -> io::Result<T> + Send) -> io::Result<T> {
        let merged = || {
            own_mount_namespace().and_then(|()| self.mount())?;
            work(&self.dir)
        };
        let done = thread::scope(|scope| {
            let thread = thread::Builder::new().name("image-tree".to_owned()).spawn_scoped(scope, merged)?;
            thread.join().map_err(|_| io::Error::other("the thread that reads the image panicked"))
        });
        done?
    }

    /// Mounts the tree over the directory of the layers, which are not needed any more. `mount(2)` takes one page of
    /// options: the names are short, and relative to the working directory, which is the thread's own by now.
    fn mount(&self) -> Result<(), Errno> {
        chdir(&self.dir)?;
        let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        let lower = format!("lowerdir={}", self.names.join(":"));
        mount(Some("overlay"), &self.dir, Some("overlay"), flags, Some(lower.as_str()))
    }
}

/// Gives the calling thread a mount namespace: its mounts do not reach the host, those of the host still arrive.
fn own_mount_namespace() -> Result<(), Errno> {
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
        let layers = temp.path().join("layers");
        for (layer, file, text) in [("a", "same", "upper"), ("b", "same", "lower"), ("b", "other", "lower")] {
            fs::create_dir_all(layers.join(layer)).expect("made");
            fs::write(layers.join(layer).join(file), text).expect("written");
        }
        let stack = LayerStack { dir: layers.clone(), names: vec!["a".to_owned(), "b".to_owned()] };
        let read = stack.with_merged(|tree| {
            assert!(fs::write(tree.join("new"), "").is_err(), "read-only");
            Ok((fs::read_to_string(tree.join("same"))?, fs::read_to_string(tree.join("other"))?))
        });
        assert_eq!(read.expect("mounted"), ("upper".to_owned(), "lower".to_owned()));
        assert_eq!(fs::read_dir(&layers).expect("there").count(), 2, "the host sees the layers");
    }
}
