//! All quotas of a host, and which of them bind an owner.

use super::limit_of;
use protocol::api::{Label, Owner, Quota, QuotaResource, QuotaSource};
use std::collections::BTreeMap;

/// The quotas that were set, over the defaults of the configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QuotaBook {
    /// Of a tenant that has none of its own, and of such a principal; `None` where nothing is configured.
    pub tenant_default: Option<Quota>,
    pub principal_default: Option<Quota>,
    pub tenants: BTreeMap<Label, Quota>,
    pub principals: BTreeMap<(Label, Label), Quota>,
}

impl QuotaBook {
    /// Returns the quota of a tenant. One that was set replaces the default as a whole.
    pub fn of_tenant(&self, tenant: &Label) -> (Quota, QuotaSource) {
        choose(self.tenants.get(tenant), self.tenant_default.as_ref())
    }

    pub fn of_principal(&self, tenant: &Label, principal: &Label) -> (Quota, QuotaSource) {
        let set = self.principals.get(&(tenant.clone(), principal.clone()));
        choose(set, self.principal_default.as_ref())
    }

    /// Whether a quota of the owner limits the resource.
    pub fn limits(&self, owner: &Owner, resource: QuotaResource) -> bool {
        let (tenant, _) = self.of_tenant(&owner.tenant);
        let (principal, _) = self.of_principal(&owner.tenant, &owner.principal);
        [tenant, principal].iter().any(|quota| limit_of(quota, resource).is_some())
    }

    /// Whether a quota of the tenant, or of any principal of it, limits the resource.
    pub fn limits_in(&self, tenant: &Label, resource: QuotaResource) -> bool {
        let (of_tenant, _) = self.of_tenant(tenant);
        let principals = self.principals.iter().filter(|((of, _), _)| of == tenant).map(|(_, quota)| quota);
        let all = [&of_tenant].into_iter().chain(&self.principal_default).chain(principals);
        all.into_iter().any(|quota| limit_of(quota, resource).is_some())
    }

    /// Whether any quota limits the resource.
    pub fn limits_anyone(&self, resource: QuotaResource) -> bool {
        let defaults = self.tenant_default.iter().chain(&self.principal_default);
        let set = self.tenants.values().chain(self.principals.values());
        defaults.chain(set).any(|quota| limit_of(quota, resource).is_some())
    }
}

fn choose(set: Option<&Quota>, default: Option<&Quota>) -> (Quota, QuotaSource) {
    match (set, default) {
        (Some(quota), _) => (quota.clone(), QuotaSource::Set),
        (None, Some(quota)) => (quota.clone(), QuotaSource::Default),
        (None, None) => (Quota::default(), QuotaSource::None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(text: &str) -> Label {
        Label::parse(text).expect("a label")
    }

    #[test]
    fn a_quota_that_was_set_replaces_the_default_as_a_whole() {
        let disk = |disk_mb| Quota { disk_mb: Some(disk_mb), ..Quota::default() };
        let running = Quota { running: Some(1), ..Quota::default() };
        let book = QuotaBook {
            tenant_default: Some(disk(9)),
            principal_default: None,
            tenants: [(label("a"), running.clone())].into(),
            principals: [((label("a"), label("ann")), disk(1))].into(),
        };
        assert_eq!(book.of_tenant(&label("a")), (running, QuotaSource::Set));
        assert_eq!(book.of_tenant(&label("b")), (disk(9), QuotaSource::Default));
        assert_eq!(book.of_principal(&label("a"), &label("ann")), (disk(1), QuotaSource::Set));
        assert_eq!(book.of_principal(&label("b"), &label("ann")), (Quota::default(), QuotaSource::None));
        let table = [("a", "ann", true), ("a", "bob", false), ("b", "ann", true)];
        for (tenant, principal, expected) in table {
            let owner =
                Owner { tenant: label(tenant), principal: label(principal), project: label("default") };
            assert_eq!(book.limits(&owner, QuotaResource::DiskMb), expected, "{owner:?}");
            assert!(!book.limits(&owner, QuotaResource::EventsMb));
        }
        assert!(book.limits_anyone(QuotaResource::Running) && !book.limits_anyone(QuotaResource::Cpus));
    }
}
