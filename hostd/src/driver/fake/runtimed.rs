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

pub(super) async fn serve(
    stream: DuplexStream,
    bodies: Arc<Mutex<HashMap<SandboxId, Body>>>,
    mut changed: watch::Receiver<u64>,
    id: SandboxId,
) {
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(
        TokioIo::new(stream),
        service_fn(|request| async move { Ok::<_, Infallible>(answer(&request)) }),
    );
    let dead = async {
        loop {
            let body = bodies.lock().expect("no panic while held").get(&id).copied();
            if !matches!(body, Some(Body::Running { .. })) || changed.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = connection => {}
        () = dead => {}
    }
}

fn answer(request: &Request<Incoming>) -> Answer {
    match request.uri().path() {
        "/healthz" => json(StatusCode::OK, "\"ok\"".to_owned()),
        "/v1/services" => json(StatusCode::OK, "[]".to_owned()),
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
