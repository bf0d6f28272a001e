//! Metrics of the egress proxy.

use super::{refusal::ProxyRefusal, tracked_connection::Direction};
use hostd_metrics::{Counter, Gauge, Label, LabeledCounters, Registry};

/// Clones count into the same families.
#[derive(Clone, Debug, Default)]
pub struct EgressMetrics {
    pub(super) requests: LabeledCounters<RequestOutcome>,
    pub(super) tunnels: Gauge,
    sent_bytes: Counter,
    received_bytes: Counter,
}

impl EgressMetrics {
    pub fn register(&self, registry: &mut Registry) {
        let help = "Requests of sandboxes to the proxy, by what became of them";
        self.requests.register(registry, "slipway_egress_requests", help);
        registry.register("slipway_egress_tunnels", "Open CONNECT tunnels", self.tunnels.clone());
        let help = "Bytes that sandboxes sent through the proxy";
        registry.register("slipway_egress_sent_bytes", help, self.sent_bytes.clone());
        let help = "Bytes that sandboxes received through the proxy";
        registry.register("slipway_egress_received_bytes", help, self.received_bytes.clone());
    }

    pub(super) fn bytes(&self, direction: Direction) -> &Counter {
        match direction {
            Direction::Up => &self.sent_bytes,
            Direction::Down => &self.received_bytes,
        }
    }
}

/// What became of a request to the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    /// Connected: a tunnel was opened, or the server's response is relayed.
    Allowed,
    /// Denied by a rule, or because of the address.
    Denied,
    NoNetwork,
    QuotaExceeded,
    RateLimited,
    TooManyConnections,
    Malformed,
    Unreachable,
    NoResponse,
    Failed,
}

impl RequestOutcome {
    pub(super) fn of<T>(answered: &Result<T, ProxyRefusal>) -> Self {
        match answered {
            Ok(_) => Self::Allowed,
            Err(ProxyRefusal::Denied { .. }) => Self::Denied,
            Err(ProxyRefusal::NetworkMode(_)) => Self::NoNetwork,
            Err(ProxyRefusal::QuotaExceeded { .. }) => Self::QuotaExceeded,
            Err(ProxyRefusal::RateLimited) => Self::RateLimited,
            Err(ProxyRefusal::TooManyConnections) => Self::TooManyConnections,
            Err(ProxyRefusal::Malformed(_) | ProxyRefusal::Body) => Self::Malformed,
            Err(ProxyRefusal::Unreachable(_)) => Self::Unreachable,
            Err(ProxyRefusal::NoResponse { .. }) => Self::NoResponse,
            Err(ProxyRefusal::Internal) => Self::Failed,
        }
    }
}

impl Label for RequestOutcome {
    const NAME: &'static str = "outcome";
    const ALL: &'static [Self] = &[
        Self::Allowed,
        Self::Denied,
        Self::NoNetwork,
        Self::QuotaExceeded,
        Self::RateLimited,
        Self::TooManyConnections,
        Self::Malformed,
        Self::Unreachable,
        Self::NoResponse,
        Self::Failed,
    ];

    fn value(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::NoNetwork => "no_network",
            Self::QuotaExceeded => "quota_exceeded",
            Self::RateLimited => "rate_limited",
            Self::TooManyConnections => "too_many_connections",
            Self::Malformed => "malformed",
            Self::Unreachable => "unreachable",
            Self::NoResponse => "no_response",
            Self::Failed => "failed",
        }
    }
}
