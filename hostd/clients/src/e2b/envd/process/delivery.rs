//! How far the output of each process has reached a client. In memory only: what is not known is sent again.

use crate::e2b::envd::limits::{DELIVERIES_MAX, UNCERTAIN_OUTPUT_BYTES};
use protocol::{ExecId, api::SandboxId};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

#[derive(Default)]
pub struct Deliveries(Mutex<HashMap<(SandboxId, ExecId), u64>>);

impl Deliveries {
    /// Notes that output up to this position was handed to a connection. The newest of it may never reach the client.
    pub fn handed_over(&self, sandbox: SandboxId, exec: &ExecId, position: u64) {
        let Some(delivered) = position.checked_sub(UNCERTAIN_OUTPUT_BYTES) else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= DELIVERIES_MAX {
            known.clear();
        }
        let newest = known.entry((sandbox, exec.clone())).or_default();
        *newest = delivered.max(*newest);
    }

    /// Where a client that connects begins to read.
    pub fn resume_at(&self, sandbox: SandboxId, exec: &ExecId) -> u64 {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(sandbox, exec.clone())).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_repeated_unless_it_surely_arrived() {
        let deliveries = Deliveries::default();
        let sandbox: SandboxId = "01k7k0000000000000000000aa".parse().expect("an id");
        let exec = ExecId::parse("e").expect("a name");
        for (position, expected) in [
            (0, 0),
            (UNCERTAIN_OUTPUT_BYTES, 0),
            (UNCERTAIN_OUTPUT_BYTES + 7, 7),
            // An older connection is behind.
            (UNCERTAIN_OUTPUT_BYTES + 3, 7),
        ] {
            deliveries.handed_over(sandbox, &exec, position);
            assert_eq!(deliveries.resume_at(sandbox, &exec), expected, "{position}");
        }
        assert_eq!(deliveries.resume_at(sandbox, &ExecId::parse("f").expect("a name")), 0);
    }
}
