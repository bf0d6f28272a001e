//! Archives that lie, lead out, or never end: nothing outside the directory they are unpacked to is touched, and the
//! limits hold.

use super::{
    archive::{FORMATS, pack, run, tree, unpack},
    fixture::{Fixture, Recorder},
};
use crate::{
    FilesError,
    archive::{Bounds, unpack_within},
};
use flate2::{Compression, write::GzEncoder};
use nix::fcntl::{RenameFlags, renameat2};
use protocol::files::{ArchiveFormat, FilesErrorCode, FilesReply};
use std::{
    fs,
    io::Write,
    os::unix::fs::{MetadataExt, symlink},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tar::{EntryType, Header};

/// An entry whose header says what it likes.
struct Raw<'a> {
    kind: EntryType,
    name: &'a [u8],
    target: &'a [u8],
    content: &'a [u8],
    mode: u32,
    size: Option<u64>,
}

fn raw<'a>(kind: EntryType, name: &'a [u8]) -> Raw<'a> {
    Raw { kind, name, target: b"", content: b"", mode: 0o644, size: None }
}

fn file<'a>(name: &'a [u8], content: &'a [u8]) -> Raw<'a> {
    Raw { content, ..raw(EntryType::Regular, name) }
}

fn link<'a>(kind: EntryType, name: &'a [u8], target: &'a [u8]) -> Raw<'a> {
    Raw { target, ..raw(kind, name) }
}

fn pax<'a>(records: &'a [u8]) -> Raw<'a> {
    Raw { content: records, ..raw(EntryType::XHeader, b"pax") }
}

impl Raw<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..self.name.len()].copy_from_slice(self.name);
        header.as_old_mut().linkname[..self.target.len()].copy_from_slice(self.target);
        header.set_entry_type(self.kind);
        header.set_mode(self.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_600_000_000);
        header.set_size(self.size.unwrap_or(self.content.len() as u64));
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(self.content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }
}

fn tar(entries: &[Raw<'_>]) -> Vec<u8> {
    let mut bytes: Vec<u8> = entries.iter().flat_map(Raw::bytes).collect();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A workspace with a file beside the directory that archives are unpacked to.
fn hostile_fixture() -> Fixture {
    let fixture = Fixture::new();
    fs::write(fixture.path("beside"), "beside").unwrap();
    fs::create_dir(fixture.path("to")).unwrap();
    fixture
}

/// Nothing but `to` was touched.
fn assert_untouched(fixture: &Fixture, what: &str) {
    let outer = tree(fixture.outer.path());
    let names: Vec<String> = outer
        .keys()
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .filter(|name| !name.starts_with("top/to/"))
        .collect();
    assert_eq!(names, ["secret", "top", "top/beside", "top/to"], "{what}");
    for (path, content) in [("secret", b"secret"), ("top/beside", b"beside")] {
        let entry = &outer[path.as_bytes()];
        assert_eq!(entry.2, content, "{what}");
        let meta = fs::metadata(fixture.outer.path().join(path)).unwrap();
        assert_eq!(meta.nlink(), 1, "{what}: {path} has another name");
        assert_ne!(meta.mtime(), 1_600_000_000, "{what}: {path} has another time");
    }
}

#[test]
fn entries_that_lead_out_are_left_out() {
    use EntryType::{Link, Regular, Symlink};
    let table: [(&str, Vec<Raw<'_>>, &[&str]); 12] = [
        ("absolute", vec![file(b"/tmp/slipway-absolute", b"x")], &[]),
        ("parents", vec![file(b"../beside", b"x"), file(b"a/../../beside", b"x")], &[]),
        ("link up", vec![link(Symlink, b"l", b".."), file(b"l/beside", b"x")], &["l"]),
        ("link far up", vec![link(Symlink, b"l", b"../.."), file(b"l/secret", b"x")], &["l"]),
        ("absolute link", vec![link(Symlink, b"l", b"/"), file(b"l/tmp/slipway-through", b"x")], &["l"]),
        (
            "directory through a link",
            vec![link(Symlink, b"l", b".."), raw(EntryType::Directory, b"l/new/")],
            &["l"],
        ),
        ("directory over a link", vec![link(Symlink, b"l", b".."), raw(EntryType::Directory, b"l/")], &["l"]),
        ("link through a link", vec![link(Symlink, b"l", b".."), link(Symlink, b"l/x", b"y")], &["l"]),
        ("hard link out", vec![link(Link, b"h", b"../../secret"), link(Link, b"i", b"/etc/passwd")], &[]),
        ("hard link through a link", vec![link(Symlink, b"l", b".."), link(Link, b"h", b"l/beside")], &["l"]),
        (
            "hard link to a link, then a file through it",
            vec![link(Symlink, b"l", b"../beside"), link(Link, b"h", b"l"), file(b"h", b"x")],
            &["h", "l"],
        ),
        ("a file over the top", vec![raw(Regular, b"."), raw(Regular, b"./"), raw(Symlink, b".")], &[]),
    ];
    for (what, entries, expected) in table {
        let archive = tar(&entries);
        for (format, bytes) in [(ArchiveFormat::Tar, archive.clone()), (ArchiveFormat::TarGz, gzip(&archive))]
        {
            let fixture = hostile_fixture();
            let report = unpack(&fixture, "to", format, &bytes);
            assert_untouched(&fixture, what);
            let found: Vec<Vec<u8>> = tree(&fixture.path("to")).into_keys().collect();
            let expected: Vec<Vec<u8>> = expected.iter().map(|name| name.as_bytes().to_vec()).collect();
            assert_eq!(found, expected, "{what}: {:?}", report.skipped);
            // The directory `./` of an old archive is the top itself, and counts for nothing.
            let counted = report.files + report.directories + report.symlinks + report.skipped_count;
            let of_top = u64::from(what == "a file over the top");
            assert_eq!(counted + of_top, entries.len() as u64, "{what}: {report:?}");
        }
    }
    assert!(!std::path::Path::new("/tmp/slipway-absolute").exists());
    assert!(!std::path::Path::new("/tmp/slipway-through").exists());
}

#[test]
fn a_link_that_was_there_before_is_not_followed_out() {
    let archive = tar(&[file(b"l/beside", b"x"), raw(EntryType::Directory, b"l/d/"), file(b"in/f", b"x")]);
    let fixture = hostile_fixture();
    symlink("..", fixture.path("to/l")).unwrap();
    fs::create_dir(fixture.path("to/real")).unwrap();
    symlink("real", fixture.path("to/in")).unwrap();
    let report = unpack(&fixture, "to", ArchiveFormat::Tar, &archive);
    assert_untouched(&fixture, "a link that was there");
    assert_eq!(report.skipped_count, 2, "{report:?}");
    assert_eq!(fs::read(fixture.path("to/real/f")).unwrap(), b"x");
}

#[test]
fn a_directory_that_is_swapped_for_a_link_meanwhile_leads_nowhere_else() {
    const ROUNDS: usize = 20;
    let names: Vec<Vec<u8>> = (0..50).map(|number| format!("d/{number}").into_bytes()).collect();
    let mut entries: Vec<Raw<'_>> = names.iter().map(|name| file(name, b"x")).collect();
    entries.push(file(b"d/beside", b"x"));
    entries.push(link(EntryType::Link, b"d/linked", b"d/beside"));
    entries.push(raw(EntryType::Directory, b"d/new/"));
    let archive = tar(&entries);
    let fixture = hostile_fixture();
    fs::create_dir(fixture.path("to/d")).unwrap();
    symlink("..", fixture.path("to/swap")).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let to = fs::File::open(fixture.path("to")).unwrap();
            while !done.load(Ordering::Relaxed) {
                renameat2(&to, "d", &to, "swap", RenameFlags::RENAME_EXCHANGE).unwrap();
            }
        });
        for _ in 0..ROUNDS {
            unpack(&fixture, "to", ArchiveFormat::Tar, &archive);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_untouched(&fixture, "a swapped directory");
}

#[test]
fn what_a_sandbox_may_not_have_is_dropped() {
    let mut device = Header::new_gnu();
    device.as_old_mut().name[..6].copy_from_slice(b"device");
    device.set_entry_type(EntryType::Char);
    device.set_device_major(0).unwrap();
    device.set_device_minor(0).unwrap();
    device.set_size(0);
    device.set_mode(0o644);
    device.set_cksum();
    let xattr = b"30 SCHILY.xattr.user.x=secret\n";
    let mut archive = device.as_bytes().to_vec();
    archive.extend(tar(&[
        raw(EntryType::Fifo, b"fifo"),
        raw(EntryType::Block, b"block"),
        Raw { mode: 0o6755, ..file(b"set-id", b"x") },
        Raw { mode: 0o7777, ..raw(EntryType::Directory, b"sticky/") },
        pax(xattr),
        file(b"attributes", b"x"),
        Raw { content: b"ignored", ..raw(EntryType::XGlobalHeader, b"global") },
        pax(b"22 GNU.sparse.major=1\n"),
        file(b"GNUSparseFile.0/holes", b"x"),
        raw(EntryType::new(b'?'), b"unknown"),
    ]));
    let fixture = hostile_fixture();
    let report = unpack(&fixture, "to", ArchiveFormat::Tar, &archive);
    let skipped: Vec<String> = report.skipped.iter().map(|skipped| skipped.path.lossy()).collect();
    assert_eq!(skipped, ["device", "fifo", "block", "GNUSparseFile.0/holes", "unknown"]);
    let modes: Vec<(Vec<u8>, u32)> =
        tree(&fixture.path("to")).into_iter().map(|(name, entry)| (name, entry.0)).collect();
    let expected = [("attributes", 0o100_644), ("set-id", 0o100_755), ("sticky", 0o40_777)];
    assert_eq!(modes, expected.map(|(name, mode)| (name.as_bytes().to_vec(), mode)));
    let script = "import os,sys; print(os.listxattr(sys.argv[1]))";
    let listed = run("python3", &["-c", script, "to/attributes"], &fixture.path(""));
    assert_eq!(listed, "[]\n");
}

#[test]
fn names_of_any_length_and_depth_are_unpacked_or_left_out() {
    let deep = [b"d/".repeat(99), b"f".to_vec()].concat();
    let long_name = |name: &[u8]| {
        let content = [name, b"\0"].concat();
        Raw { content: &content, ..raw(EntryType::GNULongName, b"././@LongLink") }.bytes()
    };
    let mut archive = long_name(&deep);
    archive.extend(file(b"short", b"deep").bytes());
    for name in [&[b'x'; 256][..], &b"y/".repeat(3000)[..]] {
        archive.extend(long_name(name));
        archive.extend(file(b"short", b"too long").bytes());
    }
    archive.extend(tar(&[file(b"nul\0hidden", b"x")]));
    let fixture = hostile_fixture();
    let report = unpack(&fixture, "to", ArchiveFormat::Tar, &archive);
    assert_eq!((report.files, report.skipped_count), (2, 2), "{report:?}");
    assert_eq!(fs::read(fixture.path("to/nul")).unwrap(), b"x");
    let deep = format!("to/{}", String::from_utf8(deep).unwrap());
    assert_eq!(fs::read(fixture.path(&deep)).unwrap(), b"deep");
    // Every level is packed again.
    for format in FORMATS {
        let fixture = &fixture;
        let again = unpack(fixture, &format!("again{format:?}"), format, &pack(fixture, "to", format));
        assert_eq!((again.files, again.directories), (2, 99), "{format:?}");
    }
}

fn refused(format: ArchiveFormat, archive: Vec<u8>, bounds: Bounds) -> (Fixture, FilesError) {
    let fixture = hostile_fixture();
    let mut exchange = Recorder::with_large_body(archive);
    let done = unpack_within(&fixture.workspace, &mut exchange, &"to".into(), format, bounds);
    assert_eq!(exchange.reply, None);
    assert_untouched(&fixture, "refused");
    (fixture, done.expect_err("refused"))
}

#[test]
fn a_corrupt_or_cut_archive_says_so_and_keeps_what_came_before() {
    let whole = tar(&[file(b"first", b"1"), file(b"second", &[b'2'; 5000])]);
    let compressed = gzip(&whole);
    let mut wrong_sum = whole.clone();
    wrong_sum[1024 + 10] ^= 1;
    let mut wrong_crc = compressed.clone();
    let at = wrong_crc.len() - 5;
    wrong_crc[at] ^= 1;
    let table = [
        ("nothing", ArchiveFormat::Tar, vec![], false),
        ("nothing", ArchiveFormat::TarGz, vec![], false),
        ("nothing", ArchiveFormat::Zip, vec![], false),
        ("text", ArchiveFormat::Tar, b"no archive".repeat(100), false),
        ("text", ArchiveFormat::TarGz, b"no archive".repeat(100), false),
        ("text", ArchiveFormat::Zip, b"no archive".repeat(100), false),
        ("gzip as tar", ArchiveFormat::Tar, compressed.clone(), false),
        ("half a header", ArchiveFormat::Tar, whole[..1024 + 100].to_vec(), true),
        ("half a file", ArchiveFormat::Tar, whole[..3000].to_vec(), true),
        ("a wrong header", ArchiveFormat::Tar, wrong_sum, true),
        ("half a stream", ArchiveFormat::TarGz, compressed[..compressed.len() - 20].to_vec(), true),
        ("a wrong checksum", ArchiveFormat::TarGz, wrong_crc, true),
        ("a name without a file", ArchiveFormat::Tar, pax(b"10 path=x\n").bytes(), false),
    ];
    for (what, format, archive, keeps_first) in table {
        let (fixture, error) = refused(format, archive, Bounds::default());
        let failure = error.failure();
        assert_eq!(failure.code, FilesErrorCode::InvalidRequest, "{what} {format:?}: {failure:?}");
        assert_eq!(fixture.path("to/first").exists(), keeps_first, "{what} {format:?}");
        let names = tree(&fixture.path("to")).into_keys();
        assert!(names.filter(|name| name.starts_with(b".")).count() == 0, "{what}: a temporary name");
    }
    // The caller's connection, not the archive.
    for (format, archive) in
        [(ArchiveFormat::Tar, whole), (ArchiveFormat::TarGz, compressed), (ArchiveFormat::Zip, vec![0; 100])]
    {
        let fixture = hostile_fixture();
        let mut exchange =
            Recorder { cut: true, ..Recorder::with_large_body(archive[..archive.len() / 2].to_vec()) };
        let done = unpack_within(&fixture.workspace, &mut exchange, &"to".into(), format, Bounds::default());
        assert_eq!(done.expect_err("cut").failure().code, FilesErrorCode::BodyCut, "{format:?}");
    }
}

#[test]
fn every_limit_ends_an_archive_with_its_reason() {
    let sparse = |size: u64| {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..5].copy_from_slice(b"holes");
        header.set_entry_type(EntryType::GNUSparse);
        header.set_size(0);
        header.set_mode(0o644);
        let gnu = header.as_gnu_mut().unwrap();
        gnu.set_real_size(size);
        gnu.sparse[0].set_offset(size);
        gnu.sparse[0].set_length(0);
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.resize(bytes.len() + 1024, 0);
        bytes
    };
    let large_name = vec![b'n'; 2 << 20];
    let zeros = vec![0; 8 << 20];
    let many: Vec<Raw<'_>> = (0..20).map(|_| raw(EntryType::Directory, b"same/")).collect();
    let small = Bounds { free_bytes: 1 << 16, ratio: 100, ..Bounds::default() };
    let table = [
        ("entries", tar(&many), Bounds { entries: 19, ..Bounds::default() }, FilesErrorCode::TooMany),
        ("a bomb", tar(&[file(b"zeros", &zeros)]), small.clone(), FilesErrorCode::TooLarge),
        ("a bomb that is left out", tar(&[file(b"/zeros", &zeros)]), small.clone(), FilesErrorCode::TooLarge),
        (
            "a bomb behind the end",
            [tar(&[]), zeros.clone()].concat(),
            small.clone(),
            FilesErrorCode::TooLarge,
        ),
        (
            "a long name",
            tar(&[
                Raw { content: &large_name, ..raw(EntryType::GNULongName, b"././@LongLink") },
                file(b"f", b""),
            ]),
            Bounds::default(),
            FilesErrorCode::TooLarge,
        ),
        ("holes", sparse(1 << 40), small.clone(), FilesErrorCode::TooLarge),
        ("holes without end", sparse(i64::MAX as u64), small.clone(), FilesErrorCode::TooLarge),
        (
            "bytes",
            tar(&[file(b"f", &zeros[..10_000])]),
            Bounds { bytes: 5_000, ..Bounds::default() },
            FilesErrorCode::TooLarge,
        ),
        (
            "time",
            tar(&[file(b"f", &zeros)]),
            Bounds { work: Duration::ZERO, ..Bounds::default() },
            FilesErrorCode::TimedOut,
        ),
        (
            "a size without content",
            tar(&[Raw { size: Some(1 << 50), ..file(b"f", b"") }]),
            Bounds::default(),
            FilesErrorCode::InvalidRequest,
        ),
    ];
    for (what, archive, bounds, code) in table {
        let (fixture, error) = refused(ArchiveFormat::TarGz, gzip(&archive), bounds);
        assert_eq!(error.failure().code, code, "{what}: {:?}", error.failure());
        assert!(!fixture.path("to/zeros").exists(), "{what}: half a file");
    }
}

/// A zip of one deflated file of zeros, and where its central header is.
fn zip(size: usize) -> (Vec<u8>, usize) {
    let fixture = Fixture::new();
    fs::write(fixture.path("f"), vec![0; size]).unwrap();
    let bytes = pack(&fixture, "f", ArchiveFormat::Zip);
    let at = bytes.windows(4).rposition(|word| word == b"PK\x01\x02").unwrap();
    (bytes, at)
}

#[test]
fn a_zip_that_lies_is_refused() {
    let patched = |at: usize, bytes: &[u8]| {
        let (mut archive, central) = zip(100_000);
        archive[central + at..central + at + bytes.len()].copy_from_slice(bytes);
        archive
    };
    let ended = |at: usize, bytes: &[u8]| {
        let (mut archive, _) = zip(100_000);
        let end = archive.len() - 22 + at;
        archive[end..end + bytes.len()].copy_from_slice(bytes);
        archive
    };
    let (whole, _) = zip(100_000);
    let table = [
        ("a smaller size", patched(24, &1000_u32.to_le_bytes())),
        ("a larger size", patched(24, &200_000_u32.to_le_bytes())),
        ("a larger compressed size", patched(20, &u32::to_le_bytes(1 << 30))),
        ("another checksum", patched(16, b"abcd")),
        ("an offset behind the end", patched(42, &u32::to_le_bytes(1 << 30))),
        ("an offset that is no entry", patched(42, &5_u32.to_le_bytes())),
        ("a large size without its field", patched(24, &u32::MAX.to_le_bytes())),
        ("a long name", patched(28, &u16::MAX.to_le_bytes())),
        ("no entry in the directory", patched(0, b"XXXX")),
        ("more entries", ended(10, &9_u16.to_le_bytes())),
        ("a larger directory", ended(12, &u32::to_le_bytes(1 << 30))),
        ("a directory elsewhere", ended(16, &u32::to_le_bytes(1 << 30))),
        ("a cut", whole[..whole.len() - 30].to_vec()),
        ("a cut begin", whole[20..].to_vec()),
    ];
    for (what, archive) in table {
        let (fixture, error) = refused(ArchiveFormat::Zip, archive, Bounds::default());
        assert_eq!(error.failure().code, FilesErrorCode::InvalidRequest, "{what}: {:?}", error.failure());
        assert_eq!(tree(&fixture.path("to")).len(), 0, "{what}");
    }
    let bounds = Bounds { free_bytes: 0, ratio: 10, ..Bounds::default() };
    let (fixture, error) = refused(ArchiveFormat::Zip, zip(1 << 20).0, bounds);
    assert_eq!(error.failure().code, FilesErrorCode::TooLarge, "{:?}", error.failure());
    assert_eq!(tree(&fixture.path("to")).len(), 0);
}

#[test]
fn a_zip_whose_entries_lead_out_leaves_them_out() {
    let fixture = hostile_fixture();
    let script = "import sys,zipfile\nz=zipfile.ZipFile(sys.argv[1],'w')\n\
        def add(n,c,a=0o100644):\n i=zipfile.ZipInfo(n); i.external_attr=a<<16; i.create_system=3; z.writestr(i,c)\n\
        add('/tmp/slipway-zip',b'x')\nadd('../beside',b'x')\nadd('l',b'..',0o120777)\nadd('l/beside',b'x')\n\
        add('l/d/',b'',0o40755)\nadd('long',b'x'*5000,0o120777)\nadd('device',b'',0o20644)\nadd('set',b'x',0o104755)\nz.close()";
    run("python3", &["-c", script, "to/a.zip"], &fixture.path(""));
    let archive = fs::read(fixture.path("to/a.zip")).unwrap();
    let report = unpack(&fixture, "to", ArchiveFormat::Zip, &archive);
    assert_untouched(&fixture, "zip");
    let names: Vec<String> = report.skipped.iter().map(|skipped| skipped.path.lossy()).collect();
    assert_eq!(names, ["/tmp/slipway-zip", "../beside", "l/beside", "l/d/", "long", "device"]);
    assert_eq!(fs::metadata(fixture.path("to/set")).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn links_to_files_of_the_archive_are_kept() {
    let archive = tar(&[
        file(b"a", b"content"),
        link(EntryType::Link, b"d/b", b"./a"),
        link(EntryType::Link, b"d/b", b"a"),
        link(EntryType::Link, b"absent", b"nothing"),
        raw(EntryType::Directory, b"e/"),
        link(EntryType::Link, b"directory", b"e"),
    ]);
    let fixture = hostile_fixture();
    let report = unpack(&fixture, "to", ArchiveFormat::Tar, &archive);
    assert_eq!((report.files, report.skipped_count), (3, 2), "{report:?}");
    let meta = fs::metadata(fixture.path("to/d/b")).unwrap();
    assert_eq!((meta.nlink(), meta.ino()), (2, fs::metadata(fixture.path("to/a")).unwrap().ino()));
    assert_eq!(tree(&fixture.path("to")).len(), 4, "no temporary name is left");
}

#[test]
fn a_gone_caller_ends_both_ways() {
    let fixture = hostile_fixture();
    fs::write(fixture.path("to/f"), vec![1; 1 << 20]).unwrap();
    for format in FORMATS {
        let archive = pack(&fixture, "to", format);
        let mut exchange = Recorder { cancelled: true, ..Recorder::default() };
        let select = protocol::files::Selection::default();
        let request = protocol::files::FilesRequest::Pack { path: "to".into(), format, select };
        let done = crate::perform(&fixture.workspace, &mut exchange, &request);
        assert!(matches!(done, Err(FilesError::Cancelled)), "{format:?}");
        assert_eq!(exchange.reply, Some(FilesReply::Archive));
        if format == ArchiveFormat::Zip {
            let mut exchange = Recorder { cancelled: true, ..Recorder::with_large_body(archive) };
            let bounds = Bounds::default();
            let done = unpack_within(&fixture.workspace, &mut exchange, &"x".into(), format, bounds);
            assert!(matches!(done, Err(FilesError::Cancelled)));
        }
    }
}
