//! As much of runtimed as the reconciler talks to, on a stream in memory. Ends when the sandbox does.

use super::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, combinators::BoxBody};
use hyper::{Request, Response, StatusCode, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use protocol::{ErrorBody, ErrorCode, api::SandboxId};
use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};
use tokio::{io::DuplexStream, sync::watch};

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Nothing went on in it for an hour.
const IDLE: &str = r#"{"activity": {"busy": false, "since_ms": 0, "for_ms": 3600000, "reasons": []}}"#;

pub(super) async fn serve(
    stream: DuplexStream,
    bodies: Arc<Mutex<HashMap<SandboxId, Body>>>,
    changed: watch::Receiver<u64>,
    id: SandboxId,
) {
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(
        TokioIo::new(stream),
        service_fn(|request| {
            let (bodies, mut changed) = (bodies.clone(), changed.clone());
            async move {
                // Also on a connection that was there before.
                while body_of(&bodies, &id) == Some(Body::Running { frozen: true })
                    && changed.changed().await.is_ok()
                {}
                Ok::<_, Infallible>(answer(&request))
            }
        }),
    );
    let mut changed = changed.clone();
    let dead = async {
        loop {
            if !matches!(body_of(&bodies, &id), Some(Body::Running { .. }))
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

fn body_of(bodies: &Mutex<HashMap<SandboxId, Body>>, id: &SandboxId) -> Option<Body> {
    bodies.lock().expect("no panic while held").get(id).copied()
}

fn answer(request: &Request<Incoming>) -> Answer {
    match request.uri().path() {
        "/healthz" => json(StatusCode::OK, "\"ok\"".to_owned()),
        "/v1/services" => json(StatusCode::OK, "[]".to_owned()),
        "/v1/status" => json(StatusCode::OK, IDLE.to_owned()),
        "/v1/events" => json(StatusCode::OK, String::new()),
        path => {
            let body = ErrorBody::new(ErrorCode::NotFound, format!("there is no {path}"));
            json(StatusCode::NOT_FOUND, serde_json::to_string(&body).expect("an error is JSON"))
        }
    }
}

fn json(status: StatusCode, text: String) -> Answer {
    let body = if text.is_empty() { Empty::new().boxed() } else { Full::new(Bytes::from(text)).boxed() };
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer
}
