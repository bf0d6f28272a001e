//! When an HTTP/2 connection is closed although its TCP connection is alive: a client that answers pings but begins no
//! request, or takes nothing of its responses, must not keep the connection. Time is counted in observations.

/// One look at a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// Grows with every request and with every chunk that the client takes.
    pub progress: u64,
    /// Requests without a complete response.
    pub in_flight: usize,
    /// Responses of which a chunk waits for the client.
    pub unread: usize,
    /// Whether a request of the connection was authenticated.
    pub authenticated: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct WatchLimits {
    /// Time between two observations.
    pub interval_ms: u64,
    /// How long an authenticated client may take nothing of its responses.
    pub unread_max_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchVerdict {
    Keep,
    /// No request for a whole interval: no new ones are accepted.
    CloseIdle,
    /// The client takes nothing of its responses.
    CloseUnread,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub struct ConnectionWatch {
    progress: u64,
    /// How long there was no progress.
    quiet_ms: u64,
}

impl ConnectionWatch {
    /// Called once per interval.
    pub fn observe(&mut self, seen: Observation, limits: WatchLimits) -> WatchVerdict {
        if seen.progress != self.progress {
            *self = Self { progress: seen.progress, quiet_ms: 0 };
            return WatchVerdict::Keep;
        }
        self.quiet_ms = self.quiet_ms.saturating_add(limits.interval_ms);
        let unread_max_ms = if seen.authenticated { limits.unread_max_ms } else { limits.interval_ms };
        if seen.in_flight == 0 {
            WatchVerdict::CloseIdle
        } else if seen.unread > 0 && self.quiet_ms >= unread_max_ms {
            WatchVerdict::CloseUnread
        } else {
            // A handler is at work, or a stream has no news.
            WatchVerdict::Keep
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: WatchLimits = WatchLimits { interval_ms: 10, unread_max_ms: 30 };

    /// Observes `(progress, in_flight, unread)` in turn and returns the first verdict that closes, with its position.
    fn first_close(authenticated: bool, seen: &[(u64, usize, usize)]) -> Option<(usize, WatchVerdict)> {
        let mut watch = ConnectionWatch::default();
        let verdicts = seen.iter().map(|&(progress, in_flight, unread)| {
            watch.observe(Observation { progress, in_flight, unread, authenticated }, LIMITS)
        });
        verdicts.enumerate().find(|(_, verdict)| *verdict != WatchVerdict::Keep)
    }

    #[test]
    fn connections_that_go_nowhere_are_closed() {
        use WatchVerdict::{CloseIdle, CloseUnread};
        for (authenticated, seen, expected) in [
            (true, &[(0, 0, 0)][..], Some((0, CloseIdle))),
            (true, &[(1, 0, 0), (1, 0, 0)], Some((1, CloseIdle))),
            (true, &[(1, 0, 0), (2, 0, 0), (3, 1, 0), (4, 1, 1)], None),
            // A stream without news, for ever.
            (true, &[(1, 1, 0), (1, 1, 0), (1, 1, 0), (1, 1, 0), (1, 1, 0)], None),
            (true, &[(1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1)], Some((3, CloseUnread))),
            // Something was read between.
            (true, &[(1, 1, 1), (1, 1, 1), (2, 1, 1), (2, 1, 1), (2, 1, 1)], None),
            (false, &[(1, 1, 1), (1, 1, 1)], Some((1, CloseUnread))),
            (false, &[(1, 1, 0), (1, 1, 0), (1, 1, 0)], None),
        ] {
            assert_eq!(first_close(authenticated, seen), expected, "{authenticated} {seen:?}");
        }
    }
}
