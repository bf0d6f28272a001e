//! Links to private previews. Only the response that creates a link contains its pass.

use super::{
    call::Call,
    error::{CallError, CallResult},
    views::{self, ok},
};
use hostd_core::{
    LinkId, PassPurpose, Preview, PreviewPass, TransitionRefused, limits, parse_duration_ms, rfc3339,
    url_with_pass,
};
use hostd_store::{LinkMade, LinkRecord, limits as store};
use hyper::StatusCode;
use protocol::api::{
    ApiErrorCode, PreviewLinkCreate, PreviewLinkCreated, PreviewLinkView, SandboxId, SandboxStatus,
};

pub async fn create(call: Call) -> CallResult {
    let PreviewLinkCreate { port, ttl, path } = call.json()?;
    let sandbox = call.sandbox().await?;
    if sandbox.state.status == SandboxStatus::Destroyed {
        return Err(TransitionRefused::Destroyed.into());
    }
    let preview = preview(sandbox.id, port)?;
    let ttl_ms = ttl.as_deref().map_or(Ok(limits::LINK_TTL_DEFAULT_MS), ttl_ms)?;
    let now_ms = call.api.now_ms();
    let link = LinkRecord {
        id: LinkId::generate(),
        preview,
        created_by: call.caller.principal.to_string(),
        created_ms: now_ms,
        expires_ms: now_ms.saturating_add(ttl_ms),
        revoked_ms: None,
    };
    let settings = &call.api.settings;
    let pass = PreviewPass { link: link.id, preview, expires_ms: link.expires_ms };
    let token = settings.links.pass_text(&pass, PassPurpose::Link);
    let url = url_with_pass(&settings.previews.url(&preview), path.as_deref().unwrap_or("/"), &token)?;
    match settings.links.create(link.clone()).await? {
        LinkMade::Made => {}
        LinkMade::Gone => return Err(TransitionRefused::Destroyed.into()),
        LinkMade::TooMany => {
            let most = store::LINKS_OF_SANDBOX_MAX;
            let message = format!("a sandbox has at most {most} valid links; revoke some of them");
            return Err(CallError::new(ApiErrorCode::TooMany, message));
        }
    }
    let answer = PreviewLinkCreated { view: view(&link), url, token };
    Ok(views::json(StatusCode::CREATED, &answer))
}

fn preview(sandbox: SandboxId, port: u16) -> Result<Preview, CallError> {
    let invalid = || CallError::invalid("port", "must be a port of the sandbox that previews may show");
    Preview::new(sandbox, &port.to_string()).ok_or_else(invalid)
}

fn ttl_ms(text: &str) -> Result<u64, CallError> {
    let ms = parse_duration_ms(text).map_err(|why| CallError::invalid("ttl", why))?;
    if ms <= limits::LINK_TTL_MAX_MS { Ok(ms) } else { Err(CallError::invalid("ttl", "must be at most 30d")) }
}

pub async fn list(call: Call) -> CallResult {
    let sandbox = call.sandbox().await?;
    let parsed =
        |text: &str| text.parse().map_err(|_| CallError::invalid("after", "must be the id of a link"));
    let after: Option<LinkId> = call.query.text("after").map(parsed).transpose()?;
    let limit = call.query.limit()?;
    let records = call.api.store.links(&sandbox.id, after, limit).await?;
    Ok(ok(&views::page(&records, limit, view, |record| record.id.to_string())))
}

pub async fn revoke(call: Call) -> CallResult {
    let sandbox = call.sandbox().await?;
    let id: LinkId = call.param("link")?.parse().map_err(|_| CallError::not_found())?;
    let found = call.api.settings.links.revoke(&sandbox.id, id, call.api.now_ms()).await?;
    if found { Ok(views::no_content()) } else { Err(CallError::not_found()) }
}

fn view(record: &LinkRecord) -> PreviewLinkView {
    PreviewLinkView {
        id: record.id.to_string(),
        sandbox_id: record.preview.sandbox,
        port: record.preview.port,
        created_by: record.created_by.clone(),
        created_at: rfc3339(record.created_ms),
        expires_at: rfc3339(record.expires_ms),
        revoked_at: record.revoked_ms.map(rfc3339),
    }
}
