//! One request to the app and the head of its answer.

use super::{
    limits,
    patience::{Cut, Patience},
    state::connections_max,
};
use crate::{
    core::edge::Manner,
    reconcile::{Fleet, PreviewTarget},
    upstream::{BodyError, Line, Outgoing, Sockets, Taken, Turn, Unsent},
};
use hyper::{
    Request, Response, StatusCode,
    body::{Body, Incoming},
    header::CONTENT_LENGTH,
};
use std::{
    io,
    pin::pin,
    sync::{Arc, LazyLock},
};
use tokio::time::sleep;

/// One for each visit there may be.
static SOCKETS: LazyLock<Sockets> = LazyLock::new(|| Sockets::new(connections_max()));

/// Why the app gave no answer.
#[derive(Debug)]
pub enum Trouble {
    /// It takes no connection.
    Dial(io::Error),
    /// It took the request and did not begin an answer in time.
    Silent,
    /// It closed the connection.
    Broke(hyper::Error),
    /// What it said is not HTTP.
    Garbled,
    /// The browser did not send the body it announced.
    Stalled,
    /// The body that the browser sent is malformed.
    BadBody,
}

/// No answer; and the request, where none of it was sent.
pub struct Unanswered {
    pub trouble: Trouble,
    pub request: Option<Box<Request<Outgoing>>>,
}

/// Where a request goes.
pub struct Errand {
    pub site: Arc<PreviewTarget>,
    pub port: u16,
    pub manner: Manner,
}

/// What came of it.
pub enum Passed {
    Answered(Box<Line>, Response<Incoming>),
    /// It answered an upgrade, but not with HTTP.
    Odd(Taken),
}

/// A line on which nothing was sent yet.
pub async fn dial(site: &PreviewTarget, port: u16) -> Result<Box<Line>, Trouble> {
    // Before the dial: a line to one that stopped meanwhile is not kept.
    let epoch = site.lines.epoch();
    let place = SOCKETS.take().ok_or_else(|| Trouble::Dial(io::ErrorKind::ResourceBusy.into()))?;
    let stream = site.dial(port).await.map_err(Trouble::Dial)?;
    Line::over(stream, place, epoch).await.map(Box::new).map_err(Trouble::Broke)
}

/// Passes a request on.
pub async fn pass(
    fleet: &Fleet,
    errand: &Errand,
    turn: Turn,
    request: Request<Outgoing>,
) -> Result<Passed, Unanswered> {
    let alarm = pin!(sleep(limits::UNHEARD_MAX));
    let keeps = errand.manner.wakes.then_some((&*errand.site, fleet));
    converse(errand, &mut Patience::new(keeps, turn, alarm), request).await
}

/// On a line that was kept, if there is one: that may be dead without a sign. What was not sent at all, or
/// may be sent twice, is then sent once more on a new one. So is what never reached the app, as often as it
/// takes.
async fn converse(
    errand: &Errand,
    patience: &mut Patience<'_>,
    mut request: Request<Outgoing>,
) -> Result<Passed, Unanswered> {
    let Errand { site, port, manner } = errand;
    let whole = request.body().is_end_stream();
    let repeatable = manner.repeatable && whole;
    let idle_for_max = if repeatable { limits::HOLD_MAX } else { limits::IDLE_UNREPEATABLE_MAX };
    let mut kept = if manner.upgrade { None } else { site.lines.take(*port, idle_for_max) };
    let mut once_more = true;
    loop {
        let (mut line, fresh) = match kept.take() {
            Some(line) => (line, false),
            None => match patience.during(None, dial(site, *port)).await? {
                Ok(line) => (line, true),
                Err(trouble) => return Err(Unanswered { trouble, request: Some(Box::new(request)) }),
            },
        };
        let copy = (repeatable || fresh && whole).then(|| copy_of(&request));
        patience.begin(fresh && copy.is_some());
        let (sent, meter) = line.send(request);
        let unsent = match (patience.during(Some(meter), sent).await, copy) {
            (Ok(Ok(response)), _) => {
                patience.heard();
                return understood(errand, line, response).map_err(Unanswered::from);
            }
            (Err(Cut::Unheard), Some(copy)) => {
                request = copy;
                continue;
            }
            (Err(cut), _) => return Err(cut.into()),
            (Ok(Err(Unsent::Nothing(unsent, _))), _) if !fresh => {
                request = *unsent;
                continue;
            }
            (Ok(Err(Unsent::Broke { said, .. })), Some(copy))
                if repeatable && (!fresh || once_more && !said) =>
            {
                once_more = !fresh;
                request = copy;
                continue;
            }
            (Ok(Err(unsent)), _) => unsent,
        };
        return match line.odd() {
            Some(odd) if manner.upgrade => Ok(Passed::Odd(odd)),
            Some(_) => Err(Trouble::Garbled.into()),
            None => Err(broken(unsent).into()),
        };
    }
}

/// An answer that can be passed on.
fn understood(errand: &Errand, line: Box<Line>, mut response: Response<Incoming>) -> Result<Passed, Trouble> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS && !errand.manner.upgrade {
        return Err(Trouble::Garbled);
    }
    if response.body().size_hint().exact().is_none() {
        // Its body ends where it says, whatever was announced.
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    Ok(Passed::Answered(line, response))
}

fn copy_of(request: &Request<Outgoing>) -> Request<Outgoing> {
    let mut copy = Request::new(Outgoing::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}

fn broken(unsent: Unsent) -> Trouble {
    let error = match unsent {
        Unsent::Endless => return Trouble::Garbled,
        Unsent::Nothing(_, error) | Unsent::Broke { error, .. } => error,
    };
    match BodyError::of(&error) {
        Some(BodyError::Stalled) => Trouble::Stalled,
        Some(BodyError::Malformed(_)) => Trouble::BadBody,
        None if error.is_parse() => Trouble::Garbled,
        None => Trouble::Broke(error),
    }
}

impl From<Trouble> for Unanswered {
    fn from(trouble: Trouble) -> Self {
        Self { trouble, request: None }
    }
}

impl From<Cut> for Unanswered {
    fn from(cut: Cut) -> Self {
        match cut {
            // What cannot be sent again is waited for.
            Cut::Silent | Cut::Unheard => Trouble::Silent.into(),
        }
    }
}
