//! Opens an archive or a directory, and finds out what it is.

use super::{
    ArchiveError, LayeredArchive,
    blobs::Blobs,
    docker_archive::{self, SavedImage},
    layered::ArchivedImage,
    oci_layout::{self, INDEX_FILE, LAYOUT_FILE},
    tar_index::TarIndex,
};
use crate::{
    compression::{Compression, MAGIC_BYTES, decompress},
    limits::ARCHIVE_MAX_BYTES,
    tar_reader::TarReader,
};
use rustix::fs::{Mode, OFlags, open};
use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// What a file or directory holds.
#[derive(Debug)]
pub enum ImageArchive {
    /// An image with layers and a configuration.
    Layered(Box<LayeredArchive>),
    /// A tar archive of a root file system, plain or compressed.
    Rootfs(PathBuf),
    /// The directory of a root file system.
    Directory(PathBuf),
}

impl ImageArchive {
    /// Opens an image. In a layout or archive with several images, `tag` says which. A compressed archive of layers is
    /// decompressed into a file below `scratch` that has no name and goes with the result.
    pub fn open(path: &Path, tag: Option<&str>, scratch: &Path) -> Result<Self, ArchiveError> {
        let failed = || ArchiveError::read(path.display().to_string());
        let meta = std::fs::metadata(path).map_err(failed())?;
        if meta.is_dir() {
            return open_directory(path, tag);
        }
        if !meta.is_file() {
            return Err(ArchiveError::NotAFile);
        }
        let file = File::open(path).map_err(failed())?;
        let (file, index) = match index(file, scratch)? {
            Some(found) => found,
            None => return Ok(Self::Rootfs(path.to_owned())),
        };
        let blobs = Blobs::Tar { file: Arc::new(file), index };
        Ok(match open_image(&blobs, tag)? {
            Some(image) => Self::Layered(Box::new(LayeredArchive { blobs, image })),
            None => Self::Rootfs(path.to_owned()),
        })
    }
}

fn open_directory(path: &Path, tag: Option<&str>) -> Result<ImageArchive, ArchiveError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(path, flags, Mode::empty())
        .map_err(|error| ArchiveError::read(path.display().to_string())(error.into()))?;
    let blobs = Blobs::Directory(directory);
    if !(blobs.has(LAYOUT_FILE) && blobs.has(INDEX_FILE)) {
        return Ok(ImageArchive::Directory(path.to_owned()));
    }
    let image = oci_layout::open(&blobs, tag)?;
    Ok(ImageArchive::Layered(Box::new(LayeredArchive { blobs, image })))
}

/// Opens the image of an archive; nothing if it has none. The archives of newer Dockers are layouts too, which may lack
/// the parts of other platforms.
fn open_image(blobs: &Blobs, tag: Option<&str>) -> Result<Option<ArchivedImage>, ArchiveError> {
    let saved: Option<Vec<SavedImage>> = docker_archive::read_list(blobs);
    let is_layout = blobs.has(LAYOUT_FILE) && blobs.has(INDEX_FILE);
    match (is_layout, saved) {
        (false, None) => Ok(None),
        (false, Some(saved)) => docker_archive::open(blobs, saved, tag).map(Some),
        (true, None) => oci_layout::open(blobs, tag).map(Some),
        (true, Some(saved)) => match oci_layout::open(blobs, tag) {
            Err(ArchiveError::MissingBlob { .. } | ArchiveError::NoTag { .. }) => {
                docker_archive::open(blobs, saved, tag).map(Some)
            }
            result => result.map(Some),
        },
    }
}

/// Indexes an archive, decompressed first if it must be; nothing if it has no image with layers.
fn index(mut file: File, scratch: &Path) -> Result<Option<(File, TarIndex)>, ArchiveError> {
    let failed = || ArchiveError::read("the archive");
    let mut magic = Vec::with_capacity(MAGIC_BYTES);
    (&file).take(MAGIC_BYTES as u64).read_to_end(&mut magic).map_err(failed())?;
    file.rewind().map_err(failed())?;
    if Compression::of(&magic) == Compression::Plain {
        let Some(index) = TarIndex::scan(&mut TarReader::of_file(&file))? else { return Ok(None) };
        let bytes = file.metadata().map_err(failed())?.len();
        return match index.beyond(bytes) {
            Some(name) => {
                Err(ArchiveError::MissingBlob { name: format!("the end of {}", name.escape_ascii()) })
            }
            None => Ok(Some((file, index))),
        };
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let copy = open(scratch, flags, Mode::RUSR | Mode::WUSR).map_err(|error| failed()(error.into()))?;
    let mut copy = File::from(copy);
    let source = decompress(BufReader::new(file)).map_err(failed())?;
    let tee = Tee { source, copy: &mut copy, left_bytes: ARCHIVE_MAX_BYTES };
    let mut archive = TarReader::new(BufReader::with_capacity(256 << 10, tee));
    let Some(index) = TarIndex::scan(&mut archive)? else { return Ok(None) };
    archive.finish()?;
    Ok(Some((copy, index)))
}

/// Copies what is read.
struct Tee<'a, R> {
    source: R,
    copy: &'a mut File,
    left_bytes: u64,
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(buffer)?;
        let left = self.left_bytes.checked_sub(length as u64);
        self.left_bytes = left.ok_or_else(|| io::Error::other(ArchiveError::TooLarge))?;
        self.copy.write_all(&buffer[..length])?;
        Ok(length)
    }
}
