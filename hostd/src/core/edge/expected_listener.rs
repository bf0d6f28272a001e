//! Whether something is on its way that would listen on a port.

use protocol::{ServiceState, Status};

/// A service without a port counts as ready when it runs; it may take so long until it listens.
const SETTLES_WITHIN_MS: u64 = 15_000;

/// Failures in a row after which nobody waits for a service.
const FAILURES_TOLD: u32 = 2;

/// A service that does not say where it listens may do so on the ports that the sandbox was made with; on
/// any, if it was made with none.
pub fn expects_listener(status: &Status, port: u16, made_with: &[u16], now_ms: u64) -> bool {
    let anywhere = made_with.is_empty() || made_with.contains(&port);
    let may_listen = |its: Option<u16>| its.map_or(anywhere, |its| its == port);
    status.services.iter().filter(|service| may_listen(service.port)).any(|service| {
        match service.state {
            ServiceState::Starting | ServiceState::Waiting { .. } => true,
            // One that keeps failing is told about, not waited for.
            ServiceState::Backoff { failures, .. } => failures < FAILURES_TOLD,
            // It listened when it was looked at, so it may have ended this moment; or it never said where.
            ServiceState::Ready { since_ms } | ServiceState::Unhealthy { since_ms, .. } => {
                now_ms.saturating_sub(since_ms) < SETTLES_WITHIN_MS
            }
            ServiceState::Stopping | ServiceState::Stopped | ServiceState::FailedDependency { .. } => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::error_page::cases::{service, status};

    #[test]
    fn one_that_keeps_failing_is_not_waited_for() {
        for (failures, wanted) in [(1, true), (2, false), (9, false)] {
            let state = ServiceState::Backoff { next_try_ms: 0, failures };
            let status = Status { services: vec![service("web", Some(8000), state)], ..status() };
            assert_eq!(expects_listener(&status, 8000, &[8000], 0), wanted, "{failures}");
        }
    }

    #[test]
    fn who_does_not_say_where_he_listens_is_waited_for_where_a_sandbox_has_ports() {
        let cases = [
            (None, 8000, &[8000][..], true),
            (None, 9000, &[8000], false),
            (None, 9000, &[], true),
            (Some(9000), 9000, &[8000], true),
            (Some(9000), 8000, &[8000], false),
        ];
        for (its, port, made_with, wanted) in cases {
            let services = vec![service("web", its, ServiceState::Starting)];
            let status = Status { services, ..status() };
            assert_eq!(expects_listener(&status, port, made_with, 0), wanted, "{its:?} {port} {made_with:?}");
        }
    }
}
