//! Counters, gauges and histograms, by `prometheus-client`. Each layer of hostd defines its families in a `metrics.rs`
//! of its own and registers them into the one registry that `/metrics` encodes. Knows none of the families.
//!
//! **Invariant:** the values of a label are bounded, and no client chooses them. They are a closed set, with two
//! exceptions, each with a limit of its own: names of model providers, which the operator configures
//! (`BoundedLabel`), and ids of sandboxes in the families that only the operator's configuration switches on. There is
//! never a tenant, a principal or a text of a client.

mod bounded_label;
mod collected;
mod histogram;
mod labels;

pub use bounded_label::BoundedLabel;
pub use collected::{Collector, FamilyWriter, SampleKind, write_labeled, write_number};
pub use histogram::Histogram;
pub use labels::{Label, LabeledCounters, LabeledHistograms, StepTimer};
pub use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// A counter of fractions, such as dollars.
pub type FloatCounter = Counter<f64, std::sync::atomic::AtomicU64>;
/// A gauge of fractions, such as a part of a whole.
pub type FloatGauge = Gauge<f64, std::sync::atomic::AtomicU64>;

use prometheus_client::encoding::text::encode;

/// The media type of [`text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bounds of buckets, in seconds: for work that takes milliseconds to a minute.
pub const DURATION_BUCKETS_S: [f64; 10] = [0.001, 0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 60.0];

/// Returns all families of a registry in the text format of OpenMetrics.
pub fn text(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("writing to a string does not fail");
    text
}

/// Counts as one in a gauge until it is dropped.
#[derive(Debug)]
pub struct GaugeGuard(Gauge);

impl GaugeGuard {
    pub fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Sets a gauge to a count or a number of bytes.
pub fn set(gauge: &Gauge, value: u64) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_counts_until_it_is_dropped() {
        let gauge = Gauge::default();
        let (first, second) = (GaugeGuard::new(&gauge), GaugeGuard::new(&gauge));
        assert_eq!(gauge.get(), 2);
        drop((first, second));
        assert_eq!(gauge.get(), 0);
    }

    #[test]
    fn a_gauge_takes_every_count() {
        let gauge = Gauge::default();
        for (value, expected) in [(0, 0), (7, 7), (u64::MAX, i64::MAX)] {
            set(&gauge, value);
            assert_eq!(gauge.get(), expected);
        }
    }
}
