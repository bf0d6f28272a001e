//! Code that runs for a client: it is interrupted when the client leaves before its end.

use crate::e2b::envd::SandboxApi;
use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use protocol::{ExecId, SignalRequest, SignalScope};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::debug;

/// A bound on hanging.
const INTERRUPT_MAX: Duration = Duration::from_secs(30);

pub struct RunningCode {
    /// `None` once it has ended.
    runs: Option<(SandboxApi, ExecId)>,
    /// Outlives the request.
    work: TaskTracker,
}

impl RunningCode {
    pub fn new(work: TaskTracker, api: SandboxApi, exec: ExecId) -> Self {
        Self { runs: Some((api, exec)), work }
    }

    pub fn has_ended(mut self) {
        self.runs = None;
    }

    /// Returns the body of the response. Dropped before its end, it interrupts the code.
    pub fn body(self, first: Bytes, rest: Body) -> Body {
        let first = stream::once(async move { Ok(first) });
        let all = first.chain(rest.into_data_stream());
        Body::from_stream(stream::unfold((Box::pin(all), self), |(mut all, mut code)| async move {
            let next = all.next().await;
            if next.is_none() {
                code.runs = None;
            }
            Some((next?, (all, code)))
        }))
    }
}

impl Drop for RunningCode {
    fn drop(&mut self) {
        let Some((api, exec)) = self.runs.take() else { return };
        // The program alone: what it started keeps the kernels.
        self.work.spawn(async move {
            let path = format!("/execs/{}/signal", exec.as_str());
            let request = SignalRequest { signal: "TERM".to_owned(), scope: SignalScope::default() };
            if !matches!(timeout(INTERRUPT_MAX, api.order(&path, &request)).await, Ok(Ok(()))) {
                debug!(sandbox = %api.sandbox, %exec, "could not interrupt code whose client left");
            }
        });
    }
}
