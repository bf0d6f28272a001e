//! The disk limit of a workspace where only measuring keeps it: whether a sandbox is stopped for its size.
//!
//! A sandbox that is over its limit may be started, so that files are deleted in it: it is stopped again when it grows.

/// Growth that a sandbox over its limit may have, so that a log or a lock file does not end the clean-up.
const GROWTH_TOLERATED_BYTES: u64 = 8 << 20;

/// Measures of one workspace since its sandbox is up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskLimitWatch {
    least_bytes: Option<u64>,
}

impl DiskLimitWatch {
    /// Takes a measure. Returns whether the sandbox is to be stopped.
    pub fn is_over(&mut self, limit_bytes: u64, now_bytes: u64) -> bool {
        let ceiling = match self.least_bytes {
            // Seen below its limit, or in it.
            Some(least) if least <= limit_bytes => limit_bytes,
            Some(least) => least.saturating_add(GROWTH_TOLERATED_BYTES),
            None => u64::MAX,
        };
        self.least_bytes = Some(self.least_bytes.map_or(now_bytes, |least| least.min(now_bytes)));
        now_bytes > ceiling
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_stopped_when_it_passes_its_limit_and_may_be_started_to_delete_files() {
        // Measures in MB with a limit of 100, and the first that stops the sandbox.
        let table: [(&[u64], Option<usize>); 7] = [
            (&[10, 50, 100, 100], None),
            (&[10, 101], Some(1)),
            (&[150, 150, 149, 120], None),
            (&[150, 157, 159], Some(2)),
            (&[150, 120, 127, 129], Some(3)),
            (&[150, 90, 101], Some(2)),
            (&[u64::MAX >> 20], None),
        ];
        for (measures, expected) in table {
            let mut watch = DiskLimitWatch::default();
            let over = measures.iter().position(|mb| watch.is_over(100 << 20, mb << 20));
            assert_eq!(over, expected, "{measures:?}");
        }
    }
}
