//! Clients that watch all events of hostd: one reads at once, one hangs up at any moment and reads slowly, and some do
//! not read at all. What the first two saw is compared with the log.

use super::Load;
use super::worker::SeenTask;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{Empty, Full};
use hyper::Request;
use protocol::api::EventView;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tests::frames::is_cut;
use tests::host::Feed;
use tests::{Caller, Random};
use tokio::time::{sleep, timeout};

const PATH: &str = "/v1/events";
/// How long a follower waits for an event before it looks whether there is to be another.
const WAIT: Duration = Duration::from_millis(200);
/// Clients that do not read.
const STALLED: usize = 8;
const STALLED_FOR: Duration = Duration::from_secs(1);
/// The most of a run's events that may differ before the report stops naming them.
const NAMED_MAX: usize = 5;

/// Compares followers with the log.
#[derive(Debug, Default, Serialize)]
pub struct EventCounts {
    pub in_log: u64,
    pub of_followed_tasks: u64,
    pub lost: u64,
    pub doubled: u64,
    /// Seen otherwise than they are in the log.
    pub different: u64,
    /// Losses that the log itself tells of, as after a full disk.
    pub told_gaps: u64,
    pub reconnects: u64,
    pub examples: Vec<String>,
}

impl EventCounts {
    fn example(&mut self, text: String) {
        if self.examples.len() < NAMED_MAX {
            self.examples.push(text);
        }
    }
}

pub struct Follower {
    load: Arc<Load>,
    /// The last event there will be, once that is known.
    last: Arc<AtomicU64>,
    /// Of one that hangs up.
    random: Option<Random>,
    /// A hash of each event, in the order in which they came, with its number.
    seen: Vec<(u64, u64)>,
    connections: u64,
}

/// What one follower saw.
pub struct Seen {
    events: Vec<(u64, u64)>,
    connections: u64,
}

impl Follower {
    pub fn new(load: Arc<Load>, last: Arc<AtomicU64>, random: Option<Random>) -> Self {
        Self { load, last, random, seen: Vec::new(), connections: 0 }
    }

    /// Until it has the last event.
    pub async fn run(mut self) -> Result<Seen> {
        while !self.has_all() {
            match self.visit().await {
                Ok(()) => {}
                Err(error) if is_cut(&error) => sleep(Duration::from_millis(5)).await,
                Err(error) => return Err(error.context("follow events")),
            }
        }
        Ok(Seen { events: self.seen, connections: self.connections })
    }

    fn newest(&self) -> u64 {
        self.seen.last().map_or(0, |(seq, _)| *seq)
    }

    fn has_all(&self) -> bool {
        self.newest() >= self.last.load(Ordering::Relaxed)
    }

    /// One connection, until it is cut off, or this follower hangs up.
    async fn visit(&mut self) -> Result<()> {
        let mut feed = Feed::open(&self.load.caller, PATH, self.newest()).await?;
        self.connections += 1;
        let (mut most, mut slow) = (u64::MAX, Duration::ZERO);
        if let Some(random) = &mut self.random {
            most = random.below(400);
            slow = Duration::from_millis(if random.below(4) == 0 { random.below(8) } else { 0 });
        }
        for _ in 0..most {
            if self.has_all() {
                break;
            }
            // A wait that is given up loses nothing: what was read of the next event stays with the feed.
            match timeout(WAIT, feed.next()).await {
                Ok(event) => {
                    let event = event?.context("the stream of all events ended")?;
                    self.seen.push((event.seq, hash(&event)?));
                }
                Err(_) if self.random.is_some() => break,
                Err(_) => {}
            }
            if !slow.is_zero() {
                sleep(slow).await;
            }
        }
        Ok(())
    }
}

fn hash(event: &EventView) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(event)?.hash(&mut hasher);
    Ok(hasher.finish())
}

/// Connections that ask for events and never read them.
pub async fn stalled(load: &Load) -> Result<()> {
    while !load.over.load(Ordering::Relaxed) {
        let mut held = Vec::new();
        for _ in 0..STALLED {
            let request = Request::get(PATH).header("accept", "text/event-stream");
            // hostd may be dead.
            held.extend(load.caller.open(request.body(Empty::<Bytes>::new())?).await.ok());
        }
        sleep(STALLED_FOR).await;
    }
    Ok(())
}

/// A page of the log after an event.
async fn page(caller: &Caller, after: &str) -> Result<(Vec<EventView>, Option<String>)> {
    let path = format!("{PATH}?limit=1000&after={after}");
    let request = Request::get(path).header("accept", "application/json").body(Full::new(Bytes::new()))?;
    let mut page: Value = caller.call(request).await?.expect(200)?;
    let events = serde_json::from_value(page["items"].take())?;
    Ok((events, page["next"].as_str().map(str::to_owned)))
}

/// The number of the newest event.
pub async fn last_event(caller: &Caller) -> Result<u64> {
    let (mut last, mut after) = (0, "0".to_owned());
    loop {
        let (events, next) = page(caller, &after).await?;
        last = events.last().map_or(last, |event| event.seq);
        match next {
            Some(next) => after = next,
            None => return Ok(last),
        }
    }
}

/// Compares what followers saw, and what viewers of tasks did, with the log.
pub async fn compare_with_log(caller: &Caller, seen: &[Seen], tasks: &[SeenTask]) -> Result<EventCounts> {
    let mut counts = EventCounts::default();
    let mut of_tasks: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    let mut log = Vec::new();
    let mut after = Some("0".to_owned());
    while let Some(from) = after {
        let (events, next) = page(caller, &from).await?;
        for event in events {
            ensure!(event.seq == log.len() as u64 + 1, "event {} stands at {}", event.seq, log.len() + 1);
            if let Some(task) = &event.task {
                of_tasks.entry((event.sandbox.to_string(), task.to_string())).or_default().push(event.seq);
            }
            counts.told_gaps += u64::from(event.kind == "gap");
            log.push(hash(&event)?);
        }
        after = next;
    }
    counts.in_log = log.len() as u64;
    for seen in seen {
        counts.reconnects += seen.connections.saturating_sub(1);
        follower_differs(&mut counts, &log, seen);
    }
    for task in tasks {
        counts.of_followed_tasks += task.events.len() as u64;
        let key = (task.job.sandbox.clone(), task.job.id.clone());
        let logged = of_tasks.get(&key).map_or(&[][..], Vec::as_slice);
        counts.lost += logged.iter().filter(|seq| task.events.binary_search(seq).is_err()).count() as u64;
        counts.doubled += (task.events.len() as u64).saturating_sub(logged.len() as u64);
        if logged != task.events {
            counts.example(format!("{} differs from the log", task.job.path()));
        }
    }
    Ok(counts)
}

fn follower_differs(counts: &mut EventCounts, log: &[u64], seen: &Seen) {
    let mut expected = 1;
    for (seq, hash) in &seen.events {
        if *seq < expected {
            counts.doubled += 1;
            counts.example(format!("event {seq} came again"));
            continue;
        }
        if *seq > expected {
            counts.lost += seq - expected;
            counts.example(format!("event {seq} came in place of {expected}"));
        }
        if log.get(*seq as usize - 1) != Some(hash) {
            counts.different += 1;
            counts.example(format!("event {seq} is otherwise in the log"));
        }
        expected = seq + 1;
    }
    let missing = (log.len() as u64 + 1).saturating_sub(expected);
    counts.lost += missing;
    if missing > 0 {
        counts.example(format!("the last {missing} events did not come"));
    }
}

#[test]
fn what_a_follower_misses_sees_twice_or_otherwise_is_counted() {
    for (seen, expected) in [
        (vec![(1, 11), (2, 12), (3, 13)], (0, 0, 0)),
        (vec![(1, 11), (3, 13)], (1, 0, 0)),
        (vec![(1, 11)], (2, 0, 0)),
        (vec![(1, 11), (2, 12), (2, 12), (3, 13)], (0, 1, 0)),
        (vec![(1, 11), (2, 99), (3, 13)], (0, 0, 1)),
    ] {
        let mut counts = EventCounts::default();
        follower_differs(&mut counts, &[11, 12, 13], &Seen { events: seen.clone(), connections: 1 });
        assert_eq!((counts.lost, counts.doubled, counts.different), expected, "{seen:?}");
    }
}
