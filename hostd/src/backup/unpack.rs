//! Unpacks the entries of a backup into a new data directory. Names of files come from here, never from the backup.

use super::{
    entry::{EntryName, Tree},
    error::RestoreError,
    limits::RESTORE_FREE_MIN_BYTES,
    reader::Piece,
};
use hostd_drivers::{DriverError, RestoredTrees};
use nix::sys::statvfs::statvfs;
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, PipeWriter, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
};

/// The directory of the configuration that was backed up. It is not put in force.
pub const CONFIGURATION: &str = "restored-configuration";

pub struct Unpacker {
    dir: PathBuf,
    trees: Arc<RestoredTrees>,
    /// What the content that comes belongs to.
    into: Option<Destination>,
    pub has_configuration: bool,
}

enum Destination {
    File(File),
    Tree(Unpacking),
}

/// The files of one tree, unpacked by a thread.
struct Unpacking {
    tree: Tree,
    pipe: PipeWriter,
    thread: JoinHandle<Result<(), DriverError>>,
}

impl Unpacker {
    /// Makes the directory.
    pub fn new(dir: &Path) -> Result<Self, RestoreError> {
        let make = |path: &Path, mode| {
            let made = DirBuilder::new().mode(mode).create(path);
            made.map_err(RestoreError::io(format!("make {}", path.display())))
        };
        make(dir, 0o711)?;
        make(&dir.join(CONFIGURATION), 0o700)?;
        let trees =
            RestoredTrees::open(dir).map_err(|error| RestoreError::files("the sandboxes".to_owned(), error));
        Ok(Self { dir: dir.to_owned(), trees: Arc::new(trees?), into: None, has_configuration: false })
    }

    pub fn piece(&mut self, piece: &Piece<'_>) -> Result<(), RestoreError> {
        match piece {
            Piece::Begin(name) => self.begin(*name),
            Piece::Content(bytes) => self.content(bytes),
            Piece::TreeEnd => match self.into.take() {
                Some(Destination::Tree(unpacking)) => unpacking.finish(),
                Some(Destination::File(_)) | None => Ok(()),
            },
        }
    }

    /// Returns when everything is on disk.
    pub fn sync(&self) -> Result<(), RestoreError> {
        self.trees.sync().map_err(|error| RestoreError::files("the sandboxes".to_owned(), error))
    }

    fn begin(&mut self, name: EntryName) -> Result<(), RestoreError> {
        let path = match name {
            // Lists, which the reader keeps.
            EntryName::Manifest | EntryName::End => return Ok(()),
            EntryName::Part(_, number) if number > 0 => return Ok(()),
            EntryName::Part(tree, _) => {
                self.into = Some(Destination::Tree(self.unpack(tree)?));
                return Ok(());
            }
            EntryName::Database => self.dir.join(crate::boot::DATABASE),
            EntryName::Key(key) => self.dir.join(key.name()),
            EntryName::Setting(file) => {
                self.has_configuration = true;
                self.dir.join(CONFIGURATION).join(file.name())
            }
        };
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(RestoreError::io(format!("write {}", path.display())))?;
        self.into = Some(Destination::File(file));
        Ok(())
    }

    fn content(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        match self.into.take() {
            Some(Destination::File(mut file)) => {
                file.write_all(bytes).map_err(RestoreError::io("write the backup"))?;
                self.into = Some(Destination::File(file));
                Ok(())
            }
            Some(Destination::Tree(mut unpacking)) => {
                if unpacking.pipe.write_all(bytes).is_err() {
                    // The thread ended before the files did: its error says why.
                    let tree = unpacking.tree;
                    unpacking.finish()?;
                    return Err(RestoreError::damaged(format!(
                        "more than the files of {} follow",
                        tree.id()
                    )));
                }
                self.into = Some(Destination::Tree(unpacking));
                Ok(())
            }
            None => Err(RestoreError::damaged("content belongs to no entry")),
        }
    }

    fn unpack(&self, tree: Tree) -> Result<Unpacking, RestoreError> {
        let start = || RestoreError::io("start to unpack files");
        let (reader, pipe) = io::pipe().map_err(start())?;
        let (trees, dir) = (self.trees.clone(), self.dir.clone());
        let work = move || {
            let mut check_room = |_: u64| match statvfs(&dir) {
                Ok(disk) if disk.blocks_available() * disk.fragment_size() < RESTORE_FREE_MIN_BYTES => {
                    Err(DriverError::DiskFull)
                }
                Ok(_) | Err(_) => Ok(()),
            };
            match tree {
                Tree::Sandbox(id) => trees.add_workspace(&id, reader, &mut check_room),
                Tree::Snapshot(id) => trees.add_snapshot(&id, reader, &mut check_room),
            }
        };
        let thread = thread::Builder::new().name("unpack".to_owned()).spawn(work).map_err(start())?;
        Ok(Unpacking { tree, pipe, thread })
    }
}

impl Unpacking {
    fn finish(self) -> Result<(), RestoreError> {
        let Self { tree, pipe, thread } = self;
        drop(pipe);
        let unpacked = thread.join().unwrap_or_else(|_| {
            Err(DriverError::Failed {
                message: "the thread that unpacks panicked".to_owned(),
                output: Vec::new(),
            })
        });
        unpacked.map_err(|error| RestoreError::files(tree.id().to_owned(), error))
    }
}

/// Removes the directory of the configuration where a backup had none.
pub fn remove_empty_configuration(dir: &Path) -> io::Result<()> {
    fs::remove_dir(dir.join(CONFIGURATION))
}
