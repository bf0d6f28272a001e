//! The images of this host, by name and by reference.

use super::{
    HostRootfs, RootTree, Rootfs,
    import_tree::{ImageBuilder, Imported, import_tree},
    layer_store::{LayerHold, LayerStore},
    mount_points, pin,
    record::{ImageRecord, LayeredImage},
    volumes,
};
use crate::{
    DriverError,
    local::{
        files::{self, failed},
        layout::{Layout, SandboxDir},
        limits::{IMAGE_NAME_MAX_BYTES, IMAGE_RECORD_MAX_BYTES},
        remove_tree,
        trash::NewEntry,
    },
};
use hostd_images::{Digest, IMAGE_REFERENCE_MAX_BYTES, ImageReference, LayerStack};
use protocol::AGENTS_DIR;
use std::{
    fs::File,
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

#[derive(Clone)]
pub struct ImageStore {
    pub(super) layout: Layout,
    host: Rootfs,
    /// Directory of coding agents, bound into every image.
    agents: Option<PathBuf>,
    pub(super) layers: LayerStore,
    /// Held while records of images and sandboxes change, and while layers are collected.
    changes: Arc<Mutex<()>>,
}

/// The image that always exists.
pub const HOST: &str = "host";
/// Images that `scripts/build-image` builds. No registry is asked for them: a stranger may have one of the same name.
const BUILT_HERE: [&str; 3] = ["standard", "minimal", "interpreter"];
/// The file beside an image that describes it.
const RECORD: &str = "image.json";

impl ImageStore {
    pub fn open(layout: &Layout, host: &HostRootfs, agents: Option<PathBuf>) -> Result<Self, DriverError> {
        for (path, mode) in [
            (layout.images(), 0o711),
            (layout.pulled_images(), 0o700),
            (layout.blobs(), 0o700),
            (layout.merge_at(), 0o711),
        ] {
            files::make_dir(&path, mode).map_err(failed("make the image directory"))?;
        }
        let host = host.build(&layout.images().join(HOST)).map_err(failed("make the image of the host"))?;
        let layers = LayerStore::open(layout.layers(), layout.trash()).map_err(failed("open the layers"))?;
        Ok(Self { layout: layout.clone(), host, agents, layers, changes: Arc::default() })
    }

    /// Finds an image by its name; one that was pulled is found by `find_pulled`.
    pub fn find(&self, name: &str) -> Result<Rootfs, DriverError> {
        if name == HOST {
            return Ok(self.with_agents(self.host.clone()));
        }
        let missing = || DriverError::ImageMissing { name: name.to_owned(), why: None };
        let dir = self.image_dir(name).map_err(|_| missing())?;
        let path = dir.join("rootfs");
        if path.is_dir() {
            return Ok(self.with_agents(Rootfs::directory(path, vec![])));
        }
        let record = read_record(&dir).ok_or_else(missing)?;
        self.rootfs(&record).ok_or_else(missing)
    }

    /// Whether the store has an image of this name; otherwise it may be a reference.
    pub fn has(&self, name: &str) -> bool {
        let is_stored = |dir: PathBuf| dir.join("rootfs").is_dir() || dir.join(RECORD).is_file();
        name == HOST || self.image_dir(name).is_ok_and(is_stored)
    }

    /// Returns the record of an image, by its name or the reference that it was pulled by.
    pub fn record(&self, name: &str) -> Option<ImageRecord> {
        let named = self.image_dir(name).ok().and_then(|dir| read_record(&dir));
        named.or_else(|| self.find_pulled(&ImageReference::parse(name).ok()?))
    }

    /// Returns an image that was pulled by this reference.
    pub fn find_pulled(&self, reference: &ImageReference) -> Option<ImageRecord> {
        read_record(&self.pulled_dir(reference.full()))
    }

    /// Returns the root file system of an image with layers, if it has any.
    pub fn rootfs(&self, record: &ImageRecord) -> Option<Rootfs> {
        let LayeredImage { config, layers, has_skeleton, takes_agents, .. } = record.layered.as_ref()?;
        let stack = LayerStack { layers: layers.iter().map(|layer| self.layers.tree(layer)).collect() };
        let agents = self.agents().filter(|_| *takes_agents);
        Some(Rootfs {
            tree: RootTree::Layers { stack, merge_at: self.layout.merge_at(), has_skeleton: *has_skeleton },
            binds: agents.into_iter().collect(),
            variables: config.env.clone(),
            // They were valid when the image was made.
            volumes: volumes::of_config(config).unwrap_or_default(),
        })
    }

    /// A tag that changes when the image of this name is replaced.
    pub fn version_tag(&self, name: &str) -> Result<String, DriverError> {
        if name == HOST {
            return Ok(match &self.host.tree {
                RootTree::Directory(path) => {
                    let made = path.parent().and_then(Path::file_name).unwrap_or_default();
                    made.to_string_lossy().into_owned()
                }
                RootTree::Layers { .. } => String::new(),
            });
        }
        let message = || format!("image.json of the image {name} cannot be read");
        let record = read_record(&self.image_dir(name)?);
        record
            .map(|record| format!("{:x}", record.created_ms))
            .ok_or_else(|| DriverError::Damaged { message: message() })
    }

    /// The directory of coding agents, if it exists and every user can read it.
    pub fn agents(&self) -> Option<(PathBuf, PathBuf)> {
        let agents = self.agents.as_deref().filter(|dir| is_world_readable(dir))?;
        Some((agents.to_owned(), PathBuf::from(AGENTS_DIR)))
    }

    /// Adds the agents to an image in a directory, unless it has something else at that path.
    fn with_agents(&self, mut rootfs: Rootfs) -> Rootfs {
        let (Some((agents, inside)), RootTree::Directory(root)) = (self.agents(), &rootfs.tree) else {
            return rootfs;
        };
        let bound = rootfs.binds.iter().any(|(_, to)| inside.starts_with(to));
        let mount_point = if bound {
            // Below a directory of the host, where nothing may be created.
            std::fs::symlink_metadata(&inside).and_then(|meta| {
                if meta.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
            })
        } else {
            mount_points::make_directory(root, AGENTS_DIR)
        };
        match mount_point {
            Ok(()) => rootfs.binds.push((agents, inside)),
            Err(error) => {
                tracing::warn!(image = %root.display(), %error, "image has no mount point for agents");
            }
        }
        rootfs
    }

    /// Imports an OCI image layout or an archive of one, an archive of `docker save`, a root directory or a tarball of
    /// one. Archives may be compressed with gzip or zstd. Blocks.
    pub fn import(&self, name: &str, source: &Path) -> Result<ImageRecord, DriverError> {
        let dir = self.check_new(name)?;
        let entry = NewEntry::reserve(&self.layout.trash(), "image");
        let temporary = entry.path();
        let made = self.fill(name, source, temporary).and_then(|(record, _hold)| {
            let _changes = self.lock();
            std::fs::rename(temporary, &dir).map_err(failed(format!("store the image {name}")))?;
            Ok(record)
        });
        if made.is_err() {
            let _ = remove_tree::remove_tree(temporary);
        }
        made
    }

    /// Returns the directory of an image that does not exist yet.
    pub fn check_new(&self, name: &str) -> Result<PathBuf, DriverError> {
        let dir = self.image_dir(name)?;
        if dir.exists() {
            return Err(refused(format!("there is an image {name} already: remove it first")));
        }
        Ok(dir)
    }

    /// Fills the directory of an image. Its layers are held until it is in its place.
    fn fill(
        &self,
        name: &str,
        source: &Path,
        temporary: &Path,
    ) -> Result<(ImageRecord, Option<LayerHold>), DriverError> {
        let rootfs = temporary.join("rootfs");
        let made = files::make_dir(temporary, 0o711).and_then(|()| files::make_dir(&rootfs, 0o755));
        made.map_err(failed("make the image directory"))?;
        std::fs::metadata(source)
            .map_err(|error| refused(format!("{} cannot be read: {error}", source.display())))?;
        let imported = import_tree(source, &rootfs, temporary, &self.builder())
            .map_err(|error| import_error(source, &error))?;
        let (size_bytes, layered, hold) = match imported {
            Imported::Tree(size_bytes) => {
                mount_points::make_all(&rootfs)
                    .map_err(|error| refused(format!("the image has no usable mount point: {error}")))?;
                mount_points::add_hosts(&rootfs).map_err(failed("write /etc/hosts"))?;
                mount_points::add_workspace_link(&rootfs).map_err(failed("link /workspace"))?;
                (size_bytes, None, None)
            }
            Imported::Layers(built) => {
                std::fs::remove_dir(&rootfs).map_err(failed("remove an empty directory"))?;
                (built.size_bytes, Some(built.layered), Some(built.hold))
            }
        };
        let name = name.to_owned();
        let record = ImageRecord { name, created_ms: now_ms(), size_bytes, layered, pulled: None };
        write_record(temporary, &record)?;
        Ok((record, hold))
    }

    /// Adds an image that was pulled. One by its reference replaces that of an earlier pull; one with a name of its own
    /// must be new. The caller holds its layers.
    pub fn add_pulled(&self, record: &ImageRecord) -> Result<(), DriverError> {
        let _changes = self.lock();
        let dir = match record.is_by_reference() {
            true => self.pulled_dir(&record.name),
            false => self.check_new(&record.name)?,
        };
        files::make_dir(&dir, 0o711).map_err(failed("make the image directory"))?;
        write_record(&dir, record)?;
        let parent = dir.parent().unwrap_or(&dir);
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed("sync the images"))
    }

    pub(super) fn builder(&self) -> ImageBuilder<'_> {
        ImageBuilder { layers: &self.layers, merge_at: self.layout.merge_at() }
    }

    /// Keeps the image of a sandbox: its layers stay as long as the sandbox does.
    pub fn pin(&self, dir: &SandboxDir, record: &ImageRecord) -> Result<(), DriverError> {
        let _changes = self.lock();
        let gone = |layer: &&Digest| self.layers.find(layer).is_none();
        if record.layered.iter().flat_map(|layered| &layered.layers).any(|layer| gone(&layer)) {
            let why = Some("it was removed meanwhile: try again".to_owned());
            return Err(DriverError::ImageMissing { name: record.name.clone(), why });
        }
        pin::write(dir, record).map_err(failed("keep the image of the sandbox"))?;
        self.note_use(record);
        Ok(())
    }

    /// Returns the image that a sandbox was launched with.
    pub fn pinned(&self, dir: &SandboxDir, image: &str) -> Option<ImageRecord> {
        pin::read(dir, image)
    }

    /// Records that an image was used, in the time of its file.
    fn note_use(&self, record: &ImageRecord) {
        let path = self.record_dir(record).join(RECORD);
        if let Err(error) = File::open(path).and_then(|file| file.set_modified(SystemTime::now())) {
            tracing::debug!(image = record.name, %error, "failed to record the use of an image");
        }
    }

    /// Returns when an image was used last, or made.
    pub fn used_ms(&self, record: &ImageRecord) -> u64 {
        let modified =
            std::fs::metadata(self.record_dir(record).join(RECORD)).and_then(|meta| meta.modified());
        let age = modified.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        age.map_or(record.created_ms, |time| time.as_millis() as u64)
    }

    /// Returns all images but `host`, by name.
    pub fn list(&self) -> Result<Vec<ImageRecord>, DriverError> {
        let mut found = vec![];
        for dir in [self.layout.images(), self.layout.pulled_images()] {
            for entry in std::fs::read_dir(dir).map_err(failed("list images"))? {
                found.extend(read_record(&entry.map_err(failed("list images"))?.path()));
            }
        }
        found.sort_by(|a: &ImageRecord, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Removes an image, by name or reference. The caller has checked that no sandbox uses it. Its layers go with the
    /// next collection.
    pub fn remove(&self, name: &str) -> Result<(), DriverError> {
        let missing = || DriverError::ImageMissing { name: name.to_owned(), why: None };
        let dir = match self.image_dir(name) {
            Ok(dir) if dir.exists() => dir,
            Ok(_) | Err(_) => self.pulled_dir(ImageReference::parse(name).map_err(|_| missing())?.full()),
        };
        let gone = {
            let _changes = self.lock();
            remove_tree::move_to_trash(&dir, &self.layout.trash()).map_err(failed("remove the image"))?
        };
        remove_tree::remove_tree(&gone.ok_or_else(missing)?).map_err(failed("remove the image"))
    }

    /// Returns the image of sandboxes that name none, if the operator chose one.
    pub fn default_image(&self) -> Option<String> {
        files::read_text(&self.layout.default_image(), IMAGE_REFERENCE_MAX_BYTES as u64).ok()
    }

    /// Chooses the image of sandboxes that name none; `None` leaves it to the configuration.
    pub fn set_default_image(&self, name: Option<&str>) -> Result<(), DriverError> {
        let path = self.layout.default_image();
        let written = match name {
            Some(name) => files::replace(&path, name.as_bytes(), 0o600).and_then(|file| file.sync_all()),
            None => files::remove_file(&path),
        };
        written.map_err(failed("choose the default image"))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record_dir(&self, record: &ImageRecord) -> PathBuf {
        let named = self.image_dir(&record.name).ok().filter(|_| !record.is_by_reference());
        named.unwrap_or_else(|| self.pulled_dir(&record.name))
    }

    fn pulled_dir(&self, reference: &str) -> PathBuf {
        self.layout.pulled_images().join(Digest::of(reference.as_bytes()).hex())
    }

    fn image_dir(&self, name: &str) -> Result<PathBuf, DriverError> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
        let begins_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !begins_well || name.len() > IMAGE_NAME_MAX_BYTES || !name.bytes().all(plain) || name == HOST {
            let must =
                format!("1 to {IMAGE_NAME_MAX_BYTES} of a-z 0-9 . _ -, beginning with a letter or digit");
            return Err(refused(format!(
                "{name:?} is not a valid image name: it must be {must}, and not \"host\""
            )));
        }
        Ok(self.layout.images().join(name))
    }
}

/// Parses the name of an image that the store does not have, as a reference to a registry.
pub fn parse_reference(name: &str) -> Result<ImageReference, DriverError> {
    if BUILT_HERE.contains(&name) {
        let why = format!(
            "build it with scripts/build-image {name}, then `slipway image import {name} target/images/{name}`"
        );
        return Err(DriverError::ImageMissing { name: name.to_owned(), why: Some(why) });
    }
    ImageReference::parse(name).map_err(|why| refused(format!("{name:?} is not a valid image name: {why}")))
}

pub(super) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

fn read_record(dir: &Path) -> Option<ImageRecord> {
    let text = files::read(&dir.join(RECORD), IMAGE_RECORD_MAX_BYTES).ok()?;
    serde_json::from_slice(&text).ok()
}

fn write_record(dir: &Path, record: &ImageRecord) -> Result<(), DriverError> {
    let text = serde_json::to_vec(record).map_err(io::Error::from);
    let written = text.and_then(|text| files::replace(&dir.join(RECORD), &text, 0o644));
    written.and_then(|file| file.sync_all()).map_err(failed("describe the image"))
}

/// Whether every user can read the directory. Binding one that is not readable would fail every launch.
fn is_world_readable(dir: &Path) -> bool {
    std::fs::metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.permissions().mode() & 0o005 == 0o005)
}

pub(super) fn refused(message: String) -> DriverError {
    DriverError::Refused { field: "image", message, supported: vec![] }
}

fn import_error(source: &Path, error: &io::Error) -> DriverError {
    if error.kind() == io::ErrorKind::StorageFull {
        return DriverError::DiskFull;
    }
    refused(format!("{} could not be imported: {error}", source.display()))
}

#[cfg(test)]
mod tests;
