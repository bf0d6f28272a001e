//! A viewer of a terminal: the caller's connection becomes a byte stream, joined to one of runtimed.

use super::{
    call::Call,
    failure::{Answer, Failure},
    pass,
};
use axum::{body::Body, response::Response};
use hyper::{
    StatusCode,
    header::{CONNECTION, HeaderValue, UPGRADE},
    upgrade::Upgraded,
};
use hyper_util::rt::TokioIo;
use protocol::api::ApiErrorCode;
use tokio::io::copy_bidirectional;

const PROTOCOL: &str = "slipway-terminal";

pub async fn attach(mut call: Call) -> Answer {
    let id = call.exec_id()?;
    let query = call.query.passed_on(&["replay"])?;
    let asked =
        call.headers.get(UPGRADE).is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(PROTOCOL.as_bytes()));
    let upgrade = call.upgrade.take().filter(|_| asked).ok_or_else(|| {
        let message = format!("send the headers Connection: Upgrade and Upgrade: {PROTOCOL}");
        Failure::new(ApiErrorCode::InvalidRequest, message)
    })?;
    let (_, control) = call.control().await?;
    let path = format!("{}{query}", pass::path(&["terminals", id.as_str()]));
    let inside = control.upgrade(&path, PROTOCOL, pass::WITHIN).await?;
    let closing = call.api.closing.clone();
    call.api.work.spawn(async move {
        // Held, so that the sandbox stays awake while somebody looks.
        let _awake = control;
        let joined = async {
            if let Ok(outside) = upgrade.await {
                join(outside, inside).await;
            }
        };
        tokio::select! {
            // Cutting it off loses nothing: the terminal goes on, and what it showed is in its log.
            () = joined => {}
            () = closing.cancelled() => {}
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    Ok(response)
}

async fn join(outside: Upgraded, inside: Upgraded) {
    // How it ended does not matter to anybody: the exec has its own end.
    let _ = copy_bidirectional(&mut TokioIo::new(outside), &mut TokioIo::new(inside)).await;
}
