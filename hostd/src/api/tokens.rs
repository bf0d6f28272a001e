//! Tokens: made once, kept as a hash, shown never again.

use super::{
    call::{Call, forbidden},
    dispatch::new_id,
    failure::{Answer, Failure},
    views::{self, ok},
};
use crate::{
    core::{TOKEN_PREFIX, ttl_ms},
    store::TokenRecord,
    tokens::hash_of,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hyper::StatusCode;
use protocol::api::{TokenCreate, TokenCreated};

const SECRET_BYTES: usize = 32;

pub async fn create(call: Call) -> Answer {
    let TokenCreate { tenant, principal, scope, ttl } = call.json()?;
    if !call.who.operator && tenant != call.who.tenant {
        return Err(forbidden("tenant", "only the administrator of the host makes tokens of other tenants"));
    }
    let now_ms = call.api.now_ms();
    let ttl_ms = ttl.as_deref().map(ttl_ms).transpose()?;
    let mut secret = [0; SECRET_BYTES];
    getrandom::fill(&mut secret).map_err(|error| Failure::internal(&error))?;
    let token = format!("{TOKEN_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(secret));
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
