//! The routes of runtimed that the reconciler calls, on a stream in memory. Ends with the sandbox.

use super::FakeContainer;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use hostd_core::TaskEnding;
use http_body_util::{BodyExt, Empty, Full, StreamBody, combinators::BoxBody};
use hyper::{
    Request, Response, StatusCode,
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use protocol::{ErrorBody, ErrorCode, TaskEvent, TaskFact, TaskPhase, api::SandboxId};
use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{io::DuplexStream, sync::watch};

type Reply = Response<BoxBody<Bytes, Infallible>>;

const TASK: &str = r#"{"id": "t1", "status": "running", "phase": "agent", "agent": "command", "created_ms": 1,
    "oldest_seq": 1, "last_seq": 1}"#;
/// An hour without activity.
const IDLE: &str = r#"{"activity": {"busy": false, "since_ms": 0, "for_ms": 3600000, "reasons": []}}"#;

/// The state that all connections share.
#[derive(Clone)]
pub(super) struct FakeRuntime {
    pub containers: Arc<Mutex<HashMap<SandboxId, FakeContainer>>>,
    pub changed: watch::Sender<u64>,
    pub cancelled: watch::Sender<bool>,
    pub has_task: Arc<AtomicBool>,
    pub freeze_on_status: Arc<AtomicBool>,
}

impl FakeRuntime {
    fn freeze_if_set(&self, id: &SandboxId, path: &str) {
        if path == "/v1/status" && self.freeze_on_status.swap(false, Ordering::Relaxed) {
            let frozen = FakeContainer::Running { frozen: true };
            self.containers.lock().expect("no panic while held").insert(*id, frozen);
            self.changed.send_modify(|count| *count += 1);
        }
    }
}

pub(super) async fn serve(stream: DuplexStream, runtime: FakeRuntime, id: SandboxId) {
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(
        TokioIo::new(stream),
        service_fn(|request: Request<Incoming>| {
            let (runtime, mut changed) = (runtime.clone(), runtime.changed.subscribe());
            async move {
                runtime.freeze_if_set(&id, request.uri().path());
                // A frozen runtimed does not answer on connections from before either.
                while container_of(&runtime.containers, &id) == Some(FakeContainer::Running { frozen: true })
                    && changed.changed().await.is_ok()
                {}
                let has_task = runtime.has_task.load(Ordering::Relaxed);
                Ok::<_, Infallible>(answer(&request, &runtime.cancelled, has_task))
            }
        }),
    );
    let (containers, mut changed) = (runtime.containers.clone(), runtime.changed.subscribe());
    let dead = async {
        loop {
            if !matches!(container_of(&containers, &id), Some(FakeContainer::Running { .. }))
                || changed.changed().await.is_err()
            {
                return;
            }
        }
    };
    tokio::select! {
        _ = connection => {}
        () = dead => {}
    }
}

fn container_of(
    containers: &Mutex<HashMap<SandboxId, FakeContainer>>,
    id: &SandboxId,
) -> Option<FakeContainer> {
    containers.lock().expect("no panic while held").get(id).copied()
}

fn answer(request: &Request<Incoming>, cancelled: &watch::Sender<bool>, has_task: bool) -> Reply {
    match request.uri().path() {
        "/healthz" => json(StatusCode::OK, "\"ok\"".to_owned()),
        "/v1/services" => json(StatusCode::OK, "[]".to_owned()),
        "/v1/status" => json(StatusCode::OK, IDLE.to_owned()),
        "/v1/events" => json(StatusCode::OK, String::new()),
        // No agent is installed.
        "/v1/programs" => json(StatusCode::OK, r#"{"found": {}}"#.to_owned()),
        "/v1/tasks/t1" if has_task => json(StatusCode::OK, TASK.to_owned()),
        "/v1/tasks" => json(StatusCode::OK, TASK.to_owned()),
        path if path.starts_with("/v1/tasks/") && path.ends_with("/cancel") => {
            cancelled.send_replace(true);
            json(StatusCode::OK, TASK.to_owned())
        }
        path if path.starts_with("/v1/tasks/") && path.ends_with("/events") => events(cancelled.subscribe()),
        path => {
            let body = ErrorBody::new(ErrorCode::NotFound, format!("there is no {path}"));
            json(StatusCode::NOT_FOUND, serde_json::to_string(&body).expect("an error is JSON"))
        }
    }
}

/// The events of a task that runs until it is cancelled.
fn events(mut cancelled: watch::Receiver<bool>) -> Reply {
    let line = |seq, fact| {
        let event = TaskEvent { seq, time_ms: seq, fact };
        let text = serde_json::to_string(&event).expect("an event is JSON");
        Ok(Frame::data(Bytes::from(format!("{text}\n"))))
    };
    let begins = line(1, TaskFact::Status { phase: TaskPhase::Agent, checkpoint: None });
    let ends = async move {
        // Fails only when the driver is dropped.
        let _ = cancelled.wait_for(|cancelled| *cancelled).await;
        let result = Box::new(TaskEnding::Cancelled.result(true));
        line(2, TaskFact::Done { result, told: None })
    };
    let lines = stream::iter([begins]).chain(stream::once(ends));
    Response::new(BodyExt::boxed(StreamBody::new(lines)))
}

fn json(status: StatusCode, text: String) -> Reply {
    let body = if text.is_empty() { Empty::new().boxed() } else { Full::new(Bytes::from(text)).boxed() };
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer
}
