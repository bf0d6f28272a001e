//! Tests of archives, made by hand.

use super::{ArchiveError, ImageArchive, LayeredArchive};
use crate::{
    Digest,
    tar_fixture::{Entry, archive, directory, file, gzip, hard_link, symlink, zstd},
};
use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    os::unix::fs::symlink as make_symlink,
    path::{Path, PathBuf},
};

const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
const NAME: &str = "org.opencontainers.image.ref.name";

/// Files of a layout or archive, by name.
#[derive(Clone, Default)]
struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    fn add(&mut self, name: &str, bytes: impl AsRef<[u8]>) {
        self.0.insert(name.to_owned(), bytes.as_ref().to_vec());
    }

    fn blob(&mut self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        self.add(&format!("blobs/sha256/{}", digest.hex()), bytes);
        digest
    }

    fn remove(&mut self, digest: &Digest) {
        self.0.remove(&format!("blobs/sha256/{}", digest.hex())).expect("it was there");
    }

    /// Adds an image with one compressed layer, and returns its entry of an index.
    fn image(&mut self, number: u8, more: &str) -> (Digest, String) {
        let layer = gzip(&layer(number));
        let config = config(&[layer_id(number)]);
        let (config_size, layer_size) = (config.len(), layer.len());
        let (config, layer) = (self.blob(config.as_bytes()), self.blob(&layer));
        let manifest = format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{config}",
            "size":{config_size}}},"layers":[{{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",
            "digest":"{layer}","size":{layer_size}}}]}}"#
        );
        let size = manifest.len();
        let digest = self.blob(manifest.as_bytes());
        let entry = format!(r#"{{"mediaType":"{MANIFEST_TYPE}","digest":"{digest}","size":{size}{more}}}"#);
        (digest, entry)
    }

    fn layout(&mut self, entries: &[String]) {
        self.add("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);
        self.add("index.json", index(entries));
    }

    fn tar(&self) -> Vec<u8> {
        let entries: Vec<Entry> = self.0.iter().map(|(name, bytes)| file(name, bytes)).collect();
        archive(&entries)
    }
}

fn index(entries: &[String]) -> String {
    format!(r#"{{"schemaVersion":2,"manifests":[{}]}}"#, entries.join(","))
}

fn named(name: &str) -> String {
    format!(r#","annotations":{{"{NAME}":"{name}"}}"#)
}

fn platform(architecture: &str) -> String {
    format!(r#","platform":{{"os":"linux","architecture":"{architecture}"}}"#)
}

fn layer(number: u8) -> Vec<u8> {
    archive(&[file("etc/number", [number])])
}

fn layer_id(number: u8) -> Digest {
    Digest::of(&layer(number))
}

fn config(diff_ids: &[Digest]) -> String {
    let list: Vec<String> = diff_ids.iter().map(|digest| format!("\"{digest}\"")).collect();
    let host = crate::Platform::host().architecture;
    format!(
        r#"{{"os":"linux","architecture":"{host}","config":{{"Env":["A=1"]}},"rootfs":{{"diff_ids":[{}]}}}}"#,
        list.join(",")
    )
}

/// An image of `docker save`, with one layer, as an element of its list.
fn saved(files: &mut Files, number: u8, tags: &str) -> String {
    let config = config(&[layer_id(number)]);
    let name = format!("{}.json", Digest::of(config.as_bytes()).hex());
    files.add(&name, &config);
    files.add(&format!("{number}/layer.tar"), layer(number));
    format!(r#"{{"Config":"{name}","RepoTags":{tags},"Layers":["{number}/layer.tar"]}}"#)
}

struct Fixture(tempfile::TempDir);

impl Fixture {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn write(&self, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(Digest::of(bytes).hex());
        fs::write(&path, bytes).expect("written");
        path
    }

    fn write_directory(&self, files: &Files) -> PathBuf {
        let path = self.0.path().join("layout");
        for (name, bytes) in &files.0 {
            let file = path.join(name);
            fs::create_dir_all(file.parent().expect("below the layout")).expect("made");
            fs::write(file, bytes).expect("written");
        }
        path
    }

    fn open(&self, path: &Path, tag: Option<&str>) -> Result<ImageArchive, ArchiveError> {
        ImageArchive::open(path, tag, self.0.path())
    }

    fn open_tar(&self, bytes: &[u8], tag: Option<&str>) -> Result<LayeredArchive, ArchiveError> {
        match self.open(&self.write(bytes), tag)? {
            ImageArchive::Layered(layered) => Ok(*layered),
            other @ (ImageArchive::Rootfs(_) | ImageArchive::Directory(_)) => {
                panic!("not layered: {other:?}")
            }
        }
    }
}

fn read_layer(layered: &LayeredArchive, number: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![];
    let read = layered.open_layer(number).and_then(|mut layer| layer.read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| error.to_string())
}

#[test]
fn a_layout_is_opened_as_a_directory_and_as_an_archive() {
    let mut files = Files::default();
    let (digest, entry) = files.image(1, &named("app:1"));
    files.layout(&[entry]);
    let fixture = Fixture::new();
    let ImageArchive::Layered(directory) =
        fixture.open(&fixture.write_directory(&files), None).expect("opened")
    else {
        panic!("not layered")
    };
    let tar = files.tar();
    let mut opened = vec![*directory];
    for bytes in [tar.clone(), gzip(&tar), zstd(&tar)] {
        opened.push(fixture.open_tar(&bytes, None).expect("opened"));
    }
    for layered in &opened {
        assert_eq!((layered.manifest_digest(), layered.layer_count()), (&digest, 1));
        assert_eq!(
            (layered.config().env.clone(), layered.tags()),
            (vec!["A=1".to_owned()], vec!["app:1".to_owned()])
        );
        let stored = gzip(&layer(1));
        assert_eq!(layered.layer_digest(0), Some(&Digest::of(&stored)));
        assert_eq!(read_layer(layered, 0), Ok(stored));
        assert!(read_layer(layered, 1).is_err() && layered.layer_digest(1).is_none());
    }
}

#[test]
fn an_archive_of_docker_save_is_opened() {
    let mut files = Files::default();
    let image = saved(&mut files, 1, r#"["app:1","app:latest"]"#);
    files.add("manifest.json", format!("[{image}]"));
    let fixture = Fixture::new();
    for bytes in [files.tar(), gzip(&files.tar())] {
        let layered = fixture.open_tar(&bytes, None).expect("opened");
        assert_eq!(layered.manifest_digest(), &Digest::of(config(&[layer_id(1)]).as_bytes()));
        assert_eq!(layered.tags(), ["app:1", "app:latest"]);
        assert_eq!((layered.layer_digest(0), read_layer(&layered, 0)), (None, Ok(layer(1))));
        fixture.open_tar(&bytes, Some("app:latest")).expect("opened");
    }
}

/// Older Dockers link to a layer that the archive has already.
#[test]
fn layers_may_be_links_to_other_members() {
    let config = config(&[layer_id(1), layer_id(1), layer_id(1)]);
    let list =
        r#"[{"Config":"c.json","RepoTags":null,"Layers":["a/layer.tar","b/layer.tar","c/layer.tar"]}]"#;
    let bytes = |target: &str| {
        archive(&[
            file("c.json", &config),
            directory("a/"),
            file("a/layer.tar", layer(1)),
            symlink("b/layer.tar", target),
            hard_link("c/layer.tar", "a/layer.tar"),
            file("manifest.json", list),
        ])
    };
    let fixture = Fixture::new();
    let layered = fixture.open_tar(&bytes("../a/layer.tar"), None).expect("opened");
    for number in 0..3 {
        assert_eq!(read_layer(&layered, number), Ok(layer(1)));
    }
    for target in ["/etc/passwd", "../../etc/passwd", "layer.tar", "../c"] {
        let error = fixture.open_tar(&bytes(target), None).expect_err(target).to_string();
        assert_eq!(error, "it lacks b/layer.tar", "{target}");
    }
}

#[test]
fn an_archive_that_is_both_is_taken_as_a_layout_if_that_is_complete() {
    let mut files = Files::default();
    let (digest, entry) = files.image(1, "");
    files.layout(&[entry]);
    let image = saved(&mut files, 2, "null");
    files.add("manifest.json", format!("[{image}]"));
    let fixture = Fixture::new();
    assert_eq!(fixture.open_tar(&files.tar(), None).expect("opened").manifest_digest(), &digest);
    files.remove(&Digest::of(&gzip(&layer(1))));
    let layered = fixture.open_tar(&files.tar(), None).expect("opened");
    assert_eq!(read_layer(&layered, 0), Ok(layer(2)));
    files.0.remove("manifest.json");
    assert!(
        fixture
            .open_tar(&files.tar(), None)
            .expect_err("incomplete")
            .to_string()
            .starts_with("it lacks blobs/")
    );
}

#[test]
fn one_of_several_images_is_chosen_by_its_tag() {
    let mut layout = Files::default();
    let (first, second) = (layout.image(1, &named("a")), layout.image(2, &named("b")));
    layout.layout(&[first.1, second.1]);
    let mut docker = Files::default();
    let images = [saved(&mut docker, 1, r#"["a"]"#), saved(&mut docker, 2, r#"["b"]"#)];
    docker.add("manifest.json", format!("[{}]", images.join(",")));
    let fixture = Fixture::new();
    for files in [layout, docker] {
        let tar = files.tar();
        match fixture.open_tar(&tar, None) {
            Err(ArchiveError::SeveralImages { tags }) => assert_eq!(tags, ["a", "b"]),
            other => panic!("{other:?}"),
        }
        let layered = fixture.open_tar(&tar, Some("b")).expect("opened");
        assert_eq!(
            (layered.tags(), layered.config().diff_ids.clone()),
            (vec!["b".to_owned()], vec![layer_id(2)])
        );
        let error = fixture.open_tar(&tar, Some("c")).expect_err("no such tag").to_string();
        assert_eq!(error, "it has no image c, only a, b");
    }
}

#[test]
fn the_image_of_this_platform_is_chosen_through_indexes() {
    let host = crate::Platform::host().architecture;
    let mut files = Files::default();
    let (_, other) = files.image(1, &platform("other"));
    let (digest, own) = files.image(2, &platform(&host));
    let inner = index(&[other.clone(), own.clone()]);
    let size = inner.len();
    let inner_digest = files.blob(inner.as_bytes());
    let outer =
        format!(r#"{{"mediaType":"{INDEX_TYPE}","digest":"{inner_digest}","size":{size}{}}}"#, named("app"));
    let fixture = Fixture::new();
    for entries in [vec![other.clone(), own.clone()], vec![own.clone(), own.clone()], vec![outer]] {
        files.layout(&entries);
        let layered = fixture.open_tar(&files.tar(), None).expect("opened");
        assert_eq!(layered.manifest_digest(), &digest);
    }
    files.layout(&[other]);
    assert!(matches!(fixture.open_tar(&files.tar(), None), Err(ArchiveError::Manifest(_))));
    files.layout(&[]);
    assert!(matches!(fixture.open_tar(&files.tar(), None), Err(ArchiveError::Empty)));
}

#[test]
fn damage_is_detected_when_a_blob_is_read() {
    let mut files = Files::default();
    let (manifest, entry) = files.image(1, "");
    files.layout(&[entry]);
    let stored = gzip(&layer(1));
    let fixture = Fixture::new();
    let changed = |digest: &Digest, change: fn(&mut Vec<u8>)| {
        let mut files = files.clone();
        change(files.0.get_mut(&format!("blobs/sha256/{}", digest.hex())).expect("there"));
        fixture.open_tar(&files.tar(), None)
    };
    let flip = |bytes: &mut Vec<u8>| *bytes.last_mut().expect("not empty") ^= 1;
    let layered = changed(&Digest::of(&stored), flip).expect("layers are read later");
    assert_eq!(
        read_layer(&layered, 0),
        Err("the blob does not have the digest of its descriptor".to_owned())
    );
    let shorter = changed(&Digest::of(&stored), |bytes| bytes.truncate(bytes.len() - 1));
    assert!(matches!(shorter, Err(ArchiveError::DigestMismatch { .. })));
    for digest in [manifest, Digest::of(config(&[layer_id(1)]).as_bytes())] {
        assert!(matches!(changed(&digest, flip), Err(ArchiveError::DigestMismatch { .. })));
    }
    let tar = files.tar();
    for cut in [tar.len() / 2, tar.len() - 1530] {
        let result = fixture.open(&fixture.write(&tar[..cut]), None);
        assert!(!matches!(result, Ok(ImageArchive::Layered(_))), "{cut}: {result:?}");
        let packed = gzip(&tar);
        let packed = &packed[..packed.len() * cut / tar.len()];
        assert!(fixture.open(&fixture.write(packed), None).is_err(), "{cut}");
    }
}

#[test]
fn other_archives_and_directories_are_root_file_systems() {
    let fixture = Fixture::new();
    for entries in [
        vec![file("./etc/passwd", "x"), file("manifest.json", "[]")],
        vec![file("app", "x")],
        vec![file("manifest.json", r#"{"name":"an app"}"#), file("index.json", "{}")],
        vec![file("image/oci-layout", "{}"), file("image/index.json", "{}")],
        vec![file("../up", "x")],
        vec![],
    ] {
        for bytes in [archive(&entries), gzip(&archive(&entries))] {
            let path = fixture.write(&bytes);
            let opened = fixture.open(&path, None).expect("opened");
            assert!(matches!(opened, ImageArchive::Rootfs(found) if found == path), "{entries:?}");
        }
    }
    let dir = fixture.0.path().join("root");
    fs::create_dir(&dir).expect("made");
    assert!(matches!(fixture.open(&dir, None), Ok(ImageArchive::Directory(found)) if found == dir));
    assert!(matches!(fixture.open(Path::new("/dev/null"), None), Err(ArchiveError::NotAFile)));
    assert!(matches!(fixture.open(Path::new("/does/not/exist"), None), Err(ArchiveError::Read { .. })));
    assert!(matches!(fixture.open(&fixture.write(b"\xfd7zXZ\0"), None), Err(ArchiveError::Read { .. })));
    assert!(matches!(fixture.open(&fixture.write(b"garbage"), None), Err(ArchiveError::Tar(_))));
}

#[test]
fn a_layout_is_not_left_through_symlinks() {
    let mut files = Files::default();
    let (_, entry) = files.image(1, "");
    files.layout(&[entry]);
    let fixture = Fixture::new();
    let path = fixture.write_directory(&files);
    let stored = Digest::of(&gzip(&layer(1)));
    let blob = path.join("blobs/sha256").join(stored.hex());
    let (inside, outside) = (path.join("blobs/kept"), fixture.0.path().join("kept"));
    fs::copy(&blob, &inside).expect("copied");
    fs::copy(&blob, &outside).expect("copied");
    for (target, accepted) in
        [("../kept", true), ("../../../kept", false), (outside.to_str().expect("text"), false)]
    {
        fs::remove_file(&blob).expect("removed");
        make_symlink(target, &blob).expect("linked");
        assert_eq!(fixture.open(&path, None).is_ok(), accepted, "{target}");
    }
    fs::remove_file(&blob).expect("removed");
    nix::unistd::mkfifo(&blob, nix::sys::stat::Mode::S_IRWXU).expect("made");
    let error = fixture.open(&path, None).expect_err("a FIFO is not waited for");
    assert!(matches!(error, ArchiveError::MissingBlob { .. }), "{error:?}");
}

#[test]
fn documents_that_do_not_agree_are_refused() {
    let fixture = Fixture::new();
    let list = |config: &str, layers: &str| format!(r#"[{{"Config":"{config}","Layers":{layers}}}]"#);
    let wrong = format!("{}.json", Digest::of(b"other").hex());
    let one = config(&[layer_id(1)]);
    let table = [
        (list("c.json", "[]"), "it has 0 layers, and its configuration describes 1"),
        (list("missing.json", r#"["l"]"#), "it lacks missing.json"),
        (list("../c.json", r#"["l"]"#), "it lacks ../c.json"),
        (list("c.json", r#"["missing"]"#), "it lacks missing"),
        (list(&wrong, r#"["l"]"#), "is damaged: the digest does not match"),
        ("[]".to_owned(), "it has no image"),
    ];
    for (list, expected) in table {
        let entries =
            [file("c.json", &one), file(&wrong, &one), file("l", layer(1)), file("manifest.json", &list)];
        let error = fixture.open_tar(&archive(&entries), None).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}
