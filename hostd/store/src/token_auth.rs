//! Authentication by API token.

use crate::{Store, StoreError, TokenRecord};
use hostd_core::{Identity, token_hash};
use protocol::api::{Label, TokenScope};
use subtle::ConstantTimeEq;

/// Tenant and principal of resources that the operator creates.
const OPERATOR_TENANT: &str = "default";
const OPERATOR_PRINCIPAL: &str = "admin";

/// Returns the identity of a token; `None` for an unknown, revoked or expired one. Reads the store every
/// time: a revoked token must not work once more.
pub async fn authenticate(
    store: &Store,
    admin_hash: &[u8; 32],
    token: &str,
    now_ms: u64,
) -> Result<Option<Identity>, StoreError> {
    let hash = token_hash(token);
    if bool::from(hash.ct_eq(admin_hash)) {
        return Ok(Some(operator("admin-token".to_owned())));
    }
    let found = store.token_by_hash(&hash).await?;
    Ok(found.and_then(|record| identity(record, now_ms)))
}

/// Returns the identity of a token; `None` for a revoked or expired one.
pub fn identity(record: TokenRecord, now_ms: u64) -> Option<Identity> {
    is_valid(&record, now_ms).then_some(Identity {
        tenant: record.tenant,
        principal: record.principal,
        scope: record.scope,
        operator: false,
        via: record.id,
        expires_ms: record.expires_ms,
    })
}

/// The operator of the host.
pub fn operator(via: String) -> Identity {
    let label = |text| Label::parse(text).expect("a constant that is a good label");
    Identity {
        tenant: label(OPERATOR_TENANT),
        principal: label(OPERATOR_PRINCIPAL),
        scope: TokenScope::Admin,
        operator: true,
        via,
        expires_ms: None,
    }
}

fn is_valid(record: &TokenRecord, now_ms: u64) -> bool {
    record.revoked_ms.is_none() && record.expires_ms.is_none_or(|expires_ms| now_ms < expires_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_valid_until_it_expires_or_is_revoked() {
        let label = Label::parse("t").unwrap();
        let token = |expires_ms, revoked_ms| TokenRecord {
            id: "x".into(),
            tenant: label.clone(),
            principal: label.clone(),
            scope: TokenScope::Run,
            created_ms: 0,
            expires_ms,
            revoked_ms,
        };
        let table = [
            (token(None, None), true),
            (token(Some(11), None), true),
            (token(Some(10), None), false),
            (token(None, Some(3)), false),
        ];
        for (record, expected) in table {
            assert_eq!(is_valid(&record, 10), expected, "{record:?}");
        }
    }
}
