//! Which log files are removed when all logs together exceed their quota.
//!
//! Files of finished execs are removed first, oldest first. Then the largest growing log loses its oldest
//! file; the file being written is never removed, so a log always has a readable end.

use crate::log::segment::Segment;

/// One log and its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogUsage<K> {
    pub key: K,
    /// When the job ended; `None` while the log may still grow.
    pub finished_ms: Option<u64>,
    pub segments: Vec<Segment>,
}

impl<K> LogUsage<K> {
    /// The same usage under another key.
    pub fn keyed<T>(self, key: impl FnOnce(K) -> T) -> LogUsage<T> {
        LogUsage { key: key(self.key), finished_ms: self.finished_ms, segments: self.segments }
    }
}

/// The files to remove, in order.
pub fn plan<K: Clone>(logs: &[LogUsage<K>], quota_bytes: u64) -> Vec<(K, u64)> {
    let mut total: u64 = logs.iter().flat_map(|log| &log.segments).map(Segment::disk_bytes).sum();
    let mut gone = Vec::new();
    let mut finished: Vec<&LogUsage<K>> = logs.iter().filter(|log| log.finished_ms.is_some()).collect();
    finished.sort_by_key(|log| log.finished_ms);
    for (log, segment) in finished.into_iter().flat_map(|log| log.segments.iter().map(move |s| (log, s))) {
        if total <= quota_bytes {
            return gone;
        }
        total -= segment.disk_bytes();
        gone.push((log.key.clone(), segment.start));
    }
    let mut growing: Vec<(&LogUsage<K>, &[Segment])> = logs
        .iter()
        .filter(|log| log.finished_ms.is_none())
        .map(|log| (log, log.segments.split_last().map_or(&[][..], |(_, older)| older)))
        .collect();
    while total > quota_bytes {
        let largest =
            growing.iter_mut().max_by_key(|(_, older)| older.iter().map(Segment::disk_bytes).sum::<u64>());
        let Some((log, older)) = largest else { break };
        let Some((oldest, rest)) = older.split_first() else { break };
        total -= oldest.disk_bytes();
        gone.push((log.key.clone(), oldest.start));
        *older = rest;
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn log(key: u32, finished_ms: Option<u64>, sizes: &[u64]) -> LogUsage<u32> {
        let mut start = 0;
        let segments = sizes
            .iter()
            .map(|bytes| {
                start += bytes;
                Segment { start: start - bytes, bytes: *bytes, index_bytes: 0 }
            })
            .collect();
        LogUsage { key, finished_ms, segments }
    }

    #[test]
    fn oldest_finished_first_then_the_largest_that_grows() {
        let logs = [log(1, None, &[4, 4, 1]), log(2, Some(20), &[4, 2]), log(3, Some(10), &[4])];
        for (quota, expected) in [
            (19, vec![]),
            (18, vec![(3, 0)]),
            (14, vec![(3, 0), (2, 0)]),
            (10, vec![(3, 0), (2, 0), (2, 4)]),
            (5, vec![(3, 0), (2, 0), (2, 4), (1, 0)]),
            (0, vec![(3, 0), (2, 0), (2, 4), (1, 0), (1, 4)]),
        ] {
            assert_eq!(plan(&logs, quota), expected, "budget {quota}");
        }
    }

    proptest! {
        #[test]
        fn the_budget_is_kept_but_for_files_being_written(
            shapes in prop::collection::vec((prop::option::of(0u64..9), prop::collection::vec(1u64..50, 0..6)), 0..8),
            quota in 0u64..400,
        ) {
            let logs: Vec<_> =
                shapes.iter().enumerate().map(|(i, (ended, sizes))| log(i as u32, *ended, sizes)).collect();
            let gone = plan(&logs, quota);
            let left: u64 = logs.iter().flat_map(|l| l.segments.iter().map(move |s| (l.key, s)))
                .filter(|(key, s)| !gone.contains(&(*key, s.start))).map(|(_, s)| s.bytes).sum();
            let being_written: u64 = logs.iter().filter(|l| l.finished_ms.is_none())
                .filter_map(|l| l.segments.last()).map(|s| s.bytes).sum();
            prop_assert!(left <= quota.max(being_written));
            let unique: std::collections::BTreeSet<_> = gone.iter().collect();
            prop_assert_eq!(unique.len(), gone.len());
        }
    }
}
