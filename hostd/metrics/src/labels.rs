//! Families with one label whose values are an enum. Every value exists from the start, so that a rate has a zero to
//! begin at, and to count takes no lock of the family.

use crate::{Counter, Family, Histogram, Registry};
use std::time::Instant;

/// A label, as the enum of its values.
pub trait Label: Copy + PartialEq + 'static {
    const NAME: &'static str;
    const ALL: &'static [Self];
    fn value(self) -> &'static str;
}

type OneLabel = [(&'static str, &'static str); 1];

fn labels<L: Label>(label: L) -> OneLabel {
    [(L::NAME, label.value())]
}

/// The position of a value among all values.
fn position<L: Label>(label: L) -> usize {
    L::ALL.iter().position(|other| *other == label).expect("ALL lists every value of the enum")
}

/// A counter for each value of a label.
#[derive(Clone, Debug)]
pub struct LabeledCounters<L> {
    family: Family<OneLabel, Counter>,
    /// In the order of `ALL`.
    counters: Box<[Counter]>,
    label: std::marker::PhantomData<L>,
}

impl<L: Label> Default for LabeledCounters<L> {
    fn default() -> Self {
        let family = Family::<OneLabel, Counter>::default();
        let counters = L::ALL.iter().map(|label| family.get_or_create_owned(&labels(*label))).collect();
        Self { family, counters, label: std::marker::PhantomData }
    }
}

impl<L: Label> LabeledCounters<L> {
    pub fn of(&self, label: L) -> &Counter {
        &self.counters[position(label)]
    }

    pub fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.family.clone());
    }
}

/// A histogram for each value of a label.
#[derive(Clone, Debug)]
pub struct LabeledHistograms<L> {
    family: Family<OneLabel, Histogram, fn() -> Histogram>,
    /// In the order of `ALL`.
    histograms: Box<[Histogram]>,
    label: std::marker::PhantomData<L>,
}

impl<L: Label> LabeledHistograms<L> {
    pub fn new(histogram: fn() -> Histogram) -> Self {
        let family = Family::<OneLabel, Histogram, _>::new_with_constructor(histogram);
        let histograms = L::ALL.iter().map(|label| family.get_or_create_owned(&labels(*label))).collect();
        Self { family, histograms, label: std::marker::PhantomData }
    }

    pub fn of(&self, label: L) -> &Histogram {
        &self.histograms[position(label)]
    }

    pub fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.family.clone());
    }
}

/// Times the steps of one piece of work, each from the end of the one before.
#[derive(Debug)]
pub struct StepTimer<'a, L> {
    steps: &'a LabeledHistograms<L>,
    begun: Instant,
}

impl<'a, L: Label> StepTimer<'a, L> {
    pub fn start(steps: &'a LabeledHistograms<L>) -> Self {
        Self { steps, begun: Instant::now() }
    }

    pub fn ended(&mut self, step: L) {
        let now = Instant::now();
        self.steps.of(step).observe((now - self.begun).as_secs_f64());
        self.begun = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    #[derive(Clone, Copy, PartialEq)]
    enum Fruit {
        Apple,
        Pear,
    }

    impl Label for Fruit {
        const NAME: &'static str = "fruit";
        const ALL: &'static [Self] = &[Self::Apple, Self::Pear];

        fn value(self) -> &'static str {
            match self {
                Self::Apple => "apple",
                Self::Pear => "pear",
            }
        }
    }

    #[test]
    fn every_value_is_there_before_it_is_counted() {
        let (counters, histograms) = (
            LabeledCounters::<Fruit>::default(),
            LabeledHistograms::<Fruit>::new(|| Histogram::new([0.5, 1.0])),
        );
        let mut registry = Registry::default();
        counters.register(&mut registry, "eaten", "Eaten fruit");
        histograms.register(&mut registry, "eating_seconds", "Time to eat");
        counters.of(Fruit::Pear).inc();
        histograms.of(Fruit::Apple).observe(0.75);
        let text = text(&registry);
        for line in [
            "eaten_total{fruit=\"apple\"} 0",
            "eaten_total{fruit=\"pear\"} 1",
            "eating_seconds_bucket{le=\"0.5\",fruit=\"apple\"} 0",
            "eating_seconds_bucket{le=\"1.0\",fruit=\"apple\"} 1",
            "eating_seconds_count{fruit=\"pear\"} 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
