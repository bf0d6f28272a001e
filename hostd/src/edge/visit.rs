//! One request of a browser, from its head to the answer.

use super::{
    body::{Answer, AppBody},
    excuse::{Unserved, Visitor},
    gate::{Denied, Entry, moved, protect, shows_something},
    hold::{Stage, Steps},
    limits, metrics,
    page::{Reader, Refusal, WAKE_PATH, patience},
    pass::{Errand, Passed, Trouble, Unanswered, pass},
    splice::AppEnd,
    state::Edge,
    wary::Heads,
};
use crate::{
    backpressure::WriteWindow,
    core::{
        Explanation, Preview,
        edge::{Malformed, Manner, Rewrite, authority, end_to_end},
    },
    reconcile::{PreviewTarget, RequestPermit},
    upstream::Outgoing,
};
use hyper::{
    Request, Response, StatusCode, Version,
    body::{Body, Incoming},
    header::{HeaderName, HeaderValue, TRANSFER_ENCODING},
    http::request::Parts,
};
use protocol::api::ApiErrorCode;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};
use tracing::error;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// A connection, as its requests see it.
pub struct Arrival {
    edge: Arc<Edge>,
    /// Only of HTTP/1.1.
    heads: Option<Arc<Heads>>,
    /// Of what is written to this connection; only of HTTP/1.1.
    window: Option<Arc<WriteWindow>>,
    /// Who has the connection after the answer.
    app: Mutex<Option<AppEnd>>,
}

impl Arrival {
    pub fn by_http1(edge: Arc<Edge>, heads: Arc<Heads>, window: Arc<WriteWindow>) -> Self {
        Self { edge, heads: Some(heads), window: Some(window), app: Mutex::default() }
    }

    pub fn by_http2(edge: Arc<Edge>) -> Self {
        Self { edge, heads: None, window: None, app: Mutex::default() }
    }

    pub fn taken(&self) -> Option<AppEnd> {
        self.app.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn hand_over(&self, app: AppEnd) {
        *self.app.lock().unwrap_or_else(PoisonError::into_inner) = Some(app);
    }
}

/// The app answered an upgrade with something that is not HTTP: the connection is handed over without an
/// answer of ours.
#[derive(Debug, thiserror::Error)]
#[error("the app does not speak HTTP here")]
pub struct HandedOver;

type Answered = Result<Response<Answer>, HandedOver>;

pub async fn visit(arrival: Arc<Arrival>, request: Request<Incoming>) -> Answered {
    let (parts, body) = request.into_parts();
    let edge = &arrival.edge;
    let reader = Reader::of(&parts.method, &parts.headers);
    let with_body = !body.is_end_stream();
    let with_length = arrival.heads.as_ref().is_some_and(|heads| heads.understood(&parts.method, with_body));
    let mixed = with_length && parts.headers.contains_key(TRANSFER_ENCODING);
    let authority = match authority(&parts).map(str::to_owned) {
        Ok(_) if mixed => Err(Malformed::Length),
        other => other,
    };
    let answered = match authority {
        Ok(authority) => route(&arrival, &authority, parts, body).await,
        Err(Malformed::Method) => Ok(edge.say(reader, &not_passed_on())),
        Err(wrong) => Ok(edge.refuse(reader, Refusal::Malformed(wrong.reason()))),
    };
    if let Some(heads) = &arrival.heads {
        heads.answered();
    }
    answered
}

fn not_passed_on() -> Explanation {
    let text = "CONNECT and TRACE are not passed on to apps.";
    Explanation::new(ApiErrorCode::MethodNotAllowed, "This method is not served here", text)
}

/// Which preview is asked for, and whether this visitor may see it.
async fn route(arrival: &Arrival, authority: &str, mut parts: Parts, body: Incoming) -> Answered {
    let edge = &arrival.edge;
    let reader = Reader::of(&parts.method, &parts.headers);
    let (preview, named) = match edge.previews.parse(authority) {
        Some(preview) => (preview, Some(authority)),
        None => match Box::pin(edge.gate.program(&parts)).await {
            Ok(Some(preview)) => (preview, None),
            Ok(None) => return Ok(edge.refuse(reader, Refusal::NoPreview)),
            Err(denied) => return Ok(edge.say(reader, &denied.explanation())),
        },
    };
    let Some(site) = edge.fleet.preview_target(&preview.sandbox) else {
        let shown = named.is_none();
        let visitor = Visitor { preview, reader, known: edge.knows(shown) };
        return Ok(Box::pin(edge.excuse_absent(&visitor, shown)).await);
    };
    let known = match named {
        None => true,
        Some(_) => match admit(edge, &site, preview, &parts).await {
            Ok(known) => known,
            Err(turned_away) => return Ok(*turned_away),
        },
    };
    if !edge.gate.strip(&mut parts) {
        return Ok(edge.refuse(reader, Refusal::CredentialInPath));
    }
    let visitor = Visitor { preview, reader, known: edge.knows(known) };
    let Some(visit) = edge.visit(&site) else {
        return Ok(edge.refuse(reader, Refusal::TooMany));
    };
    if parts.uri.path() == WAKE_PATH {
        return Ok(edge.wait(visitor, site, visit, patience(parts.uri.query())));
    }
    serve(arrival, Asked { visitor, site, visit, named, parts, body }).await
}

/// Whether the visitor showed something; the answer for one who may not see it.
async fn admit(
    edge: &Edge,
    site: &PreviewTarget,
    preview: Preview,
    parts: &Parts,
) -> Result<bool, Box<Response<Answer>>> {
    let reader = Reader::of(&parts.method, &parts.headers);
    let private = edge.is_private(&site.record());
    if !private && !shows_something(parts) {
        return Ok(false);
    }
    let turned_away = match Box::pin(edge.gate.admit(&preview, private, parts)).await {
        Ok(Entry::Admitted { known }) => return Ok(known),
        Ok(Entry::Moved { location, cookie }) => moved(&location, cookie).map(|()| Answer::empty()),
        Ok(Entry::Refused(why)) => edge.say(reader, &why.explanation()),
        Err(error) => {
            error!(%error, "could not look up a link");
            edge.say(reader, &Denied::Store(error).explanation())
        }
    };
    Err(Box::new(turned_away))
}

struct Asked<'a> {
    visitor: Visitor,
    site: Arc<PreviewTarget>,
    visit: RequestPermit,
    /// The name in the request; absent where a program named the sandbox otherwise.
    named: Option<&'a str>,
    parts: Parts,
    body: Incoming,
}

async fn serve(arrival: &Arrival, asked: Asked<'_>) -> Answered {
    let Asked { visitor, site, visit, named, mut parts, body } = asked;
    let (edge, preview) = (&arrival.edge, visitor.preview);
    let manner = Manner::of(&parts);
    // Before the look at it: whoever puts it to sleep looks for leases after saying so.
    let lease = site.lease();
    if manner.wakes {
        site.traffic.touch();
    }
    let policy = site.record().blueprint.preview_headers;
    let rewrite = Rewrite { previews: &edge.previews, preview, authority: named, policy };
    rewrite.request(&mut parts, manner.upgrade);
    let body = match body.is_end_stream() {
        true => Outgoing::empty(),
        false => Outgoing::new(body, site.traffic.stream(), edge.gate.scanner(), arrival.window.clone()),
    };
    let errand = Errand { site, port: preview.port, manner };
    let served = held(edge, preview, &errand, Request::from_parts(parts, body)).await;
    drop(lease);
    let Errand { site, port, manner } = errand;
    let (passed, timing) = match served {
        Ok(served) => served,
        Err(unserved) => {
            metrics::count(&metrics::EXCUSED);
            return Ok(Box::pin(edge.excuse(&visitor, &site, unserved)).await);
        }
    };
    let (line, response) = match passed {
        Passed::Answered(line, response) => (line, response),
        Passed::Odd(taken) => {
            arrival.hand_over(AppEnd { taken, visit });
            return Err(HandedOver);
        }
    };
    let (mut head, incoming) = response.into_parts();
    if manner.upgrade && head.status == StatusCode::SWITCHING_PROTOCOLS {
        metrics::count(&metrics::UPGRADED);
        arrival.hand_over(AppEnd { taken: Box::pin(line.take()).await, visit });
        end_to_end(&mut head.headers, true);
        protect(&mut head.headers);
        return Ok(Response::from_parts(head, Answer::empty()));
    }
    metrics::count(&metrics::SERVED);
    head.version = Version::HTTP_11;
    rewrite.answer(&mut head.headers, manner.framed);
    protect(&mut head.headers);
    if let Some(timing) = timing {
        head.headers.append(SERVER_TIMING, timing);
    }
    Ok(Response::from_parts(head, Answer::App(AppBody::new(incoming, line, port, visit, edge.fleet.clone()))))
}

/// Passes a request on when there is somebody to take it: until then it is held as it is.
async fn held(
    edge: &Arc<Edge>,
    preview: Preview,
    errand: &Errand,
    mut request: Request<Outgoing>,
) -> Result<(Passed, Option<HeaderValue>), Unserved> {
    let begun = Instant::now();
    let mut timing = None;
    let mut refused = false;
    for left in (0..limits::WAKE_TRIES).rev() {
        if refused || !errand.site.is_up() {
            metrics::count(&metrics::HELD);
            // Boxed, as all that is rare here: every request moves and keeps what this future takes.
            let steps = Box::pin(wait(edge, preview, errand)).await?;
            timing = HeaderValue::from_str(&steps.header(begun.elapsed())).ok();
        }
        let turn = errand.site.lines.turn(preview.port).await;
        if left > 0 && !errand.site.is_up() {
            // Put to sleep while others had their turn.
            continue;
        }
        match pass(&edge.fleet, errand, turn, request).await {
            Ok(passed) => return Ok((passed, timing)),
            Err(Unanswered { trouble: Trouble::Dial(_), request: Some(unsent) }) if left > 0 && !refused => {
                (request, refused) = (*unsent, true);
            }
            Err(unanswered) => return Err(Unserved::Trouble(unanswered.trouble)),
        }
    }
    unreachable!("the last round returns")
}

/// Until the sandbox is up and the port is listened on.
async fn wait(edge: &Arc<Edge>, preview: Preview, errand: &Errand) -> Result<Steps, Unserved> {
    let Errand { site, manner, .. } = errand;
    if !manner.wakes && !site.is_up() {
        return Err(Unserved::Asleep);
    }
    let within = if manner.navigation { limits::NAVIGATION_HOLD_MAX } else { limits::HOLD_MAX };
    match edge.landing(site, preview, within).await {
        Stage::Ready(steps) => Ok(steps),
        Stage::Failed(failed) => Err(Unserved::Failed(failed)),
        Stage::Starting | Stage::Listening => Err(Unserved::Waking),
    }
}
