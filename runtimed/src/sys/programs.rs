//! Looks up programs that the sandbox's user can run. Nothing is opened, and nothing is run.

use super::fs_identity::{FsIdentityGuard, Identity, IdentityError};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The paths of the programs that exist: names are searched in these directories, in order.
pub fn find(
    identity: Identity,
    directories: &[PathBuf],
    names: Vec<String>,
) -> Result<BTreeMap<String, String>, IdentityError> {
    let _user = FsIdentityGuard::enter(identity)?;
    let at = |name: &str| match name.starts_with('/') {
        true => Some(PathBuf::from(name)).filter(|path| is_program(path, identity)),
        false => directories.iter().map(|dir| dir.join(name)).find(|path| is_program(path, identity)),
    };
    let found = |name: String| Some((at(&name)?.into_os_string().into_string().ok()?, name));
    Ok(names.into_iter().filter_map(found).map(|(path, name)| (name, path)).collect())
}

/// Whether a path is a regular file, or a link to one, that this user may run. Must be called as that user,
/// so that an inaccessible directory on the way counts.
fn is_program(path: &Path, identity: Identity) -> bool {
    let Ok(file) = std::fs::metadata(path) else { return false };
    let may_run = if file.uid() == identity.uid.as_raw() {
        0o100
    } else if file.gid() == identity.gid.as_raw() {
        0o010
    } else {
        0o001
    };
    path.is_absolute() && file.is_file() && file.mode() & may_run != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::{getegid, geteuid};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_program_is_a_regular_file_that_may_be_run() {
        let home = tempfile::tempdir().expect("a directory");
        let (first, second) = (home.path().join("first"), home.path().join("second"));
        for dir in [&first, &second] {
            std::fs::create_dir(dir).expect("a directory");
        }
        let put = |path: &Path, mode: u32| {
            std::fs::write(path, "").expect("room");
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("ours");
        };
        put(&first.join("plain"), 0o644);
        put(&second.join("plain"), 0o755);
        put(&second.join("others"), 0o611);
        std::fs::create_dir(first.join("dir")).expect("a directory");
        symlink(second.join("plain"), first.join("link")).expect("a link");
        symlink("/nowhere", first.join("dangling")).expect("a link");
        let identity = Identity { uid: geteuid(), gid: getegid() };
        let absolute = second.join("plain").display().to_string();
        let names = ["plain", "others", "dir", "link", "dangling", "missing", "/missing", &absolute];
        let names = names.map(str::to_owned).to_vec();
        let found = find(identity, &[first.clone(), second.clone()], names).expect("we are who we are");
        let expected = [
            ("link".to_owned(), first.join("link").display().to_string()),
            ("plain".to_owned(), second.join("plain").display().to_string()),
            (absolute.clone(), absolute),
        ];
        assert_eq!(found, BTreeMap::from(expected));
    }
}
