//! What a visitor is told when no app answers: gathers the facts, and has them explained.

use super::{
    body::Answer,
    hold::Failed,
    page::{Reader, Refusal, answer},
    pass::Trouble,
    state::Edge,
};
use crate::{
    core::{Cause, Explanation, Facts, Preview, explain},
    reconcile::{FleetError, PreviewTarget},
    store::{SandboxRecord, StoreError},
};
use hyper::{
    Response,
    header::{CONNECTION, HeaderValue},
};
use protocol::{
    Status,
    api::{ApiErrorCode, Visibility},
};
use std::io;
use tracing::debug;

/// Why a request was not served.
#[derive(Debug)]
pub enum Unserved {
    Failed(Failed),
    /// It is on its way, but not within the time that this request may be held.
    Waking,
    /// Such a request wakes nobody.
    Asleep,
    Trouble(Trouble),
}

/// Who asks, and for what.
#[derive(Debug, Clone, Copy)]
pub struct Visitor {
    pub preview: Preview,
    pub reader: Reader,
    /// May see what the sandbox runs and prints.
    pub known: bool,
}

impl Edge {
    /// Whether a visitor may see details: whoever showed a pass, and everybody where only this host can ask.
    /// Under a name of the world there may be a proxy in front.
    pub(super) fn knows(&self, shown: bool) -> bool {
        let local = self.previews.domain == "localhost" && self.previews.visibility == Visibility::Public;
        shown || local
    }

    pub(super) async fn excuse(
        &self,
        visitor: &Visitor,
        site: &PreviewTarget,
        unserved: Unserved,
    ) -> Response<Answer> {
        let cause = match unserved {
            Unserved::Asleep => return self.say(visitor.reader, &asleep()),
            Unserved::Trouble(Trouble::Stalled) => {
                return self
                    .refuse(visitor.reader, Refusal::Malformed("Its body did not come whole and in time."));
            }
            Unserved::Trouble(Trouble::BadBody) => {
                let why = "Its body is malformed: a chunk or a trailer cannot be read.";
                return self.refuse(visitor.reader, Refusal::Malformed(why));
            }
            Unserved::Trouble(Trouble::Dial(error)) if error.kind() == io::ErrorKind::ResourceBusy => {
                return self.refuse(visitor.reader, Refusal::TooMany);
            }
            Unserved::Failed(failed) => cause_of(&failed),
            Unserved::Waking => Cause::Waking,
            Unserved::Trouble(trouble) => in_words(&trouble),
        };
        let record = site.record();
        let inner = if record.state.is_up() { site.status().await } else { None };
        self.explain(visitor, &record, inner.as_deref(), cause)
    }

    pub(super) fn is_private(&self, record: &SandboxRecord) -> bool {
        record.blueprint.visibility.unwrap_or(self.previews.visibility) == Visibility::Private
    }

    /// One that is destroyed has a record and no owner. Who showed nothing is not told that a private one was.
    pub(super) async fn excuse_absent(&self, visitor: &Visitor, shown: bool) -> Response<Answer> {
        match self.fleet.record(&visitor.preview.sandbox).await {
            Ok(record) if shown || !self.is_private(&record) => {
                self.explain(visitor, &record, None, Cause::Refused)
            }
            Ok(_) | Err(_) => self.refuse(visitor.reader, Refusal::Unknown),
        }
    }

    fn explain(
        &self,
        visitor: &Visitor,
        record: &SandboxRecord,
        inner: Option<&Status>,
        cause: Cause,
    ) -> Response<Answer> {
        let facts = self.facts(visitor, record, inner, cause);
        self.say(visitor.reader, &explain(&facts))
    }

    pub(super) fn facts<'a>(
        &self,
        visitor: &Visitor,
        record: &'a SandboxRecord,
        inner: Option<&'a Status>,
        cause: Cause,
    ) -> Facts<'a> {
        Facts {
            preview: visitor.preview,
            name: &record.name,
            state: &record.state,
            post_mortem: record.post_mortem.as_deref(),
            progress: record.progress.as_deref(),
            inner,
            now_ms: self.fleet.clock().now_ms(),
            cause,
            known: visitor.known,
        }
    }

    pub(super) fn refuse(&self, reader: Reader, refusal: Refusal) -> Response<Answer> {
        let mut response = self.say(reader, &refusal.explanation(&self.previews, self.knows(false)));
        if matches!(refusal, Refusal::Malformed(_)) {
            // Where the next request would begin is not certain.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    pub(super) fn say(&self, reader: Reader, explanation: &Explanation) -> Response<Answer> {
        answer(reader, explanation, &self.previews).map(Answer::Whole)
    }
}

fn asleep() -> Explanation {
    let text = "What was asked only looks whether the app is back, and wakes nobody.";
    Explanation::new(ApiErrorCode::Waking, "The sandbox is asleep", text).advise("Reload the page to wake it")
}

fn cause_of(failed: &Failed) -> Cause {
    match failed {
        Failed::Port => Cause::Refused,
        Failed::Sandbox(error) => Cause::Failed { code: code_of(error), message: error.to_string() },
    }
}

fn code_of(error: &FleetError) -> ApiErrorCode {
    match error {
        FleetError::NotFound => ApiErrorCode::NotFound,
        FleetError::Refused(_) => ApiErrorCode::Gone,
        FleetError::Failed { problem, .. } => problem.code.as_error(),
        FleetError::InProgress | FleetError::NotRunning { .. } => ApiErrorCode::Waking,
        FleetError::TooMany => ApiErrorCode::TooMany,
        FleetError::DiskFull(_) | FleetError::Store(StoreError::Full) => ApiErrorCode::DiskFull,
        FleetError::ShuttingDown => ApiErrorCode::ShuttingDown,
        FleetError::Driver(_) => ApiErrorCode::DriverUnavailable,
        FleetError::Store(_) => ApiErrorCode::NoCapacity,
        FleetError::Control(_) => ApiErrorCode::TimedOut,
    }
}

fn in_words(trouble: &Trouble) -> Cause {
    match trouble {
        // Its queue is full, and it takes nobody out of it.
        Trouble::Dial(error) if error.kind() != io::ErrorKind::TimedOut => Cause::Refused,
        Trouble::Stalled | Trouble::BadBody => Cause::Refused,
        Trouble::Dial(_) | Trouble::Silent => Cause::NoAnswer { after_ms: super::limits::ANSWER_MAX_MS },
        Trouble::Garbled => Cause::Garbled,
        Trouble::Broke(error) => {
            debug!(%error, "an app gave no answer");
            Cause::Closed
        }
    }
}
