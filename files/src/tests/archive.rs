//! Trees that are packed and unpacked, by these verbs and by the tools of others.

use super::fixture::{Fixture, Recorder};
use crate::{SandboxUser, UserGuard};
use nix::{
    sys::stat::Mode,
    unistd::{Gid, Uid, chown},
};
use protocol::files::{ArchiveFormat, FilesErrorCode, FilesReply, FilesRequest, Selection, UnpackReport};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File, Permissions},
    os::fd::OwnedFd,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{MetadataExt, PermissionsExt, symlink},
    },
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

pub const FORMATS: [ArchiveFormat; 3] = [ArchiveFormat::Tar, ArchiveFormat::TarGz, ArchiveFormat::Zip];

/// What a tree has: modes, times in seconds, content or targets, by path.
pub type Tree = BTreeMap<Vec<u8>, (u32, i64, Vec<u8>)>;

pub fn tree(top: &Path) -> Tree {
    let mut found = Tree::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = match meta.file_type() {
                kind if kind.is_dir() => {
                    waiting.push(path.clone());
                    b"a directory".to_vec()
                }
                kind if kind.is_symlink() => fs::read_link(&path).unwrap().into_os_string().into_vec(),
                _ => fs::read(&path).unwrap(),
            };
            let name = path.strip_prefix(top).unwrap().as_os_str().as_bytes().to_vec();
            found.insert(name, (meta.mode(), meta.mtime(), content));
        }
    }
    found
}

/// Names that formats and their readers have trouble with.
fn hostile_names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        &b"plain.txt"[..],
        b" spaces and\ttabs\nand lines ",
        b"back\\slash",
        b"quote\"'`$(x)",
        b"\xff\xfe not utf-8",
        "ünïcödé ✓".as_bytes(),
        b"-rf",
        b".wh.whiteout",
        b"...",
        b"* ? [a]",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    names.extend([99, 100, 101, 255].map(|length| vec![b'n'; length]));
    names
}

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(path).unwrap().set_modified(time).unwrap();
}

/// A tree with names, links, modes and sizes of every kind, and things that are left out.
fn make_tree(top: &Path) {
    let at = |name: &[u8]| top.join(OsStr::from_bytes(name));
    for (number, name) in hostile_names().into_iter().enumerate() {
        fs::write(at(&name), vec![b'x'; number * 1000]).unwrap();
        fs::set_permissions(at(&name), Permissions::from_mode([0o644, 0o755, 0o6600, 0o1444][number % 4]))
            .unwrap();
        set_time(&at(&name), 1_500_000_000 + number as u64);
    }
    let deep = top.join(OsStr::from_bytes(&[b"d".repeat(200), b"/".to_vec(), b"e".repeat(200)].concat()));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("inner"), "inner").unwrap();
    fs::create_dir(at(b"empty")).unwrap();
    fs::create_dir(at(b"locked")).unwrap();
    fs::write(at(b"locked/file"), "in a directory that may not be written").unwrap();
    fs::set_permissions(at(b"locked"), Permissions::from_mode(0o555)).unwrap();
    fs::write(
        at(b"binary"),
        (0..100_000_u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect::<Vec<u8>>(),
    )
    .unwrap();
    for (name, target) in [
        ("link", "plain.txt"),
        ("dangling", "nowhere/../x"),
        ("outside", "/etc/passwd"),
        ("up", "../../secret"),
        ("long", &"t/".repeat(300)),
    ] {
        symlink(target, top.join(name)).unwrap();
    }
    symlink(OsStr::from_bytes(b"\xff"), at(b"bytes")).unwrap();
    // Whose times follow from what is put into them.
    for directory in [deep.as_path(), deep.parent().unwrap(), &top.join("empty"), &top.join("locked")] {
        set_time(directory, 1_400_000_000);
    }
}

/// The tree as an archive keeps it: without set-id and sticky bits, and without the times of links.
fn kept(tree: Tree) -> Tree {
    let is_link = |mode: u32| mode & 0o170_000 == 0o120_000;
    tree.into_iter()
        .map(|(name, (mode, time, content))| {
            (name, (mode & 0o170_777, if is_link(mode) { 0 } else { time }, content))
        })
        .collect()
}

pub fn pack(fixture: &Fixture, path: &str, format: ArchiveFormat) -> Vec<u8> {
    let request = FilesRequest::Pack { path: path.into(), format, select: Selection::default() };
    let (reply, bytes) = fixture.reply(&request, b"");
    assert_eq!(reply, FilesReply::Archive);
    bytes
}

pub fn unpack(fixture: &Fixture, path: &str, format: ArchiveFormat, archive: &[u8]) -> UnpackReport {
    let request = FilesRequest::Unpack { path: path.into(), format };
    let mut exchange = Recorder::with_large_body(archive.to_vec());
    let done = crate::perform(&fixture.workspace, &mut exchange, &request);
    done.unwrap_or_else(|error| panic!("{request:?}: {:?}", error.failure()));
    match exchange.reply {
        Some(FilesReply::Unpacked(report)) => report,
        other => panic!("{other:?}"),
    }
}

/// Runs a program; returns what it printed.
pub fn run(program: &str, arguments: &[&str], directory: &Path) -> String {
    let output = Command::new(program).args(arguments).current_dir(directory).output().expect(program);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_tree_is_the_same_after_each_format() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("from")).unwrap();
    make_tree(&fixture.path("from"));
    let expected = kept(tree(&fixture.path("from")));
    // Left out.
    nix::unistd::mkfifo(&fixture.path("from/fifo"), Mode::S_IRWXU).unwrap();
    drop(std::os::unix::net::UnixListener::bind(fixture.path("from/socket")).unwrap());
    for format in FORMATS {
        let archive = pack(&fixture, "from", format);
        assert_eq!(archive, pack(&fixture, "from/", format), "{format:?} of an unchanged tree");
        let to = format!("to/{format:?}");
        let report = unpack(&fixture, &to, format, &archive);
        assert_eq!((report.skipped_count, report.skipped), (0, vec![]), "{format:?}");
        assert_eq!((report.symlinks, report.directories), (6, 4), "{format:?}");
        assert_eq!(report.files as usize, expected.len() - 10, "{format:?}");
        let found = kept(tree(&fixture.path(&to)));
        for (name, entry) in &expected {
            let text = String::from_utf8_lossy(name);
            let found = found.get(name).unwrap_or_else(|| panic!("{format:?} lost {text}"));
            assert!(found == entry, "{format:?} changed {text}: {:?} {:?}", found.0, entry.0);
        }
        assert_eq!(found.len(), expected.len(), "{format:?}");
    }
}

#[test]
fn other_programs_read_what_was_packed() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("from")).unwrap();
    make_tree(&fixture.path("from"));
    let expected = kept(tree(&fixture.path("from")));
    for (format, file) in
        [(ArchiveFormat::Tar, "a.tar"), (ArchiveFormat::TarGz, "a.tar.gz"), (ArchiveFormat::Zip, "a.zip")]
    {
        let to = fixture.path(&format!("by {file}"));
        fs::create_dir(&to).unwrap();
        fs::write(fixture.path(file), pack(&fixture, "from", format)).unwrap();
        let archive = format!("../{file}");
        if format == ArchiveFormat::Zip {
            let script = "import sys,zipfile\nz=zipfile.ZipFile(sys.argv[1])\nassert z.testzip() is None\n\
                print(len(z.namelist()))";
            let count = run("python3", &["-c", script, &archive], &to);
            assert_eq!(count.trim(), expected.len().to_string());
            continue;
        }
        run("tar", &["-xpf", &archive], &to);
        assert!(kept(tree(&to)) == expected, "{file}");
        let script = "import sys,tarfile\nt=tarfile.open(sys.argv[1])\n\
            assert all(m.uid==1000 and m.mode<=0o777 for m in t)\nprint(len(t.getnames()))";
        assert_eq!(run("python3", &["-c", script, &archive], &to).trim(), expected.len().to_string());
    }
}

#[test]
fn what_other_programs_packed_is_read() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("from")).unwrap();
    make_tree(&fixture.path("from"));
    let expected = kept(tree(&fixture.path("from")));
    let python = |format: &str| {
        let script = format!(
            "import sys,tarfile,os\nt=tarfile.open(sys.argv[1],'w',format=tarfile.{format},\
             encoding='utf-8',errors='surrogateescape')\n[t.add(n) for n in sorted(os.listdir('.'))]\nt.close()"
        );
        vec!["python3".to_owned(), "-c".to_owned(), script, "../archive".to_owned()]
    };
    let gnu = |options: &[&str]| {
        let words = ["tar"].iter().chain(options).chain(&["-cf", "../archive", "."]);
        words.map(|word| (*word).to_owned()).collect::<Vec<String>>()
    };
    let table = [
        (ArchiveFormat::Tar, gnu(&["--format=gnu"])),
        (ArchiveFormat::Tar, gnu(&["--format=gnu", "--sparse"])),
        (ArchiveFormat::Tar, gnu(&["--format=posix", "--xattrs"])),
        (ArchiveFormat::TarGz, gnu(&["-z"])),
        (ArchiveFormat::Tar, python("GNU_FORMAT")),
        (ArchiveFormat::Tar, python("PAX_FORMAT")),
    ];
    for (number, (format, command)) in table.into_iter().enumerate() {
        let arguments: Vec<&str> = command[1..].iter().map(String::as_str).collect();
        run(&command[0], &arguments, &fixture.path("from"));
        let to = format!("to{number}");
        let report = unpack(&fixture, &to, format, &fs::read(fixture.path("archive")).unwrap());
        assert_eq!(report.skipped, vec![], "{command:?}");
        let found = kept(tree(&fixture.path(&to)));
        assert!(found == expected, "{command:?}: {} of {}", found.len(), expected.len());
    }
}

#[test]
fn a_zip_of_another_program_is_read() {
    let fixture = Fixture::new();
    let script = "import sys,zipfile,stat\nz=zipfile.ZipFile(sys.argv[1],'w')\n\
        def add(n,c,a=0,how=8):\n i=zipfile.ZipInfo(n,(2020,2,29,12,0,2)); i.external_attr=a<<16; i.compress_type=how\n z.writestr(i,c)\n\
        add('dir/',b'',0o40750)\nadd('dir/deflated',b'x'*100000,0o100640)\nadd('stored',b'abc',0o600,0)\n\
        add('\\u00fc',b'utf-8')\nadd('link',b'dir/deflated',0o120777)\nadd('twice',b'1')\nadd('twice',b'22')\n\
        add('fifo',b'',0o10644)\nadd('bzip',b'z'*1000,0o100644,12)\n\
        z.comment=b'PK\\x05\\x06 comment'\nz.close()\n\
        d=open(sys.argv[1],'rb').read()\nopen(sys.argv[1],'wb').write(b'#!/bin/sh\\n'+d)";
    run("python3", &["-W", "ignore", "-c", script, "a.zip"], &fixture.path(""));
    let archive = fs::read(fixture.path("a.zip")).unwrap();
    let report = unpack(&fixture, "to", ArchiveFormat::Zip, &archive);
    let reasons: Vec<String> =
        report.skipped.iter().map(|skipped| format!("{:?} {}", skipped.path, skipped.reason)).collect();
    assert_eq!(
        reasons,
        ["\"fifo\" a device, a FIFO or a socket", "\"bzip\" a file compressed in an unknown way"]
    );
    let found = tree(&fixture.path("to"));
    let modes: Vec<(String, u32)> =
        found.iter().map(|(name, entry)| (String::from_utf8_lossy(name).into_owned(), entry.0)).collect();
    let expected = [
        ("dir", 0o40750),
        ("dir/deflated", 0o100_640),
        ("link", 0o120_777),
        ("stored", 0o100_600),
        ("twice", 0o100_600),
        ("ü", 0o100_600),
    ];
    assert_eq!(modes, expected.map(|(name, mode)| (name.to_owned(), mode)));
    assert_eq!(found[&b"dir/deflated"[..]].2.len(), 100_000);
    assert_eq!(found[&b"twice"[..]].2, b"22");
    // 2020-02-29 12:00:02, in UTC.
    assert_eq!(found[&b"stored"[..]].1, 1_582_977_602);
}

#[test]
fn one_file_and_an_empty_tree_are_archives_too() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("d")).unwrap();
    fs::write(fixture.path("d/f"), "content").unwrap();
    symlink("d/f", fixture.path("link")).unwrap();
    fs::create_dir(fixture.path("empty")).unwrap();
    for format in FORMATS {
        for (path, expected) in [("d/f", &["f"][..]), ("link", &["link"]), ("empty", &[]), ("d", &["f"])] {
            let to = format!("to/{format:?}/{}", path.replace('/', "-"));
            unpack(&fixture, &to, format, &pack(&fixture, path, format));
            let found: Vec<Vec<u8>> = tree(&fixture.path(&to)).into_keys().collect();
            let expected: Vec<Vec<u8>> = expected.iter().map(|name| name.as_bytes().to_vec()).collect();
            assert_eq!(found, expected, "{format:?} {path}");
        }
    }
    nix::unistd::mkfifo(&fixture.path("fifo"), Mode::S_IRWXU).unwrap();
    for (path, code) in [
        ("fifo", FilesErrorCode::NotAFile),
        ("absent", FilesErrorCode::NotFound),
        ("../secret", FilesErrorCode::Outside),
    ] {
        let select = Selection::default();
        let request = FilesRequest::Pack { path: path.into(), format: ArchiveFormat::Tar, select };
        let (done, exchange) = fixture.perform(&request, b"");
        assert_eq!(exchange.reply, None, "{path}");
        assert_eq!(done.expect_err("refused").failure().code, code, "{path}");
    }
}

#[test]
fn a_selection_leaves_entries_out_of_an_archive() {
    let fixture = Fixture::new();
    for name in ["a", "b.log", "c"] {
        fs::write(fixture.path(name), name).unwrap();
    }
    fs::write(fixture.path(".gitignore"), "*.log\n").unwrap();
    let select = Selection { ignore: true, exclude: vec!["c".to_owned()] };
    let request = FilesRequest::Pack { path: "".into(), format: ArchiveFormat::Tar, select };
    let (_, archive) = fixture.reply(&request, b"");
    unpack(&fixture, "to", ArchiveFormat::Tar, &archive);
    let found: Vec<Vec<u8>> = tree(&fixture.path("to")).into_keys().collect();
    assert_eq!(found, [b".gitignore".to_vec(), b"a".to_vec()]);
}

#[test]
fn files_are_replaced_and_directories_stay() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("from/d")).unwrap();
    fs::write(fixture.path("from/d/f"), "new").unwrap();
    fs::write(fixture.path("from/was_link"), "file").unwrap();
    symlink("d", fixture.path("from/was_file")).unwrap();
    fs::write(fixture.path("from/was_directory"), "file").unwrap();
    for format in FORMATS {
        let to = format!("to{format:?}");
        let at = |name: &str| fixture.path(&format!("{to}/{name}"));
        fs::create_dir_all(at("d")).unwrap();
        fs::write(at("d/f"), "old").unwrap();
        fs::write(at("d/other"), "stays").unwrap();
        fs::hard_link(at("d/f"), at("second")).unwrap();
        symlink("d/f", at("was_link")).unwrap();
        fs::write(at("was_file"), "x").unwrap();
        fs::create_dir(at("was_directory")).unwrap();
        let report = unpack(&fixture, &to, format, &pack(&fixture, "from", format));
        assert_eq!(fs::read(at("d/f")).unwrap(), b"new", "{format:?}");
        assert_eq!(fs::read(at("d/other")).unwrap(), b"stays");
        assert_eq!(fs::read(at("second")).unwrap(), b"old", "another name keeps the old content");
        assert!(fs::symlink_metadata(at("was_link")).unwrap().is_file());
        assert_eq!(fs::read_link(at("was_file")).unwrap(), Path::new("d"));
        assert!(at("was_directory").is_dir());
        assert_eq!(report.skipped_count, 1, "{:?}", report.skipped);
        let names = tree(&fixture.path(&to)).into_keys().collect::<Vec<_>>();
        assert_eq!(names.len(), 7, "no temporary name is left: {names:?}");
    }
}

#[test]
fn what_the_user_may_not_read_is_left_out_and_locked_directories_are_filled() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("from/locked")).unwrap();
    fs::create_dir(fixture.path("from/unreadable")).unwrap();
    for name in ["locked/inner", "secret", "open", "unreadable/inner"] {
        fs::write(fixture.path(&format!("from/{name}")), name).unwrap();
    }
    let user = (Some(Uid::from_raw(1000)), Some(Gid::from_raw(1000)));
    for path in ["", "from", "from/locked", "from/locked/inner", "from/secret", "from/open"] {
        // Without root's rights, the files are this user's already.
        let _ = chown(&fixture.path(path), user.0, user.1);
    }
    for (path, mode) in [("from/secret", 0), ("from/locked", 0o555), ("from/unreadable", 0)] {
        fs::set_permissions(fixture.path(path), Permissions::from_mode(mode)).unwrap();
    }
    let top = OwnedFd::from(File::open(fixture.path("")).unwrap());
    let guard = SandboxUser::of(&top).ok().map(|user| UserGuard::enter(user).unwrap());
    for format in FORMATS {
        let to = format!("to{format:?}");
        let report = unpack(&fixture, &to, format, &pack(&fixture, "from", format));
        assert_eq!((report.files, report.directories, report.skipped_count), (2, 2, 0), "{format:?}");
        assert_eq!(fs::metadata(fixture.path(&to).join("locked")).unwrap().mode() & 0o777, 0o555);
    }
    drop(guard);
}
