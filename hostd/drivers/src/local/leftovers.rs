//! What sandboxes of a local driver left in the data directory. Lists names only; nothing is judged or measured here.
//!
//! **Invariant:** a sandbox directory whose badge fails a check is not listed: it is a suspect, and never touched. Nor
//! is an entry of the trash that this process fills.

use super::{
    disk_usage, files::failed, layout::Layout, local_driver::LocalDriver, quota, remove_tree, trash,
};
use crate::{DriverError, Leftover};
use protocol::api::{LeftoverKind, SandboxId};
use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

const VOLUME_SUFFIX: &str = ".ext4";

/// Lists what any local driver may leave.
pub fn list(driver: &impl LocalDriver) -> Result<Vec<Leftover>, DriverError> {
    let layout = driver.layout();
    let list = || failed("list what sandboxes left");
    let mut found = vec![];
    for name in trash_names(&layout.trash()).map_err(list())? {
        let thrown_ms = thrown_ms(&name);
        found.push(Leftover { kind: LeftoverKind::Trash, name, sandbox: None, thrown_ms });
    }
    for id in ids(&layout.sandboxes()).map_err(list())? {
        if driver.signer().read(&driver.dir(&id), &id).is_ok() {
            found.push(of(LeftoverKind::SandboxDirectory, id));
        }
    }
    let mut workspaces = ids(&layout.workspaces()).map_err(list())?;
    workspaces.extend(ids(&layout.volumes()).map_err(list())?);
    found.extend(workspaces.into_iter().map(|id| of(LeftoverKind::Workspace, id)));
    Ok(found)
}

pub fn of(kind: LeftoverKind, sandbox: SandboxId) -> Leftover {
    Leftover { kind, name: sandbox.to_string(), sandbox: Some(sandbox), thrown_ms: None }
}

/// The space that a leftover takes.
pub fn bytes(driver: &impl LocalDriver, leftover: &Leftover) -> Result<u64, DriverError> {
    let measure = || failed("measure what a sandbox left");
    let layout = driver.layout();
    let path = match (leftover.kind, &leftover.sandbox) {
        (LeftoverKind::Trash, _) => trash_path(layout, &leftover.name).map_err(measure())?,
        (LeftoverKind::Workspace, Some(id)) => {
            return Ok(driver.workspaces().bytes(id).map_err(measure())?.unwrap_or(0));
        }
        (LeftoverKind::SandboxDirectory, Some(id)) => layout.sandbox(id).path().to_owned(),
        (LeftoverKind::RuntimeState, Some(id)) => layout.state(id),
        (LeftoverKind::ControlGroup, _) | (_, None) => return Ok(0),
    };
    Ok(disk_usage::tree_bytes(&path).map_err(measure())?.unwrap_or(0))
}

/// Removes an entry of the trash.
pub fn remove_trash(layout: &Layout, name: &str) -> Result<(), DriverError> {
    let remove = || failed("empty the trash");
    let path = trash_path(layout, name).map_err(remove())?;
    // The probe of a hostd that was killed may have left a mount.
    quota::detach(&path.join(quota::PROBE_MOUNT)).map_err(remove())?;
    remove_tree::remove_tree(&path).map_err(remove())
}

/// A name in the trash is one component.
fn trash_path(layout: &Layout, name: &str) -> io::Result<PathBuf> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(layout.trash().join(name))
}

/// The entries of the trash that this process does not fill.
fn trash_names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = names(dir)?;
    names.retain(|name| !trash::is_filled(&dir.join(name)));
    Ok(names)
}

/// The time in the name of an entry: `<name>-<ulid>`, with the suffix of a volume perhaps.
fn thrown_ms(name: &str) -> Option<u64> {
    let (_, ulid) = name.strip_suffix(VOLUME_SUFFIX).unwrap_or(name).rsplit_once('-')?;
    ulid::Ulid::from_string(ulid).ok().map(|ulid| ulid.timestamp_ms())
}

/// The ids among the names in a directory.
pub fn ids(dir: &Path) -> io::Result<BTreeSet<SandboxId>> {
    let id = |name: String| name.strip_suffix(VOLUME_SUFFIX).unwrap_or(&name).parse().ok();
    Ok(names(dir)?.into_iter().filter_map(id).collect())
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(error),
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_trash_is_in_its_name() {
        let ulid = ulid::Ulid::from_parts(1_234_567, 9).to_string().to_ascii_lowercase();
        let id = "01jb9xyzabcdefghjkmnpqrstv";
        for name in [format!("{id}-{ulid}"), format!("new-{ulid}.ext4"), format!("new-{ulid}")] {
            assert_eq!(thrown_ms(&name), Some(1_234_567), "{name}");
        }
        for name in [id, "", "new-", "new-x"] {
            assert_eq!(thrown_ms(name), None, "{name}");
        }
    }

    #[test]
    fn trash_that_this_process_fills_is_not_listed_however_old_it_looks() {
        let dir = tempfile::tempdir().expect("a directory");
        let old = ulid::Ulid::from_parts(1, 9);
        let entry = trash::NewEntry::reserve(dir.path(), "new");
        let volume = entry.path().with_extension("ext4");
        for path in [entry.path(), &volume, &dir.path().join(format!("new-{old}"))] {
            std::fs::write(path, "").expect("written");
        }
        assert_eq!(trash_names(dir.path()).expect("a list"), [format!("new-{old}")]);
        drop(entry);
        assert_eq!(trash_names(dir.path()).expect("a list").len(), 3);
    }

    #[test]
    fn no_name_leads_out_of_the_trash() {
        let layout = Layout::new("/data".into(), "oci");
        for name in ["", ".", "..", "../oci", "a/b", "/etc"] {
            assert!(trash_path(&layout, name).is_err(), "{name}");
        }
        assert_eq!(trash_path(&layout, "a-b").expect("good"), Path::new("/data/trash/a-b"));
    }
}
