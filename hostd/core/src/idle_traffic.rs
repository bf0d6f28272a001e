//! Tells activity of a user on an open stream from the heartbeat of a forgotten page: its script sends a few
//! bytes at an interval, for ever, and may get a reply.

/// Bytes in both directions within `HEARTBEAT_SPAN_MS` are one message. A heartbeat has at most this size.
pub const HEARTBEAT_MAX_BYTES: usize = 256;
/// Longer than a ping and its reply take, also in several chunks.
pub const HEARTBEAT_SPAN_MS: u64 = 1_000;
/// Silence before a heartbeat. The fastest known one, of the client of Next.js, comes every 2.5 seconds.
pub const HEARTBEAT_QUIET_MS: u64 = 2_000;

/// Tracks the newest message of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatDetector {
    started_ms: u64,
    last_ms: u64,
    bytes: usize,
}

impl HeartbeatDetector {
    /// For a stream that was opened now.
    pub fn new(now_ms: u64) -> Self {
        Self { started_ms: now_ms, last_ms: now_ms, bytes: 0 }
    }

    /// Records bytes that moved; returns whether they count as activity.
    pub fn is_activity(&mut self, bytes: usize, now_ms: u64) -> bool {
        let silence_ms = now_ms.saturating_sub(self.last_ms);
        if silence_ms >= HEARTBEAT_QUIET_MS {
            *self = Self::new(now_ms);
        }
        self.last_ms = now_ms;
        self.bytes = self.bytes.saturating_add(bytes);
        let lasts_ms = now_ms.saturating_sub(self.started_ms);
        self.bytes > HEARTBEAT_MAX_BYTES || lasts_ms > HEARTBEAT_SPAN_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves bytes at these times, and checks which of them count.
    #[track_caller]
    fn check(moves: &[(u64, usize)], counting: &[u64]) {
        let mut detector = HeartbeatDetector::new(0);
        let counted = moves.iter().filter(|(at_ms, bytes)| detector.is_activity(*bytes, *at_ms));
        let counted: Vec<u64> = counted.map(|(at_ms, _)| *at_ms).collect();
        assert_eq!(counted, counting, "{moves:?}");
    }

    #[test]
    fn a_few_bytes_after_silence_are_a_heartbeat() {
        check(&[(30_000, 21), (60_000, 21), (90_000, 256), (120_000, 0)], &[]);
        // Every 2.5 seconds.
        check(&[(2_500, 60), (5_000, 60), (7_500, 60), (10_000, 60)], &[]);
        // A ping and its reply, or one in several chunks.
        check(&[(30_000, 6), (30_001, 15), (30_040, 19), (60_000, 6), (60_900, 15)], &[]);
    }

    #[test]
    fn more_bytes_or_in_close_succession_are_activity() {
        check(&[(30_000, 257)], &[30_000]);
        check(&[(30_000, 200), (30_100, 57), (30_200, 1)], &[30_100, 30_200]);
        // Each of these is small, but they come in close succession.
        check(&[(9_000, 1), (10_000, 1), (11_000, 1), (12_000, 1)], &[11_000, 12_000]);
        // After silence the next few bytes are a heartbeat again.
        check(&[(9_000, 900), (11_000, 9), (30_000, 9)], &[9_000]);
        // The same soon after the stream was opened.
        check(&[(500, 300), (1_500, 1)], &[500, 1_500]);
    }

    #[test]
    fn a_clock_that_stands_and_numbers_at_their_end_are_no_panic() {
        check(&[(0, usize::MAX), (0, usize::MAX), (u64::MAX, 1)], &[0, 0]);
    }
}
