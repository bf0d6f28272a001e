//! Archives of large files, whose memory and headers stay what they are.

use super::{
    archive::FORMATS,
    fixture::{Fixture, Recorder},
};
use crate::{FilesError, archive::pack};
use bytes::Bytes;
use protocol::files::{ArchiveFormat, FilesReply, Selection};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::fd::BorrowedFd,
};

/// The most memory that this process ever had, in bytes.
fn peak_bytes() -> u64 {
    let mut status = String::new();
    File::open("/proc/self/status").unwrap().read_to_string(&mut status).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
}

#[test]
fn a_large_file_is_packed_in_little_memory() {
    const SIZE: u64 = 96 << 20;
    let fixture = Fixture::new();
    File::create(fixture.path("sparse")).unwrap().set_len(SIZE).unwrap();
    for format in FORMATS {
        let before = peak_bytes();
        let mut exchange = Recorder { discards: true, ..Recorder::default() };
        pack(&fixture.workspace, &mut exchange, &"".into(), format, &Selection::default()).unwrap();
        let grown = peak_bytes() - before;
        assert!(grown < 32 << 20, "{format:?}: {grown} bytes");
        if format == ArchiveFormat::Tar {
            assert_eq!(exchange.sent_bytes, SIZE + 512 + 1024);
        }
    }
}

/// Changes the file that is packed after the first chunk of it was sent.
struct Changing<'a> {
    inner: Recorder,
    file: &'a std::path::Path,
    size: u64,
}

impl crate::Exchange for Changing<'_> {
    fn receive(&mut self) -> io::Result<Option<Bytes>> {
        self.inner.receive()
    }

    fn reply(&mut self, reply: FilesReply) -> io::Result<()> {
        self.inner.reply(reply)
    }

    fn send(&mut self, bytes: Bytes) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.file)?.set_len(self.size)?;
        self.inner.send(bytes)
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    fn cancel_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[test]
fn a_file_that_changes_its_size_does_not_break_the_archive() {
    const SIZE: usize = 1 << 20;
    // What gzip and zip cannot shrink, so that chunks are sent early.
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..SIZE)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    for format in FORMATS {
        for (what, changed) in [("shorter", 10), ("longer", 3 * SIZE as u64)] {
            let fixture = Fixture::new();
            fs::write(fixture.path("changing"), &noise).unwrap();
            fs::write(fixture.path("last"), "last").unwrap();
            let path = fixture.path("changing");
            let mut exchange = Changing { inner: Recorder::default(), file: &path, size: changed };
            let done = pack(&fixture.workspace, &mut exchange, &"".into(), format, &Selection::default());
            done.unwrap_or_else(|error: FilesError| panic!("{format:?} {what}: {error}"));
            let unpacked = Fixture::new();
            super::archive::unpack(&unpacked, "", format, &exchange.inner.sent);
            let found = fs::read(unpacked.path("changing")).unwrap();
            assert_eq!(found.len(), SIZE, "{format:?} {what}");
            assert!(found[..1 << 17] == noise[..1 << 17], "{format:?} {what}");
            assert_eq!(fs::read(unpacked.path("last")).unwrap(), b"last", "{format:?} {what}");
        }
    }
}
