//! Calls that are starting their work. A cancellation that comes before the work is recorded is kept until it is.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// Whether a starting call is cancelled, by the id of its work.
#[derive(Debug, Default)]
pub struct StartingCalls {
    cancelled: Mutex<HashMap<String, bool>>,
}

/// A call that is starting; forgotten when dropped.
pub struct Starting<'a> {
    calls: &'a StartingCalls,
    work: String,
}

impl StartingCalls {
    pub fn begin(&self, work: &str) -> Starting<'_> {
        self.change(|calls| calls.insert(work.to_owned(), false));
        Starting { calls: self, work: work.to_owned() }
    }

    /// Returns whether such a call is starting; it learns of its cancellation when it has started.
    pub fn cancel(&self, work: &str) -> bool {
        self.change(|calls| calls.get_mut(work).map(|cancelled| *cancelled = true).is_some())
    }

    fn change<T>(&self, act: impl FnOnce(&mut HashMap<String, bool>) -> T) -> T {
        act(&mut self.cancelled.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Starting<'_> {
    /// Called when the work is recorded; returns whether it was cancelled meanwhile.
    pub fn finish(self) -> bool {
        self.calls.change(|calls| calls.remove(&self.work)).unwrap_or(false)
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.calls.change(|calls| calls.remove(&self.work));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancellation_reaches_a_call_that_is_starting_and_no_other() {
        let calls = StartingCalls::default();
        assert!(!calls.cancel("a"), "not begun");
        let (first, second) = (calls.begin("a"), calls.begin("b"));
        assert!(calls.cancel("a"));
        assert!(first.finish());
        assert!(!second.finish());
        drop(calls.begin("c"));
        assert!(!calls.cancel("c"), "dropped");
    }
}
