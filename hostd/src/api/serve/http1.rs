//! HTTP/1.1 on one connection: one request at a time, no more of a response taken than the client reads.

use super::{ClientConnection, Eviction, Serving, api, limits};
use axum::body::Body;
use hostd_drivers::Stream;
use hostd_net::{
    backpressure::{SourceWindow, WindowBody, WindowIo, WriteWindow},
    lingering::{LingeringStream, UnreadBody},
};
use http_body_util::BodyExt as _;
use hyper::{Request, StatusCode, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::time::timeout;

pub(super) async fn serve(
    stream: Box<dyn Stream>,
    client: ClientConnection,
    serving: Serving,
) -> hyper::Result<()> {
    let window = Arc::<WriteWindow>::default();
    let of_bodies = window.clone();
    let unread = UnreadBody::default();
    let stream = LingeringStream::new(stream, unread.clone());
    let (on_requests, router) = (client.clone(), serving.router.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(SourceWindow(of_bodies.clone()));
        let active = on_requests.permit.as_ref().map(|permit| Arc::new(permit.begin()));
        let (client, router, window) = (on_requests.clone(), router.clone(), of_bodies.clone());
        let unread = unread.clone();
        async move {
            let request = request.map(|body| unread.watch(body));
            let (response, active) = client.respond(router, request, active).await?;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                unread.upgraded();
            }
            // The request is in flight until all of the body was sent, or dropped.
            let held = |body: Body| {
                body.map_frame(move |frame| {
                    let _active = &active;
                    frame
                })
            };
            Ok::<_, Infallible>(response.map(|body| WindowBody::to(window, held(body))))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits::HEAD_TIMEOUT_MS))
        .max_buf_size(api::HEAD_MAX_BYTES)
        .serve_connection(TokioIo::new(WindowIo::new(stream, window)), service)
        .with_upgrades();
    let mut connection = Box::pin(connection);
    tokio::select! {
        ended = connection.as_mut() => ended,
        // The request in flight is finished below; no other one is started.
        () = serving.shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        eviction = client.evicted() => match eviction {
            Eviction::Immediate => Ok(()),
            Eviction::AfterResponse => {
                connection.as_mut().graceful_shutdown();
                // A peer that does not read the rest of its response must not keep the permit.
                let closing = Duration::from_millis(api::CLOSING_MS);
                timeout(closing, connection).await.unwrap_or(Ok(()))
            }
        },
    }
}
