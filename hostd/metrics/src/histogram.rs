//! A histogram that is observed without a lock: a bucket is an atomic counter, and so is the sum. A scrape may see an
//! observation in a bucket and not yet in the sum.

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric},
};
use std::{
    fmt,
    iter::once,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Counts observations by their size. Clones count into the same buckets.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Buckets>);

#[derive(Debug)]
struct Buckets {
    /// The largest value of each bucket, rising; the last bucket has no bound.
    bounds: Box<[f64]>,
    counts: Box<[AtomicU64]>,
    /// The bits of a float.
    sum: AtomicU64,
}

impl Histogram {
    /// A histogram with these bounds of buckets, in rising order, and a last bucket without one.
    pub fn new(bounds: impl IntoIterator<Item = f64>) -> Self {
        let bounds: Box<[f64]> = bounds.into_iter().collect();
        let counts = bounds.iter().map(|_| AtomicU64::new(0)).chain(once(AtomicU64::new(0))).collect();
        Self(Arc::new(Buckets { bounds, counts, sum: AtomicU64::new(0f64.to_bits()) }))
    }

    pub fn observe(&self, value: f64) {
        let Buckets { bounds, counts, sum } = &*self.0;
        counts[bounds.partition_point(|bound| *bound < value)].fetch_add(1, Relaxed);
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        let _always = sum.fetch_update(Relaxed, Relaxed, add);
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let Buckets { bounds, counts, sum } = &*self.0;
        let bounds = bounds.iter().copied().chain(once(f64::INFINITY));
        let buckets: Vec<_> = bounds.zip(counts.iter().map(|count| count.load(Relaxed))).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(f64::from_bits(sum.load(Relaxed)), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Registry, text};
    use std::thread;

    #[test]
    fn each_value_is_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new([1.0, 2.5]);
        for value in [0.0, 1.0, 1.5, 2.5, 2.75, 10.0] {
            histogram.observe(value);
        }
        let mut registry = Registry::default();
        registry.register("taken", "Time taken", histogram);
        let expected = "# HELP taken Time taken.\n# TYPE taken histogram\ntaken_sum 17.75\ntaken_count 6\n\
taken_bucket{le=\"1.0\"} 2\ntaken_bucket{le=\"2.5\"} 4\ntaken_bucket{le=\"+Inf\"} 6\n# EOF\n";
        assert_eq!(text(&registry), expected);
    }

    #[test]
    fn observations_of_several_threads_are_all_counted() {
        const THREADS: u64 = 4;
        const EACH: u64 = 1_000;
        let histogram = Histogram::new([1.0]);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..EACH).for_each(|_| histogram.observe(2.0)));
            }
        });
        assert_eq!(histogram.0.counts[1].load(Relaxed), THREADS * EACH);
        assert_eq!(f64::from_bits(histogram.0.sum.load(Relaxed)), 2.0 * (THREADS * EACH) as f64);
    }
}
