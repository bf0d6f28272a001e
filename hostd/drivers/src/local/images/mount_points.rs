//! Creates the mount points in a root file system, without following symlinks in it.

use crate::local::{
    files::{errno, make_dir},
    seed::SKEL,
};
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::stat::{Mode, fchmod, mkdirat},
    unistd::symlinkat,
};
use protocol::AGENTS_DIR;
use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{MetadataExt, lchown, symlink},
    path::Path,
};

/// Path of runtimed inside a sandbox.
pub const RUNTIMED_INSIDE: &str = "/.runtimed";

/// Directories that every image must have as mount points, besides `RUNTIMED_INSIDE`.
const MOUNT_POINTS: [&str; 8] =
    ["dev", "proc", "sys", "tmp", "var/tmp", "run/runtimed", "run/slipway", "home/sandbox"];

/// The home of the user as clients of E2B know it.
const USER_HOME: &str = "home/user";
/// Relative: it is the same in every view of the tree.
const USER_HOME_TARGET: &str = "sandbox";
/// The name that clients of other systems have for the app directory.
const WORKSPACE: &str = "workspace";
const APP_DIR: &str = "/home/sandbox/workspace/app";

/// As engines write it.
const HOSTS: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

/// Some runtimes give a tmpfs the mode of the directory below.
const SCRATCH: [&str; 2] = ["tmp", "var/tmp"];

pub fn make_all(rootfs: &Path) -> io::Result<()> {
    for point in MOUNT_POINTS {
        make_directory(rootfs, point).map_err(|error| at(point, &error))?;
    }
    for point in SCRATCH {
        make_world_writable(rootfs, point).map_err(|error| at(point, &error))?;
    }
    link_user_home(rootfs).map_err(|error| at(USER_HOME, &error))?;
    file(rootfs, RUNTIMED_INSIDE.trim_start_matches('/')).map_err(|error| at(RUNTIMED_INSIDE, &error))
}

/// Links `/home/user` to the workspace where there is nothing with that name. `/home` is a plain directory: a mount point is
/// in it.
fn link_user_home(rootfs: &Path) -> io::Result<()> {
    match symlink(USER_HOME_TARGET, rootfs.join(USER_HOME)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes `/etc/hosts` where an image has none, as images of layers do: engines add it, and without it there is no
/// `localhost`. An image whose `/etc` is a link is left as it is.
pub fn add_hosts(rootfs: &Path) -> io::Result<()> {
    if make_directory(rootfs, "etc").is_err() {
        return Ok(());
    }
    let open = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let etc = Dir::open(&rootfs.join("etc"), open, Mode::empty()).map_err(errno)?;
    let create = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match openat(&etc, "hosts", create, Mode::from_bits_truncate(0o644)) {
        Ok(hosts) => File::from(hosts).write_all(HOSTS.as_bytes()),
        Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(errno(error)),
    }
}

/// Links `/workspace` to the app directory, where an image has nothing of that name. A link rather than a mount: the
/// sandbox may move or replace its app directory, and both names stay the same place.
pub fn add_workspace_link(rootfs: &Path) -> io::Result<()> {
    let open = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let root = Dir::open(rootfs, open, Mode::empty()).map_err(errno)?;
    match symlinkat(APP_DIR, &root, WORKSPACE) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(errno(error)),
    }
}

/// A layer with the mount points of a sandbox that an image lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountPointLayer {
    pub has_skeleton: bool,
    pub takes_agents: bool,
}

/// Fills the topmost layer of an image, whose other layers are merged at `merged`: with the mount points, `/etc/hosts` and
/// `/workspace` where they are missing. Directories that the image has keep their owner and mode. Nothing is followed.
pub fn fill_layer(merged: &Path, layer: &Path, volumes: &[String]) -> io::Result<MountPointLayer> {
    for point in MOUNT_POINTS {
        cover_directory(merged, layer, point).map_err(|error| at(point, &error))?;
    }
    for point in SCRATCH.into_iter().chain(volumes.iter().map(String::as_str)) {
        cover_parts(merged, layer, point).map_err(|error| at(point, &error))?;
        make_world_writable(layer, point).map_err(|error| at(point, &error))?;
    }
    if kind_of(merged, USER_HOME)? == Kind::Missing {
        let link = || cover_parts(merged, layer, "home").and_then(|()| link_user_home(layer));
        link().map_err(|error| at(USER_HOME, &error))?;
    }
    if kind_of(merged, RUNTIMED_INSIDE)? == Kind::Missing {
        file(layer, RUNTIMED_INSIDE.trim_start_matches('/')).map_err(|error| at(RUNTIMED_INSIDE, &error))?;
    }
    if kind_of(merged, "etc/hosts")? == Kind::Missing && cover_parts(merged, layer, "etc").is_ok() {
        add_hosts(layer)?;
    }
    if kind_of(merged, WORKSPACE)? == Kind::Missing {
        add_workspace_link(layer)?;
    }
    let takes_agents = cover_directory(merged, layer, AGENTS_DIR).is_ok();
    Ok(MountPointLayer { has_skeleton: kind_of(merged, SKEL)? == Kind::Directory, takes_agents })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Missing,
    Directory,
    Other,
}

/// Returns what is at a path of a tree. A part that is no directory, such as a link, is never followed.
fn kind_of(tree: &Path, path: &str) -> io::Result<Kind> {
    let mut found = (tree.to_owned(), Kind::Directory);
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let next = found.0.join(part);
        found = match (found.1, fs::symlink_metadata(&next)) {
            (Kind::Missing | Kind::Other, _) => return Ok(found.1),
            (Kind::Directory, Ok(meta)) if meta.is_dir() => (next, Kind::Directory),
            (Kind::Directory, Ok(_)) => (next, Kind::Other),
            (Kind::Directory, Err(error)) if error.kind() == io::ErrorKind::NotFound => (next, Kind::Missing),
            (Kind::Directory, Err(error)) => return Err(error),
        };
    }
    Ok(found.1)
}

/// Makes a directory of the merged tree exist.
fn cover_directory(merged: &Path, layer: &Path, point: &str) -> io::Result<()> {
    match kind_of(merged, point)? {
        Kind::Directory => Ok(()),
        Kind::Missing => cover_parts(merged, layer, point),
        Kind::Other => Err(io::ErrorKind::NotADirectory.into()),
    }
}

/// Makes a directory and its parents in a layer, as those below them are.
fn cover_parts(merged: &Path, layer: &Path, point: &str) -> io::Result<()> {
    let (mut below, mut own) = (merged.to_owned(), layer.to_owned());
    for part in point.split('/').filter(|part| !part.is_empty()) {
        below.push(part);
        own.push(part);
        match fs::symlink_metadata(&below) {
            Ok(meta) if meta.is_dir() => {
                make_dir(&own, meta.mode() & 0o7777)?;
                lchown(&own, Some(meta.uid()), Some(meta.gid()))?;
            }
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_dir(&own, 0o755)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Creates a directory and its parents, each a plain directory.
pub fn make_directory(rootfs: &Path, point: &str) -> io::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut dir = Dir::open(rootfs, flags, Mode::empty()).map_err(errno)?;
    for part in point.split('/').filter(|part| !part.is_empty()) {
        match mkdirat(&dir, part, Mode::from_bits_truncate(0o755)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(errno(error)),
        }
        dir = Dir::openat(&dir, part, flags, Mode::empty()).map_err(errno)?;
    }
    Ok(())
}

/// Makes a directory world-writable. `make_directory` has checked that no part of the path is a symlink.
fn make_world_writable(rootfs: &Path, point: &str) -> io::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    // `join` would leave the tree with an absolute path.
    let path = rootfs.join(point.trim_start_matches('/'));
    let dir = Dir::open(&path, flags, Mode::empty()).map_err(errno)?;
    fchmod(&dir, Mode::from_bits_truncate(0o1777)).map_err(errno)
}

fn file(rootfs: &Path, name: &str) -> io::Result<()> {
    let dir = Dir::open(rootfs, OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty()).map_err(errno)?;
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    openat(&dir, name, flags, Mode::from_bits_truncate(0o755)).map(drop).map_err(errno)
}

fn at(point: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{point} must be a plain directory: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_layer_has_the_mount_points_that_the_image_lacks_and_keeps_the_others() {
        let temp = tempfile::tempdir().expect("a directory");
        let (merged, layer) = (temp.path().join("merged"), temp.path().join("layer"));
        for dir in ["merged/home", "merged/dev", "merged/opt/sandbox-skel", "merged/etc", "layer"] {
            fs::create_dir_all(temp.path().join(dir)).expect("made");
        }
        fs::set_permissions(merged.join("home"), fs::Permissions::from_mode(0o700)).expect("set");
        fs::write(merged.join("etc/hosts"), "own").expect("written");
        let filled = fill_layer(&merged, &layer, &["/var/data".to_owned()]).expect("filled");
        assert_eq!(filled, MountPointLayer { has_skeleton: true, takes_agents: true });
        let mode = |name: &str| fs::metadata(layer.join(name)).map(|meta| meta.mode() & 0o7777).ok();
        for (name, expected) in [
            ("home", Some(0o700)),
            ("home/sandbox", Some(0o755)),
            ("tmp", Some(0o1777)),
            ("var/tmp", Some(0o1777)),
            ("var/data", Some(0o1777)),
            ("dev", None),
            ("etc/hosts", None),
        ] {
            assert_eq!(mode(name), expected, "{name}");
        }
        assert!(layer.join(".runtimed").is_file());
        assert_eq!(fs::read_link(layer.join(USER_HOME)).expect("a link"), Path::new("sandbox"));
        let link = fs::read_link(layer.join("workspace")).expect("a link");
        assert_eq!(link, Path::new("/home/sandbox/workspace/app"));
    }

    #[test]
    fn the_workspace_of_an_image_is_kept() {
        let temp = tempfile::tempdir().expect("a directory");
        let (merged, layer) = (temp.path().join("merged"), temp.path().join("layer"));
        for dir in ["merged/workspace", "layer"] {
            fs::create_dir_all(temp.path().join(dir)).expect("made");
        }
        fill_layer(&merged, &layer, &[]).expect("filled");
        assert!(fs::symlink_metadata(layer.join("workspace")).is_err());
        add_workspace_link(&merged).expect("left");
        assert!(fs::symlink_metadata(merged.join("workspace")).expect("kept").is_dir());
    }

    #[test]
    fn an_image_with_a_link_at_a_mount_point_is_refused() {
        let temp = tempfile::tempdir().expect("a directory");
        let (merged, layer) = (temp.path().join("merged"), temp.path().join("layer"));
        for dir in ["merged", "layer", "outside"] {
            fs::create_dir(temp.path().join(dir)).expect("made");
        }
        for link in ["home", "tmp"] {
            symlink(temp.path().join("outside"), merged.join(link)).expect("linked");
            let refused = fill_layer(&merged, &layer, &[]).expect_err("a link").to_string();
            assert!(refused.contains(link) && refused.contains("plain directory"), "{refused}");
            fs::remove_file(merged.join(link)).expect("removed");
        }
        symlink(temp.path().join("outside"), merged.join("opt")).expect("linked");
        symlink(temp.path().join("outside"), merged.join("etc")).expect("linked");
        let filled = fill_layer(&merged, &layer, &[]).expect("neither agents nor hosts are needed");
        assert_eq!(filled, MountPointLayer { has_skeleton: false, takes_agents: false });
        assert_eq!(fs::read_dir(temp.path().join("outside")).expect("there").count(), 0);
    }

    #[test]
    fn an_image_without_hosts_gets_one_and_no_link_is_followed() {
        let temp = tempfile::tempdir().expect("a directory");
        let outside = temp.path().join("outside");
        fs::create_dir(&outside).expect("made");
        let image = |name: &str| {
            let image = temp.path().join(name);
            fs::create_dir(&image).expect("made");
            image
        };
        let bare = image("bare");
        add_hosts(&bare).expect("written");
        assert!(fs::read_to_string(bare.join("etc/hosts")).expect("there").contains("localhost"));
        fs::write(bare.join("etc/hosts"), "own").expect("written");
        add_hosts(&bare).expect("left");
        assert_eq!(fs::read_to_string(bare.join("etc/hosts")).expect("there"), "own");
        let linked = image("linked");
        symlink(&outside, linked.join("etc")).expect("linked");
        add_hosts(&linked).expect("left");
        let dangling = image("dangling");
        fs::create_dir(dangling.join("etc")).expect("made");
        symlink(outside.join("hosts"), dangling.join("etc/hosts")).expect("linked");
        add_hosts(&dangling).expect("left");
        assert_eq!(fs::read_dir(&outside).expect("there").count(), 0);
    }
}
