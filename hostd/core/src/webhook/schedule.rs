//! Which deliveries are sent now: of each webhook the first one of every sandbox, when it is due, within the limits of
//! concurrency, and in turns between webhooks. The rows are in the store; this knows the first of each sandbox only.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// How many deliveries are sent at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    pub all_max: usize,
    pub of_tenant_max: usize,
    pub of_webhook_max: usize,
}

/// The first waiting delivery of a sandbox. Deliveries of no sandbox have the lane ``.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub lane: String,
    /// The row.
    pub number: i64,
    pub due_ms: u64,
}

/// A delivery to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    pub webhook: String,
    pub lane: String,
    pub number: i64,
}

#[derive(Debug, Default)]
struct Lanes {
    tenant: String,
    heads: HashMap<String, (i64, u64)>,
    /// Heads that are not in flight, by the time they are due.
    due: BTreeSet<(u64, String)>,
    in_flight: HashSet<String>,
}

#[derive(Debug)]
pub struct Schedule {
    limits: Concurrency,
    webhooks: BTreeMap<String, Lanes>,
    in_flight: usize,
    of_tenant: HashMap<String, usize>,
    /// The webhook that was served last.
    last: String,
}

impl Schedule {
    pub fn new(limits: Concurrency) -> Self {
        let (webhooks, of_tenant) = (BTreeMap::new(), HashMap::new());
        Self { limits, webhooks, in_flight: 0, of_tenant, last: String::new() }
    }

    /// Replaces what is known of a webhook. Deliveries in flight stay so until they are finished.
    pub fn set(&mut self, webhook: &str, tenant: &str, heads: Vec<Head>) {
        let lanes = self.webhooks.entry(webhook.to_owned()).or_default();
        tenant.clone_into(&mut lanes.tenant);
        lanes.heads.clear();
        lanes.due.clear();
        for head in heads {
            lanes.put(head);
        }
    }

    /// Forgets a webhook that is disabled or removed; its deliveries in flight are finished later.
    pub fn remove(&mut self, webhook: &str) {
        if let Some(lanes) = self.webhooks.get_mut(webhook) {
            lanes.heads.clear();
            lanes.due.clear();
        }
        self.drop_if_empty(webhook);
    }

    /// Sets the first delivery of a lane, as the rows say it now.
    pub fn update(&mut self, webhook: &str, tenant: &str, head: Head) {
        let lanes = self.webhooks.entry(webhook.to_owned()).or_default();
        tenant.clone_into(&mut lanes.tenant);
        lanes.put(head);
    }

    /// Ends a delivery that was in flight. `next` is the first one of its lane as its end was recorded; an update since then
    /// is newer.
    pub fn finish(&mut self, pick: &Pick, next: Option<Head>) {
        let Some(lanes) = self.webhooks.get_mut(&pick.webhook) else { return };
        if lanes.in_flight.remove(&pick.lane) {
            self.in_flight -= 1;
            if let Some(count) = self.of_tenant.get_mut(&lanes.tenant) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.of_tenant.remove(&lanes.tenant);
                }
            }
        }
        let known = lanes.heads.remove(&pick.lane);
        if let Some((_, due_ms)) = known {
            lanes.due.remove(&(due_ms, pick.lane.clone()));
        }
        let newer = known.filter(|(number, _)| *number != pick.number);
        let newer = newer.map(|(number, due_ms)| Head { lane: pick.lane.clone(), number, due_ms });
        newer.or(next).into_iter().for_each(|head| lanes.put(head));
        self.drop_if_empty(&pick.webhook);
    }

    /// Takes the deliveries that are due, one of each webhook in turn.
    pub fn pick(&mut self, now_ms: u64) -> Vec<Pick> {
        let mut picks = Vec::new();
        loop {
            let before = picks.len();
            let after: Vec<String> = self.turn();
            for webhook in after {
                picks.extend(self.pick_of(&webhook, now_ms));
            }
            if picks.len() == before {
                return picks;
            }
        }
    }

    /// Returns when the next delivery is due that the limits allow now.
    pub fn next_due_ms(&self) -> Option<u64> {
        let free = |lanes: &&Lanes| self.has_room(lanes);
        self.webhooks.values().filter(free).filter_map(|lanes| lanes.due.first().map(|(ms, _)| *ms)).min()
    }

    /// All webhooks, beginning after the one that was served last.
    fn turn(&self) -> Vec<String> {
        let (before, after): (Vec<_>, Vec<_>) =
            self.webhooks.keys().cloned().partition(|id| *id <= self.last);
        after.into_iter().chain(before).collect()
    }

    fn has_room(&self, lanes: &Lanes) -> bool {
        let of_tenant = self.of_tenant.get(&lanes.tenant).copied().unwrap_or(0);
        self.in_flight < self.limits.all_max
            && of_tenant < self.limits.of_tenant_max
            && lanes.in_flight.len() < self.limits.of_webhook_max
    }

    fn pick_of(&mut self, webhook: &str, now_ms: u64) -> Option<Pick> {
        let lanes = self.webhooks.get(webhook).filter(|lanes| self.has_room(lanes))?;
        let (due_ms, lane) = lanes.due.first().filter(|(due_ms, _)| *due_ms <= now_ms)?.clone();
        let lanes = self.webhooks.get_mut(webhook)?;
        lanes.due.remove(&(due_ms, lane.clone()));
        let (number, _) = *lanes.heads.get(&lane)?;
        lanes.in_flight.insert(lane.clone());
        self.in_flight += 1;
        *self.of_tenant.entry(lanes.tenant.clone()).or_default() += 1;
        webhook.clone_into(&mut self.last);
        Some(Pick { webhook: webhook.to_owned(), lane, number })
    }

    fn drop_if_empty(&mut self, webhook: &str) {
        let empty = |lanes: &Lanes| lanes.heads.is_empty() && lanes.in_flight.is_empty();
        if self.webhooks.get(webhook).is_some_and(empty) {
            self.webhooks.remove(webhook);
        }
    }
}

impl Lanes {
    fn put(&mut self, Head { lane, number, due_ms }: Head) {
        if let Some((_, earlier_ms)) = self.heads.insert(lane.clone(), (number, due_ms)) {
            self.due.remove(&(earlier_ms, lane.clone()));
        }
        if !self.in_flight.contains(&lane) {
            self.due.insert((due_ms, lane));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Concurrency = Concurrency { all_max: 4, of_tenant_max: 3, of_webhook_max: 2 };

    fn head(lane: &str, number: i64, due_ms: u64) -> Head {
        Head { lane: lane.to_owned(), number, due_ms }
    }

    fn numbers(picks: &[Pick]) -> Vec<i64> {
        picks.iter().map(|pick| pick.number).collect()
    }

    #[test]
    fn a_failing_sandbox_holds_back_itself_alone() {
        let mut schedule = Schedule::new(LIMITS);
        schedule.set("w", "t", vec![head("a", 1, 0), head("b", 2, 0), head("c", 3, 0)]);
        let first = schedule.pick(0);
        assert_eq!(numbers(&first), [1, 2], "two of a webhook at once");
        assert_eq!(schedule.pick(0), []);
        // The first one of `a` is to be repeated; what comes behind it waits.
        schedule.finish(&first[0], Some(head("a", 1, 500)));
        schedule.update("w", "t", head("a", 1, 500));
        schedule.finish(&first[1], Some(head("b", 4, 0)));
        assert_eq!(numbers(&schedule.pick(1)), [4, 3], "whatever is due first, by sandbox");
        assert_eq!(schedule.next_due_ms(), None, "there is no room");
    }

    #[test]
    fn webhooks_take_turns_and_a_tenant_leaves_room_for_others() {
        let mut schedule = Schedule::new(LIMITS);
        let lanes = |from: i64| (from..from + 5).map(|n| head(&n.to_string(), n, 0)).collect::<Vec<_>>();
        schedule.set("a", "t", lanes(10));
        schedule.set("b", "t", lanes(20));
        schedule.set("c", "u", lanes(30));
        let picks = schedule.pick(0);
        assert_eq!(numbers(&picks), [10, 20, 30, 11], "each in turn, three of tenant t");
        schedule.finish(&picks[2], None);
        assert_eq!(numbers(&schedule.pick(0)), [31]);
    }

    #[test]
    fn a_row_written_between_the_end_and_its_news_is_not_lost() {
        let mut schedule = Schedule::new(LIMITS);
        schedule.set("w", "t", vec![head("a", 1, 0)]);
        let picks = schedule.pick(0);
        // The end was recorded when there was nothing behind it; then came another row, and then the news of the end.
        schedule.update("w", "t", head("a", 2, 0));
        assert_eq!(schedule.pick(0), [], "in flight");
        schedule.finish(&picks[0], None);
        let picks = schedule.pick(0);
        assert_eq!(numbers(&picks), [2]);
        // A row behind one that is to be repeated says nothing new.
        schedule.update("w", "t", head("a", 2, 0));
        schedule.finish(&picks[0], Some(head("a", 2, 500)));
        assert_eq!((schedule.pick(499), schedule.next_due_ms()), (vec![], Some(500)));
    }

    #[test]
    fn what_is_replaced_or_removed_in_flight_is_finished_once() {
        let mut schedule = Schedule::new(LIMITS);
        schedule.set("w", "t", vec![head("a", 1, 0)]);
        let picks = schedule.pick(0);
        schedule.set("w", "t", vec![head("a", 1, 0)]);
        assert_eq!(schedule.pick(0), [], "in flight");
        schedule.remove("w");
        schedule.finish(&picks[0], None);
        schedule.finish(&picks[0], None);
        assert_eq!((schedule.in_flight, schedule.of_tenant.len(), schedule.webhooks.len()), (0, 0, 0));
    }

    proptest! {
        /// Whatever fails and however often: all are delivered, in the order of their sandbox.
        #[test]
        fn everything_is_delivered_in_order(
            rows in proptest::collection::vec((0..3_u8, 0..4_u8), 1..40),
            failures in proptest::collection::vec(any::<bool>(), 0..60),
        ) {
            let mut waiting: BTreeMap<(String, String), Vec<i64>> = BTreeMap::new();
            for (number, (webhook, lane)) in rows.iter().enumerate() {
                let key = (format!("w{webhook}"), format!("l{lane}"));
                waiting.entry(key).or_default().push(number as i64);
            }
            let mut schedule = Schedule::new(LIMITS);
            for webhook in ["w0", "w1", "w2"] {
                let of = waiting.iter().filter(|((id, _), _)| id == webhook);
                schedule.set(webhook, "t", of.map(|((_, lane), rows)| head(lane, rows[0], 0)).collect());
            }
            let (mut now_ms, mut failures, mut left) = (0, failures.into_iter(), rows.len());
            while left > 0 {
                let picks = schedule.pick(now_ms);
                prop_assert!(picks.len() <= LIMITS.of_tenant_max);
                if picks.is_empty() {
                    now_ms = schedule.next_due_ms().expect("something is left");
                }
                for pick in picks {
                    let rows = waiting.get_mut(&(pick.webhook.clone(), pick.lane.clone())).expect("known");
                    prop_assert_eq!(rows[0], pick.number);
                    let failed = failures.next().unwrap_or(false);
                    if !failed {
                        rows.remove(0);
                        left -= 1;
                    }
                    let due_ms = if failed { now_ms + 10 } else { 0 };
                    let next = rows.first().map(|number| head(&pick.lane, *number, due_ms));
                    schedule.finish(&pick, next);
                }
            }
        }
    }
}
