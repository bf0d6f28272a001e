//! The response to a request that no app responds to: gathers the facts, has `core::error_page` explain them,
//! and renders that as a page for browsers or JSON for programs.
//!
//! ```text
//!  Unserved ─┬─ Refused(Refusal): the edge refuses the request itself ─────────────▶ ErrorPage ──▶ response
//!            └─ NoResponse: the app gave none ──▶ PreviewFacts ──▶ core::explain ──▶    │
//! ```
//!
//! A new reason is a variant of `NoResponse` (`core/error_page.rs`, with its text beside it) or of `Refusal`.

mod csp;
mod html;
mod progress_events;
mod refusal;
mod response;

pub use progress_events::{HEARTBEAT, OPENING, WAKE_PATH, frame, wait_mode};
pub use refusal::Refusal;
pub use response::{Format, render};

use super::{response_body::ResponseBody, state::Edge};
use crate::preview_target::PreviewTarget;
use hostd_core::{ErrorPage, NoResponse, Preview, PreviewFacts, explain};
use hostd_store::SandboxRecord;
use hyper::{
    Response,
    header::{CONNECTION, HeaderValue},
};
use protocol::{Status, api::Visibility};

/// Why a request was not served.
#[derive(Debug)]
pub enum Unserved {
    Refused(Refusal),
    NoResponse(NoResponse),
}

impl From<Refusal> for Unserved {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<NoResponse> for Unserved {
    fn from(reason: NoResponse) -> Self {
        Self::NoResponse(reason)
    }
}

/// The sender of a request, and what it asks for.
#[derive(Debug, Clone, Copy)]
pub struct Visitor {
    pub preview: Preview,
    pub format: Format,
    /// May see what the sandbox runs and prints.
    pub trusted: bool,
}

impl Edge {
    /// Whether a visitor may see details: one that showed a pass, and every one where only this host can ask.
    /// Under a public domain there may be a proxy in front.
    pub(super) fn is_trusted(&self, has_pass: bool) -> bool {
        let local = self.previews.domain == "localhost" && self.previews.visibility == Visibility::Public;
        has_pass || local
    }

    pub(super) async fn error_response(
        &self,
        visitor: &Visitor,
        target: &PreviewTarget,
        unserved: Unserved,
    ) -> Response<ResponseBody> {
        let reason = match unserved {
            Unserved::Refused(refusal) => return self.refuse(visitor.format, refusal),
            Unserved::NoResponse(reason) => reason,
        };
        let record = target.record();
        let status = if record.state.is_up() { target.status().await } else { None };
        self.explain(visitor, &record, status.as_deref(), reason)
    }

    pub(super) fn is_private(&self, record: &SandboxRecord) -> bool {
        record.blueprint.visibility.unwrap_or(self.previews.visibility) == Visibility::Private
    }

    /// The response for a sandbox without an actor. A destroyed one has a record; that a private one existed is
    /// not told to a visitor without a pass.
    pub(super) async fn absent_response(&self, visitor: &Visitor, has_pass: bool) -> Response<ResponseBody> {
        match self.store.sandbox(&visitor.preview.sandbox).await {
            Ok(Some(record)) if has_pass || !self.is_private(&record) => {
                self.explain(visitor, &record, None, NoResponse::PortClosed)
            }
            Ok(_) | Err(_) => self.refuse(visitor.format, Refusal::UnknownSandbox),
        }
    }

    fn explain(
        &self,
        visitor: &Visitor,
        record: &SandboxRecord,
        status: Option<&Status>,
        reason: NoResponse,
    ) -> Response<ResponseBody> {
        let facts = self.facts(visitor, record, status, reason);
        self.respond(visitor.format, &explain(&facts))
    }

    pub(super) fn facts<'a>(
        &self,
        visitor: &Visitor,
        record: &'a SandboxRecord,
        status: Option<&'a Status>,
        reason: NoResponse,
    ) -> PreviewFacts<'a> {
        PreviewFacts {
            preview: visitor.preview,
            name: &record.name,
            state: &record.state,
            post_mortem: record.post_mortem.as_deref(),
            progress: record.progress.as_deref(),
            status,
            now_ms: self.clock.now_ms(),
            reason,
            trusted: visitor.trusted,
        }
    }

    pub(super) fn refuse(&self, format: Format, refusal: Refusal) -> Response<ResponseBody> {
        let mut response = self.respond(format, &refusal.error_page(&self.previews, self.is_trusted(false)));
        if matches!(refusal, Refusal::Malformed(_)) {
            // Where the next request would begin is not certain.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    pub(super) fn respond(&self, format: Format, page: &ErrorPage) -> Response<ResponseBody> {
        render(format, page, &self.previews).map(ResponseBody::Whole)
    }
}
