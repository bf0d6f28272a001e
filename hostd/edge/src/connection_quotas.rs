//! The quotas of connections to previews: counted for each tenant and each principal. Every request counts, with one
//! atomic add each; limits may change while connections are open.

use hostd_core::QuotaBook;
use protocol::api::{Label, Owner, QuotaScope};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Open connections of a tenant or a principal, and how many it may have.
#[derive(Debug)]
pub struct ConnectionCount {
    open: AtomicU64,
    /// `u64::MAX` is unlimited.
    limit: AtomicU64,
}

impl ConnectionCount {
    fn new(limit: Option<u64>) -> Self {
        Self { open: AtomicU64::new(0), limit: AtomicU64::new(limit.unwrap_or(u64::MAX)) }
    }

    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    fn set_limit(&self, limit: Option<u64>) {
        self.limit.store(limit.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Counts one more; whether it is within the limit.
    fn enter(&self) -> bool {
        self.open.fetch_add(1, Ordering::Relaxed) < self.limit.load(Ordering::Relaxed)
    }

    fn leave(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The counts of one owner.
#[derive(Debug, Clone)]
pub struct OwnerConnections {
    tenant: Arc<ConnectionCount>,
    principal: Arc<ConnectionCount>,
}

impl Default for OwnerConnections {
    /// Without limits.
    fn default() -> Self {
        let count = || Arc::new(ConnectionCount::new(None));
        Self { tenant: count(), principal: count() }
    }
}

impl OwnerConnections {
    /// Counts one more connection, also where it is over a quota: `leave` follows in any case. Returns whose quota it
    /// is over.
    pub fn enter(&self) -> Result<(), QuotaScope> {
        let [principal, tenant] = [self.principal.enter(), self.tenant.enter()];
        match (principal, tenant) {
            (false, _) => Err(QuotaScope::Principal),
            (true, false) => Err(QuotaScope::Tenant),
            (true, true) => Ok(()),
        }
    }

    pub fn leave(&self) {
        self.principal.leave();
        self.tenant.leave();
    }
}

/// A tenant, or a principal of it.
type CountKey = (Label, Option<Label>);

/// The counts of all owners. Clones share them.
#[derive(Clone, Default)]
pub struct ConnectionQuotas {
    inner: Arc<Mutex<Counts>>,
}

#[derive(Default)]
struct Counts {
    book: QuotaBook,
    by_owner: HashMap<CountKey, Arc<ConnectionCount>>,
}

impl Counts {
    fn limit(&self, (tenant, principal): &CountKey) -> Option<u64> {
        let (quota, _) = match principal {
            None => self.book.of_tenant(tenant),
            Some(principal) => self.book.of_principal(tenant, principal),
        };
        quota.preview_connections
    }

    fn count(&mut self, key: CountKey) -> Arc<ConnectionCount> {
        let limit = self.limit(&key);
        self.by_owner.entry(key).or_insert_with(|| Arc::new(ConnectionCount::new(limit))).clone()
    }
}

impl ConnectionQuotas {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        // A panic elsewhere leaves the counts as they were.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counts that connections to sandboxes of an owner go into.
    pub fn of(&self, owner: &Owner) -> OwnerConnections {
        let mut counts = self.counts();
        let tenant = counts.count((owner.tenant.clone(), None));
        let principal = counts.count((owner.tenant.clone(), Some(owner.principal.clone())));
        OwnerConnections { tenant, principal }
    }

    /// Returns how many connections are open: of a tenant, or of one principal.
    pub fn open(&self, tenant: &Label, principal: Option<&Label>) -> u64 {
        let key = (tenant.clone(), principal.cloned());
        self.counts().by_owner.get(&key).map_or(0, |count| count.open())
    }

    /// Puts quotas into force.
    pub fn set(&self, book: QuotaBook) {
        let mut counts = self.counts();
        counts.book = book;
        // Owners without sandboxes are forgotten.
        counts.by_owner.retain(|_, count| Arc::strong_count(count) > 1);
        for (key, count) in &counts.by_owner {
            count.set_limit(counts.limit(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::Quota;

    fn label(text: &str) -> Label {
        Label::parse(text).expect("a label")
    }

    fn owner(tenant: &str, principal: &str) -> Owner {
        Owner { tenant: label(tenant), principal: label(principal), project: label("default") }
    }

    fn book(tenant: Option<u64>, ann: Option<u64>) -> QuotaBook {
        let quota = |preview_connections| Quota { preview_connections, ..Quota::default() };
        QuotaBook {
            tenants: [(label("a"), quota(tenant))].into(),
            principals: [((label("a"), label("ann")), quota(ann))].into(),
            ..QuotaBook::default()
        }
    }

    #[test]
    fn a_tenant_and_each_principal_have_their_limits() {
        let quotas = ConnectionQuotas::default();
        let (ann, bob, other) =
            (quotas.of(&owner("a", "ann")), quotas.of(&owner("a", "bob")), quotas.of(&owner("b", "ann")));
        assert_eq!([ann.enter(), ann.enter()], [Ok(()), Ok(())], "unlimited");
        // Those that are open count, although they were opened before.
        quotas.set(book(Some(3), Some(2)));
        let refused = |of: &OwnerConnections| {
            let entered = of.enter();
            if entered.is_err() {
                of.leave();
            }
            entered
        };
        assert_eq!(refused(&ann), Err(QuotaScope::Principal));
        assert_eq!(refused(&bob), Ok(()));
        assert_eq!(refused(&bob), Err(QuotaScope::Tenant));
        assert_eq!(refused(&other), Ok(()));
        assert_eq!(quotas.open(&label("a"), None), 3);
        assert_eq!(quotas.open(&label("a"), Some(&label("ann"))), 2);
        ann.leave();
        assert_eq!(refused(&bob), Ok(()));
        quotas.set(QuotaBook::default());
        assert_eq!(refused(&ann), Ok(()));
        drop((ann, bob));
        quotas.set(QuotaBook::default());
        assert_eq!(quotas.open(&label("a"), None), 0, "owners without sandboxes are forgotten");
    }
}
