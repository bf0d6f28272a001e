//! Whether a service is expected to listen on a port soon.

use protocol::{ServiceState, Status};

/// A service without a port counts as ready when it runs; it may take this long until it listens.
const SETTLES_WITHIN_MS: u64 = 15_000;

/// Failures in a row after which a service is not waited for.
const FAILURES_MAX: u32 = 2;

/// A service that does not declare a port may listen on the ports of the spec; on any, if the spec has none.
pub fn expects_listener(status: &Status, port: u16, spec_ports: &[u16], now_ms: u64) -> bool {
    let anywhere = spec_ports.is_empty() || spec_ports.contains(&port);
    let may_listen = |its: Option<u16>| its.map_or(anywhere, |its| its == port);
    status.services.iter().filter(|service| may_listen(service.port)).any(|service| {
        match service.state {
            ServiceState::Starting | ServiceState::Waiting { .. } => true,
            // A service that keeps failing is explained on the error page, not waited for.
            ServiceState::Backoff { failures, .. } => failures < FAILURES_MAX,
            // The service listened when it was last checked, so it may have ended this moment; or it never
            // declared a port.
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
    use crate::error_page::test_cases::{service, status};

    #[test]
    fn a_service_that_keeps_failing_is_not_waited_for() {
        for (failures, wanted) in [(1, true), (2, false), (9, false)] {
            let state = ServiceState::Backoff { next_try_ms: 0, failures };
            let status = Status { services: vec![service("web", Some(8000), state)], ..status() };
            assert_eq!(expects_listener(&status, 8000, &[8000], 0), wanted, "{failures}");
        }
    }

    #[test]
    fn a_service_without_a_port_is_expected_on_the_ports_of_the_sandbox() {
        let cases = [
            (None, 8000, &[8000][..], true),
            (None, 9000, &[8000], false),
            (None, 9000, &[], true),
            (Some(9000), 9000, &[8000], true),
            (Some(9000), 8000, &[8000], false),
        ];
        for (its, port, spec_ports, wanted) in cases {
            let services = vec![service("web", its, ServiceState::Starting)];
            let status = Status { services, ..status() };
            assert_eq!(
                expects_listener(&status, port, spec_ports, 0),
                wanted,
                "{its:?} {port} {spec_ports:?}"
            );
        }
    }
}
