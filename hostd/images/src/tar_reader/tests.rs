use super::*;
use crate::tar_fixture::{archive, directory, file, gzip, hard_link, member, symlink, unended};

fn read_all(bytes: &[u8]) -> Result<Vec<(Member, Vec<u8>)>, String> {
    let mut archive = TarReader::new(bytes);
    let mut found = vec![];
    let mut next = || -> Result<Option<(Member, Vec<u8>)>, TarError> {
        let Some(member) = archive.next()? else { return Ok(None) };
        let mut content = vec![];
        loop {
            let bytes = archive.content()?;
            if bytes.is_empty() {
                return Ok(Some((member, content)));
            }
            content.extend(bytes);
            let length = bytes.len();
            archive.consume(length);
        }
    };
    while let Some(one) = next().map_err(|error| error.to_string())? {
        found.push(one);
    }
    archive.finish().map_err(|error| error.to_string())?;
    Ok(found)
}

#[test]
fn members_have_long_names_and_pax_records() {
    let long = "n".repeat(300);
    let bytes = archive(&[
        file("a", "first").mode(0o100_755).owner(7, 8),
        file(&long, "long"),
        symlink("link", "t".repeat(200)),
        file("short", "pax")
            .pax("path", "by/pax")
            .pax("uid", "70000")
            .pax("mtime", "5.5")
            .pax("size", "3")
            .xattr("user.a", "\n9 path=x\n"),
        hard_link("hard", "a"),
        directory("dir/"),
        file("old/", ""),
    ]);
    let found = read_all(&bytes).expect("valid");
    let names: Vec<_> =
        found.iter().map(|(member, _)| String::from_utf8_lossy(&member.name).into_owned()).collect();
    assert_eq!(names, ["a", &long, "link", "by/pax", "hard", "dir/", "old/"]);
    assert_eq!((found[0].0.mode, found[0].0.uid, found[0].0.gid), (0o755, 7, 8));
    assert_eq!(
        (&found[0].1[..], &found[1].1[..], &found[3].1[..]),
        (&b"first"[..], &b"long"[..], &b"pax"[..])
    );
    assert_eq!(found[2].0.link, [b't'; 200]);
    assert_eq!((found[3].0.uid, found[3].0.mtime), (70_000, Mtime { seconds: 5, nanoseconds: 500_000_000 }));
    assert_eq!(found[3].0.xattrs, [(b"user.a".to_vec(), b"\n9 path=x\n".to_vec())]);
    assert_eq!(found[6].0.kind, MemberKind::Directory);
}

/// Go and GNU tar read no content of these, whatever size they say.
#[test]
fn links_and_directories_have_no_content() {
    let mut bytes = vec![];
    for kind in *b"123456" {
        member(&mut bytes, (kind, b"a", b"b"), b"", |header| header.set_size(512));
    }
    bytes.extend(archive(&[file("after", "x")]));
    let found = read_all(&bytes).expect("valid");
    assert_eq!(found.len(), 7);
    assert!(found[..6].iter().all(|(member, content)| member.size == 0 && content.is_empty()));
    assert_eq!(found[6].0.name, b"after");
}

#[test]
fn sparse_files_have_a_map() {
    let mut bytes = vec![];
    let number =
        |field: &mut [u8; 12], value: u64| field[..11].copy_from_slice(format!("{value:011o}").as_bytes());
    let set = |header: &mut Header, size: u64, map: &[(u64, u64)]| {
        let gnu = header.as_gnu_mut().expect("made so");
        number(&mut gnu.realsize, size);
        for (field, (offset, length)) in gnu.sparse.iter_mut().zip(map) {
            number(&mut field.offset, *offset);
            number(&mut field.numbytes, *length);
        }
    };
    member(&mut bytes, (b'S', b"holes", b""), b"abcdef", |header| {
        set(header, 10_000, &[(512, 4), (4096, 2)]);
    });
    let found = read_all(&bytes).expect("valid");
    let segments = vec![Segment { offset: 512, bytes: 4 }, Segment { offset: 4096, bytes: 2 }];
    assert_eq!((found[0].0.size, found[0].0.sparse.as_ref()), (10_000, Some(&segments)));
    for (size, map) in [
        (10_000, &[(512, 4)][..]),
        (10_000, &[(512, 4), (514, 2)]),
        (10_000, &[(512, 4), (4096, 3)]),
        (4097, &[(512, 4), (4096, 2)]),
        (10_000, &[(512, 4), (0o77_777_777_777, 2)]),
    ] {
        let mut bytes = vec![];
        member(&mut bytes, (b'S', b"holes", b""), b"abcdef", |header| set(header, size, map));
        assert!(read_all(&bytes).is_err(), "{size} {map:?}");
    }
    let pax = archive(&[file("a", "x").pax("GNU.sparse.major", "1")]);
    assert!(read_all(&pax).expect_err("not supported").contains("--sparse"));
}

#[test]
fn damage_is_detected() {
    let whole = archive(&[file("a", "content"), file("b", [7; 600])]);
    for length in [1, 511, 513, 1023, 1024 + 100, 1024 + 512 + 600, whole.len() - 513] {
        let cut = read_all(&whole[..length]);
        assert_eq!(cut.is_ok(), length % 512 == 0 && length != 1024 + 512, "cut at {length}");
    }
    let mut changed = whole.clone();
    changed[3] ^= 1;
    assert!(read_all(&changed).expect_err("changed").contains("checksum"));
    let mut end = vec![];
    member(&mut end, (b'L', b"x", b""), b"name", |_| {});
    assert!(read_all(&end).expect_err("no member").contains("after a header"));
    let mut twice = end.clone();
    twice.extend(end);
    assert!(read_all(&twice).expect_err("twice").contains("twice"));
    let mut huge = vec![];
    member(&mut huge, (b'0', b"x", b""), b"", |header| header.set_size(u64::MAX));
    assert!(read_all(&huge).expect_err("huge").contains("impossible"));
}

#[test]
fn headers_and_padding_are_bounded() {
    let mut large = vec![];
    member(&mut large, (b'x', b"x", b""), b"", |header| header.set_size(u64::from(u32::MAX)));
    assert!(read_all(&large).expect_err("large").contains("1024 KiB"), "by its size, before it is read");
    let mut global = vec![];
    member(&mut global, (b'g', b"x", b""), b"", |_| {});
    let many = global.repeat(2100);
    assert!(read_all(&many).expect_err("many").contains("1024 KiB"));
    for (padding, accepted) in [(0, true), (1 << 19, true), (1 << 21, false)] {
        let bytes = [archive(&[file("a", "x")]), vec![b'g'; padding]].concat();
        assert_eq!(read_all(&bytes).is_ok(), accepted, "{padding}");
    }
    assert_eq!(read_all(&unended(&[file("a", "x")])).map(|found| found.len()), Ok(1), "without an end");
    assert_eq!(read_all(b"").map(|found| found.len()), Ok(0));
    assert!(read_all(&gzip(b"")).is_err(), "not an archive");
}
