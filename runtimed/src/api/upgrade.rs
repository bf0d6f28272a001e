//! Connections that are upgraded: a byte stream in both directions after `101 Switching Protocols`.

use super::response::{HttpResponse, Refusal, refuse};
use super::response_body::ResponseBody;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use protocol::ErrorCode;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

pub type UpgradedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The task to run on an upgraded connection, run by the task of the connection itself.
#[derive(Clone, Default)]
pub struct PendingUpgrade(Arc<Mutex<Option<UpgradedTask>>>);

impl PendingUpgrade {
    pub fn take(&self) -> Option<UpgradedTask> {
        self.0.lock().ok().and_then(|mut slot| slot.take())
    }

    fn set(&self, work: UpgradedTask) {
        if let Ok(mut slot) = self.0.lock() {
            *slot = Some(work);
        }
    }
}

/// Checks that the client asks for this protocol.
pub fn check(request: &Request<Incoming>, protocol: &'static str) -> Result<(), Refusal> {
    let asked = request
        .headers()
        .get(UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(protocol.as_bytes()));
    let message = || format!("send the headers Connection: Upgrade and Upgrade: {protocol}");
    if asked { Ok(()) } else { Err(refuse(ErrorCode::InvalidRequest, message())) }
}

/// Responds with 101 and runs `work` on the upgraded stream.
pub fn switch<F>(
    request: &mut Request<Incoming>,
    pending_upgrade: &PendingUpgrade,
    protocol: &'static str,
    work: impl FnOnce(TokioIo<Upgraded>) -> F + Send + 'static,
) -> HttpResponse
where
    F: Future<Output = ()> + Send + 'static,
{
    let upgrade: OnUpgrade = hyper::upgrade::on(request);
    pending_upgrade.set(Box::pin(async move {
        if let Ok(stream) = upgrade.await {
            work(TokioIo::new(stream)).await;
        }
    }));
    let mut answer = Response::new(ResponseBody::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.headers_mut().insert(UPGRADE, HeaderValue::from_static(protocol));
    answer
}
