//! Tokens: shown once when created, stored as a hash.

use super::{
    call::{Call, forbidden},
    dispatch::new_id,
    error::{CallError, CallResult},
    views::{self, ok},
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hostd_core::{E2B_TOKEN_PREFIX, TOKEN_PREFIX, token_hash, ttl_ms};
use hostd_store::TokenRecord;
use hyper::StatusCode;
use protocol::api::{TokenCreate, TokenCreated};

const SECRET_BYTES: usize = 32;

pub async fn create(call: Call) -> CallResult {
    let TokenCreate { tenant, principal, scope, ttl, e2b } = call.json()?;
    if !call.caller.operator && tenant != call.caller.tenant {
        return Err(forbidden("tenant", "only the operator creates tokens of other tenants"));
    }
    let now_ms = call.api.now_ms();
    let ttl_ms = ttl.as_deref().map(ttl_ms).transpose()?;
    let mut secret = [0; SECRET_BYTES];
    getrandom::fill(&mut secret).map_err(|error| CallError::internal(&error))?;
    let token = if e2b {
        e2b_token(&secret)
    } else {
        format!("{TOKEN_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(secret))
    };
    let record = TokenRecord {
        id: new_id(),
        tenant,
        principal,
        scope,
        created_ms: now_ms,
        expires_ms: ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms)),
        revoked_ms: None,
    };
    call.api.store.insert_token(record.clone(), token_hash(&token)).await?;
    Ok(views::json(StatusCode::CREATED, &TokenCreated { view: views::token(&record), token }))
}

fn e2b_token(secret: &[u8]) -> String {
    secret.iter().fold(E2B_TOKEN_PREFIX.to_owned(), |token, byte| format!("{token}{byte:02x}"))
}

pub async fn list(call: Call) -> CallResult {
    let tenant = (!call.caller.operator).then_some(&call.caller.tenant);
    let limit = call.query.limit()?;
    let records = call.api.store.tokens(tenant, call.query.text("after"), limit).await?;
    Ok(ok(&views::page(&records, limit, views::token, |record| record.id.clone())))
}

pub async fn revoke(call: Call) -> CallResult {
    let (store, id) = (&call.api.store, call.param("token")?);
    let record = store.token(id).await?.ok_or_else(CallError::not_found)?;
    if !call.caller.operator && record.tenant != call.caller.tenant {
        return Err(CallError::foreign());
    }
    // False: it was revoked before, which is fine.
    store.revoke_token(id, call.api.now_ms()).await?;
    Ok(views::no_content())
}
