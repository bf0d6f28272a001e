//! Holds: named reasons to keep the sandbox awake. Each expires.

use super::context::Context;
use super::execs::Refusal;
use crate::limits::{HOLD_REASON_MAX_BYTES, HOLD_TTL_DEFAULT_S, HOLD_TTL_MAX_S};
use crate::sys::clock::{monotonic_ms, wall_ms};
use protocol::{ErrorBody, ErrorCode, Fact, HoldName, HoldRequest, HoldView};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Holds {
    table: BTreeMap<HoldName, Hold>,
}

struct Hold {
    view: HoldView,
    /// On the monotonic clock.
    until: u64,
}

impl Holds {
    /// Takes a hold, or renews it.
    pub fn take(
        &mut self,
        context: &mut Context,
        name: HoldName,
        request: HoldRequest,
        at_most: usize,
    ) -> Result<HoldView, Refusal> {
        let ttl_s = request.ttl_s.unwrap_or(HOLD_TTL_DEFAULT_S);
        if ttl_s == 0 || ttl_s > HOLD_TTL_MAX_S {
            return Err(Box::new(ErrorBody::invalid("ttl_s", format!("must be 1 to {HOLD_TTL_MAX_S}"))));
        }
        if request.reason.len() > HOLD_REASON_MAX_BYTES {
            let message = format!("must be at most {HOLD_REASON_MAX_BYTES} bytes");
            return Err(Box::new(ErrorBody::invalid("reason", message)));
        }
        if self.table.len() >= at_most && !self.table.contains_key(&name) {
            let message = format!("there are {at_most} holds already; release one");
            return Err(Box::new(ErrorBody::new(ErrorCode::TooMany, message)));
        }
        let ttl_ms = ttl_s * 1000;
        let view = HoldView { name: name.clone(), reason: request.reason, expires_ms: wall_ms() + ttl_ms };
        context.record(Fact::HoldTaken { hold: name.clone(), expires_ms: view.expires_ms });
        self.table.insert(name, Hold { view: view.clone(), until: monotonic_ms() + ttl_ms });
        Ok(view)
    }

    pub fn release(&mut self, context: &mut Context, name: &HoldName) -> Result<(), Refusal> {
        if self.table.remove(name).is_none() {
            return Err(Box::new(ErrorBody::new(ErrorCode::NotFound, format!("there is no hold {name}"))));
        }
        context.record(Fact::HoldReleased { hold: name.clone(), expired: false });
        Ok(())
    }

    pub fn tick(&mut self, context: &mut Context) {
        let now = monotonic_ms();
        for (hold, _) in self.table.extract_if(.., |_, hold| hold.until <= now) {
            context.record(Fact::HoldReleased { hold, expired: true });
        }
    }

    pub fn next_wake(&self) -> Option<u64> {
        self.table.values().map(|hold| hold.until).min()
    }

    pub fn views(&self) -> Vec<HoldView> {
        self.table.values().map(|hold| hold.view.clone()).collect()
    }
}
