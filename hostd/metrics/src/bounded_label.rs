//! The values of a label that are names of a configuration: as many as the limit, and one for all others.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The value for names beyond the limit.
const OTHER: &str = "other";

/// What is counted for each name: made when the name is first seen, and kept until hostd ends.
pub struct BoundedLabel<T> {
    max: usize,
    make: Box<dyn Fn(&str) -> T + Send + Sync>,
    by_name: Mutex<BTreeMap<String, Arc<T>>>,
    other: Arc<T>,
}

impl<T> BoundedLabel<T> {
    /// `make` gets the value of the label.
    pub fn new(max: usize, make: impl Fn(&str) -> T + Send + Sync + 'static) -> Self {
        let other = Arc::new(make(OTHER));
        Self { max, make: Box::new(make), by_name: Mutex::default(), other }
    }

    pub fn of(&self, name: &str) -> Arc<T> {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = by_name.get(name) {
            return known.clone();
        }
        if name == OTHER || by_name.len() >= self.max {
            return self.other.clone();
        }
        by_name.entry(name.to_owned()).or_insert_with(|| Arc::new((self.make)(name))).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_limit_are_one() {
        let label = BoundedLabel::new(2, str::to_owned);
        let table = [("b", "b"), ("other", "other"), ("a", "a"), ("c", "other"), ("b", "b"), ("d", "other")];
        for (name, expected) in table {
            assert_eq!(*label.of(name), expected, "{name}");
        }
    }
}
