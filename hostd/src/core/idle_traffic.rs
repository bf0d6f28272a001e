//! Which bytes on an open stream mean that somebody is there, and which are sent by a page that everybody
//! forgot: its script says a few bytes at an interval, for ever, and may be answered.

/// What moves in both directions within `HEARTBEAT_SPAN_MS` is one message. A heartbeat is at most so long.
pub const HEARTBEAT_MAX_BYTES: usize = 256;
/// Longer than a ping and its answer take, also in pieces.
pub const HEARTBEAT_SPAN_MS: u64 = 1_000;
/// And it comes after so much silence. The fastest that is known, the client of Next.js, says something
/// every 2.5 seconds.
pub const HEARTBEAT_QUIET_MS: u64 = 2_000;

/// The newest message of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatDetector {
    begun_ms: u64,
    last_ms: u64,
    bytes: usize,
}

impl HeartbeatDetector {
    /// Of a stream that was opened now.
    pub fn new(now_ms: u64) -> Self {
        Self { begun_ms: now_ms, last_ms: now_ms, bytes: 0 }
    }

    /// So many bytes moved: whether that counts as something that somebody does.
    pub fn is_activity(&mut self, bytes: usize, now_ms: u64) -> bool {
        let silence_ms = now_ms.saturating_sub(self.last_ms);
        if silence_ms >= HEARTBEAT_QUIET_MS {
            *self = Self::new(now_ms);
        }
        self.last_ms = now_ms;
        self.bytes = self.bytes.saturating_add(bytes);
        let lasts_ms = now_ms.saturating_sub(self.begun_ms);
        self.bytes > HEARTBEAT_MAX_BYTES || lasts_ms > HEARTBEAT_SPAN_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes at times; which of them count.
    #[track_caller]
    fn check(moves: &[(u64, usize)], counting: &[u64]) {
        let mut detector = HeartbeatDetector::new(0);
        let counted = moves.iter().filter(|(at_ms, bytes)| detector.is_activity(*bytes, *at_ms));
        let counted: Vec<u64> = counted.map(|(at_ms, _)| *at_ms).collect();
        assert_eq!(counted, counting, "{moves:?}");
    }

    #[test]
    fn a_few_bytes_after_silence_are_nobody() {
        check(&[(30_000, 21), (60_000, 21), (90_000, 256), (120_000, 0)], &[]);
        // Every 2.5 seconds.
        check(&[(2_500, 60), (5_000, 60), (7_500, 60), (10_000, 60)], &[]);
        // Asked and answered, or in pieces.
        check(&[(30_000, 6), (30_001, 15), (30_040, 19), (60_000, 6), (60_900, 15)], &[]);
    }

    #[test]
    fn more_of_them_or_closer_together_is_somebody() {
        check(&[(30_000, 257)], &[30_000]);
        check(&[(30_000, 200), (30_100, 57), (30_200, 1)], &[30_100, 30_200]);
        // Each of these is small, and they come one after the other.
        check(&[(9_000, 1), (10_000, 1), (11_000, 1), (12_000, 1)], &[11_000, 12_000]);
        // After silence it is a heartbeat again.
        check(&[(9_000, 900), (11_000, 9), (30_000, 9)], &[9_000]);
        // Soon after it was opened, too.
        check(&[(500, 300), (1_500, 1)], &[500, 1_500]);
    }

    #[test]
    fn a_clock_that_stands_and_numbers_at_their_end_are_no_panic() {
        check(&[(0, usize::MAX), (0, usize::MAX), (u64::MAX, 1)], &[0, 0]);
    }
}
