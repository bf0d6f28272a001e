//! The image that a sandbox was launched with, kept beside it: later launches use the same layers, also after the tag was
//! pulled again, and need no registry.

use super::record::ImageRecord;
use crate::local::{
    files,
    layout::{Layout, SandboxDir},
    limits::IMAGE_RECORD_MAX_BYTES,
};
use hostd_images::ImageReference;
use std::{fs, io};

/// Reads the image that a sandbox was launched with, unless it wants another one by now.
pub fn read(dir: &SandboxDir, image: &str) -> Option<ImageRecord> {
    let text = files::read(&dir.image(), IMAGE_RECORD_MAX_BYTES).ok()?;
    let record: ImageRecord = serde_json::from_slice(&text).ok()?;
    let is_same = record.name == image
        || ImageReference::parse(image).is_ok_and(|reference| reference.full() == record.name);
    is_same.then_some(record)
}

/// Keeps the image of a sandbox. The directory of the sandbox exists.
pub fn write(dir: &SandboxDir, record: &ImageRecord) -> io::Result<()> {
    files::replace(&dir.image(), &serde_json::to_vec(record)?, 0o600)?.sync_all()
}

/// Returns the images of all sandboxes of this host, also of those that do not run.
pub fn all(layout: &Layout) -> io::Result<Vec<ImageRecord>> {
    let sandboxes = match fs::read_dir(layout.pinning_sandboxes()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        listed => listed?,
    };
    let mut records = Vec::new();
    for entry in sandboxes {
        match files::read(&entry?.path().join(SandboxDir::IMAGE), IMAGE_RECORD_MAX_BYTES) {
            Ok(text) => records.push(serde_json::from_slice(&text)?),
            Err(error) if is_absent(&error) => {}
            // Its layers are unknown: nothing may be collected.
            Err(error) => return Err(error),
        }
    }
    Ok(records)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
