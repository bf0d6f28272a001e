//! Archives for tests, hostile ones too: names and fields are written as they are given.

use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::Write;
use tar::Header;

const LONG_NAME: &[u8] = b"././@LongLink";

/// One entry of an archive.
#[derive(Debug, Clone)]
pub struct Entry {
    pub kind: u8,
    pub name: Vec<u8>,
    pub link: Vec<u8>,
    pub body: Vec<u8>,
    pub mode: u32,
    pub owner: (u64, u64),
    pub mtime: u64,
    pub pax: Vec<(Vec<u8>, Vec<u8>)>,
}

fn entry(kind: u8, name: impl AsRef<[u8]>, link: &[u8], body: &[u8], mode: u32) -> Entry {
    Entry {
        kind,
        name: name.as_ref().to_vec(),
        link: link.to_vec(),
        body: body.to_vec(),
        mode,
        owner: (0, 0),
        mtime: 1_000_000_000,
        pax: vec![],
    }
}

pub fn file(name: impl AsRef<[u8]>, body: impl AsRef<[u8]>) -> Entry {
    entry(b'0', name, b"", body.as_ref(), 0o644)
}

pub fn directory(name: impl AsRef<[u8]>) -> Entry {
    entry(b'5', name, b"", b"", 0o755)
}

pub fn symlink(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Entry {
    entry(b'2', name, target.as_ref(), b"", 0o777)
}

pub fn hard_link(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Entry {
    entry(b'1', name, target.as_ref(), b"", 0o644)
}

/// A character device 0:0 (`3`), a block device (`4`), a FIFO (`6`), or anything else by its letter.
pub fn other(kind: u8, name: impl AsRef<[u8]>) -> Entry {
    entry(kind, name, b"", b"", 0o666)
}

impl Entry {
    pub fn mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    pub fn owner(self, uid: u64, gid: u64) -> Self {
        Self { owner: (uid, gid), ..self }
    }

    pub fn mtime(self, mtime: u64) -> Self {
        Self { mtime, ..self }
    }

    pub fn pax(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.pax.push((key.into(), value.as_ref().to_vec()));
        self
    }

    pub fn xattr(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.pax(&format!("SCHILY.xattr.{name}"), value)
    }
}

/// Returns the archive with its end.
pub fn archive(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = unended(entries);
    bytes.extend([0; 1024]);
    bytes
}

pub fn unended(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = vec![];
    for entry in entries {
        if !entry.pax.is_empty() {
            member(&mut bytes, (b'x', b"pax", b""), &pax_body(&entry.pax), |_| {});
        }
        for (kind, name) in [(b'L', &entry.name), (b'K', &entry.link)] {
            if name.len() > 100 {
                member(&mut bytes, (kind, LONG_NAME, b""), &[name, &b"\0"[..]].concat(), |_| {});
            }
        }
        let short = |name: &[u8]| name[..name.len().min(100)].to_vec();
        let (name, link) = (short(&entry.name), short(&entry.link));
        member(&mut bytes, (entry.kind, &name, &link), &entry.body, |header| {
            header.set_mode(entry.mode);
            header.set_uid(entry.owner.0);
            header.set_gid(entry.owner.1);
            header.set_mtime(entry.mtime);
        });
    }
    bytes
}

/// Appends a header, which `set` changes last, and a body.
pub fn member(bytes: &mut Vec<u8>, what: (u8, &[u8], &[u8]), body: &[u8], set: impl FnOnce(&mut Header)) {
    let (kind, name, link) = what;
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_mode(0o644);
    header.set_size(body.len() as u64);
    set(&mut header);
    header.set_cksum();
    bytes.extend(header.as_bytes());
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
}

pub fn pax_body(records: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = vec![];
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        // The length counts its own digits.
        let length =
            (1..20).map(|digits| rest + digits).find(|length| length.to_string().len() + rest == *length);
        bytes.extend(format!("{} ", length.expect("one number of digits fits")).into_bytes());
        bytes.extend([key, &b"="[..], value, b"\n"].concat());
    }
    bytes
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], flate2::Compression::fast());
    encoder.write_all(bytes).expect("in memory");
    encoder.finish().expect("in memory")
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}
