//! Aggregates egress events, so that repetitions do not fill the log: the first of a kind is due at once, the
//! others of a window as one sum.
//!
//! ```text
//!  add ──▶ entry: due now ──due──▶ event; counts on ──WINDOW──▶ event with the sum, or forgotten when nothing came
//! ```

use super::claimed_job::ClaimedJob;
use protocol::api::SandboxId;
use serde::Serialize;
use std::{
    collections::{HashMap, hash_map::Entry as Slot},
    net::IpAddr,
};

/// The window in which repetitions are summed.
const WINDOW_MS: u64 = 10_000;
/// Distinct keys of one sandbox within a window. Further ones are counted together, without their host.
const KEYS_MAX: usize = 64;
const OTHERS: &str = "*";

/// Identifies repetitions: decisions with the same key are summed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct EventKey {
    #[serde(skip)]
    pub sandbox: SandboxId,
    pub verdict: &'static str,
    pub host: String,
    pub port: u16,
    pub rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<ClaimedJob>,
    /// Why there was no connection although it was allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The counts of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct EventCounts {
    /// Number of decisions.
    pub times: u64,
    /// Connections and requests that have ended.
    pub ended: u64,
    pub bytes_up: u64,
    pub bytes_down: u64,
    /// Sum over those that have ended.
    pub duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

/// An event as it is written to the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EgressEvent {
    #[serde(flatten)]
    pub key: EventKey,
    #[serde(flatten)]
    pub counts: EventCounts,
}

#[derive(Debug, Default)]
pub struct EventAggregator {
    entries: HashMap<EventKey, Entry>,
    key_counts: HashMap<SandboxId, usize>,
}

#[derive(Debug)]
struct Entry {
    counts: EventCounts,
    due_ms: u64,
}

impl EventAggregator {
    /// Adds counts. Returns whether an event is due at once.
    pub fn add(&mut self, mut key: EventKey, counts: EventCounts, now_ms: u64) -> bool {
        let key_counts = self.key_counts.entry(key.sandbox).or_default();
        if *key_counts >= KEYS_MAX && !self.entries.contains_key(&key) {
            OTHERS.clone_into(&mut key.host);
            key = EventKey { port: 0, rule: OTHERS.to_owned(), profile: None, by: None, error: None, ..key };
        }
        match self.entries.entry(key) {
            Slot::Occupied(mut slot) => {
                slot.get_mut().counts.merge(counts);
                slot.get().due_ms <= now_ms
            }
            Slot::Vacant(slot) => {
                slot.insert(Entry { counts, due_ms: now_ms });
                *key_counts += 1;
                true
            }
        }
    }

    /// Returns the events that are due, or all of them when this is the `last` time.
    pub fn due(&mut self, now_ms: u64, last: bool) -> Vec<EgressEvent> {
        let mut events = Vec::new();
        let key_counts = &mut self.key_counts;
        self.entries.retain(|key, entry| {
            if entry.due_ms > now_ms && !last {
                return true;
            }
            let counts = std::mem::take(&mut entry.counts);
            if counts == EventCounts::default() {
                forget_key(key_counts, &key.sandbox);
                return false;
            }
            events.push(EgressEvent { key: key.clone(), counts });
            entry.due_ms = now_ms.saturating_add(WINDOW_MS);
            true
        });
        events
    }

    /// The time when the next event is due.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.entries.values().map(|entry| entry.due_ms).min()
    }
}

fn forget_key(key_counts: &mut HashMap<SandboxId, usize>, sandbox: &SandboxId) {
    if let Slot::Occupied(mut count) = key_counts.entry(*sandbox) {
        *count.get_mut() = count.get().saturating_sub(1);
        if *count.get() == 0 {
            count.remove();
        }
    }
}

impl EventCounts {
    fn merge(&mut self, other: Self) {
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

    fn key(host: &str) -> EventKey {
        EventKey {
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

    const ONCE: EventCounts =
        EventCounts { times: 1, ended: 0, bytes_up: 0, bytes_down: 0, duration_ms: 0, address: None };

    fn times(events: &[EgressEvent]) -> Vec<u64> {
        events.iter().map(|event| event.counts.times).collect()
    }

    #[test]
    fn the_first_event_is_due_at_once_and_the_rest_as_one() {
        let mut aggregator = EventAggregator::default();
        assert!(aggregator.add(key("a"), ONCE, 100));
        assert_eq!(times(&aggregator.due(100, false)), [1]);
        for now_ms in 200..300 {
            assert!(!aggregator.add(key("a"), ONCE, now_ms));
        }
        aggregator.add(key("a"), EventCounts { times: 0, ended: 1, bytes_up: 5, bytes_down: 7, ..ONCE }, 300);
        assert!(aggregator.due(10_099, false).is_empty());
        let events = aggregator.due(10_100, false);
        assert_eq!(
            (events[0].counts.times, events[0].counts.ended, events[0].counts.bytes_down),
            (100, 1, 7)
        );
        assert_eq!(aggregator.next_due_ms(), Some(20_100));
        assert!(aggregator.due(20_100, false).is_empty());
        assert_eq!((aggregator.next_due_ms(), aggregator.key_counts.len()), (None, 0), "forgotten");
        assert!(aggregator.add(key("a"), ONCE, 30_000), "the first again");
    }

    #[test]
    fn a_flood_of_hosts_is_counted_as_others() {
        let mut aggregator = EventAggregator::default();
        for number in 0..10_000 {
            aggregator.add(key(&format!("h{number}")), ONCE, 0);
        }
        let events = aggregator.due(0, false);
        assert_eq!(events.len(), KEYS_MAX + 1);
        let others = events.iter().find(|event| event.key.host == OTHERS).expect("the rest");
        assert_eq!(others.counts.times, 10_000 - KEYS_MAX as u64);
        assert_eq!(times(&events).iter().sum::<u64>(), 10_000, "none is lost");
    }

    #[test]
    fn an_event_reads_well() {
        let by = Some(ClaimedJob::Exec(protocol::ExecId::parse("e1").expect("an id")));
        let counts = EventCounts { address: "203.0.113.1".parse().ok(), ..ONCE };
        let event = EgressEvent { key: EventKey { by, ..key("example.com") }, counts };
        insta::assert_json_snapshot!(event);
    }
}
