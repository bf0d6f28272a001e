//! Requests by a signed URL. The signature is all that is checked: a URL is for one method, file, size and time.

use super::{
    super::{
        Api,
        call::Call,
        error::{CallError, CallResult},
        param::{Param, ParamKind},
        query::Query,
    },
    content,
};
use axum::extract::RawPathParams;
use hostd_core::{FileLink, Identity, LinkId};
use hyper::{Method, Uri};
use protocol::api::{ApiErrorCode, SandboxId, TokenScope};

pub const SIGNED: &[Param] = &[Param {
    name: "signature",
    about: "As the URL that was created has it",
    kind: ParamKind::Text { most_chars: 64 },
}];

/// The identity of a request by a signed URL: the owner of the sandbox. The same refusal for every fault.
pub async fn authenticate(
    api: &Api,
    method: &Method,
    params: Option<&RawPathParams>,
    uri: &Uri,
) -> Result<Identity, CallError> {
    let refused =
        || CallError::new(ApiErrorCode::Unauthorized, "this signed URL is wrong, expired or revoked");
    let param = |name: &str| params?.iter().find(|(each, _)| *each == name).map(|(_, value)| value);
    let sandbox: Option<SandboxId> = param("id").and_then(|text| text.parse().ok());
    let id: Option<LinkId> = param("file_link").and_then(|text| text.parse().ok());
    let (Some(sandbox), Some(id)) = (sandbox, id) else { return Err(refused()) };
    let query = Query::parse(uri, SIGNED)?;
    let link = live_link(api, id).await?.ok_or_else(refused)?;
    let signed = api.settings.file_links.verify(&link, query.text("signature").unwrap_or_default());
    // HEAD is a GET without its body.
    let same_method = link.method.as_str() == method.as_str();
    if !signed || link.sandbox != sandbox || !same_method {
        return Err(refused());
    }
    let owner = api.store.owner_of(&sandbox).await?.ok_or_else(refused)?;
    Ok(Identity {
        tenant: owner.tenant,
        principal: owner.principal,
        scope: TokenScope::Read,
        operator: false,
        via: format!("file-link:{id}"),
        expires_ms: None,
    })
}

async fn live_link(api: &Api, id: LinkId) -> Result<Option<FileLink>, CallError> {
    let record = api.store.live_file_link(id, api.now_ms()).await?;
    Ok(record.map(|record| record.link))
}

/// The link of a request that was authenticated by it.
async fn link(call: &Call) -> Result<FileLink, CallError> {
    let id: LinkId = call.param("file_link")?.parse().map_err(|_| CallError::not_found())?;
    live_link(&call.api, id).await?.ok_or_else(CallError::not_found)
}

pub async fn read(call: Call) -> CallResult {
    let path = link(&call).await?.path;
    content::read_path(&call, path).await
}

pub async fn write(mut call: Call) -> CallResult {
    let FileLink { path, max_bytes, .. } = link(&call).await?;
    let (body, _large) = call.take_upload();
    content::write_path(&call, path, Some(max_bytes), body).await
}
