//! Why a preview shows no app: from facts to words. Pure.
//!
//! ```text
//!  state of the sandbox ──▶ sandbox     it is not there, not up, or failed
//!  what PID 1 knows ──▶ inside ──▶ port ──▶ service     it runs, and nothing listens
//!  what the app did ──▶ app             something listens, and does not answer
//! ```
//!
//! Everything from inside is hostile: `inside` bounds and tames it once, and whoever prints it escapes it. It
//! also leaves out what a visitor who is not `known` must not see, so nothing after it can tell.

use super::{Goal, Preview, State};
use protocol::{
    ListeningPort, ServiceView, Status,
    api::{ApiErrorCode, PostMortem, Problem, SandboxStatus},
};

mod app;
mod collapse;
mod inside;
mod port;
mod progress;
mod sandbox;
mod service;
mod teller;
mod words;

pub use progress::{Patience, Progress, progress};
use teller::Teller;
pub use teller::can_be_reached;

/// What is known about a request that gets no answer of the app.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    pub preview: Preview,
    pub name: &'a str,
    pub state: &'a State,
    /// How it ended last while it should have run.
    pub post_mortem: Option<&'a PostMortem>,
    /// What bringing it up is busy with.
    pub progress: Option<&'a str>,
    /// What PID 1 tells; nothing when it does not answer.
    pub inner: Option<&'a Status>,
    pub now_ms: u64,
    pub cause: Cause,
    /// Whether the visitor may see what the sandbox runs and prints: a public preview is open to the world,
    /// its logs are not.
    pub known: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// Nothing listens.
    Refused,
    /// It accepted, and did not answer in time.
    NoAnswer { after_ms: u64 },
    /// It closed the connection before its answer.
    Closed,
    /// What it sent is no HTTP.
    Garbled,
    /// The sandbox was not up, or nothing listened, for as long as a request is held.
    Waking,
    /// The sandbox could not be woken.
    Failed { code: ApiErrorCode, message: String },
}

/// What a visitor is told. `advice` and `text` have commands between backquotes.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    pub code: ApiErrorCode,
    pub status: u16,
    pub title: String,
    pub text: String,
    pub advice: Vec<String>,
    pub lines: Option<Lines>,
    pub links: Vec<Link>,
    pub retry_after_s: Option<u64>,
    pub listening: Vec<ListeningPort>,
    pub service: Option<ServiceView>,
    pub problem: Option<Problem>,
    pub post_mortem: Option<PostMortem>,
    /// It may come by itself: the page waits for it.
    pub hopeful: bool,
    /// What it waits for now.
    pub step: Option<String>,
}

/// The end of something that was printed, with repetitions counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    pub of: String,
    pub lines: Vec<String>,
}

impl Lines {
    /// Nothing where nothing was printed.
    fn of(of: impl Into<String>, lines: &[String]) -> Option<Self> {
        (!lines.is_empty()).then(|| Self { of: of.into(), lines: collapse::collapsed(lines) })
    }
}

/// Another preview to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub text: String,
    pub preview: Preview,
}

impl Explanation {
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
            hopeful: false,
            step: None,
        }
    }

    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice.push(advice.into());
        self
    }

    /// It may come by itself, and a program may ask again after so many seconds.
    fn hopeful(self, retry_after_s: u64) -> Self {
        Self { hopeful: true, retry_after_s: Some(retry_after_s), ..self }
    }
}

pub fn explain(facts: &Facts<'_>) -> Explanation {
    let explanation = reason(facts);
    let step = match progress(facts, Patience::Long) {
        Progress::Step { text, .. } if explanation.hopeful => Some(text),
        // Whoever asks for it wakes it.
        Progress::Asleep if explanation.code == ApiErrorCode::Waking => Some("waking the sandbox".to_owned()),
        Progress::Step { .. } | Progress::Ready | Progress::Asleep | Progress::Failed => None,
    };
    Explanation { step, ..explanation }
}

fn reason(facts: &Facts<'_>) -> Explanation {
    let teller = Teller::new(facts);
    let state = facts.state;
    let up = state.is_up();
    match (&facts.cause, facts.inner) {
        _ if state.status == SandboxStatus::Destroyed => sandbox::destroyed(&teller),
        _ if state.goal == Goal::Destroyed => sandbox::destroying(&teller),
        _ if state.status == SandboxStatus::Error && state.operation.is_none() => {
            sandbox::failed(&teller, state.problem.as_ref(), facts.post_mortem)
        }
        // Not woken yet is no failure.
        (Cause::Failed { code, message }, _) if *code != ApiErrorCode::Waking => {
            sandbox::not_woken(&teller, *code, message)
        }
        _ if !up => sandbox::on_its_way(&teller, state),
        (Cause::NoAnswer { after_ms }, _) => app::no_answer(&teller, *after_ms),
        (Cause::Closed, _) => app::closed(&teller),
        (Cause::Garbled, _) => app::garbled(&teller),
        (Cause::Refused | Cause::Waking | Cause::Failed { .. }, None) => sandbox::silent(&teller),
        (Cause::Refused | Cause::Waking | Cause::Failed { .. }, Some(_)) => port::closed(&teller),
    }
}

#[cfg(test)]
pub mod cases;
#[cfg(test)]
mod tests;
