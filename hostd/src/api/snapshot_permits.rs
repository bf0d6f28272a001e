//! Limits how many snapshots are exported, imported and verified at once: each reads or writes all files of a snapshot, on
//! a thread that no other work gets meanwhile. And how many are taken at once: a tenant does not hold up the others.

use super::{
    call::Call,
    error::CallError,
    limits::{
        SNAPSHOT_CAPTURES_MAX, SNAPSHOT_CAPTURES_OF_TENANT_MAX, SNAPSHOT_TRANSFERS_MAX,
        SNAPSHOT_TRANSFERS_OF_TENANT_MAX,
    },
};
use hostd_net::keyed_limiter::{InUse, KeyedLimiter, KeyedPermit};
use protocol::api::{ApiErrorCode, Label};

/// Snapshots that are read or written whole, by tenant.
pub type SnapshotTransfers = KeyedLimiter<Label>;

/// Snapshots that are taken, by tenant.
pub type SnapshotCaptures = KeyedLimiter<Label>;

/// The permit of one export, import, verification or capture, released when dropped.
pub type SnapshotPermit = KeyedPermit<Label>;

/// How many there may be at once, and what they are.
struct Most {
    of_tenant: usize,
    of_all: usize,
    what: &'static str,
}

const TRANSFERS: Most = Most {
    of_tenant: SNAPSHOT_TRANSFERS_OF_TENANT_MAX,
    of_all: SNAPSHOT_TRANSFERS_MAX,
    what: "exported, imported or verified",
};
const CAPTURES: Most =
    Most { of_tenant: SNAPSHOT_CAPTURES_OF_TENANT_MAX, of_all: SNAPSHOT_CAPTURES_MAX, what: "taken" };

impl Call {
    /// Returns a permit to read or write a whole snapshot.
    pub fn snapshot_permit(&self) -> Result<SnapshotPermit, CallError> {
        let check = |in_use| TRANSFERS.check(in_use);
        self.api.snapshot_transfers.acquire(self.caller.tenant.clone(), check)
    }

    /// Returns a permit to take a snapshot.
    pub fn capture_permit(&self) -> Result<SnapshotPermit, CallError> {
        let check = |in_use| CAPTURES.check(in_use);
        self.api.snapshot_captures.acquire(self.caller.tenant.clone(), check)
    }
}

impl Most {
    fn check(&self, InUse { mine, total }: InUse) -> Result<(), CallError> {
        let what = self.what;
        let message = if total >= self.of_all {
            format!("{total} snapshots are being {what}; try again in a moment")
        } else if mine >= self.of_tenant {
            format!("{mine} snapshots of this tenant are being {what}; wait for one to end")
        } else {
            return Ok(());
        };
        Err(CallError::new(ApiErrorCode::TooMany, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_leaves_room_for_others() {
        for most in [TRANSFERS, CAPTURES] {
            let in_use = KeyedLimiter::<Label>::default();
            let label = |text: String| Label::parse(&text).expect("a label");
            let acquire = |tenant: usize| {
                in_use.acquire(label(format!("tenant-{tenant}")), |in_use| most.check(in_use))
            };
            let mine: Vec<_> = std::iter::from_fn(|| acquire(0).ok()).collect();
            assert_eq!(mine.len(), most.of_tenant);
            let others: Vec<_> = (1..100).filter_map(|tenant| acquire(tenant).ok()).collect();
            assert_eq!(mine.len() + others.len(), most.of_all);
            let Err(refused) = acquire(100) else { panic!("there is no room") };
            assert_eq!(refused.error.code, ApiErrorCode::TooMany);
            drop(mine);
            assert!(acquire(100).is_ok());
        }
    }
}
