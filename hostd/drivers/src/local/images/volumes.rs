//! The volumes of an image: paths that it wants to be writable. They become tmpfs mounts, whatever the driver.

use crate::local::container_paths::{OUR_MOUNTS, TMPFS_MOUNTS, is_below};
use hostd_images::ImageConfig;

/// Mounted by the kernel or the engine; no volume may overlap them.
const KERNEL_PATHS: [&str; 3] = ["/proc", "/sys", "/dev"];
pub const VOLUME_PATH_MAX_BYTES: usize = 1024;

/// Returns the volumes of an image; the error says why the image cannot be used.
pub fn of_config(config: &ImageConfig) -> Result<Vec<String>, String> {
    normalized(config.volumes.iter().map(String::as_str))
}

/// Normalizes paths of volumes, without those that are tmpfs mounts already.
pub fn normalized<'a>(paths: impl Iterator<Item = &'a str>) -> Result<Vec<String>, String> {
    let mut volumes = paths.map(volume).collect::<Result<Vec<_>, _>>()?;
    volumes.retain(|path| !TMPFS_MOUNTS.contains(&path.as_str()));
    volumes.sort();
    volumes.dedup();
    Ok(volumes)
}

/// Normalizes the path of a volume and checks that it overlaps none of our mounts.
fn volume(path: &str) -> Result<String, String> {
    let strange = |c: char| c.is_control() || matches!(c, ':' | ',' | '\\');
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if !path.starts_with('/')
        || path.len() > VOLUME_PATH_MAX_BYTES
        || path.contains(strange)
        || parts.contains(&"..")
    {
        return Err(format!("its volume {path:?} is not a plain path"));
    }
    let path = format!("/{}", parts.join("/"));
    if TMPFS_MOUNTS.contains(&path.as_str()) {
        return Ok(path);
    }
    let meets = |own: &&str| path == *own || is_below(&path, own) || is_below(own, &path);
    match OUR_MOUNTS.into_iter().chain(KERNEL_PATHS).find(meets) {
        Some(own) => Err(format!("its volume {path} overlaps {own}")),
        None => Ok(path),
    }
}
