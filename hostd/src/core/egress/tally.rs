//! What is told of the way out, without filling the log: the first of a kind at once, the rest of a while as one.
//!
//! ```text
//!  note ──▶ entry: due now ──due──▶ told; counts on ──WINDOW──▶ told as a sum, or forgotten when nothing came
//! ```

use super::claim::By;
use protocol::api::SandboxId;
use serde::Serialize;
use std::{
    collections::{HashMap, hash_map::Entry as Slot},
    net::IpAddr,
};

/// How long repetitions are summed.
const WINDOW_MS: u64 = 10_000;
/// Kinds of one sandbox that are told apart within a window. Beyond, hosts are not named any more.
const KINDS_MAX: usize = 64;
const OTHERS: &str = "*";

/// What makes two decisions the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Key {
    #[serde(skip)]
    pub sandbox: SandboxId,
    pub verdict: &'static str,
    pub host: String,
    pub port: u16,
    pub rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
    /// Why there was no connection though it was allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What is added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct More {
    /// Decisions.
    pub times: u64,
    /// Connections and requests that are over.
    pub ended: u64,
    pub bytes_up: u64,
    pub bytes_down: u64,
    /// Of those that ended, together.
    pub duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Told {
    #[serde(flatten)]
    pub key: Key,
    #[serde(flatten)]
    pub more: More,
}

#[derive(Debug, Default)]
pub struct Tally {
    entries: HashMap<Key, Entry>,
    kinds: HashMap<SandboxId, usize>,
}

#[derive(Debug)]
struct Entry {
    more: More,
    due_ms: u64,
}

impl Tally {
    /// Whether something is to be told at once.
    pub fn note(&mut self, mut key: Key, more: More, now_ms: u64) -> bool {
        let kinds = self.kinds.entry(key.sandbox).or_default();
        if *kinds >= KINDS_MAX && !self.entries.contains_key(&key) {
            OTHERS.clone_into(&mut key.host);
            key = Key { port: 0, rule: OTHERS.to_owned(), profile: None, by: None, error: None, ..key };
        }
        match self.entries.entry(key) {
            Slot::Occupied(mut slot) => {
                slot.get_mut().more.add(more);
                slot.get().due_ms <= now_ms
            }
            Slot::Vacant(slot) => {
                slot.insert(Entry { more, due_ms: now_ms });
                *kinds += 1;
                true
            }
        }
    }

    /// What is to be told now; all of it, when it is the last time.
    pub fn due(&mut self, now_ms: u64, last: bool) -> Vec<Told> {
        let mut told = Vec::new();
        let kinds = &mut self.kinds;
        self.entries.retain(|key, entry| {
            if entry.due_ms > now_ms && !last {
                return true;
            }
            let more = std::mem::take(&mut entry.more);
            if more == More::default() {
                forget(kinds, &key.sandbox);
                return false;
            }
            told.push(Told { key: key.clone(), more });
            entry.due_ms = now_ms.saturating_add(WINDOW_MS);
            true
        });
        told
    }

    /// When something is due next.
    pub fn next_ms(&self) -> Option<u64> {
        self.entries.values().map(|entry| entry.due_ms).min()
    }
}

fn forget(kinds: &mut HashMap<SandboxId, usize>, sandbox: &SandboxId) {
    if let Slot::Occupied(mut count) = kinds.entry(*sandbox) {
        *count.get_mut() = count.get().saturating_sub(1);
        if *count.get() == 0 {
            count.remove();
        }
    }
}

impl More {
    fn add(&mut self, other: Self) {
        self.times = self.times.saturating_add(other.times);
        self.ended = self.ended.saturating_add(other.ended);
        self.bytes_up = self.bytes_up.saturating_add(other.bytes_up);
        self.bytes_down = self.bytes_down.saturating_add(other.bytes_down);
        self.duration_ms = self.duration_ms.saturating_add(other.duration_ms);
        self.address = other.address.or(self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(host: &str) -> Key {
        Key {
            sandbox: "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id"),
            verdict: "allowed",
            host: host.to_owned(),
            port: 443,
            rule: "public".to_owned(),
            profile: None,
            by: None,
            error: None,
        }
    }

    const ONCE: More = More { times: 1, ended: 0, bytes_up: 0, bytes_down: 0, duration_ms: 0, address: None };

    fn counts(told: &[Told]) -> Vec<u64> {
        told.iter().map(|told| told.more.times).collect()
    }

    #[test]
    fn the_first_is_told_at_once_and_the_rest_as_one() {
        let mut tally = Tally::default();
        assert!(tally.note(key("a"), ONCE, 100));
        assert_eq!(counts(&tally.due(100, false)), [1]);
        for now_ms in 200..300 {
            assert!(!tally.note(key("a"), ONCE, now_ms));
        }
        tally.note(key("a"), More { times: 0, ended: 1, bytes_up: 5, bytes_down: 7, ..ONCE }, 300);
        assert!(tally.due(10_099, false).is_empty());
        let told = tally.due(10_100, false);
        assert_eq!((told[0].more.times, told[0].more.ended, told[0].more.bytes_down), (100, 1, 7));
        assert_eq!(tally.next_ms(), Some(20_100));
        assert!(tally.due(20_100, false).is_empty());
        assert_eq!((tally.next_ms(), tally.kinds.len()), (None, 0), "forgotten");
        assert!(tally.note(key("a"), ONCE, 30_000), "the first again");
    }

    #[test]
    fn a_flood_of_hosts_is_told_as_others() {
        let mut tally = Tally::default();
        for number in 0..10_000 {
            tally.note(key(&format!("h{number}")), ONCE, 0);
        }
        let told = tally.due(0, false);
        assert_eq!(told.len(), KINDS_MAX + 1);
        let others = told.iter().find(|told| told.key.host == OTHERS).expect("the rest");
        assert_eq!(others.more.times, 10_000 - KINDS_MAX as u64);
        assert_eq!(counts(&told).iter().sum::<u64>(), 10_000, "none is lost");
    }

    #[test]
    fn an_event_reads_well() {
        let by = Some(By::Exec(protocol::ExecId::parse("e1").expect("an id")));
        let more = More { address: "203.0.113.1".parse().ok(), ..ONCE };
        let told = Told { key: Key { by, ..key("example.com") }, more };
        insta::assert_json_snapshot!(told);
    }
}
