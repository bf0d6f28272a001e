//! Access decisions: the one place that decides whether a caller may see or change a resource.

use protocol::api::{Label, Owner, ShareAccess, TokenScope};

/// The caller, as authenticated by token or socket.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    pub tenant: Label,
    pub principal: Label,
    pub scope: TokenScope,
    /// The operator of this host: by the token file or the Unix socket. Sees every tenant.
    pub operator: bool,
    /// The token's id, or `socket:uid`; for the audit log.
    pub via: String,
    /// When the token expires.
    pub expires_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// The access of a caller to one sandbox. Each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SandboxAccess {
    Read,
    /// Use the sandbox: commands, tasks, files, services.
    Run,
    /// Destroy, share and reconfigure it: its owner, and admins of its tenant.
    Own,
}

/// A share of a sandbox. Shares never leave the tenant of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub grantee: Grantee,
    pub access: ShareAccess,
}

/// The principals that a sandbox is shared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grantee {
    /// Every principal of the tenant.
    Tenant,
    Principal(Label),
}

impl Grantee {
    /// Whether a principal of the sandbox's tenant is one of them.
    pub fn includes(&self, principal: &Label) -> bool {
        match self {
            Self::Tenant => true,
            Self::Principal(named) => named == principal,
        }
    }
}

impl Identity {
    /// Returns the access to a sandbox, the smaller one of what its owner gives and what the token allows. `None`: the
    /// sandbox is reported as not found.
    pub fn access_to(&self, owner: &Owner, shares: &[Share]) -> Option<SandboxAccess> {
        let given =
            if self.owns(owner) { SandboxAccess::Own } else { self.shared_access(owner, shares)?.into() };
        Some(given.min(self.token_limit()))
    }

    /// Whether a resource belongs to the caller: as its owner, as an admin of its tenant, or as the operator.
    pub fn owns(&self, owner: &Owner) -> bool {
        let whole_tenant = self.scope == TokenScope::Admin || self.principal == owner.principal;
        self.operator || (self.tenant == owner.tenant && whole_tenant)
    }

    /// Returns the largest access of all shares with the caller.
    fn shared_access(&self, owner: &Owner, shares: &[Share]) -> Option<ShareAccess> {
        let mine = |share: &&Share| self.tenant == owner.tenant && share.grantee.includes(&self.principal);
        shares.iter().filter(mine).map(|share| share.access).max()
    }

    fn token_limit(&self) -> SandboxAccess {
        if self.allows(Access::Write) { SandboxAccess::Own } else { SandboxAccess::Read }
    }

    /// Whether the scope of the token allows this kind of call.
    pub fn allows(&self, access: Access) -> bool {
        match access {
            Access::Read => true,
            Access::Write => self.operator || self.scope >= TokenScope::Run,
        }
    }
}

impl From<ShareAccess> for SandboxAccess {
    fn from(access: ShareAccess) -> Self {
        match access {
            ShareAccess::Read => Self::Read,
            ShareAccess::Run => Self::Run,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SandboxAccess::{Own, Read, Run};

    fn label(text: &str) -> Label {
        Label::parse(text).expect("a label")
    }

    fn caller(tenant: &str, principal: &str, scope: TokenScope) -> Identity {
        let (tenant, principal) = (label(tenant), label(principal));
        Identity { tenant, principal, scope, operator: false, via: String::new(), expires_ms: None }
    }

    fn with(principal: &str, access: ShareAccess) -> Share {
        Share { grantee: Grantee::Principal(label(principal)), access }
    }

    fn with_tenant(access: ShareAccess) -> Share {
        Share { grantee: Grantee::Tenant, access }
    }

    #[test]
    fn access_is_the_smaller_one_of_share_and_token() {
        let owner = Owner { tenant: label("a"), principal: label("ann"), project: label("p") };
        let bob = |access| vec![with("bob", access)];
        let (read, run) = (ShareAccess::Read, ShareAccess::Run);
        let (of_read, of_run, of_admin) = (TokenScope::Read, TokenScope::Run, TokenScope::Admin);
        let table = [
            ("a", "ann", of_run, vec![], Some(Own)),
            ("a", "ann", of_read, vec![], Some(Read)),
            ("a", "carl", of_admin, vec![], Some(Own)),
            ("a", "bob", of_run, vec![], None),
            ("a", "bob", of_run, bob(read), Some(Read)),
            ("a", "bob", of_run, bob(run), Some(Run)),
            ("a", "bob", of_read, bob(run), Some(Read)),
            ("a", "eve", of_run, bob(run), None),
            ("a", "eve", of_run, vec![with("bob", run), with_tenant(read)], Some(Read)),
            ("a", "bob", of_run, vec![with_tenant(run), with("bob", read)], Some(Run)),
            // The same principal of another tenant is another person, an admin there included.
            ("b", "bob", of_run, bob(run), None),
            ("b", "ann", of_run, vec![with_tenant(run)], None),
            ("b", "bob", of_admin, vec![with_tenant(run)], None),
        ];
        for (tenant, principal, scope, shares, expected) in table {
            let access = caller(tenant, principal, scope).access_to(&owner, &shares);
            assert_eq!(access, expected, "{tenant}/{principal} {scope:?} {shares:?}");
        }
        let operator = Identity { operator: true, ..caller("b", "root", of_read) };
        assert_eq!(operator.access_to(&owner, &[]), Some(Own));
    }
}
