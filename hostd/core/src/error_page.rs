//! Why a preview shows no app: from facts to the text of an error page. Pure. `edge/error_page.rs` gathers the
//! facts and renders the page.
//!
//! ```text
//!  state of the sandbox ──▶ sandbox     it is gone, not up, or failed
//!  status of PID 1 ──▶ sanitized_status ──▶ port ──▶ service     it runs, and nothing listens
//!  what the app did ──▶ app             something listens, and does not respond
//! ```
//!
//! Everything from inside is hostile: `sanitized_status` bounds and sanitizes it once, and the renderer escapes
//! it. It also leaves out what a visitor that is not `trusted` must not see, so no later code can leak it.
//!
//! A new reason is a variant of [`NoResponse`], an arm of `error_page` below, its text in the file of its kind,
//! and a case in `test_cases`.

use super::{Goal, Preview, State};
use protocol::{
    ListeningPort, ServiceView, Status,
    api::{ApiErrorCode, PostMortem, Problem, SandboxStatus},
};

mod app;
mod collapse;
mod context;
mod phrases;
mod port;
mod progress;
mod sandbox;
mod sanitized_status;
mod service;

use context::PageContext;
pub use context::is_reachable_from_preview;
pub use progress::{WaitMode, WaitProgress, progress};

/// The facts about a request that got no response from the app.
#[derive(Debug, Clone)]
pub struct PreviewFacts<'a> {
    pub preview: Preview,
    pub name: &'a str,
    pub state: &'a State,
    /// How the sandbox last ended while it should have run.
    pub post_mortem: Option<&'a PostMortem>,
    /// The step of the launch that runs now, in the words of the driver.
    pub progress: Option<&'a str>,
    /// The status that PID 1 reports; none when it does not answer.
    pub status: Option<&'a Status>,
    pub now_ms: u64,
    pub reason: NoResponse,
    /// Whether the visitor may see what the sandbox runs and prints: a public preview is open to the world,
    /// its logs are not.
    pub trusted: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum NoResponse {
    /// Nothing listens on the port.
    PortClosed,
    /// The app accepted the request, and sent no response in time.
    TimedOut { after_ms: u64 },
    /// The app closed the connection before its response.
    Closed,
    /// The app sent something other than HTTP.
    NotHttp,
    /// The sandbox was not up, or nothing listened, for as long as a request is held.
    Waking,
    /// The sandbox could not be woken.
    WakeFailed { code: ApiErrorCode, message: String },
}

/// The content of an error page; programs get it as JSON. `advice` and `text` have commands between
/// backquotes.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorPage {
    pub code: ApiErrorCode,
    pub status: u16,
    pub title: String,
    pub text: String,
    pub advice: Vec<String>,
    pub lines: Option<LogExcerpt>,
    pub links: Vec<OtherPreview>,
    pub retry_after_s: Option<u64>,
    pub listening: Vec<ListeningPort>,
    pub service: Option<ServiceView>,
    pub problem: Option<Problem>,
    pub post_mortem: Option<PostMortem>,
    /// The app may come up by itself: the page waits for it.
    pub page_waits: bool,
    /// The step that the page waits for now.
    pub step: Option<String>,
}

/// The last lines of a log, with repetitions counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogExcerpt {
    pub of: String,
    pub lines: Vec<String>,
}

impl LogExcerpt {
    /// None where nothing was printed.
    fn of(of: impl Into<String>, lines: &[String]) -> Option<Self> {
        (!lines.is_empty()).then(|| Self { of: of.into(), lines: collapse::collapse_repeats(lines) })
    }
}

/// Another preview of the sandbox, as a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherPreview {
    pub text: String,
    pub preview: Preview,
}

impl ErrorPage {
    pub fn new(code: ApiErrorCode, title: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            code,
            status: code.http_status(),
            title: title.into(),
            text: text.into(),
            advice: Vec::new(),
            lines: None,
            links: Vec::new(),
            retry_after_s: None,
            listening: Vec::new(),
            service: None,
            problem: None,
            post_mortem: None,
            page_waits: false,
            step: None,
        }
    }

    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice.push(advice.into());
        self
    }

    /// Makes the page wait, and lets programs retry after so many seconds.
    fn page_waits(self, retry_after_s: u64) -> Self {
        Self { page_waits: true, retry_after_s: Some(retry_after_s), ..self }
    }
}

pub fn explain(facts: &PreviewFacts<'_>) -> ErrorPage {
    let explanation = error_page(facts);
    let step = match progress(facts, WaitMode::WhileUp) {
        WaitProgress::Step { text, .. } if explanation.page_waits => Some(text),
        // The request itself wakes the sandbox.
        WaitProgress::Asleep if explanation.code == ApiErrorCode::Waking => {
            Some("waking the sandbox".to_owned())
        }
        WaitProgress::Step { .. } | WaitProgress::Ready | WaitProgress::Asleep | WaitProgress::Failed => None,
    };
    ErrorPage { step, ..explanation }
}

fn error_page(facts: &PreviewFacts<'_>) -> ErrorPage {
    let context = PageContext::new(facts);
    let state = facts.state;
    let up = state.is_up();
    match (&facts.reason, facts.status) {
        _ if state.status == SandboxStatus::Destroyed => sandbox::destroyed(&context),
        _ if state.goal == Goal::Destroyed => sandbox::destroying(&context),
        _ if state.status == SandboxStatus::Error && state.operation.is_none() => {
            sandbox::failed(&context, state.problem.as_ref(), facts.post_mortem)
        }
        // A sandbox that is still waking has not failed.
        (NoResponse::WakeFailed { code, message }, _) if *code != ApiErrorCode::Waking => {
            sandbox::not_woken(&context, *code, message)
        }
        _ if !up => sandbox::on_its_way(&context, state),
        (NoResponse::TimedOut { after_ms }, _) => app::no_answer(&context, *after_ms),
        (NoResponse::Closed, _) => app::closed(&context),
        (NoResponse::NotHttp, _) => app::garbled(&context),
        (NoResponse::PortClosed | NoResponse::Waking | NoResponse::WakeFailed { .. }, None) => {
            sandbox::silent(&context)
        }
        (NoResponse::PortClosed | NoResponse::Waking | NoResponse::WakeFailed { .. }, Some(_)) => {
            port::closed(&context)
        }
    }
}

#[cfg(any(test, feature = "test-support"))]
pub mod test_cases;
#[cfg(test)]
mod tests;
