//! Code that runs for a client: it is interrupted when the client leaves before its end. What hostd left running when it
//! was killed is interrupted before the next request to the same sandbox.

use crate::{ApiFailure, e2b::envd::SandboxApi};
use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use hyper::StatusCode;
use protocol::{
    ExecId, SignalRequest, SignalScope,
    api::{ExecAnswer, Page, SandboxId},
};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;
use tracing::debug;

/// A bound on hanging.
const INTERRUPT_MAX: Duration = Duration::from_secs(30);
/// Pause before a signal is tried again: the code may be about to start.
const RETRY: Duration = Duration::from_millis(200);
/// Ids of execs that run code begin so.
const ID_PREFIX: &str = "e2b-code-";
/// Sandboxes that are remembered as looked through. Of one that is forgotten nothing is lost but time.
const LOOKED_THROUGH_MAX: usize = 4_096;

/// The code that this hostd runs. Cheap to clone.
#[derive(Default, Clone)]
pub struct RunningCodes(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    running: HashSet<ExecId>,
    /// Sandboxes without code of an earlier hostd.
    looked_through: HashSet<SandboxId>,
}

pub struct RunningCode {
    all: RunningCodes,
    /// `None` once it has ended.
    runs: Option<(SandboxApi, ExecId)>,
    /// Outlives the request.
    work: TaskTracker,
}

impl RunningCodes {
    /// Chooses the id of code that is about to be started.
    pub fn begin(&self, work: TaskTracker, api: SandboxApi) -> (RunningCode, ExecId) {
        let name = ulid::Ulid::generate().to_string().to_ascii_lowercase();
        let exec = ExecId::parse(&format!("{ID_PREFIX}{name}")).expect("letters, digits and dashes");
        self.state().running.insert(exec.clone());
        (RunningCode { all: self.clone(), runs: Some((api, exec.clone())), work }, exec)
    }

    /// Interrupts code of a sandbox that no request follows, once.
    pub async fn interrupt_unfollowed(&self, api: &SandboxApi) -> Result<(), ApiFailure> {
        if self.state().looked_through.contains(&api.sandbox) {
            return Ok(());
        }
        let execs: Page<ExecAnswer> = api.get("/execs?running=1&limit=1000").await?;
        for exec in execs.items.iter().filter(|exec| exec.exit.is_none()) {
            if exec.id.as_str().starts_with(ID_PREFIX) && !self.state().running.contains(&exec.id) {
                // One that has ended meanwhile is none to interrupt.
                let signalled = timeout(INTERRUPT_MAX, signal(api, &exec.id)).await;
                debug!(sandbox = %api.sandbox, exec = %exec.id, ?signalled, "interrupted code that was left running");
            }
        }
        let mut state = self.state();
        if state.looked_through.len() >= LOOKED_THROUGH_MAX {
            state.looked_through.clear();
        }
        state.looked_through.insert(api.sandbox);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningCode {
    pub fn has_ended(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some((_, exec)) = self.runs.take() {
            self.all.state().running.remove(&exec);
        }
    }

    /// Returns the body of the response. Dropped before its end, it interrupts the code.
    pub fn body(self, first: Bytes, rest: Body) -> Body {
        let first = stream::once(async move { Ok(first) });
        let all = first.chain(rest.into_data_stream());
        Body::from_stream(stream::unfold((Box::pin(all), self), |(mut all, mut code)| async move {
            let next = all.next().await;
            if next.is_none() {
                code.end();
            }
            Some((next?, (all, code)))
        }))
    }
}

impl Drop for RunningCode {
    fn drop(&mut self) {
        let Some((api, exec)) = self.runs.take() else { return };
        let all = self.all.clone();
        self.work.spawn(async move {
            interrupt(&api, &exec).await;
            all.state().running.remove(&exec);
        });
    }
}

/// Interrupts code, also if it is about to start.
async fn interrupt(api: &SandboxApi, exec: &ExecId) {
    let signalled = async {
        loop {
            match signal(api, exec).await {
                // Not started yet, or never.
                Err(failure) if failure.status == StatusCode::NOT_FOUND => sleep(RETRY).await,
                signalled => return signalled,
            }
        }
    };
    match timeout(INTERRUPT_MAX, signalled).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(sandbox = %api.sandbox, %exec, %error, "could not interrupt code"),
        Err(_) => debug!(sandbox = %api.sandbox, %exec, "code to interrupt did not start"),
    }
}

/// Sends a signal to the program alone: what it started keeps the kernels.
async fn signal(api: &SandboxApi, exec: &ExecId) -> Result<(), ApiFailure> {
    let request = SignalRequest { signal: "TERM".to_owned(), scope: SignalScope::default() };
    api.order(&format!("/execs/{}/signal", exec.as_str()), &request).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ApiClient, ApiService, Credential, respond};
    use axum::response::Response;
    use hyper::Request;
    use serde_json::json;
    use std::sync::Arc;

    const SANDBOX: &str = "01jb9xyzabcdefghjkmnpqrstv";

    /// An API with these running execs, which notes signals. It knows an exec when it gets the second signal.
    fn api(execs: Vec<String>, signals: Arc<Mutex<Vec<String>>>) -> SandboxApi {
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            let response: Response = match path.strip_suffix("/signal") {
                Some(exec) => {
                    let name = exec.rsplit('/').next().unwrap_or_default().to_owned();
                    let mut signals = signals.lock().unwrap_or_else(PoisonError::into_inner);
                    signals.push(name);
                    let status = if signals.len() == 1 { StatusCode::NOT_FOUND } else { StatusCode::OK };
                    respond::json(status, &json!(null))
                }
                None => {
                    let item = |id: &String| json!({"id": id, "state": "running", "argv": [], "cwd": "/", "tty": false, "started_at": ""});
                    let items: Vec<_> = execs.iter().map(item).collect();
                    respond::json(StatusCode::OK, &json!({"items": items}))
                }
            };
            async move { Ok(response) }
        });
        let service = ApiService::new(service);
        let client = ApiClient::of(service, &Request::new(()), Credential::Connection);
        SandboxApi::new(client, SANDBOX.parse().expect("an id"))
    }

    #[tokio::test(start_paused = true)]
    async fn code_whose_client_left_is_interrupted_also_before_it_has_started() {
        let signals = Arc::default();
        let (codes, work) = (RunningCodes::default(), TaskTracker::new());
        let (code, exec) = codes.begin(work.clone(), api(Vec::new(), Arc::clone(&signals)));
        drop(code);
        work.close();
        work.wait().await;
        let id = exec.as_str().to_owned();
        assert_eq!(*signals.lock().expect("no panic"), [id.clone(), id], "the first time it was not there");
        assert!(codes.state().running.is_empty());
        let (code, _) = codes.begin(TaskTracker::new(), api(Vec::new(), Arc::clone(&signals)));
        code.has_ended();
        assert_eq!(signals.lock().expect("no panic").len(), 2);
        assert!(codes.state().running.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn code_that_an_earlier_hostd_left_running_is_interrupted_once() {
        let signals = Arc::default();
        let codes = RunningCodes::default();
        let (_code, own) = codes.begin(TaskTracker::new(), api(Vec::new(), Arc::clone(&signals)));
        let left = format!("{ID_PREFIX}left");
        let execs = vec!["other".to_owned(), own.as_str().to_owned(), left.clone()];
        let api = api(execs, Arc::clone(&signals));
        for _ in 0..2 {
            codes.interrupt_unfollowed(&api).await.expect("no failure");
            assert_eq!(*signals.lock().expect("no panic"), [left.as_str()]);
        }
    }
}
