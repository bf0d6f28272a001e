//! Limits how many snapshots are exported, imported and verified at once: each reads or writes all files of a snapshot, on
//! a thread that no other work gets meanwhile.

use super::{
    call::Call,
    error::CallError,
    limits::{SNAPSHOT_TRANSFERS_MAX, SNAPSHOT_TRANSFERS_OF_TENANT_MAX},
};
use hostd_net::keyed_limiter::{InUse, KeyedLimiter, KeyedPermit};
use protocol::api::{ApiErrorCode, Label};

/// Snapshots that are read or written whole, by tenant.
pub type SnapshotTransfers = KeyedLimiter<Label>;

/// The permit of one export, import or verification, released when dropped.
pub type SnapshotPermit = KeyedPermit<Label>;

impl Call {
    /// Returns a permit to read or write a whole snapshot.
    pub fn snapshot_permit(&self) -> Result<SnapshotPermit, CallError> {
        self.api.snapshot_transfers.acquire(self.caller.tenant.clone(), check)
    }
}

fn check(InUse { mine, total }: InUse) -> Result<(), CallError> {
    let message = if total >= SNAPSHOT_TRANSFERS_MAX {
        format!("{total} snapshots are being exported, imported or verified; try again in a moment")
    } else if mine >= SNAPSHOT_TRANSFERS_OF_TENANT_MAX {
        format!(
            "{mine} snapshots of this tenant are being exported, imported or verified; wait for one to end"
        )
    } else {
        return Ok(());
    };
    Err(CallError::new(ApiErrorCode::TooMany, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_leaves_room_for_others() {
        let transfers = SnapshotTransfers::default();
        let label = |text: String| Label::parse(&text).expect("a label");
        let acquire = |tenant: usize| transfers.acquire(label(format!("tenant-{tenant}")), check);
        let mine: Vec<_> = std::iter::from_fn(|| acquire(0).ok()).collect();
        assert_eq!(mine.len(), SNAPSHOT_TRANSFERS_OF_TENANT_MAX);
        let others: Vec<_> = (1..100).filter_map(|tenant| acquire(tenant).ok()).collect();
        assert_eq!(mine.len() + others.len(), SNAPSHOT_TRANSFERS_MAX);
        let Err(refused) = acquire(100) else { panic!("there is no room") };
        assert_eq!(refused.error.code, ApiErrorCode::TooMany);
        drop(mine);
        assert!(acquire(100).is_ok());
    }
}
