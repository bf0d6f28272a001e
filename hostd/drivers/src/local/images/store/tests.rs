use super::{
    super::{CollectedImages, UnusedFor, layer_store::LayerRecord},
    *,
};
use hostd_images::TreeQuota;
use std::{fs, os::unix::fs::symlink};
use tar::{Builder, EntryType, Header};

struct ImageStoreFixture {
    dir: tempfile::TempDir,
    images: ImageStore,
}

fn fixture() -> ImageStoreFixture {
    fixture_with(None)
}

fn fixture_with(agents: Option<PathBuf>) -> ImageStoreFixture {
    let dir = tempfile::tempdir().expect("a directory");
    let layout = Layout::new(dir.path().join("data"), "oci");
    for path in [layout.data().to_owned(), layout.trash()] {
        fs::create_dir(path).expect("made");
    }
    let root = dir.path().join("host");
    fs::create_dir_all(root.join("usr/local")).expect("made");
    fs::create_dir_all(root.join("etc/ssl")).expect("made");
    fs::create_dir_all(root.join("lib")).expect("made");
    symlink("usr/bin", root.join("bin")).expect("linked");
    fs::create_dir_all(root.join("opt/tool")).expect("made");
    let host = HostRootfs { allow: vec![root.join("opt/tool")], root };
    ImageStoreFixture { images: ImageStore::open(&layout, &host, agents).expect("opened"), dir }
}

/// Appends one entry with an unchecked name.
fn entry(builder: &mut Builder<Vec<u8>>, kind: EntryType, name: &str, link: &str) {
    let mut header = Header::new_old();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o755);
    let body: &[u8] = if kind == EntryType::Regular { b"x" } else { b"" };
    header.set_size(body.len() as u64);
    header.set_cksum();
    builder.append(&header, body).expect("in memory");
}

fn import(fixture: &ImageStoreFixture, entries: &[(EntryType, &str, &str)]) -> Result<ImageRecord, String> {
    let mut builder = Builder::new(vec![]);
    for (kind, name, link) in entries {
        entry(&mut builder, *kind, name, link);
    }
    let path = fixture.dir.path().join("image.tar");
    fs::write(&path, builder.into_inner().expect("in memory")).expect("written");
    fixture.images.import("one", &path).map_err(|error| error.to_string())
}

#[test]
fn an_image_has_its_files_and_mount_points() {
    use EntryType::{Directory, Link, Regular, Symlink};
    let fixture = fixture();
    let entries = [
        (Directory, "bin/", ""),
        (Regular, "bin/tool", ""),
        (Link, "bin/same", "bin/tool"),
        (Symlink, "etc/mtab", "/proc/mounts"),
        (Regular, "/absolute", ""),
        (EntryType::Char, "dev/null", ""),
        (EntryType::Fifo, "fifo", ""),
    ];
    let listed = import(&fixture, &entries).expect("imported");
    assert_eq!(listed.size_bytes, 2);
    let root = fixture.images.find("one").expect("there").tree.mounted_at();
    for name in ["bin/tool", "bin/same", "absolute", ".runtimed"] {
        assert!(root.join(name).is_file(), "{name}");
    }
    for name in ["home/sandbox", "run/runtimed", "var/tmp", "dev"] {
        assert!(root.join(name).is_dir(), "{name}");
    }
    assert!(!root.join("dev/null").exists() && !root.join("fifo").exists());
    assert_eq!(fixture.images.list().expect("listed"), [listed]);
    assert!(import(&fixture, &entries).expect_err("twice").contains("already"));
    fixture.images.remove("one").expect("removed");
    assert!(matches!(fixture.images.find("one"), Err(DriverError::ImageMissing { .. })));
    assert!(matches!(fixture.images.remove("one"), Err(DriverError::ImageMissing { .. })));
}

#[test]
fn an_archive_may_be_compressed() {
    use flate2::{Compression, write::GzEncoder};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::Write;
    let fixture = fixture();
    let mut builder = Builder::new(vec![]);
    entry(&mut builder, EntryType::Regular, "bin/tool", "");
    let plain = builder.into_inner().expect("in memory");
    let mut gzip = GzEncoder::new(vec![], Compression::fast());
    gzip.write_all(&plain).expect("in memory");
    let gzip = gzip.finish().expect("in memory");
    let zstd = compress_to_vec(&plain[..], CompressionLevel::Fastest);
    let take = |name: &str, bytes: &[u8]| {
        let path = fixture.dir.path().join(name);
        fs::write(&path, bytes).expect("written");
        fixture.images.import(name, &path).map_err(|error| error.to_string())
    };
    // A plain archive ends in zeros that no reader needs.
    for (name, bytes, needed) in
        [("plain", &plain, 513), ("gzip", &gzip, gzip.len()), ("zstd", &zstd, zstd.len())]
    {
        assert_eq!(take(name, bytes).map(|listed| listed.size_bytes), Ok(1), "{name}");
        let tool = fixture.images.find(name).expect("there").tree.mounted_at().join("bin/tool");
        assert_eq!(fs::read(tool).expect("there"), b"x", "{name}");
        for end in [needed / 2, needed - 1] {
            let cut = take("cut", &bytes[..end]).expect_err(name);
            assert!(cut.contains("could not be imported"), "{name} {end}: {cut}");
            assert!(fixture.images.find("cut").is_err(), "{name} {end}");
        }
    }
    let said = take("other", b"\xfd7zXZ\0\0").expect_err("not understood");
    assert!(said.contains("xz") && said.contains("gzip or zstd"), "{said}");
}

#[test]
fn a_small_archive_that_becomes_large_is_refused() {
    use hostd_images::limits::{ENTRY_HEADERS_MAX_BYTES, IMAGE_MAX_BYTES};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let fixture = fixture();
    let header = |kind: EntryType, size: u64| {
        let mut header = Header::new_gnu();
        header.set_path("file").expect("short");
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(size);
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    let zeros = vec![0; 2 * ENTRY_HEADERS_MAX_BYTES as usize];
    let name = [header(EntryType::GNULongName, zeros.len() as u64), zeros.clone()].concat();
    let extended = [header(EntryType::XHeader, zeros.len() as u64), zeros].concat();
    for (what, tar, said) in [
        ("data", header(EntryType::Regular, IMAGE_MAX_BYTES + 1), "unexpected end of file"),
        ("a name", name, "1024 KiB"),
        ("an extended header", extended, "1024 KiB"),
    ] {
        let path = fixture.dir.path().join("bomb");
        fs::write(&path, compress_to_vec(&tar[..], CompressionLevel::Fastest)).expect("written");
        let error = fixture.images.import("bomb", &path).expect_err(what).to_string();
        assert!(error.contains(said), "{what}: {error}");
        assert_eq!(fs::read_dir(fixture.images.layout.trash()).expect("there").count(), 0, "{what}");
    }
}

/// On the host all files of an image belong to root, and every user can reach them.
#[test]
fn no_image_brings_set_id_programs_or_files_that_anybody_may_write() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = fixture();
    let mut builder = Builder::new(vec![]);
    for (kind, name) in [(EntryType::Regular, "tool"), (EntryType::Directory, "open/")] {
        let mut header = Header::new_gnu();
        header.set_path(name).expect("short");
        header.set_entry_type(kind);
        header.set_mode(0o6777);
        header.set_size(0);
        header.set_cksum();
        builder.append(&header, &b""[..]).expect("in memory");
    }
    let archive = fixture.dir.path().join("image.tar");
    fs::write(&archive, builder.into_inner().expect("in memory")).expect("written");
    let directory = fixture.dir.path().join("image");
    fs::create_dir_all(directory.join("open")).expect("made");
    fs::write(directory.join("tool"), "").expect("written");
    for name in ["tool", "open"] {
        fs::set_permissions(directory.join(name), fs::Permissions::from_mode(0o6777)).expect("set");
    }
    for (image, source) in [("packed", &archive), ("plain", &directory)] {
        fixture.images.import(image, source).expect("imported");
        let root = fixture.images.find(image).expect("there").tree.mounted_at();
        for name in ["tool", "open"] {
            let mode = fs::metadata(root.join(name)).expect("there").permissions().mode();
            assert_eq!(mode & 0o6002, 0, "{image} {name} {mode:o}");
        }
    }
}

#[test]
fn nothing_leaves_the_image() {
    use EntryType::{Directory, Link, Regular, Symlink};
    let outside = tempfile::tempdir().expect("a directory");
    let target = outside.path().to_str().expect("text").to_owned();
    let file = format!("{target}/secret");
    fs::write(&file, "secret").expect("written");
    for (what, entries) in [
        ("a way up", vec![(Regular, "../up", "")]),
        ("a way up inside", vec![(Regular, "a/../../up", "")]),
        ("through a link", vec![(Symlink, "a", target.as_str()), (Regular, "a/in", "")]),
        ("through a relative link", vec![(Symlink, "a", "../../../../../../tmp"), (Regular, "a/in", "")]),
        ("a hard link out", vec![(Link, "a", file.as_str())]),
        ("a hard link through a link", vec![(Symlink, "a", target.as_str()), (Link, "b", "a/secret")]),
        ("a mount point that is a link", vec![(Symlink, "run", target.as_str())]),
        ("a file as a mount point", vec![(Regular, "home", "")]),
        ("runtimed as a link", vec![(Symlink, ".runtimed", file.as_str())]),
        ("a directory through a link", vec![(Symlink, "a", target.as_str()), (Directory, "a/d", "")]),
    ] {
        let fixture = fixture();
        assert!(import(&fixture, &entries).is_err(), "{what}");
        assert!(fixture.images.find("one").is_err(), "{what}");
        let left: Vec<_> =
            fs::read_dir(outside.path()).expect("there").flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, ["secret"], "{what}");
        assert_eq!(fs::read_to_string(&file).expect("there"), "secret", "{what}");
        assert_eq!(fs::read_dir(fixture.images.layout.trash()).expect("there").count(), 0, "{what}");
    }
}

#[test]
fn a_directory_is_copied_without_following_links() {
    let fixture = fixture();
    let source = fixture.dir.path().join("source");
    fs::create_dir_all(source.join("usr/bin")).expect("made");
    fs::write(source.join("usr/bin/tool"), "x").expect("written");
    symlink("/etc/shadow", source.join("link")).expect("linked");
    fixture.images.import("two", &source).expect("imported");
    let root = fixture.images.find("two").expect("there").tree.mounted_at();
    assert_eq!(fs::read_link(root.join("link")).expect("a link"), Path::new("/etc/shadow"));
    assert!(root.join("usr/bin/tool").is_file());
}

#[test]
fn a_name_is_no_path() {
    let fixture = fixture();
    for bad in ["", "host", "../x", "a/b", ".hidden", "A", "-x", &"a".repeat(65)] {
        assert!(fixture.images.import(bad, Path::new("/nowhere")).is_err(), "{bad:?}");
        assert!(bad == "host" || fixture.images.find(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn only_allowed_directories_of_the_host_are_bound() {
    let fixture = fixture();
    let host = fixture.images.find("host").expect("always there");
    let to: Vec<_> = host.binds.iter().map(|(_, to)| to.to_str().expect("text")).collect();
    assert_eq!(to, ["/usr", "/usr/local", "/lib", "/etc/ssl", "/opt/tool"]);
    assert!(host.binds[1].0.ends_with("local") && !host.binds[1].0.ends_with("usr/local"), "covered");
    assert_eq!(fs::read_link(host.tree.mounted_at().join("bin")).expect("a link"), Path::new("usr/bin"));
    assert!(
        fs::read_to_string(host.tree.mounted_at().join("etc/passwd"))
            .expect("there")
            .contains("sandbox:x:1000")
    );
    assert!(host.tree.mounted_at().join("opt/tool").is_dir());
}

#[test]
fn agents_are_bound_into_every_image_with_a_mount_point() {
    use EntryType::{Directory, Symlink};
    let open = tempfile::tempdir().expect("a directory");
    let agents = open.path().join("agents");
    fs::create_dir(&agents).expect("made");
    fs::set_permissions(&agents, fs::Permissions::from_mode(0o755)).expect("its mode");
    let bind = (agents.clone(), PathBuf::from(AGENTS_DIR));
    let fixture = fixture_with(Some(agents.clone()));
    let host = fixture.images.find(HOST).expect("always there");
    assert_eq!(host.binds.last(), Some(&bind));
    assert!(host.tree.mounted_at().join("opt/slipway/agents").is_dir(), "a place to mount");
    import(&fixture, &[(Directory, "bin/", "")]).expect("taken in");
    let plain = fixture.images.find("one").expect("it is there");
    assert_eq!(plain.binds, [bind]);
    fs::set_permissions(&agents, fs::Permissions::from_mode(0o700)).expect("its mode");
    assert_eq!(fixture.images.find("one").expect("it is there").binds, [], "not readable by every user");
    fs::set_permissions(&agents, fs::Permissions::from_mode(0o755)).expect("its mode");
    fixture.images.remove("one").expect("gone");
    // The image keeps its symlink, and nothing is created at its target.
    import(&fixture, &[(Symlink, "opt", "/etc")]).expect("taken in");
    assert_eq!(fixture.images.find("one").expect("it is there").binds, []);
}

#[test]
fn layers_of_no_image_are_collected_unless_an_image_in_the_making_needs_them() {
    let fixture = fixture();
    let (layers, digest) = (&fixture.images.layers, Digest::of(b"layer"));
    let record = LayerRecord { bytes: 7, entries: 1, set_id_files: 0, is_root_opaque: false };
    let written =
        layers.write(&digest, |tree| fs::write(tree.join("file"), "content").map(|()| record.clone()));
    layers.add(&[written.expect("written")]).expect("added");
    let collect = |apply| fixture.images.collect(UnusedFor { ms: u64::MAX }, apply).expect("collected");
    let hold = layers.hold(vec![digest.clone()]);
    assert_eq!(collect(true), CollectedImages::default(), "held");
    drop(hold);
    let unused = CollectedImages { images: vec![], layers: 1, bytes: 7 };
    assert_eq!(collect(false), unused);
    assert_eq!(layers.find(&digest), Some(record), "a dry run removes nothing");
    assert_eq!(collect(true), unused);
    assert_eq!(layers.find(&digest), None);
    assert_eq!(fs::read_dir(fixture.images.layout.trash()).expect("there").count(), 0);
}

#[test]
fn a_layer_that_is_not_added_leaves_nothing() {
    let fixture = fixture();
    let layers = &fixture.images.layers;
    let record = LayerRecord { bytes: 0, entries: 0, set_id_files: 0, is_root_opaque: false };
    drop(layers.write(&Digest::of(b"dropped"), |_| Ok(record)).expect("written"));
    let failed = layers.unpack(&Digest::of(b"other"), &b"no archive"[..], &mut TreeQuota::of_image());
    assert!(failed.is_err());
    assert_eq!(layers.list().expect("listed"), []);
    assert_eq!(fs::read_dir(fixture.images.layout.trash()).expect("there").count(), 0);
}
