//! A file of calls in flight: if hostd dies during a response, the next hostd learns of the call. Without it
//! an agent that takes half a response for a whole one would succeed, and the usage of the call would not
//! count.
//!
//! Each call has a slot, written before the call is forwarded and freed when its end is stored. The file is
//! not synced, and slots of another boot of the machine are ignored: a machine that goes down takes its
//! sandboxes, and the agents in them, with it.

use super::limits::{SLOT_BYTES, SLOTS_MAX};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::{Arc, Mutex},
};
use tracing::warn;

const FILE: &str = "calls";
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// The length of the slot's JSON; 0 for a free slot.
const LENGTH_BYTES: usize = 2;

/// A call in flight, with the usage that counts if its end is never recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InFlightCall {
    /// The row number of its task.
    pub task: i64,
    /// The hash of the task's key, to recognise the row: the database may have been lost and replaced.
    pub key_hash: [u8; 32],
    pub number: u64,
    pub provider: String,
    pub model: String,
    pub began_ms: u64,
    pub attempt: u32,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_micro_usd: Option<u64>,
    /// The agent has the whole response.
    pub whole: bool,
}

#[derive(Serialize, Deserialize)]
struct SlotContent {
    boot: String,
    #[serde(flatten)]
    call: InFlightCall,
}

pub(super) struct InFlightCalls {
    file: File,
    boot: String,
    slots: Mutex<Slots>,
}

struct Slots {
    free: Vec<usize>,
    made: usize,
}

/// The slot of a call, freed on drop.
pub(super) struct Slot {
    in_flight: Arc<InFlightCalls>,
    index: usize,
}

/// Calls that an earlier hostd left without an end, each with its slot.
pub(super) type InterruptedCalls = Vec<(Slot, InFlightCall)>;

impl InFlightCalls {
    /// Opens the file and returns the calls that an earlier hostd left in it.
    pub fn open(data_dir: &Path) -> io::Result<(Arc<Self>, InterruptedCalls)> {
        Self::at(data_dir, fs::read_to_string(BOOT)?.trim().to_owned())
    }

    fn at(data_dir: &Path, boot: String) -> io::Result<(Arc<Self>, InterruptedCalls)> {
        let path = data_dir.join(FILE);
        let mut options = File::options();
        let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let mut bytes = Vec::new();
        file.by_ref().take((SLOT_BYTES * SLOTS_MAX) as u64).read_to_end(&mut bytes)?;
        let found: Vec<Option<InFlightCall>> =
            bytes.chunks(SLOT_BYTES).map(|slot| read(slot, &boot)).collect();
        let free = (0..found.len()).rev().filter(|index| found[*index].is_none()).collect();
        let slots = Mutex::new(Slots { free, made: found.len() });
        let in_flight = Arc::new(Self { file, boot, slots });
        let slot = |index| Slot { in_flight: in_flight.clone(), index };
        let left = found.into_iter().enumerate();
        let left = left.filter_map(|(index, call)| call.map(|call| (slot(index), call))).collect();
        Ok((in_flight, left))
    }

    /// Writes a call to a free slot. `None` when there is none or the write fails: the call is made all the
    /// same.
    pub fn begin(self: &Arc<Self>, call: &InFlightCall) -> Option<Slot> {
        let Some(index) = self.take() else {
            warn!(SLOTS_MAX, "no free slot for a model call in flight");
            return None;
        };
        let slot = Slot { in_flight: self.clone(), index };
        slot.write(call).then_some(slot)
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, Slots> {
        self.slots.lock().expect("no panic while held")
    }

    fn take(&self) -> Option<usize> {
        let mut slots = self.slots();
        slots.free.pop().or_else(|| {
            let index = slots.made;
            (index < SLOTS_MAX).then(|| slots.made += 1).map(|()| index)
        })
    }

    fn write(&self, index: usize, bytes: &[u8]) -> bool {
        let written = self.file.write_all_at(bytes, (index * SLOT_BYTES) as u64);
        if let Err(error) = &written {
            warn!(%error, "failed to write the slot of a model call");
        }
        written.is_ok()
    }

    fn bytes_of(&self, call: &InFlightCall) -> Vec<u8> {
        let json = |call: InFlightCall| {
            serde_json::to_vec(&SlotContent { boot: self.boot.clone(), call }).expect("it is JSON")
        };
        let fits = |bytes: &Vec<u8>| bytes.len() <= SLOT_BYTES - LENGTH_BYTES;
        let json = Some(json(call.clone())).filter(fits).unwrap_or_else(|| {
            // The model's name is the only field of unbounded length.
            json(InFlightCall { model: String::new(), ..call.clone() })
        });
        let length = u16::try_from(json.len()).expect("it fits");
        [length.to_le_bytes().as_slice(), &json].concat()
    }
}

impl Slot {
    /// Returns whether the slot was written.
    pub fn write(&self, call: &InFlightCall) -> bool {
        self.in_flight.write(self.index, &self.in_flight.bytes_of(call))
    }

    /// Keeps the slot for the next hostd.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Where this fails, the next owner of the slot overwrites it.
        self.in_flight.write(self.index, &[0; LENGTH_BYTES]);
        self.in_flight.slots().free.push(self.index);
    }
}

/// Parses a slot; `None` for a free one, one of another boot, or an unreadable one.
fn read(slot: &[u8], boot: &str) -> Option<InFlightCall> {
    let (length, rest) = slot.split_first_chunk::<LENGTH_BYTES>()?;
    let json = rest.get(..usize::from(u16::from_le_bytes(*length)))?;
    let written: SlotContent = serde_json::from_slice(json).ok()?;
    (written.boot == boot).then_some(written.call)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: u64) -> InFlightCall {
        let (provider, model) = ("anthropic".to_owned(), "large".to_owned());
        InFlightCall { task: 7, number, provider, model, input_tokens: 3, ..InFlightCall::default() }
    }

    /// Returns the calls that the next process finds, and keeps them.
    fn left(dir: &Path) -> Vec<u64> {
        let (_, left) = InFlightCalls::open(dir).expect("it opens");
        let numbers = left.iter().map(|(_, call)| call.number).collect();
        left.into_iter().for_each(|(slot, _)| slot.keep());
        numbers
    }

    fn keep(in_flight: &Arc<InFlightCalls>, call: &InFlightCall) {
        in_flight.begin(call).expect("room").keep();
    }

    #[test]
    fn what_was_kept_is_there_for_the_next_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let (in_flight, none) = InFlightCalls::open(dir.path()).expect("it opens");
        assert!(none.is_empty());
        let slots: Vec<Slot> = (1..=4).map(|number| in_flight.begin(&call(number)).expect("room")).collect();
        for (at, slot) in slots.into_iter().enumerate() {
            if at % 2 == 1 {
                slot.keep();
            }
        }
        assert_eq!(left(dir.path()), [2, 4]);
        // Kept slots are not used again before they are freed.
        let (in_flight, mut found) = InFlightCalls::open(dir.path()).expect("it opens");
        assert_eq!(found[0].1, call(2));
        (5..=7).for_each(|number| keep(&in_flight, &call(number)));
        assert_eq!(left(dir.path()), [5, 2, 6, 4, 7]);
        drop(found.remove(0));
        assert_eq!(left(dir.path()), [5, 6, 4, 7]);
        let whole = InFlightCall { whole: true, ..call(4) };
        found[0].0.write(&whole);
        let (_, again) = InFlightCalls::open(dir.path()).expect("it opens");
        assert_eq!(again[2].1, whole);
    }

    #[test]
    fn what_another_boot_left_says_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |boot: &str| InFlightCalls::at(dir.path(), boot.to_owned()).expect("it opens");
        let (in_flight, _) = at("one");
        (1..=2).for_each(|number| keep(&in_flight, &call(number)));
        let (in_flight, found) = at("two");
        assert!(found.is_empty());
        keep(&in_flight, &call(3));
        let (_, found) = at("two");
        assert_eq!(found[0].1, call(3));
    }

    #[test]
    fn what_makes_no_sense_is_nothing_and_what_is_too_long_does_without_its_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let (in_flight, _) = InFlightCalls::open(dir.path()).expect("it opens");
        let long = InFlightCall { model: "\u{1}".repeat(256), ..call(1) };
        keep(&in_flight, &long);
        keep(&in_flight, &call(2));
        let (_, found) = InFlightCalls::open(dir.path()).expect("it opens");
        assert_eq!(found[0].1, InFlightCall { model: String::new(), ..call(1) });
        found.into_iter().for_each(|(slot, _)| slot.keep());
        let path = dir.path().join(FILE);
        let whole = fs::read(&path).expect("read");
        for torn in 0..whole.len() {
            fs::write(&path, &whole[..torn]).expect("written");
            assert!(left(dir.path()).len() < 2, "{torn}");
        }
        fs::write(&path, [0xff; SLOT_BYTES * 2 + 1]).expect("written");
        assert_eq!(left(dir.path()), Vec::<u64>::new());
    }
}
