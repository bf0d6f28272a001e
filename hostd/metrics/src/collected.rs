//! Families whose samples are read when they are scraped, and not counted where something happens.

pub use prometheus_client::collector::Collector;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};
use std::fmt;

/// What a [`Collector`] writes its families to.
pub type FamilyWriter<'a> = DescriptorEncoder<'a>;

/// Whether the numbers of a family only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleKind {
    Counter,
    Gauge,
}

/// Writes a family with one number. The name of a counter is without its `_total`.
pub fn write_number(
    writer: &mut FamilyWriter<'_>,
    (name, help): (&str, &str),
    kind: SampleKind,
    value: f64,
) -> fmt::Result {
    let help = format!("{help}.");
    match kind {
        SampleKind::Counter => {
            let counter = ConstCounter::new(value);
            counter.encode(writer.encode_descriptor(name, &help, None, counter.metric_type())?)
        }
        SampleKind::Gauge => {
            let gauge = ConstGauge::new(value);
            gauge.encode(writer.encode_descriptor(name, &help, None, gauge.metric_type())?)
        }
    }
}

/// Writes a family with one label: its values and their numbers.
pub fn write_labeled(
    writer: &mut FamilyWriter<'_>,
    (name, help): (&str, &str),
    kind: SampleKind,
    (label, samples): (&'static str, &[(String, f64)]),
) -> fmt::Result {
    let help = format!("{help}.");
    let of_kind = match kind {
        SampleKind::Counter => ConstCounter::new(0f64).metric_type(),
        SampleKind::Gauge => ConstGauge::new(0f64).metric_type(),
    };
    let mut encoder = writer.encode_descriptor(name, &help, None, of_kind)?;
    for (value, number) in samples {
        let labels = [(label, value.as_str())];
        let one = encoder.encode_family(&labels)?;
        match kind {
            SampleKind::Counter => ConstCounter::new(*number).encode(one)?,
            SampleKind::Gauge => ConstGauge::new(*number).encode(one)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Registry, text};

    #[derive(Debug)]
    struct Trees;

    impl Collector for Trees {
        fn encode(&self, mut writer: FamilyWriter<'_>) -> fmt::Result {
            write_number(&mut writer, ("planted", "Trees that were planted"), SampleKind::Counter, 3.0)?;
            let heights = [("oak".to_owned(), 2.5), ("ash".to_owned(), 4.0)];
            write_labeled(&mut writer, ("height", "Their height"), SampleKind::Gauge, ("kind", &heights))
        }
    }

    #[test]
    fn samples_are_read_when_they_are_scraped() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Trees));
        let expected = "# HELP planted Trees that were planted.\n# TYPE planted counter\nplanted_total 3.0\n\
# HELP height Their height.\n# TYPE height gauge\nheight{kind=\"oak\"} 2.5\nheight{kind=\"ash\"} 4.0\n# EOF\n";
        assert_eq!(text(&registry), expected);
    }
}
