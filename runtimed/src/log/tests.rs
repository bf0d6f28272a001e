//! The writer and its readers against a model that remembers what became of every byte.

use super::segment::{self, RECORD_BYTES};
use super::writer::{Appended, Writer};
use super::{Read, ReadError, Reader, reader};
use proptest::prelude::*;
use protocol::Stream;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

const STREAMS: [Stream; 3] = [Stream::Stdout, Stream::Stderr, Stream::Pty];
const READERS: usize = 3;

#[derive(Debug, Clone, Copy)]
enum Act {
    Append(Stream, usize),
    /// The oldest segment is trimmed, as the quota does it: never the newest.
    Trim,
    /// The writer dies and another one continues where the log ends.
    Resume,
    /// From here on no segment can be created, until `Mend`.
    Break,
    Mend,
    Read {
        reader: usize,
        max: usize,
    },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..STREAMS.len(), 1usize..40).prop_map(|(stream, bytes)| Act::Append(STREAMS[stream], bytes)),
        6 => (0..READERS, 1usize..30).prop_map(|(reader, max)| Act::Read { reader, max }),
        1 => Just(Act::Trim),
        1 => Just(Act::Resume),
        1 => Just(Act::Break),
        2 => Just(Act::Mend),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Byte {
    value: u8,
    stream: Stream,
    stream_at: u64,
    stored: bool,
}

struct LogFixture {
    _tmp: TempDir,
    /// Parent of the log's directory; a file of that name while the disk is broken.
    place: PathBuf,
    aside: PathBuf,
    segment_max_bytes: u64,
    writer: Writer,
    readers: Vec<Reader>,
    bytes: Vec<Byte>,
    lost: u64,
}

impl LogFixture {
    fn new(segment_max_bytes: u64) -> Self {
        let tmp = tempfile::tempdir().expect("temporary directory");
        let (place, aside) = (tmp.path().join("place"), tmp.path().join("aside"));
        let dir = place.join("log");
        let writer =
            Writer::resume(&dir, 0).expect("nothing there").with_segment_max_bytes(segment_max_bytes);
        let readers = (0..READERS).map(|_| Reader::new(&dir, 0)).collect();
        Self { _tmp: tmp, place, aside, segment_max_bytes, writer, readers, bytes: Vec::new(), lost: 0 }
    }

    fn dir(&self) -> PathBuf {
        self.place.join("log")
    }

    fn end(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn is_broken(&self) -> bool {
        self.place.is_file()
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Append(stream, length) => self.append(stream, length),
            Act::Break if !self.is_broken() => {
                if self.place.exists() {
                    fs::rename(&self.place, &self.aside).expect("move the log away");
                }
                fs::write(&self.place, "in the way").expect("a file in its place");
            }
            Act::Mend if self.is_broken() => {
                fs::remove_file(&self.place).expect("the file goes");
                if self.aside.exists() {
                    fs::rename(&self.aside, &self.place).expect("move the log back");
                }
            }
            Act::Trim if !self.is_broken() => {
                if let [oldest, _, ..] = segment::list(&self.dir()).expect("list")[..] {
                    segment::remove(&self.dir(), oldest.start).expect("remove");
                }
            }
            Act::Resume if !self.is_broken() => self.resume(),
            Act::Read { reader, max } if !self.is_broken() => drop(self.read(reader, max)),
            Act::Break | Act::Mend | Act::Trim | Act::Resume | Act::Read { .. } => {}
        }
    }

    fn append(&mut self, stream: Stream, length: usize) {
        let written: Vec<u8> = (0..length).map(|i| (self.bytes.len() + i) as u8).collect();
        let segments_before = self.stored_segments();
        let appended = self.writer.append(stream, &written);
        let lost = self.writer.lost() - std::mem::replace(&mut self.lost, self.writer.lost());
        assert!(lost == 0 || self.is_broken(), "bytes are lost while nothing is wrong");
        // A failed append loses the rest: the first bytes are the stored ones.
        let stored = length - lost as usize;
        let first = self.bytes.iter().filter(|byte| byte.stream == stream).count() as u64;
        self.bytes.extend(written.iter().enumerate().map(|(i, value)| Byte {
            value: *value,
            stream,
            stream_at: first + i as u64,
            stored: i < stored,
        }));
        assert_eq!(self.writer.end(), self.end());
        if !self.is_broken() {
            let begun = self.stored_segments() > segments_before;
            assert_eq!(appended == Appended::Rotated, begun, "told of a segment that is not there");
        }
    }

    fn stored_segments(&self) -> usize {
        segment::list(&self.dir()).map_or(0, |found| found.len())
    }

    /// Bytes lost after the last stored one are forgotten.
    fn resume(&mut self) {
        let writer = Writer::resume(&self.dir(), 0).expect("resume");
        self.writer = writer.with_segment_max_bytes(self.segment_max_bytes);
        self.lost = 0;
        let stored = self.bytes.iter().rposition(|byte| byte.stored).map_or(0, |last| last + 1);
        self.bytes.truncate(stored);
        assert_eq!(self.writer.end(), self.end());
        for reader in &mut self.readers {
            if reader.position() > stored as u64 {
                reader.seek(stored as u64);
            }
        }
    }

    /// Reads once and compares with the model; whether the reader was at the end.
    fn read(&mut self, reader: usize, max: usize) -> bool {
        let (end, oldest) = (self.end(), self.oldest());
        let reader = &mut self.readers[reader];
        let at = reader.position();
        match reader.read(max, end) {
            Ok(Read::Bytes { stream, stream_at, bytes }) => {
                assert!((1..=max).contains(&bytes.len()));
                assert_eq!(reader.position(), at + bytes.len() as u64);
                let expected = &self.bytes[at as usize..][..bytes.len()];
                for (i, (value, expected)) in bytes.iter().zip(expected).enumerate() {
                    let got = Byte { value: *value, stream, stream_at: stream_at + i as u64, stored: true };
                    assert_eq!(got, *expected, "at {}", at + i as u64);
                }
            }
            Ok(Read::Gap { lost }) => {
                assert_eq!(reader.position(), at + lost);
                let passed = &self.bytes[at as usize..][..lost as usize];
                assert!(lost > 0 && passed.iter().all(|byte| !byte.stored), "a gap where bytes are");
            }
            Err(ReadError::Trimmed { oldest: told }) => {
                assert!(at < told && told == oldest, "at {at}, told {told}, begins at {oldest}");
                reader.seek(told);
            }
            Ok(Read::End) => assert_eq!(at, end, "says it is at the end"),
            Err(ReadError::Io(error)) => panic!("could not read: {error}"),
        }
        at == end
    }

    fn oldest(&self) -> u64 {
        segment::list(&self.dir()).expect("list").first().map_or(self.end(), |first| first.start)
    }
}

proptest! {
    #[test]
    fn every_reader_gets_every_kept_byte_in_its_place(
        acts in prop::collection::vec(act(), 1..60), segment_max_bytes in 5u64..60, max in 1usize..80,
    ) {
        let mut fixture = LogFixture::new(segment_max_bytes);
        acts.into_iter().for_each(|act| fixture.act(act));
        fixture.act(Act::Mend);
        // Each read advances, so as many reads as bytes reach the end, and one more reports it.
        for reader in 0..READERS {
            let ended = (0..=2 * fixture.bytes.len() + 2).any(|_| fixture.read(reader, max));
            prop_assert!(ended, "a reader never comes to the end");
        }
    }

    #[test]
    fn a_damaged_index_never_gives_a_byte_to_the_wrong_stream(
        runs in prop::collection::vec((0usize..2, 1usize..20), 1..40), hit: prop::sample::Index, bit in 0u8..8,
        max in 1usize..80,
    ) {
        let mut fixture = LogFixture::new(10_000);
        runs.iter().for_each(|(stream, length)| fixture.append(STREAMS[*stream], *length));
        let path = segment::index_path(&fixture.dir(), 0);
        let mut index = fs::read(&path).expect("index");
        let hit = hit.index(index.len());
        index[hit] ^= 1 << bit;
        fs::write(&path, index).expect("damage it");
        let mut reader = Reader::new(&fixture.dir(), 0);
        while reader.position() < fixture.end() {
            let at = reader.position() as usize;
            match reader.read(max, fixture.end()) {
                Ok(Read::Bytes { stream, stream_at, bytes }) => {
                    prop_assert_eq!(stream_at, fixture.bytes[at].stream_at);
                    let right = |(byte, value): (&Byte, &u8)| byte.stream == stream && byte.value == *value;
                    prop_assert!(fixture.bytes[at..].iter().zip(&bytes).all(right));
                }
                Ok(Read::Gap { lost }) => prop_assert!(lost > 0),
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }

    #[test]
    fn a_record_torn_by_a_full_disk_costs_no_byte_before_it(
        runs in prop::collection::vec((0usize..3, 1usize..20), 1..40), torn in 1usize..RECORD_BYTES,
    ) {
        let mut fixture = LogFixture::new(10_000);
        runs.iter().for_each(|(stream, length)| fixture.append(STREAMS[*stream], *length));
        let path = segment::index_path(&fixture.dir(), 0);
        let mut index = fs::read(&path).expect("index");
        index.extend(vec![7; torn]);
        fs::write(&path, index).expect("half a record");
        fixture.act(Act::Resume);
        fixture.act(Act::Append(Stream::Stderr, 5));
        let ended = (0..=2 * fixture.bytes.len()).any(|_| fixture.read(0, 64));
        prop_assert!(ended);
    }
}

#[test]
fn output_is_stored_again_as_soon_as_there_is_room() {
    for lost in [1, 1000, 300 << 10, 3 << 20] {
        let mut fixture = LogFixture::new(64);
        fixture.append(Stream::Stdout, 100);
        fixture.act(Act::Break);
        fixture.append(Stream::Stdout, lost);
        fixture.append(Stream::Stderr, lost);
        fixture.act(Act::Mend);
        fixture.append(Stream::Stdout, 1);
        assert!(fixture.bytes.last().is_some_and(|byte| byte.stored), "after {lost} lost bytes");
    }
}

#[test]
fn a_disk_that_cannot_be_written_is_left_without_litter() {
    let mut fixture = LogFixture::new(64);
    fixture.append(Stream::Stdout, 64);
    let dir = fixture.dir();
    // The index can be created, the data file cannot: a directory has its name.
    fs::create_dir(segment::data_path(&dir, 64)).expect("in the way");
    assert_eq!(fixture.writer.append(Stream::Stdout, b"lost"), Appended::Same);
    assert_eq!(fixture.writer.lost(), 4);
    assert!(!segment::index_path(&dir, 64).exists());
}

#[test]
fn a_segment_that_goes_while_it_is_opened_is_trimmed_history() {
    for (gone, oldest) in [(vec![0], 4), (vec![0, 4], 8), (vec![0, 4, 8], 12)] {
        let mut fixture = LogFixture::new(4);
        fixture.append(Stream::Stdout, 12);
        // A half-done `remove`: the index goes first.
        for start in &gone {
            fs::remove_file(segment::index_path(&fixture.dir(), *start)).expect("remove");
        }
        let reader = &mut fixture.readers[0];
        while let Err(ReadError::Trimmed { oldest }) = reader.read(10, 12) {
            assert!(oldest > reader.position(), "no way forward");
            reader.seek(oldest);
        }
        let expected = oldest + if oldest < 12 { 4 } else { 0 };
        assert_eq!(reader.position(), expected, "{gone:?}");
    }
}

#[test]
fn an_index_stays_small_and_counts_as_use_of_the_disk() {
    let mut fixture = LogFixture::new(1 << 20);
    for _ in 0..20_000 {
        fixture.writer.append(Stream::Stdout, b"o");
        fixture.writer.append(Stream::Stderr, b"e");
    }
    let on_disk: BTreeMap<u64, u64> = segment::list(&fixture.dir())
        .expect("list")
        .iter()
        .map(|s| (s.start, fs::metadata(segment::index_path(&fixture.dir(), s.start)).expect("index").len()))
        .collect();
    assert!(on_disk.len() > 1 && on_disk.values().all(|bytes| *bytes <= 400 << 10), "{on_disk:?}");
    let counted: u64 = segment::list(&fixture.dir()).expect("list").iter().map(|s| s.disk_bytes()).sum();
    assert_eq!(counted, on_disk.values().sum::<u64>() + 40_000);
}

#[test]
fn the_tail_of_a_log_is_what_was_written_last() {
    let mut fixture = LogFixture::new(16);
    fixture.append(Stream::Stdout, 10);
    fixture.append(Stream::Stderr, 30);
    let all: Vec<u8> = fixture.bytes.iter().map(|byte| byte.value).collect();
    for max in [0, 1, 15, 16, 17, 40, 1000] {
        let expected = &all[all.len().saturating_sub(max)..];
        assert_eq!(reader::tail_bytes(&fixture.dir(), 40, max as u64), expected, "{max}");
    }
    // Bytes behind the requested end are not returned; without that bound this never returned.
    for (end, max) in [(0, 0), (10, 0), (10, 4), (25, 20), (39, 1)] {
        let expected = &all[end - max..end];
        assert_eq!(reader::tail_bytes(&fixture.dir(), end as u64, max as u64), expected, "{end} {max}");
    }
}

#[test]
fn a_position_that_was_reported_is_not_reused() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut first = Writer::resume(dir.path(), 0).expect("nothing there");
    first.append(Stream::Stdout, b"stored");
    // The last run continued to 10 on a full disk; the next one begins there, and the hole is a gap.
    let mut second = Writer::resume(dir.path(), 10).expect("resume");
    second.append(Stream::Stdout, b"next");
    let mut reader = Reader::new(dir.path(), 6);
    assert_eq!(reader.read(100, 14).expect("readable"), Read::Gap { lost: 4 });
    assert_eq!(reader.position(), 10);
}
