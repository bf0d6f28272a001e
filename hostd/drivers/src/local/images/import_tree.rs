//! Imports the tree of an image: a root directory, a tarball of one, or an image of layers, whose layers become one tree.

use hostd_images::{
    ImageArchive, LayerStack, LayeredArchive, TreeQuota, copy_tree, copy_tree_within, unpack_archive_within,
    unpack_layer,
};
use std::{error::Error, fs, io, path::Path};

/// On top of the layers: an overlay has two at least.
const EMPTY_LAYER: &str = "empty";

/// Fills `rootfs` with the tree of an image and returns its size in bytes. `scratch` is a directory on the same file
/// system; what is left in it after an error is the caller's to remove.
pub fn import_tree(source: &Path, rootfs: &Path, scratch: &Path) -> io::Result<u64> {
    match ImageArchive::open(source, None, scratch).map_err(|error| io::Error::other(chain(&error)))? {
        ImageArchive::Directory(dir) => copy_tree(&dir, rootfs),
        ImageArchive::Rootfs(file) => unpack_archive_within(&file, rootfs, TreeQuota::of_image()),
        ImageArchive::Layered(archive) => import_layers(&archive, rootfs, &scratch.join("layers")),
    }
}

/// Unpacks every layer by itself, and copies what the kernel makes of them: so whiteouts mean what they mean elsewhere.
fn import_layers(archive: &LayeredArchive, rootfs: &Path, layers: &Path) -> io::Result<u64> {
    fs::create_dir_all(layers.join(EMPTY_LAYER))?;
    let mut quota = TreeQuota::of_image();
    // Topmost first.
    let mut names = Vec::new();
    for (number, expected) in archive.config().diff_ids.iter().enumerate() {
        let name = number.to_string();
        fs::create_dir(layers.join(&name))?;
        let unpacked = unpack_layer(archive.open_layer(number)?, &layers.join(&name), &mut quota)?;
        if unpacked.diff_id != *expected {
            let found = unpacked.diff_id;
            return Err(io::Error::other(format!("its layer {expected} unpacks to {found}: it is damaged")));
        }
        if unpacked.is_root_opaque {
            names.clear();
        }
        names.insert(0, name);
    }
    names.insert(0, EMPTY_LAYER.to_owned());
    if names.len() == 1 {
        return Ok(0);
    }
    let stack = LayerStack { dir: layers.to_owned(), names };
    let bytes = stack.with_merged(|tree| copy_tree_within(tree, rootfs, TreeQuota::of_image()))?;
    fs::remove_dir_all(layers)?;
    Ok(bytes)
}

/// Returns the text of an error and of everything that caused it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
