//! Tokens: made once, kept as a hash, shown never again.

use super::{
    call::{Call, forbidden},
    dispatch::new_id,
    failure::{Answer, Failure},
    views::{self, ok},
};
use crate::{core::ttl_ms, store::TokenRecord};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hyper::StatusCode;
use protocol::api::{TokenCreate, TokenCreated};
use sha2::{Digest, Sha256};

/// What every token begins with, so that one that leaked is known by its look.
const PREFIX: &str = "slw_";
const SECRET_BYTES: usize = 32;

/// What is kept of a token. It has 256 random bits: no salt and no slow hash are needed.
pub fn hash_of(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

pub fn alive(record: &TokenRecord, now_ms: u64) -> bool {
    record.revoked_ms.is_none() && record.expires_ms.is_none_or(|expires_ms| now_ms < expires_ms)
}

pub async fn create(call: Call) -> Answer {
    let TokenCreate { tenant, principal, scope, ttl } = call.json()?;
    if !call.who.operator && tenant != call.who.tenant {
        return Err(forbidden("tenant", "only the administrator of the host makes tokens of other tenants"));
    }
    let now_ms = call.api.now_ms();
    let ttl_ms = ttl.as_deref().map(ttl_ms).transpose()?;
    let mut secret = [0; SECRET_BYTES];
    getrandom::fill(&mut secret).map_err(|error| Failure::internal(&error))?;
    let token = format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(secret));
    let record = TokenRecord {
        id: new_id(),
        tenant,
        principal,
        scope,
        created_ms: now_ms,
        expires_ms: ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms)),
        revoked_ms: None,
    };
    call.api.fleet.store().insert_token(record.clone(), hash_of(&token)).await?;
    Ok(views::json(StatusCode::CREATED, &TokenCreated { view: views::token(&record), token }))
}

pub async fn list(call: Call) -> Answer {
    let tenant = (!call.who.operator).then_some(&call.who.tenant);
    let limit = call.query.limit()?;
    let records = call.api.fleet.store().tokens(tenant, call.query.text("after"), limit).await?;
    Ok(ok(&views::page(&records, limit, views::token, |record| record.id.clone())))
}

pub async fn revoke(call: Call) -> Answer {
    let (store, id) = (call.api.fleet.store(), call.param("token")?);
    let record = store.token(id).await?.ok_or_else(Failure::not_found)?;
    if !call.who.operator && record.tenant != call.who.tenant {
        return Err(Failure::foreign());
    }
    // False: it was revoked before, which is what is wanted.
    store.revoke_token(id, call.api.now_ms()).await?;
    Ok(views::no_content())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::{Label, TokenScope};

    #[test]
    fn a_token_lives_until_it_expires_or_is_revoked() {
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
            assert_eq!(alive(&record, 10), expected, "{record:?}");
        }
    }
}
