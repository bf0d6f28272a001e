//! Creates, lists and revokes signed URLs of files. Only the response that creates one contains its signature.

use super::{
    super::{
        call::Call,
        error::{CallError, CallResult},
        limits,
        param::PATH_MAX_BYTES,
        views::{self, ok},
    },
    params::below_home,
};
use hostd_core::{FileLink, LinkId, TransitionRefused, parse_duration_ms, rfc3339};
use hostd_store::{FileLinkRecord, LinkMade, limits as store};
use hyper::{StatusCode, header::HOST};
use protocol::{
    api::{ApiErrorCode, FileLinkCreate, FileLinkCreated, FileLinkMethod, FileLinkView},
    files::FilePath,
};

pub async fn create(call: Call) -> CallResult {
    let FileLinkCreate { method, path, ttl, max_bytes } = call.json()?;
    let sandbox = call.sandbox().await?;
    let now_ms = call.api.now_ms();
    let ttl_ms = ttl.as_deref().map_or(Ok(limits::FILE_LINK_TTL_DEFAULT_MS), ttl_ms)?;
    let max_bytes = match method {
        FileLinkMethod::Get => 0,
        FileLinkMethod::Put => max_bytes.unwrap_or(limits::FILE_LINK_UPLOAD_DEFAULT_BYTES),
    };
    let link = FileLink {
        id: LinkId::generate(),
        sandbox: sandbox.id,
        method,
        path: link_path(&path)?,
        max_bytes,
        expires_ms: now_ms.saturating_add(ttl_ms),
    };
    let signature = call.api.settings.file_links.sign(&link);
    let path = format!("/v1/sandboxes/{}/file-links/{}/content?signature={signature}", link.sandbox, link.id);
    let url = format!("{}{path}", origin(&call));
    let created_by = call.caller.principal.to_string();
    let record = FileLinkRecord { link, created_by, created_ms: now_ms, revoked_ms: None };
    match call.api.store.insert_file_link(record.clone()).await? {
        LinkMade::Made => {}
        LinkMade::Gone => return Err(TransitionRefused::Destroyed.into()),
        LinkMade::TooMany => {
            let most = store::LINKS_OF_SANDBOX_MAX;
            let message = format!("a sandbox has at most {most} valid signed URLs; revoke some of them");
            return Err(CallError::new(ApiErrorCode::TooMany, message));
        }
    }
    Ok(views::json(StatusCode::CREATED, &FileLinkCreated { view: view(&record), url }))
}

/// Set by proxies that add TLS. Only the caller itself sees what follows from it.
const X_FORWARDED_PROTO: &str = "x-forwarded-proto";

/// The origin of the API, as the caller sees it: its `Host` was checked. A caller on the Unix socket names none.
fn origin(call: &Call) -> String {
    let host = call.headers.get(HOST).and_then(|value| value.to_str().ok()).filter(|_| call.permit.is_some());
    let is_https = call.api.settings.encrypted
        || call.headers.get(X_FORWARDED_PROTO).is_some_and(|scheme| scheme.as_bytes() == b"https");
    let scheme = if is_https { "https" } else { "http" };
    host.map(|host| format!("{scheme}://{host}")).unwrap_or_default()
}

fn link_path(text: &str) -> Result<FilePath, CallError> {
    let path = below_home(&text.into());
    let valid = !path.0.is_empty() && path.0.len() <= PATH_MAX_BYTES && !path.0.contains(&0);
    if valid {
        Ok(path)
    } else {
        Err(CallError::invalid("path", "must be the path of a file, at most 4095 bytes"))
    }
}

fn ttl_ms(text: &str) -> Result<u64, CallError> {
    let ms = parse_duration_ms(text).map_err(|why| CallError::invalid("ttl", why))?;
    let fits = ms <= limits::FILE_LINK_TTL_MAX_MS;
    if fits { Ok(ms) } else { Err(CallError::invalid("ttl", "must be at most 7d")) }
}

pub async fn list(call: Call) -> CallResult {
    let sandbox = call.sandbox().await?;
    let parsed =
        |text: &str| text.parse().map_err(|_| CallError::invalid("after", "must be the id of a link"));
    let after: Option<LinkId> = call.query.text("after").map(parsed).transpose()?;
    let limit = call.query.limit()?;
    let records = call.api.store.file_links(&sandbox.id, after, limit).await?;
    Ok(ok(&views::page(&records, limit, view, |record| record.link.id.to_string())))
}

pub async fn revoke(call: Call) -> CallResult {
    let sandbox = call.sandbox().await?;
    let id: LinkId = call.param("file_link")?.parse().map_err(|_| CallError::not_found())?;
    let found = call.api.store.revoke_file_link(&sandbox.id, id, call.api.now_ms()).await?;
    if found { Ok(views::no_content()) } else { Err(CallError::not_found()) }
}

fn view(record: &FileLinkRecord) -> FileLinkView {
    let link = &record.link;
    FileLinkView {
        id: link.id.to_string(),
        sandbox_id: link.sandbox,
        method: link.method,
        path: link.path.lossy(),
        max_bytes: link.max_bytes,
        created_by: record.created_by.clone(),
        created_at: rfc3339(record.created_ms),
        expires_at: rfc3339(link.expires_ms),
        revoked_at: record.revoked_ms.map(rfc3339),
    }
}
