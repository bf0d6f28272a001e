//! Metrics of webhooks.

use hostd_metrics::{Counter, Gauge, Label, LabeledCounters, Registry};

/// Clones count into the same families.
#[derive(Clone, Default)]
pub struct WebhookMetrics {
    pub(super) attempts: LabeledCounters<AttemptOutcome>,
    pub(super) in_flight: Gauge,
    pub(super) gaps: Counter,
    pub(super) dropped: Counter,
}

impl WebhookMetrics {
    pub fn register(&self, registry: &mut Registry) {
        let help = "Attempts to deliver to webhooks, by what became of them";
        self.attempts.register(registry, "slipway_webhook_attempts", help);
        let help = "Deliveries to webhooks that are being sent";
        registry.register("slipway_webhook_in_flight", help, self.in_flight.clone());
        let help = "Gaps: events were deleted before a webhook was told of them";
        registry.register("slipway_webhook_gaps", help, self.gaps.clone());
        let help = "Deliveries that were given up and then removed";
        registry.register("slipway_webhook_dropped", help, self.dropped.clone());
    }
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptOutcome {
    Delivered,
    /// It is repeated later.
    Failed,
    /// It was the last one.
    GaveUp,
    /// The endpoint answered 410.
    Gone,
}

impl Label for AttemptOutcome {
    const NAME: &'static str = "outcome";
    const ALL: &'static [Self] = &[Self::Delivered, Self::Failed, Self::GaveUp, Self::Gone];

    fn value(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::GaveUp => "gave_up",
            Self::Gone => "gone",
        }
    }
}
