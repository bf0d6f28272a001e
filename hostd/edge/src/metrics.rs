//! Metrics of previews. On the path of a request, counting is an atomic add or two.

use super::wake::WakeTimings;
use hostd_metrics::{
    Counter, DURATION_BUCKETS_S, Gauge, Histogram, Label, LabeledCounters, LabeledHistograms, Registry,
};
use hyper::StatusCode;

/// Clones count into the same families.
#[derive(Clone, Debug)]
pub struct EdgeMetrics {
    /// Requests that an app responded to, that were held first, and that got an error page.
    pub(super) served: Counter,
    pub(super) held: Counter,
    pub(super) error_pages: Counter,
    /// Connections that were upgraded, and those of them that are open.
    pub(super) upgrades: Counter,
    pub(super) upgraded_connections: Gauge,
    pub(super) connections_refused: Counter,
    pub(super) responses: LabeledCounters<StatusClass>,
    pub(super) upstream_connections: LabeledCounters<ConnectionSource>,
    pub(super) request_steps: LabeledHistograms<RequestStep>,
    /// Of wakes that made the preview ready.
    wake_duration: Histogram,
    wake_steps: LabeledHistograms<WakeStep>,
    pub(super) failed_wakes: Counter,
    pub(super) quota_refusals: Counter,
}

impl Default for EdgeMetrics {
    fn default() -> Self {
        Self {
            served: Counter::default(),
            held: Counter::default(),
            error_pages: Counter::default(),
            upgrades: Counter::default(),
            upgraded_connections: Gauge::default(),
            connections_refused: Counter::default(),
            responses: LabeledCounters::default(),
            upstream_connections: LabeledCounters::default(),
            request_steps: LabeledHistograms::new(|| Histogram::new(DURATION_BUCKETS_S)),
            wake_duration: Histogram::new(DURATION_BUCKETS_S),
            wake_steps: LabeledHistograms::new(|| Histogram::new(DURATION_BUCKETS_S)),
            failed_wakes: Counter::default(),
            quota_refusals: Counter::default(),
        }
    }
}

impl EdgeMetrics {
    pub fn register(&self, registry: &mut Registry) {
        for (name, help, counter) in [
            ("slipway_preview_requests", "Requests that an app answered", &self.served),
            ("slipway_preview_held", "Requests that were held for a sandbox", &self.held),
            ("slipway_preview_excused", "Requests that no app answered", &self.error_pages),
            ("slipway_preview_upgrades", "Connections that were upgraded", &self.upgrades),
            ("slipway_preview_connections_refused", "Connections over the limit", &self.connections_refused),
            ("slipway_preview_failed_wakes", "Wakes after which no app listened", &self.failed_wakes),
            (
                "slipway_preview_quota_refusals",
                "Requests beyond the connections that the quota of an owner allows",
                &self.quota_refusals,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        let help = "Upgraded connections that are open";
        registry.register("slipway_preview_upgraded_connections", help, self.upgraded_connections.clone());
        let help = "Responses to browsers, of apps and of hostd, by the class of their status";
        self.responses.register(registry, "slipway_preview_responses", help);
        let help = "Connections into sandboxes that requests were sent on, or that a wake opened";
        self.upstream_connections.register(registry, "slipway_preview_upstream_connections", help);
        let help = "Duration of a wake, from the request until the app listens";
        registry.register("slipway_preview_wake_duration_seconds", help, self.wake_duration.clone());
        let help = "Duration of the steps of a wake";
        self.wake_steps.register(registry, "slipway_preview_wake_step_duration_seconds", help);
        let help = "Duration of the steps of a request that an app answered";
        self.request_steps.register(registry, "slipway_preview_request_step_duration_seconds", help);
    }

    /// Counts a wake that made the preview ready.
    pub(super) fn count_ready(&self, timings: &WakeTimings) {
        self.wake_duration.observe((timings.start + timings.listen).as_secs_f64());
        self.wake_steps.of(WakeStep::Start).observe(timings.start.as_secs_f64());
        self.wake_steps.of(WakeStep::Listen).observe(timings.listen.as_secs_f64());
    }
}

/// The steps of a request: held until the app can take it, and from then until its response begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestStep {
    Held,
    App,
}

impl Label for RequestStep {
    const NAME: &'static str = "step";
    const ALL: &'static [Self] = &[Self::App, Self::Held];

    fn value(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::App => "app",
        }
    }
}

/// The steps of a wake: until the sandbox is up, and from then until the app listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WakeStep {
    Start,
    Listen,
}

impl Label for WakeStep {
    const NAME: &'static str = "step";
    const ALL: &'static [Self] = &[Self::Start, Self::Listen];

    fn value(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Listen => "listen",
        }
    }
}

/// The first digit of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatusClass {
    Informational,
    Success,
    Redirection,
    ClientError,
    ServerError,
}

impl StatusClass {
    pub(super) fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            ..200 => Self::Informational,
            200..300 => Self::Success,
            300..400 => Self::Redirection,
            400..500 => Self::ClientError,
            500.. => Self::ServerError,
        }
    }
}

impl Label for StatusClass {
    const NAME: &'static str = "status";
    const ALL: &'static [Self] =
        &[Self::Success, Self::Redirection, Self::ClientError, Self::ServerError, Self::Informational];

    fn value(self) -> &'static str {
        match self {
            Self::Informational => "1xx",
            Self::Success => "2xx",
            Self::Redirection => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
        }
    }
}

/// Where the connection of a request into its sandbox comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionSource {
    Opened,
    Reused,
}

impl Label for ConnectionSource {
    const NAME: &'static str = "source";
    const ALL: &'static [Self] = &[Self::Reused, Self::Opened];

    fn value(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Reused => "reused",
        }
    }
}
