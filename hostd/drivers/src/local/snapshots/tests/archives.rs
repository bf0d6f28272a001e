//! Archives: files with holes, readers that go away, and archives that nobody should trust.

use super::{
    super::{
        super::super::DriverError,
        archive::{ImportSource, NOTE},
        compressed_pipe::{StallGuard, write_compressed},
        manifest::write_tree,
    },
    Excludes, Host, SnapshotMethod, StackIds, as_owner, fill, id, run,
};
use protocol::api::{SandboxId, SnapshotId};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use tar::{Builder, EntryType, Header};

const SPARSE_BYTES: u64 = 3 << 40;

fn copying() -> Host {
    Host::on("host", SnapshotMethod::Copy, StackIds::OnDisk)
}

fn snapshot_with(host: &Host, write: impl Fn(&Path) + Sync) -> SnapshotId {
    let sandbox = id::<SandboxId>();
    let workspace = host.make(&sandbox);
    fill(&workspace);
    as_owner(&workspace, || write(&workspace));
    host.take(&sandbox, &Excludes::default(), None)
}

fn exported(host: &Host, snapshot: &SnapshotId) -> Vec<u8> {
    let (mut reader, writer) = io::pipe().expect("a pipe");
    std::thread::scope(|scope| {
        let read = scope.spawn(move || {
            let mut archive = vec![];
            reader.read_to_end(&mut archive).map(|_| archive)
        });
        host.workspaces().export_snapshot(snapshot, b"{\"sha256\":\"1\"}", writer).expect("exported");
        read.join().expect("no panic").expect("read")
    })
}

type Imported = Result<(SnapshotId, Option<Vec<u8>>), DriverError>;

fn import_with(
    host: &Host,
    archive: &[u8],
    check_room: &mut (dyn FnMut(u64) -> Result<(), DriverError> + Send),
) -> Imported {
    let (reader, mut writer) = io::pipe().expect("a pipe");
    let snapshot = id::<SnapshotId>();
    std::thread::scope(|scope| {
        // Fails where the archive is refused before its end.
        scope.spawn(move || drop(writer.write_all(archive)));
        let source = ImportSource { archive: reader, check_room };
        let note = host.workspaces().import_snapshot(&snapshot, source)?;
        Ok((snapshot, note))
    })
}

fn import(host: &Host, archive: &[u8]) -> Imported {
    import_with(host, archive, &mut |_| Ok(()))
}

/// The files of the only layer that an import made.
fn tree_of(host: &Host, snapshot: &SnapshotId) -> PathBuf {
    let record = super::SnapshotRecord::read(&host.layout, snapshot).expect("read").expect("there");
    record.layers[0].dir(&host.layout)
}

fn assert_nothing_left(host: &Host, what: &str) {
    for dir in [host.layout.trash(), host.layout.snapshots()] {
        assert_eq!(fs::read_dir(dir).expect("there").count(), 0, "{what}");
    }
    assert_eq!(host.layers(), 0, "{what}");
}

/// A member with content, owned by root.
struct Member {
    kind: EntryType,
    name: &'static str,
    link: &'static str,
    mode: u32,
    content: Vec<u8>,
}

fn member(kind: EntryType, name: &'static str, content: impl AsRef<[u8]>) -> Member {
    Member { kind, name, link: "", mode: 0o644, content: content.as_ref().to_vec() }
}

fn archive(members: &[Member]) -> Vec<u8> {
    let mut builder = Builder::new(vec![]);
    for Member { kind, name, link, mode, content } in members {
        let mut header = Header::new_gnu();
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(*mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, &content[..]).expect("in memory");
    }
    builder.into_inner().expect("in memory")
}

fn pax(key: &str, value: &str) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let digits = (1..9).find(|digits| (rest + digits).to_string().len() == *digits).expect("one fits");
    format!("{} {key}={value}\n", rest + digits).into_bytes()
}

#[test]
fn a_file_with_holes_of_terabytes_is_exported_and_imported_as_it_is() {
    let host = copying();
    let snapshot = snapshot_with(&host, |workspace| {
        let file = File::create(workspace.join("sparse")).expect("made");
        file.set_len(SPARSE_BYTES).expect("set");
        // More parts than one header has room for.
        (0..60_u64).for_each(|part| file.write_all_at(b"here", part << 35).expect("written"));
        File::create(workspace.join("hole")).and_then(|file| file.set_len(SPARSE_BYTES)).expect("made");
        fs::write(workspace.join(NOTE), "a file of the sandbox").expect("written");
        fs::write(workspace.join("n".repeat(200)), "long").expect("written");
        for (name, mode) in [("sparse", 0o6755), ("workspace", 0o7775)] {
            fs::set_permissions(workspace.join(name), fs::Permissions::from_mode(mode)).expect("set");
        }
    });
    let archive = exported(&host, &snapshot);
    assert!(archive.len() < 1 << 20, "{}", archive.len());
    let (imported, note) = import(&host, &archive).expect("its own archive");
    assert_eq!(note.as_deref(), Some(&b"{\"sha256\":\"1\"}"[..]));
    let workspaces = host.workspaces();
    let manifest = |id: &SnapshotId| workspaces.write_manifest(id).expect("read");
    assert_eq!(manifest(&imported), manifest(&snapshot));
    let file = fs::metadata(tree_of(&host, &imported).join("sparse")).expect("there");
    assert!(file.len() == SPARSE_BYTES && file.blocks() < 2048, "{}", file.blocks());
}

#[test]
fn gnu_tar_reads_an_exported_archive() {
    let host = copying();
    let snapshot = snapshot_with(&host, |workspace| {
        let file = File::create(workspace.join("sparse")).expect("made");
        file.set_len(SPARSE_BYTES).expect("set");
        (0..60_u64).for_each(|part| file.write_all_at(b"here", part << 35).expect("written"));
        fs::write(workspace.join("n".repeat(200)), "long").expect("written");
    });
    let temp = tempfile::tempdir().expect("a directory");
    let (packed, tree) = (temp.path().join("a.tar"), temp.path().join("tree"));
    fs::create_dir(&tree).expect("made");
    let archive = exported(&host, &snapshot);
    let mut plain = vec![];
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(&archive[..]).expect("zstd");
    decoder.read_to_end(&mut plain).expect("whole");
    fs::write(&packed, plain).expect("written");
    run(Command::new("tar").arg("-xpf").arg(&packed).arg("--numeric-owner").arg("-C").arg(&tree));
    fs::remove_file(tree.join(NOTE)).expect("the note is there");
    let kept = host.workspaces().write_manifest(&snapshot).expect("read").sha256;
    assert_eq!(write_tree(&tree, io::sink()).expect("read").1.sha256, kept);
}

#[test]
fn an_export_ends_when_its_reader_is_gone_or_stalls() {
    let (mut reader, writer) = io::pipe().expect("a pipe");
    let mut written = 0_u64;
    let ended = std::thread::scope(|scope| {
        scope.spawn(move || drop(reader.read_exact(&mut [0; 1000])));
        write_compressed(writer, |out| {
            // What does not compress, without end.
            let mut random = File::open("/dev/urandom")?;
            let mut piece = vec![0; 64 << 10];
            loop {
                random.read_exact(&mut piece)?;
                out.write_all(&piece)?;
                written += piece.len() as u64;
            }
        })
    });
    assert_eq!(ended.expect_err("nobody reads it").kind(), io::ErrorKind::BrokenPipe);
    assert!(written < 16 << 20, "{written}");
    let (reader, writer) = io::pipe().expect("a pipe");
    let mut guard = StallGuard::new(writer, Duration::from_millis(20)).expect("a pipe");
    let stalled = guard.write_all(&vec![0; 1 << 20]).expect_err("nobody reads it");
    assert_eq!(stalled.kind(), io::ErrorKind::TimedOut);
    drop(reader);
}

#[test]
fn an_archive_without_a_top_makes_a_home_that_its_user_can_enter() {
    for (what, top) in [
        ("no top", vec![]),
        ("a top of root", vec![Member { mode: 0o6000, ..member(EntryType::Directory, "./", "") }]),
        (
            "a top of root, open to all",
            vec![Member { mode: 0o777, ..member(EntryType::Directory, "./", "") }],
        ),
    ] {
        let host = copying();
        let files = [member(EntryType::Regular, "dir/file", "x")];
        let (snapshot, note) =
            import(&host, &archive(&top.into_iter().chain(files).collect::<Vec<_>>())).expect(what);
        assert_eq!(note, None);
        let tree = tree_of(&host, &snapshot);
        let meta = fs::metadata(&tree).expect("there");
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7722), (1000, 1000, 0o700), "{what}");
        assert_eq!(fs::metadata(tree.join("dir")).expect("there").uid(), 1000, "{what}: it is not listed");
    }
}

#[test]
fn set_ids_and_capabilities_of_an_archive_are_dropped() {
    let host = copying();
    let mut attributes =
        pax("SCHILY.xattr.security.capability", "\u{1}\0\0\u{2}\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    attributes.extend(pax("SCHILY.xattr.trusted.overlay.opaque", "y"));
    attributes.extend(pax("SCHILY.xattr.user.note", "kept"));
    let (snapshot, _) = import(
        &host,
        &archive(&[
            member(EntryType::XHeader, "pax", attributes),
            Member { mode: 0o6755, ..member(EntryType::Regular, "su", "x") },
            Member { mode: 0o7777, ..member(EntryType::Directory, "dir", "") },
            member(EntryType::Char, "device", ""),
            member(EntryType::Fifo, "fifo", ""),
        ]),
    )
    .expect("imported");
    let tree = tree_of(&host, &snapshot);
    let mode =
        |name: &str| fs::symlink_metadata(tree.join(name)).expect("there").permissions().mode() & 0o7777;
    assert_eq!((mode("su"), mode("dir")), (0o755, 0o3777));
    let mut names = [0_u8; 512];
    let length = rustix::fs::llistxattr(tree.join("su"), &mut names).expect("read");
    assert_eq!(&names[..length], b"user.note\0");
    assert!(!tree.join("device").exists() && !tree.join("fifo").exists());
}

#[test]
fn a_planted_note_is_a_file_and_no_note() {
    let host = copying();
    let planted = [member(EntryType::Regular, NOTE, "true"), member(EntryType::Regular, NOTE, "planted")];
    let (snapshot, note) = import(&host, &archive(&planted)).expect("imported");
    assert_eq!(note.as_deref(), Some(&b"true"[..]));
    assert_eq!(fs::read(tree_of(&host, &snapshot).join(NOTE)).expect("there"), b"planted");
    let later = [member(EntryType::Regular, "a", ""), member(EntryType::Regular, NOTE, "planted")];
    assert_eq!(import(&host, &archive(&later)).expect("imported").1, None);
    let link = [Member { link: "/etc/passwd", ..member(EntryType::Symlink, NOTE, "") }];
    assert_eq!(import(&host, &archive(&link)).expect("imported").1, None);
}

#[test]
fn hostile_archives_are_refused_with_a_type_and_leave_nothing() {
    let bomb = compress_to_vec(
        &archive(&[member(EntryType::Regular, "zeros", vec![0; 64 << 20])])[..],
        CompressionLevel::Fastest,
    );
    let link = |name, link| Member { link, ..member(EntryType::Link, name, "") };
    let symlink = |name, link| Member { link, ..member(EntryType::Symlink, name, "") };
    for (what, bytes) in [
        ("nothing", vec![]),
        ("no files", archive(&[])),
        ("a large note", archive(&[member(EntryType::Regular, NOTE, vec![b'x'; 65 << 10])])),
        ("a name outside", archive(&[member(EntryType::Regular, "../file", "x")])),
        ("a link to what is outside", archive(&[link("file", "/etc/passwd")])),
        (
            "a file through a link",
            archive(&[symlink("dir", "/tmp"), member(EntryType::Regular, "dir/file", "x")]),
        ),
        ("a top that is a link", archive(&[symlink("./", "/tmp")])),
        ("garbage", b"garbage".repeat(1000)),
    ] {
        let host = copying();
        let error = import(&host, &bytes).expect_err(what);
        assert!(matches!(error, DriverError::Refused { field: "archive", .. }), "{what}: {error:?}");
        assert_nothing_left(&host, what);
    }
    assert!(bomb.len() < 1 << 20, "{}", bomb.len());
    let (host, mut asked) = (copying(), vec![]);
    let error = import_with(&host, &bomb, &mut |bytes| {
        asked.push(bytes);
        if bytes > 20 << 20 { Err(DriverError::DiskFull) } else { Ok(()) }
    })
    .expect_err("there is no room");
    assert!(matches!(error, DriverError::DiskFull), "{error:?}");
    assert!(asked.len() >= 4 && asked.last().is_some_and(|bytes| *bytes < 32 << 20), "{asked:?}");
    assert_nothing_left(&host, "a bomb");
}

#[test]
fn a_later_member_replaces_an_earlier_one_of_its_name() {
    let host = copying();
    let members = [
        member(EntryType::Regular, "file", "first"),
        Member { link: "file", ..member(EntryType::Link, "same", "") },
        member(EntryType::Regular, "./file", "second"),
    ];
    let (snapshot, _) = import(&host, &archive(&members)).expect("imported");
    let read = |name: &str| fs::read_to_string(tree_of(&host, &snapshot).join(name)).expect("there");
    assert_eq!((read("file"), read("same")), ("second".to_owned(), "first".to_owned()));
}
