//! The image store: `<data>/images/<name>/rootfs`.

use super::{HostRootfs, import_tree::import_tree, mount_points};
use crate::{
    DriverError,
    local::{
        files::{self, failed},
        layout::Layout,
        limits::IMAGE_NAME_MAX_BYTES,
        remove_tree,
        trash::NewEntry,
    },
};
use protocol::AGENTS_DIR;
use serde::{Deserialize, Serialize};
use std::{
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// The root file system of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rootfs {
    pub path: PathBuf,
    /// Host directories to bind read-only: source and destination.
    pub binds: Vec<(PathBuf, PathBuf)>,
}

/// An imported image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRecord {
    pub name: String,
    pub created_ms: u64,
    pub size_bytes: u64,
}

#[derive(Clone)]
pub struct ImageStore {
    layout: Layout,
    host: Rootfs,
    /// Directory of coding agents, bound into every image.
    agents: Option<PathBuf>,
}

/// Size of `image.json`.
const ABOUT_MAX_BYTES: u64 = 4096;
/// The image that always exists.
pub const HOST: &str = "host";

impl ImageStore {
    pub fn open(layout: &Layout, host: &HostRootfs, agents: Option<PathBuf>) -> Result<Self, DriverError> {
        files::make_dir(&layout.images(), 0o711).map_err(failed("make the image directory"))?;
        let host = host.build(&layout.images().join(HOST)).map_err(failed("make the image of the host"))?;
        Ok(Self { layout: layout.clone(), host, agents })
    }

    pub fn find(&self, name: &str) -> Result<Rootfs, DriverError> {
        if name == HOST {
            return Ok(self.with_agents(self.host.clone()));
        }
        let missing = || DriverError::ImageMissing { name: name.to_owned(), why: None };
        let path = self.image_dir(name).map_err(|_| missing())?.join("rootfs");
        let found = path.is_dir().then(|| self.with_agents(Rootfs { path, binds: vec![] }));
        found.ok_or_else(missing)
    }

    /// Whether the store has this image; otherwise an engine may have it.
    pub fn has(&self, name: &str) -> bool {
        name == HOST || self.image_dir(name).is_ok_and(|dir| dir.join("rootfs").is_dir())
    }

    /// A tag that changes when the image of this name is replaced.
    pub fn version_tag(&self, name: &str) -> Result<String, DriverError> {
        if name == HOST {
            let made = self.host.path.parent().and_then(Path::file_name).unwrap_or_default();
            return Ok(made.to_string_lossy().into_owned());
        }
        let about = self.image_dir(name)?.join("image.json");
        let text = files::read(&about, ABOUT_MAX_BYTES)
            .map_err(failed(format!("read image.json of the image {name}")))?;
        let listed: ImageRecord = serde_json::from_slice(&text).map_err(|error| DriverError::Damaged {
            message: format!("image.json of the image {name} cannot be read: {error}"),
        })?;
        Ok(format!("{:x}", listed.created_ms))
    }

    /// The directory of coding agents, if it exists and every user can read it.
    pub fn agents(&self) -> Option<(PathBuf, PathBuf)> {
        let agents = self.agents.as_deref().filter(|dir| is_world_readable(dir))?;
        Some((agents.to_owned(), PathBuf::from(AGENTS_DIR)))
    }

    /// Adds the agents, unless the image has something else at that path.
    fn with_agents(&self, mut rootfs: Rootfs) -> Rootfs {
        let Some((agents, inside)) = self.agents() else { return rootfs };
        let bound = rootfs.binds.iter().any(|(_, to)| inside.starts_with(to));
        let mount_point = if bound {
            // Below a directory of the host, where nothing may be created.
            std::fs::symlink_metadata(&inside).and_then(|meta| {
                if meta.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
            })
        } else {
            mount_points::make_directory(&rootfs.path, AGENTS_DIR)
        };
        match mount_point {
            Ok(()) => rootfs.binds.push((agents, inside)),
            Err(error) => {
                tracing::warn!(image = %rootfs.path.display(), %error, "image has no mount point for agents");
            }
        }
        rootfs
    }

    /// Imports an OCI image layout or an archive of one, an archive of `docker save`, a root directory or a tarball of
    /// one. Archives may be compressed with gzip or zstd. Blocks.
    pub fn import(&self, name: &str, source: &Path) -> Result<ImageRecord, DriverError> {
        let dir = self.image_dir(name)?;
        if dir.exists() {
            return Err(refused(format!("there is an image {name} already: remove it first")));
        }
        let entry = NewEntry::reserve(&self.layout.trash(), "image");
        let temporary = entry.path();
        let made = self.fill(name, source, temporary).and_then(|listed| {
            std::fs::rename(temporary, &dir).map_err(failed(format!("store the image {name}")))?;
            Ok(listed)
        });
        if made.is_err() {
            let _ = remove_tree::remove_tree(temporary);
        }
        made
    }

    fn fill(&self, name: &str, source: &Path, temporary: &Path) -> Result<ImageRecord, DriverError> {
        let rootfs = temporary.join("rootfs");
        let made = files::make_dir(temporary, 0o711).and_then(|()| files::make_dir(&rootfs, 0o755));
        made.map_err(failed("make the image directory"))?;
        std::fs::metadata(source)
            .map_err(|error| refused(format!("{} cannot be read: {error}", source.display())))?;
        let size_bytes =
            import_tree(source, &rootfs, temporary).map_err(|error| import_error(source, &error))?;
        mount_points::make_all(&rootfs)
            .map_err(|error| refused(format!("the image has no usable mount point: {error}")))?;
        mount_points::add_hosts(&rootfs).map_err(failed("write /etc/hosts"))?;
        let created_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let listed = ImageRecord { name: name.to_owned(), created_ms, size_bytes };
        let text = serde_json::to_vec(&listed).map_err(io::Error::from);
        text.and_then(|text| files::replace(&temporary.join("image.json"), &text, 0o644))
            .map_err(failed("describe the image"))?;
        Ok(listed)
    }

    pub fn list(&self) -> Result<Vec<ImageRecord>, DriverError> {
        let mut found = vec![];
        for entry in std::fs::read_dir(self.layout.images()).map_err(failed("list images"))? {
            let path = entry.map_err(failed("list images"))?.path().join("image.json");
            let listed =
                files::read(&path, ABOUT_MAX_BYTES).ok().and_then(|text| serde_json::from_slice(&text).ok());
            found.extend(listed);
        }
        found.sort_by(|a: &ImageRecord, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Removes an image. The caller has checked that no sandbox uses it.
    pub fn remove(&self, name: &str) -> Result<(), DriverError> {
        let dir = self.image_dir(name)?;
        let gone =
            remove_tree::move_to_trash(&dir, &self.layout.trash()).map_err(failed("remove the image"))?;
        let gone = gone.ok_or_else(|| DriverError::ImageMissing { name: name.to_owned(), why: None })?;
        remove_tree::remove_tree(&gone).map_err(failed("remove the image"))
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

/// Whether every user can read the directory. Binding one that is not readable would fail every launch.
fn is_world_readable(dir: &Path) -> bool {
    std::fs::metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.permissions().mode() & 0o005 == 0o005)
}

fn refused(message: String) -> DriverError {
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
