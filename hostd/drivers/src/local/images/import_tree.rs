//! Imports an image from files: a root directory, a tarball of one, or an image of layers.

use super::{
    layer_store::{LayerHold, LayerRecord, LayerStore, NewLayer},
    mount_points,
    record::LayeredImage,
};
use hostd_images::{
    Digest, ImageArchive, ImageConfig, LayerStack, LayeredArchive, TreeQuota, copy_tree,
    unpack_archive_within,
};
use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
};

/// Part of the name of the topmost layer: another one is made when mount points change.
const MOUNT_POINTS_VERSION: &str = "slipway mount points 2";

/// The tree of an imported image.
pub enum Imported {
    /// Written to the given directory: the bytes of its files.
    Tree(u64),
    /// Kept in the store of layers.
    Layers(Box<BuiltImage>),
}

/// An image whose layers are in the store.
pub struct BuiltImage {
    pub layered: LayeredImage,
    pub size_bytes: u64,
    /// Until the image is recorded.
    pub hold: LayerHold,
}

/// Fills `rootfs` with the tree of an image, or the store with its layers. `scratch` is a directory on the same file
/// system; what is left in it after an error is the caller's to remove.
pub fn import_tree(
    source: &Path,
    rootfs: &Path,
    scratch: &Path,
    builder: &ImageBuilder<'_>,
) -> io::Result<Imported> {
    match ImageArchive::open(source, None, scratch).map_err(|error| io::Error::other(chain(&error)))? {
        ImageArchive::Directory(dir) => copy_tree(&dir, rootfs).map(Imported::Tree),
        ImageArchive::Rootfs(file) => {
            unpack_archive_within(&file, rootfs, TreeQuota::of_image()).map(Imported::Tree)
        }
        ImageArchive::Layered(archive) => {
            import_layers(&archive, builder).map(|built| Imported::Layers(Box::new(built)))
        }
    }
}

fn import_layers(archive: &LayeredArchive, builder: &ImageBuilder<'_>) -> io::Result<BuiltImage> {
    let _hold = builder.layers.hold(archive.config().diff_ids.clone());
    let mut quota = TreeQuota::of_image();
    let mut new = Vec::new();
    for (number, digest) in archive.config().diff_ids.iter().enumerate() {
        if builder.layers.find(digest).is_none()
            && !new.iter().any(|layer: &NewLayer| layer.digest == *digest)
        {
            new.push(builder.layers.unpack(digest, archive.open_layer(number)?, &mut quota)?);
        }
    }
    builder.layers.add(&new)?;
    builder.build(archive.manifest_digest().clone(), archive.config().clone())
}

/// Makes an image of layers that are in the store. The caller holds them.
pub struct ImageBuilder<'a> {
    pub layers: &'a LayerStore,
    /// An existing directory over which trees are mounted, for one thread each.
    pub merge_at: PathBuf,
}

impl ImageBuilder<'_> {
    /// Completes an image: adds the layer with the mount points of a sandbox. Blocks.
    pub fn build(&self, digest: Digest, config: ImageConfig) -> io::Result<BuiltImage> {
        let volumes = super::volumes::of_config(&config).map_err(io::Error::other)?;
        let mut layers: Vec<Digest> = Vec::new();
        let mut size_bytes = 0_u64;
        for layer in &config.diff_ids {
            let missing = || io::Error::other(format!("its layer {layer} was removed meanwhile: try again"));
            let record = self.layers.find(layer).ok_or_else(missing)?;
            size_bytes = size_bytes.saturating_add(record.bytes);
            if record.is_root_opaque {
                layers.clear();
            }
            layers.insert(0, layer.clone());
        }
        let top = name_of_mount_points(&layers, &volumes);
        let hold = self.layers.hold(layers.iter().chain([&top]).cloned().collect());
        let mount_points::MountPointLayer { has_skeleton, takes_agents } =
            self.add_mount_points(&top, &layers, &volumes)?;
        layers.insert(0, top);
        let layered = LayeredImage { digest, config, layers, has_skeleton, takes_agents };
        Ok(BuiltImage { layered, size_bytes, hold })
    }

    fn add_mount_points(
        &self,
        name: &Digest,
        layers: &[Digest],
        volumes: &[String],
    ) -> io::Result<mount_points::MountPointLayer> {
        let stack = LayerStack { layers: layers.iter().map(|layer| self.layers.tree(layer)).collect() };
        let mut points = None;
        let layer = self.layers.write(name, |tree| {
            let fill = |merged: &Path| mount_points::fill_layer(merged, tree, volumes);
            points = Some(stack.with_merged(&self.merge_at, fill)?);
            Ok(LayerRecord { bytes: 0, entries: 0, set_id_files: 0, is_root_opaque: false })
        })?;
        self.layers.add(&[layer])?;
        points.ok_or_else(|| io::Error::other("the mount points were not made"))
    }
}

/// Returns the name of the layer with mount points: the same for the same layers and volumes.
fn name_of_mount_points(layers: &[Digest], volumes: &[String]) -> Digest {
    let below = layers.iter().map(Digest::as_str).chain(volumes.iter().map(String::as_str));
    let parts: Vec<&str> = [MOUNT_POINTS_VERSION].into_iter().chain(below).collect();
    Digest::of(parts.join("\n").as_bytes())
}

/// Returns the text of an error and of everything that caused it.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
