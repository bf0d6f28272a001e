//! The event log against a model: appended, rotated, trimmed, torn, reopened and read from any cursor, it
//! returns what the model has, in order, each once.

use super::*;
use crate::log::event_reader::EventReadError;
use crate::log::{EventReader, EventsRead};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use proptest::prelude::*;
use proptest::sample::Index;
use protocol::log_line::LogLine;
use std::path::Path;
use tempfile::TempDir;

/// An event in the model: its cursor, and the length of its text or the count of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StoredEvent {
    cursor: Cursor,
    size: usize,
    gap: Option<u64>,
}

fn stored_event(line: LogLine<'_>) -> StoredEvent {
    let event: Event = serde_json::from_str(line.json).expect("our JSON");
    assert_eq!((event.cursor, event.fact.kind()), (line.cursor, line.kind));
    let (size, gap) = if let Fact::Gap { lost_events, .. } = &event.fact {
        (0, Some(*lost_events))
    } else {
        let Fact::Shutdown { reason } = &event.fact else { panic!("unexpected {:?}", event.fact) };
        (reason.len(), None)
    };
    StoredEvent { cursor: event.cursor, size, gap }
}

/// An upper bound of all cursors.
const ANY: Cursor = Cursor { epoch: u64::MAX, seq: u64::MAX };

/// Everything that a reader returns.
fn read_on(reader: &mut EventReader) -> Result<Vec<StoredEvent>, EventReadError> {
    let mut events = Vec::new();
    while reader.read(ANY, |line| events.push(stored_event(line)))? == EventsRead::Lines {}
    Ok(events)
}

fn read_after(dir: &Path, after: Cursor) -> Result<Vec<StoredEvent>, EventReadError> {
    read_on(&mut EventReader::new(dir, after))
}

/// A fact of about this size.
fn fact(bytes: usize) -> Fact {
    Fact::Shutdown { reason: "x".repeat(bytes) }
}

fn newest(dir: &Path) -> Option<PathBuf> {
    Some(dir.join(file_name(*list(dir).ok()?.last()?)))
}

/// A log, and what must be in it.
struct Model {
    dir: TempDir,
    log: EventLog,
    /// Every event that was ever readable, and where its line ends in its file.
    events: Vec<(StoredEvent, u64)>,
    boots: u64,
    /// A reader that follows the log throughout.
    follower: EventReader,
    followed: Vec<StoredEvent>,
}

#[derive(Debug, Clone)]
enum Step {
    Append {
        count: usize,
        bytes: usize,
    },
    Read {
        from: Index,
    },
    Follow,
    /// A crash: this many bytes are missing from the newest file, or these follow.
    Boot {
        cut: u64,
        garbage: Vec<u8>,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let append = |count: std::ops::Range<usize>, bytes: std::ops::Range<usize>| {
        (count, bytes).prop_map(|(count, bytes)| Step::Append { count, bytes })
    };
    let garbage =
        prop_oneof![Just(Vec::new()), prop::collection::vec(any::<u8>(), 0..200), Just(vec![0; 5000])];
    let cut = prop_oneof![Just(0), 0u64..2_000, 0u64..500_000];
    prop_oneof![
        4 => append(1..60, 0..300),
        2 => append(1..20, 10_000..40_000),
        // Longer than one read of the reader.
        1 => append(1..4, 60_000..150_000),
        2 => any::<Index>().prop_map(|from| Step::Read { from }),
        2 => Just(Step::Follow),
        1 => (cut, garbage).prop_map(|(cut, garbage)| Step::Boot { cut, garbage }),
    ]
}

impl Model {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (log, recovered) = EventLog::open(dir.path(), 1).expect("an empty directory");
        assert_eq!(recovered, Recovered::default());
        let follower = EventReader::new(dir.path(), Cursor::default());
        Self { dir, log, events: Vec::new(), boots: 1, follower, followed: Vec::new() }
    }

    fn append(&mut self, bytes: usize) {
        self.log.append(fact(bytes), 7);
        let event = StoredEvent { cursor: self.log.last, size: bytes, gap: None };
        assert_eq!(*self.log.watch().borrow(), event.cursor, "the newest is published");
        self.events.push((event, self.log.file_bytes));
    }

    /// The oldest cursor.
    fn oldest(&self) -> Cursor {
        list(self.dir.path()).expect("readable").first().copied().unwrap_or_default()
    }

    fn after(&self, cursor: Cursor) -> Vec<StoredEvent> {
        self.events.iter().map(|(event, _)| *event).filter(|event| event.cursor > cursor).collect()
    }

    fn read(&self, from: Index) {
        let mut cursors: Vec<Cursor> = self.events.iter().map(|(event, _)| event.cursor).collect();
        cursors.push(Cursor::default());
        let cursor = *from.get(&cursors);
        let oldest = self.oldest();
        let is_before = cursor.epoch == oldest.epoch && cursor.seq + 1 == oldest.seq;
        match read_after(self.dir.path(), cursor) {
            Ok(events) if cursor == Cursor::default() => {
                let kept: Vec<StoredEvent> =
                    self.after(cursor).into_iter().filter(|e| e.cursor >= oldest).collect();
                assert_eq!(events, kept, "from the beginning, which is {oldest}");
            }
            Ok(events) => {
                assert!(cursor >= oldest || is_before, "{cursor} is before {oldest}");
                assert_eq!(events, self.after(cursor), "after {cursor}");
            }
            Err(EventReadError::Trimmed { oldest: told }) => {
                assert!(cursor < oldest && told == oldest, "{cursor} is not before {oldest}");
            }
            Err(error) => panic!("after {cursor}: {error}"),
        }
    }

    /// Reads what is new, or restarts where the position was trimmed.
    fn follow(&mut self) {
        match read_on(&mut self.follower) {
            Ok(events) => self.followed.extend(events),
            Err(EventReadError::Trimmed { oldest }) => {
                let place = self.followed.last().map(|event| event.cursor).unwrap_or_default();
                assert!(place < oldest, "{place} is not before {oldest}");
                self.follower = EventReader::new(self.dir.path(), Cursor::default());
                self.followed = read_on(&mut self.follower).expect("from the beginning");
            }
            Err(error) => panic!("{error}"),
        }
        // From its start on, the follower has seen each event once, including those lost in a crash after it
        // read them.
        let Some(first) = self.followed.first().map(|event| event.cursor) else { return };
        let alive =
            |event: &&StoredEvent| self.events.binary_search_by_key(&event.cursor, |(e, _)| e.cursor).is_ok();
        let seen: Vec<StoredEvent> = self.followed.iter().filter(alive).copied().collect();
        let kept: Vec<StoredEvent> =
            self.events.iter().map(|(e, _)| *e).filter(|e| e.cursor >= first).collect();
        assert_eq!(seen, kept);
    }

    /// Simulates a power loss and a boot.
    fn boot(&mut self, cut: u64, garbage: &[u8]) {
        let mut torn = 0;
        if let Some(path) = newest(self.dir.path()) {
            let mut bytes = std::fs::read(&path).expect("readable");
            let left = bytes.len() as u64 - cut.min(bytes.len() as u64);
            bytes.truncate(left as usize);
            let epoch = self.log.epoch();
            let first = *list(self.dir.path()).expect("readable").last().expect("just found");
            // Only the newest file is torn, and only a boot that wrote something has one.
            let in_file = |event: &StoredEvent| first.epoch == epoch && event.cursor >= first;
            self.events.retain(|(event, end)| !in_file(event) || *end <= left);
            let whole = log_line::sound_prefix(&bytes).0;
            bytes.extend(garbage);
            torn = (bytes.len() - whole) as u64;
            std::fs::write(&path, bytes).expect("writable");
        }
        let before = self.log.epoch();
        self.boots += 1;
        let (log, recovered) = EventLog::open(self.dir.path(), 1).expect("a torn log");
        assert_eq!(recovered.cut_bytes, torn);
        if let Some((last, _)) = self.events.last() {
            assert!(recovered.last.is_some_and(|told| told >= last.cursor), "{recovered:?} before {last:?}");
        }
        assert!(log.epoch() > before || self.events.is_empty(), "{} after {before}", log.epoch());
        self.log = log;
        // A boot begins with an event of its own, so its epoch is on disk.
        self.append(10);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Append { count, bytes } => (0..count).for_each(|_| self.append(bytes)),
            Step::Read { from } => self.read(from),
            Step::Follow => self.follow(),
            Step::Boot { cut, garbage } => self.boot(cut, &garbage),
        }
    }
}

fn cases() -> ProptestConfig {
    let default = ProptestConfig::default();
    // Each case writes megabytes.
    ProptestConfig { cases: default.cases / 16, ..default }
}

proptest! {
    #![proptest_config(cases())]
    #[test]
    fn a_log_returns_its_events_from_any_cursor_whatever_happened_to_it(
        steps in prop::collection::vec(step(), 1..20),
    ) {
        let mut model = Model::new();
        model.append(10);
        steps.into_iter().for_each(|step| model.take(step));
        model.follow();
        for index in 0..model.events.len().min(5) {
            let cursor = model.events[index].0.cursor;
            if cursor >= model.oldest() {
                prop_assert_eq!(read_after(model.dir.path(), cursor).expect("kept"), model.after(cursor));
            }
        }
    }
}

/// Appends until the log has been trimmed.
fn trimmed(model: &mut Model) {
    let first = model.oldest();
    while model.oldest() == first {
        model.append(100_000);
    }
}

#[test]
fn a_log_within_its_bounds_loses_its_oldest_file_and_says_where_it_begins() {
    let mut model = Model::new();
    model.append(10);
    trimmed(&mut model);
    let files = list(model.dir.path()).expect("readable");
    let size =
        |first: &Cursor| std::fs::metadata(model.dir.path().join(file_name(*first))).expect("there").len();
    let total: u64 = files.iter().map(size).sum();
    assert!(total <= EVENTS_MAX_BYTES + EVENT_SEGMENT_MAX_BYTES + 200_000, "{total} bytes");
    let oldest = model.oldest();
    assert!(oldest.seq > 1);
    for seq in 1..oldest.seq - 1 {
        let gone = read_after(model.dir.path(), Cursor { seq, ..oldest });
        assert!(matches!(gone, Err(EventReadError::Trimmed { oldest: told }) if told == oldest), "{seq}");
    }
    // A reader right before the oldest event has missed nothing.
    let last_gone = Cursor { seq: oldest.seq - 1, ..oldest };
    let kept = read_after(model.dir.path(), last_gone).expect("nothing is missing");
    assert_eq!(kept.first().map(|event| event.cursor), Some(oldest));
    assert_eq!(read_after(model.dir.path(), Cursor::default()).expect("from the beginning"), kept);
}

#[test]
fn a_reader_whose_position_is_trimmed_gets_an_error_and_skips_nothing_silently() {
    let mut model = Model::new();
    model.append(10);
    let mut reader = EventReader::new(model.dir.path(), Cursor::default());
    let seen = read_on(&mut reader).expect("the beginning");
    assert_eq!(seen.len(), 1);
    // The reader holds the first file open while that and the next ones are removed.
    for _ in 0..3 {
        trimmed(&mut model);
    }
    let mut read = seen;
    let oldest = loop {
        match reader.read(ANY, |line| read.push(stored_event(line))) {
            Ok(EventsRead::Lines) => {}
            Ok(EventsRead::End) => panic!("it skipped what was trimmed"),
            Err(EventReadError::Trimmed { oldest }) => break oldest,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(oldest, model.oldest());
    let gapless = read.windows(2).all(|pair| pair[1].cursor.seq == pair[0].cursor.seq + 1);
    assert!(gapless && read.last().is_some_and(|event| event.cursor < oldest));
}

#[test]
fn a_damaged_line_in_the_middle_costs_that_line_only() {
    let mut model = Model::new();
    (0..5).for_each(|_| model.append(100));
    let path = newest(model.dir.path()).expect("a file");
    let mut bytes = std::fs::read(&path).expect("readable");
    bytes[(model.events[1].1 + 30) as usize] ^= 1;
    std::fs::write(&path, bytes).expect("writable");
    let seqs: Vec<u64> = read_after(model.dir.path(), Cursor::default())
        .expect("readable")
        .iter()
        .map(|e| e.cursor.seq)
        .collect();
    assert_eq!(seqs, [1, 2, 4, 5]);
}

/// Runs on a file system of this size, in a mount namespace of its own. Needs root.
fn on_a_small_disk(kib: usize, test: impl FnOnce(&Path) + Send + 'static) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().to_owned();
    let tested = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS).expect("root may");
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_PRIVATE | MsFlags::MS_REC, none).expect("private");
        mount(Some("none"), &path, Some("tmpfs"), MsFlags::empty(), Some(format!("size={kib}k").as_str()))
            .expect("tmpfs");
        test(&path);
    });
    if let Err(panic) = tested.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_full_disk_is_recorded_as_a_gap_once_there_is_space_again() {
    on_a_small_disk(1024, |disk| {
        let dir = disk.join("events");
        let (mut log, _) = EventLog::open(&dir, 1).expect("room");
        let mut appended = 0;
        for round in 0..3 {
            // Appends until the disk is full, and a few more.
            std::fs::write(disk.join("filler"), vec![1; 2 << 20]).expect_err("a full disk");
            let mut lost = 0;
            while lost < 5 {
                log.append(fact(4_000), 7);
                lost = log.lost_events;
                appended += 1;
            }
            std::fs::remove_file(disk.join("filler")).expect("removed");
            log.append(fact(round), 7);
            appended += 1;
            assert_eq!(log.lost_events, 0, "there is room again");
        }
        let events = read_after(&dir, Cursor::default()).expect("readable");
        let gaps: Vec<u64> = events.iter().filter_map(|event| event.gap).collect();
        assert_eq!(gaps, [5, 5, 5]);
        assert_eq!(
            events.len() as u64 - 3 + gaps.iter().sum::<u64>(),
            appended,
            "every event is there or counted"
        );
        let cursors: Vec<Cursor> = events.iter().map(|event| event.cursor).collect();
        assert!(cursors.is_sorted_by(|a, b| a < b), "{cursors:?}");
        // Nothing is torn: incomplete lines were cut.
        let (_, recovered) = EventLog::open(&dir, 1).expect("room");
        assert_eq!((recovered.cut_bytes, recovered.last), (0, cursors.last().copied()));
    });
}
