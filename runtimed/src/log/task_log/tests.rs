//! The log against a list in memory: random writes, trims, torn tails, new writers and readers that
//! reconnect.

use super::*;
use crate::log::{EventReader, EventsRead};
use proptest::prelude::*;
use protocol::log_line::LogLine;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn message(text: &str) -> TaskFact {
    TaskFact::Message(Text { text: text.to_owned(), ..Text::default() })
}

fn status() -> TaskFact {
    TaskFact::Status { phase: protocol::TaskPhase::Done, checkpoint: None }
}

/// Everything after `after`, as a reader gets it.
fn read_after(dir: &Path, after: u64) -> Vec<TaskEvent> {
    let mut reader = EventReader::new(dir, cursor(after));
    let mut found = Vec::new();
    let mut take = |line: LogLine<'_>| found.push(serde_json::from_str(line.json).expect("our JSON"));
    while let Ok(EventsRead::Lines) = reader.read(cursor(u64::MAX), &mut take) {}
    found
}

#[derive(Debug, Clone)]
enum Act {
    Write(Vec<String>),
    /// The writer dies within a line.
    Tear(Vec<u8>),
    NewWriter,
    TrimOldest,
    /// A reader reconnects after its last event.
    Read,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => prop::collection::vec(".{0,40}", 1..6).prop_map(Act::Write),
        1 => prop::collection::vec(any::<u8>().prop_filter("no line", |b| *b != b'\n'), 1..30).prop_map(Act::Tear),
        1 => Just(Act::NewWriter),
        1 => Just(Act::TrimOldest),
        2 => Just(Act::Read),
    ]
}

proptest! {
    #[test]
    fn a_reader_that_comes_back_sees_each_event_once(acts in prop::collection::vec(act(), 0..40)) {
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path();
        let mut log = TaskLog::after(dir, 0).with_segment_max_bytes(200);
        let mut model: Vec<String> = Vec::new();
        let mut seen: u64 = 0;
        for act in acts {
            match act {
                Act::Write(texts) => {
                    for text in &texts {
                        log.push(message(text), 1);
                    }
                    log.flush();
                    model.extend(texts);
                }
                Act::Tear(noise) => {
                    if let Some(last) = segments(dir).last() {
                        let path = dir.join(file_name(cursor(last.start)));
                        OpenOptions::new().append(true).open(path).expect("there").write_all(&noise).expect("room");
                    }
                    log = TaskLog::after(dir, scan(dir).last).with_segment_max_bytes(200);
                }
                Act::NewWriter => log = TaskLog::after(dir, scan(dir).last).with_segment_max_bytes(200),
                Act::TrimOldest => {
                    let files = segments(dir);
                    // Never the file being written, and not what a reader still needs.
                    if files.len() > 1 && files[1].start <= seen + 1 {
                        remove(dir, files[0].start).expect("there");
                    }
                }
                Act::Read => {
                    for event in read_after(dir, seen) {
                        prop_assert_eq!(event.seq, seen + 1);
                        prop_assert_eq!(&event.fact, &message(&model[seen as usize]));
                        seen = event.seq;
                    }
                    prop_assert_eq!(seen, model.len() as u64);
                }
            }
            prop_assert_eq!(scan(dir).last, model.len() as u64);
        }
    }
}

#[test]
fn the_end_is_a_file_of_its_own_and_whole() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path();
    reserve(dir).expect("room");
    let mut log = TaskLog::after(dir, 0);
    log.push(message("one"), 1);
    assert_eq!(log.flush(), Flushed { rotated: true });
    std::fs::write(dir.join(DONE_RESERVED), vec![b'x'; 4096]).expect("a boot before died while writing");
    finish(dir, log.last(), status(), 2).expect("written");
    let found = read_after(dir, 0);
    assert_eq!(found.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(segments(dir).last().map(|last| last.start), Some(2));
    assert_eq!(events_of(dir, 2), [TaskEvent { seq: 2, time_ms: 2, fact: status() }]);
    assert_eq!(scan(dir).last, 2);
}

#[test]
fn events_that_cannot_be_stored_are_counted_once_there_is_space() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("task");
    let mut log = TaskLog::after(&dir, 7);
    for _ in 0..3 {
        log.push(message("lost"), 1);
        log.flush();
    }
    assert_eq!((log.last(), log.lost()), (7, 3));
    std::fs::create_dir(&dir).expect("room again");
    log.push(message("kept"), 1);
    log.flush();
    let found = events_of(&dir, 8);
    assert!(matches!(found[0].fact, TaskFact::Log { lost_events: Some(3), .. }), "{found:?}");
    assert_eq!((found[1].seq, &found[1].fact), (9, &message("kept")));
}

/// Accepts a limited number of bytes, like a disk.
struct LimitedDisk(usize, Vec<u8>);

impl Write for LimitedDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0 - self.1.len()).min(7);
        self.1.extend_from_slice(&bytes[..taken]);
        if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_disk_took_as_whole_lines_is_counted() {
    let batch = b"one\ntwo\nthree\n";
    for (room, expected) in [(0, (0, 0)), (3, (0, 0)), (4, (4, 1)), (9, (8, 2)), (13, (8, 2)), (99, (14, 3))]
    {
        let mut disk = LimitedDisk(room, Vec::new());
        let written = write_most(&mut disk, batch);
        assert_eq!((written, &disk.1[..]), (room.min(14), &batch[..room.min(14)]));
        assert_eq!(whole_lines(&batch[..written]), expected, "{room}");
    }
}

#[test]
fn a_reader_of_a_file_that_went_away_finds_the_one_with_its_name() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join(file_name(cursor(1)));
    std::fs::write(&path, "half a li").expect("room for that");
    let mut reader = EventReader::new(home.path(), cursor(0));
    let mut found = Vec::new();
    let mut take = |line: LogLine<'_>| found.push(line.cursor.seq);
    assert_eq!(reader.read(cursor(0), &mut take).expect("readable"), EventsRead::End);
    std::fs::remove_file(&path).expect("nothing whole was in it");
    let mut log = TaskLog::after(home.path(), 0);
    log.push(message("one"), 1);
    log.flush();
    assert_eq!(reader.read(cursor(1), &mut take).expect("readable"), EventsRead::Lines);
    assert_eq!(found, [1]);
}

/// The writer continues just when the reader is at the end and looks for another file.
#[test]
fn a_reader_beside_the_writer_misses_nothing_when_another_file_begins() {
    const EVENTS: u64 = 1_500;
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().to_owned();
    let seen = Arc::new(AtomicU64::new(0));
    let reached = Arc::clone(&seen);
    let writer = std::thread::spawn(move || {
        let mut log = TaskLog::after(&dir, 0).with_segment_max_bytes(200);
        while log.last() < EVENTS && reached.load(Ordering::Relaxed) != u64::MAX {
            if reached.load(Ordering::Relaxed) < log.last() {
                continue;
            }
            for _ in 0..4 {
                log.push(message("x"), 1);
                log.flush();
            }
            for old in segments(&dir).iter().rev().skip(8) {
                remove(&dir, old.start).expect("long read");
            }
        }
    });
    let mut reader = EventReader::new(home.path(), cursor(0));
    let mut hole = false;
    while reader.after().seq < EVENTS && !hole {
        let mut last = reader.after().seq;
        let read = reader.read(cursor(u64::MAX), |line| {
            hole |= line.cursor.seq != last + 1;
            last = line.cursor.seq;
        });
        read.expect("nothing is trimmed that was not read");
        seen.store(if hole { u64::MAX } else { last }, Ordering::Relaxed);
    }
    writer.join().expect("it writes to the end");
    assert!(!hole, "a hole before {}", reader.after());
}
