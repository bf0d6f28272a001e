//! Layers on top of each other, mounted by the kernel.

use super::{Fixture, listing};
use crate::{
    TreeQuota,
    layer::unpack_layer,
    tar_fixture::{Entry, archive, directory, file, gzip, hard_link, symlink, zstd},
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A mounted overlay.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        umount2(&self.0, MntFlags::MNT_DETACH).expect("it is mounted");
    }
}

fn mount_layers(layers: &[PathBuf], at: &Path) -> Mounted {
    fs::create_dir(at).expect("made");
    let lower: Vec<&str> = layers.iter().rev().map(|layer| layer.to_str().expect("text")).collect();
    let options = format!("lowerdir={}", lower.join(":"));
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("overlay"), at, Some("overlay"), flags, Some(options.as_str())).expect("mounted");
    Mounted(at.to_owned())
}

fn unpack_all(fixture: &Fixture, layers: &[Vec<Entry>]) -> Vec<PathBuf> {
    let mut quota = TreeQuota::of_image();
    type Pack = fn(&[u8]) -> Vec<u8>;
    let pack: [Pack; 3] = [gzip, zstd, <[u8]>::to_vec];
    let mut paths = vec![];
    for (number, entries) in layers.iter().enumerate() {
        let path = fixture.dir.path().join(format!("layer{number}"));
        fs::create_dir(&path).expect("made");
        let bytes = pack[number % 3](&archive(entries));
        unpack_layer(bytes.as_slice(), &path, &mut quota).expect("accepted");
        paths.push(path);
    }
    paths
}

#[test]
fn an_image_of_three_layers_is_what_its_layers_say() {
    let bottom = vec![
        directory("./"),
        directory("etc"),
        file("etc/passwd", "root"),
        file("etc/motd", "old"),
        directory("opt"),
        file("opt/a", "a"),
        file("opt/b", "b"),
        directory("cache"),
        file("cache/1", "1"),
        directory("replaced"),
        file("replaced/in", "x"),
        file("plain", "file"),
        directory("data").mode(0o700).owner(1000, 1000),
        file("data/one", "1").owner(1000, 1000),
        hard_link("data/two", "data/one"),
        symlink("bin", "usr/bin"),
        file("gone/deep/in", "x"),
    ];
    let middle = vec![
        file("etc/.wh.motd", ""),
        directory("opt").mtime(50),
        file("opt/.wh..wh..opq", ""),
        file("opt/c", "c"),
        file("replaced", "now a file"),
        file(".wh.plain", ""),
        file(".wh.gone", ""),
        file("gone/new", "y"),
        file("data/two", "split").owner(1000, 1000),
    ];
    let top = vec![
        file("etc/motd", "new").mtime(3),
        file("cache/.wh.1", ""),
        file("cache/2", "2"),
        directory("plain").mode(0o711).mtime(4),
        file("su", "s").mode(0o4755),
        file("opt/.wh.c", ""),
    ];
    let fixture = Fixture::new();
    let layers = unpack_all(&fixture, &[bottom, middle, top]);
    let merged = fixture.dir.path().join("merged");
    let _mounted = mount_layers(&layers, &merged);
    assert_eq!(
        listing(&merged),
        [
            "bin l777 0:0 1000000000 -> usr/bin",
            "cache d755 0:0 now",
            "cache/2 f644 0:0 1000000000 2",
            "data d755 0:0 now",
            "data/one f644 1000:1000 1000000000 1",
            "data/two f644 1000:1000 1000000000 split",
            "etc d755 0:0 now",
            "etc/motd f644 0:0 3 new",
            "etc/passwd f644 0:0 1000000000 root",
            "gone d755 0:0 now",
            "gone/new f644 0:0 1000000000 y",
            "opt d755 0:0 now",
            "plain d711 0:0 4",
            "replaced f644 0:0 1000000000 now a file",
            "su f4755 0:0 1000000000 s",
        ]
    );
}

/// The kernel does not look at the roots of layers, so the caller leaves layers out.
#[test]
fn an_opaque_root_is_left_to_the_caller() {
    let fixture = Fixture::new();
    let layers =
        unpack_all(&fixture, &[vec![file("a", "1")], vec![file(".wh..wh..opq", ""), file("b", "2")]]);
    let merged = fixture.dir.path().join("merged");
    let _mounted = mount_layers(&layers, &merged);
    assert!(merged.join("a").exists() && merged.join("b").exists());
}
