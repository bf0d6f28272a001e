//! `<data>/images/<name>/rootfs`.

use super::{HostRoot, copy, points, unpack};
use crate::driver::{
    DriverError,
    oci::{
        files::{self, failed},
        layout::Layout,
        limits::IMAGE_NAME_MAX_BYTES,
        tree,
    },
};
use serde::{Deserialize, Serialize};
use std::{
    io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// What becomes the root of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rootfs {
    pub path: PathBuf,
    /// Directories of the host to be put into it, read-only: from, to.
    pub binds: Vec<(PathBuf, PathBuf)>,
}

/// An image as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub name: String,
    pub created_ms: u64,
    pub size_bytes: u64,
}

#[derive(Clone)]
pub struct Images {
    layout: Layout,
    host: Rootfs,
}

/// The image that is always there.
pub const HOST: &str = "host";

impl Images {
    pub fn open(layout: &Layout, host: &HostRoot) -> Result<Self, DriverError> {
        files::make_dir(&layout.images(), 0o711).map_err(failed("make the image directory"))?;
        let host = host.build(&layout.images().join(HOST)).map_err(failed("make the image of the host"))?;
        Ok(Self { layout: layout.clone(), host })
    }

    pub fn find(&self, name: &str) -> Result<Rootfs, DriverError> {
        if name == HOST {
            return Ok(self.host.clone());
        }
        let missing = || DriverError::ImageMissing { name: name.to_owned() };
        let path = self.place(name).map_err(|_| missing())?.join("rootfs");
        if path.is_dir() { Ok(Rootfs { path, binds: vec![] }) } else { Err(missing()) }
    }

    /// Takes in a directory, or a tar archive, plain or compressed with gzip. Blocks.
    pub fn import(&self, name: &str, source: &Path) -> Result<Listed, DriverError> {
        let place = self.place(name)?;
        if place.exists() {
            return Err(refused(format!("there is an image {name} already: remove it first")));
        }
        let temporary = self.layout.trash().join(format!("image-{}", ulid::Ulid::generate()));
        let made = self.fill(name, source, &temporary).and_then(|listed| {
            std::fs::rename(&temporary, &place).map_err(failed(format!("keep the image {name}")))?;
            Ok(listed)
        });
        if made.is_err() {
            let _ = tree::remove(&temporary);
        }
        made
    }

    fn fill(&self, name: &str, source: &Path, temporary: &Path) -> Result<Listed, DriverError> {
        let rootfs = temporary.join("rootfs");
        let made = files::make_dir(temporary, 0o711).and_then(|()| files::make_dir(&rootfs, 0o755));
        made.map_err(failed("make the image directory"))?;
        let what = std::fs::metadata(source)
            .map_err(|error| refused(format!("{} cannot be read: {error}", source.display())))?;
        let size_bytes =
            if what.is_dir() { copy::directory(source, &rootfs) } else { unpack::archive(source, &rootfs) };
        let size_bytes = size_bytes.map_err(|error| taken_in(source, &error))?;
        points::make(&rootfs)
            .map_err(|error| refused(format!("the image has no place to mount: {error}")))?;
        let created_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let listed = Listed { name: name.to_owned(), created_ms, size_bytes };
        let text = serde_json::to_vec(&listed).map_err(io::Error::from);
        text.and_then(|text| files::replace(&temporary.join("image.json"), &text, 0o644))
            .map_err(failed("describe the image"))?;
        Ok(listed)
    }

    pub fn list(&self) -> Result<Vec<Listed>, DriverError> {
        let mut found = vec![];
        for entry in std::fs::read_dir(self.layout.images()).map_err(failed("list images"))? {
            let path = entry.map_err(failed("list images"))?.path().join("image.json");
            let listed = files::read(&path, 4096).ok().and_then(|text| serde_json::from_slice(&text).ok());
            found.extend(listed);
        }
        found.sort_by(|a: &Listed, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Whoever calls this has seen that no sandbox is made of it.
    pub fn remove(&self, name: &str) -> Result<(), DriverError> {
        let place = self.place(name)?;
        let gone = tree::discard(&place, &self.layout.trash()).map_err(failed("remove the image"))?;
        let gone = gone.ok_or_else(|| DriverError::ImageMissing { name: name.to_owned() })?;
        tree::remove(&gone).map_err(failed("remove the image"))
    }

    fn place(&self, name: &str) -> Result<PathBuf, DriverError> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
        let begins_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !begins_well || name.len() > IMAGE_NAME_MAX_BYTES || !name.bytes().all(plain) || name == HOST {
            let must =
                format!("1 to {IMAGE_NAME_MAX_BYTES} of a-z 0-9 . _ -, beginning with a letter or digit");
            return Err(refused(format!(
                "{name:?} is no name for an image: it must be {must}, and not \"host\""
            )));
        }
        Ok(self.layout.images().join(name))
    }
}

fn refused(message: String) -> DriverError {
    DriverError::Refused { field: "image", message, supported: vec![] }
}

fn taken_in(source: &Path, error: &io::Error) -> DriverError {
    match error.kind() {
        io::ErrorKind::StorageFull => DriverError::DiskFull,
        _ => refused(format!("{} could not be taken in: {error}", source.display())),
    }
}

#[cfg(test)]
mod tests;
