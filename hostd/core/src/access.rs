//! Access decisions: the one place that decides whether a caller may see or change a resource.

use protocol::api::{Label, Owner, TokenScope};

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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

impl Identity {
    /// Whether the caller may see a resource of this owner. If not, it is reported as not found.
    pub fn can_see(&self, owner: &Owner) -> bool {
        let same_tenant = self.tenant == owner.tenant;
        let whole_tenant = self.scope == TokenScope::Admin || self.principal == owner.principal;
        self.operator || (same_tenant && whole_tenant)
    }

    /// Whether the scope of the token allows this kind of call.
    pub fn allows(&self, access: Access) -> bool {
        match access {
            Access::Read => true,
            Access::Write => self.operator || self.scope >= TokenScope::Run,
        }
    }
}
