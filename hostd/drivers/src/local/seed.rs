//! Seeds: the first content of a new workspace, from a template of the operator or from the image's
//! [`SKEL`] directory. Written into a directory that nothing else sees yet; a seed that was cut off is thrown away with
//! it.
//!
//! Files, directories and links are taken, without set-id bits and extended attributes; devices, FIFOs and whiteouts
//! are not. Links are copied as they are and never followed. Everything belongs to the sandbox's user.

use super::{
    super::DriverError,
    blueprint_checks::refused,
    images::{RootTree, Rootfs},
    limits::{SANDBOX_UID, SEED_MAX_BYTES, SEED_MAX_ENTRIES},
    snapshots::SnapshotRecord,
};
use hostd_images::{LayerStack, TreeQuota, copy_tree_within, limits::IMAGE_DEPTH_MAX, unpack_archive_within};
use std::{
    fs, io,
    os::unix::fs::lchown,
    path::{Path, PathBuf},
};

/// The directory of an image whose content a new workspace starts with.
pub const SKEL: &str = "/opt/sandbox-skel";
/// Endings of templates that are archives.
const ARCHIVE_ENDINGS: [&str; 4] = ["tar", "tar.gz", "tar.zst", "tgz"];

/// Where a seed is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeedSource {
    Directory(PathBuf),
    Archive(PathBuf),
    /// A snapshot, whose files keep their owners and attributes.
    Snapshot(SnapshotRecord),
    /// The skeleton of an image of layers.
    Layers {
        stack: LayerStack,
        merge_at: PathBuf,
    },
}

/// The templates of the operator.
#[derive(Debug, Clone)]
pub struct Templates {
    pub dir: PathBuf,
}

impl Templates {
    /// Finds a template by its name, which was validated: it has no dot and no slash.
    pub fn find(&self, name: &str) -> Result<SeedSource, DriverError> {
        let path = self.dir.join(name);
        if path.is_dir() {
            return Ok(SeedSource::Directory(path));
        }
        let archives = ARCHIVE_ENDINGS.iter().map(|ending| self.dir.join(format!("{name}.{ending}")));
        let found = archives.into_iter().find(|path| path.is_file()).map(SeedSource::Archive);
        found
            .ok_or_else(|| refused("seed.template", format!("there is no template {name} on this host"), &[]))
    }
}

/// The skeleton of an image, if it has one. No part of its path may be a link.
pub fn skel_of(rootfs: &Rootfs) -> Option<SeedSource> {
    let bound =
        rootfs.binds.iter().find_map(|(from, to)| Some(from.join(Path::new(SKEL).strip_prefix(to).ok()?)));
    let (mut path, names) = match (bound, &rootfs.tree) {
        (Some(path), _) => (path, &[][..]),
        (None, RootTree::Directory(root)) => (root.clone(), &["opt", "sandbox-skel"][..]),
        (None, RootTree::Layers { stack, merge_at, has_skeleton }) => {
            let layers = || SeedSource::Layers { stack: stack.clone(), merge_at: merge_at.clone() };
            return has_skeleton.then(layers);
        }
    };
    for name in names {
        path.push(name);
        if !fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()) {
            return None;
        }
    }
    fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()).then_some(SeedSource::Directory(path))
}

/// Writes a seed into a new directory. `disk_mb` bounds it further.
pub fn write(source: &SeedSource, to: &Path, disk_mb: Option<u64>) -> io::Result<()> {
    let max_bytes = disk_mb.map_or(SEED_MAX_BYTES, |mb| mb.saturating_mul(1 << 20).min(SEED_MAX_BYTES));
    let quota = TreeQuota::new("the seed", max_bytes, SEED_MAX_ENTRIES);
    match source {
        // The caller, who knows where its layers are, forks or copies it.
        SeedSource::Snapshot(_) => return Err(io::ErrorKind::Unsupported.into()),
        SeedSource::Directory(dir) => copy_tree_within(dir, to, quota),
        SeedSource::Archive(file) => unpack_archive_within(file, to, quota),
        // The path has no link: that was checked when the image was made.
        SeedSource::Layers { stack, merge_at } => {
            let skeleton = SKEL.trim_start_matches('/');
            stack.with_merged(merge_at, |tree| copy_tree_within(&tree.join(skeleton), to, quota))
        }
    }
    .map(drop)
}

/// Gives everything below a directory that nothing else changes to the sandbox's user.
pub fn give_to_user(dir: &Path) -> io::Result<()> {
    give_below(dir, 0)
}

fn give_below(dir: &Path, depth: usize) -> io::Result<()> {
    if depth > IMAGE_DEPTH_MAX {
        return Err(io::Error::other(format!("nested deeper than {IMAGE_DEPTH_MAX} directories")));
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            give_below(&path, depth + 1)?;
        }
        lchown(&path, Some(SANDBOX_UID), Some(SANDBOX_UID))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    /// A template with everything that must not arrive.
    fn hostile(dir: &Path) {
        fs::create_dir_all(dir.join("workspace/app")).expect("made");
        fs::write(dir.join("workspace/app/main.py"), "print()").expect("written");
        fs::set_permissions(dir.join("workspace/app/main.py"), fs::Permissions::from_mode(0o6755))
            .expect("set");
        symlink("/etc/passwd", dir.join("link")).expect("linked");
        nix::unistd::mkfifo(&dir.join("fifo"), nix::sys::stat::Mode::from_bits_truncate(0o644))
            .expect("made");
    }

    fn check(to: &Path) {
        let main = fs::symlink_metadata(to.join("workspace/app/main.py")).expect("copied");
        assert_eq!((main.uid(), main.mode() & 0o7777), (1000, 0o755));
        let link = fs::symlink_metadata(to.join("link")).expect("copied");
        assert!(link.is_symlink() && link.uid() == 1000);
        assert!(!to.join("fifo").exists());
        assert_eq!(fs::metadata("/etc/passwd").expect("there").uid(), 0);
    }

    #[test]
    fn a_seed_arrives_as_the_users_files_from_a_directory_and_from_an_archive() {
        let temp = tempfile::tempdir().expect("a directory");
        let templates = Templates { dir: temp.path().join("templates") };
        hostile(&templates.dir.join("web"));
        let mut archive =
            tar::Builder::new(fs::File::create(templates.dir.join("packed.tar")).expect("made"));
        archive.follow_symlinks(false);
        archive.append_dir_all("", templates.dir.join("web")).expect("packed");
        archive.finish().expect("packed");
        for name in ["web", "packed"] {
            let to = temp.path().join(name);
            fs::create_dir(&to).expect("made");
            write(&templates.find(name).expect("there"), &to, None).expect("written");
            give_to_user(&to).expect("given");
            check(&to);
        }
        assert!(matches!(templates.find("none"), Err(DriverError::Refused { field: "seed.template", .. })));
        let to = temp.path().join("large");
        fs::create_dir(&to).expect("made");
        fs::write(templates.dir.join("web/large"), vec![7; 2 << 20]).expect("written");
        let error = write(&templates.find("web").expect("there"), &to, Some(1)).expect_err("too large");
        assert!(error.to_string().contains("the seed has more than 1 MiB"), "{error}");
    }

    #[test]
    fn an_archive_that_leads_out_of_the_workspace_is_refused() {
        let temp = tempfile::tempdir().expect("a directory");
        for (number, name) in ["../escaped", "a/../../escaped", "link/escaped"].into_iter().enumerate() {
            let file = temp.path().join(format!("{number}.tar"));
            let mut archive = tar::Builder::new(fs::File::create(&file).expect("made"));
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            archive.append_link(&mut header, "link", temp.path()).expect("packed");
            let mut header = tar::Header::new_gnu();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(0);
            header.set_mode(0o644);
            header.set_cksum();
            archive.append(&header, io::empty()).expect("packed");
            archive.finish().expect("packed");
            let to = temp.path().join(number.to_string());
            fs::create_dir(&to).expect("made");
            write(&SeedSource::Archive(file), &to, None).expect_err(name);
            assert!(!temp.path().join("escaped").exists(), "{name}");
        }
    }

    #[test]
    fn the_skeleton_of_an_image_is_not_reached_through_links() {
        let temp = tempfile::tempdir().expect("a directory");
        let (image, outside) = (temp.path().join("rootfs"), temp.path().join("outside"));
        fs::create_dir_all(outside.join("sandbox-skel")).expect("made");
        fs::create_dir_all(image.join("opt")).expect("made");
        let rootfs = Rootfs::directory(image.clone(), vec![]);
        assert_eq!(skel_of(&rootfs), None);
        symlink(outside.join("sandbox-skel"), image.join("opt/sandbox-skel")).expect("linked");
        assert_eq!(skel_of(&rootfs), None);
        fs::remove_file(image.join("opt/sandbox-skel")).expect("removed");
        fs::create_dir(image.join("opt/sandbox-skel")).expect("made");
        assert_eq!(skel_of(&rootfs), Some(SeedSource::Directory(image.join("opt/sandbox-skel"))));
        fs::remove_dir_all(image.join("opt")).expect("removed");
        symlink(&outside, image.join("opt")).expect("linked");
        assert_eq!(skel_of(&rootfs), None);
        let bound = Rootfs::directory(image, vec![(outside.join("sandbox-skel"), SKEL.into())]);
        assert_eq!(skel_of(&bound), Some(SeedSource::Directory(outside.join("sandbox-skel"))));
    }
}
