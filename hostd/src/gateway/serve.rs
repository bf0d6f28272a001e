//! One call: judged, passed on, tried again, told.

use super::{
    ask::Asked,
    attempt::{Begun, Outgoing, World},
    body,
    book::Book,
    desk::{Desk, Pass},
    headers::{answered, is_plain, outgoing},
    key,
    leash::Over,
    limits::{Patience, READ_AT_ONCE_MAX_BYTES, REFUSED_AFTER_MS},
    lines::Lines,
    origin::Base,
    passing::Passing,
    places::{Place, Places, Room},
    refusal::{Refusal, json_response},
    route::{Inference, NoRoute, Route, route},
    tries::{Tried, Tries, tries},
};
use crate::{
    models::{ActiveBudgets, CallRefusal, CallTarget, Dialect, Models},
    outside::Outside,
};
use axum::body::Body;
use bytes::Bytes;
use hyper::{Request, Response, StatusCode, body::Incoming, http::request};
use protocol::api::SandboxId;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

/// What is shared by all calls. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

struct Shared {
    desk: Desk,
    world: World,
    places: Places,
    patience: Patience,
    /// Ends of calls that are being written down.
    tracker: TaskTracker,
}

impl Gateway {
    pub fn new(models: Models, outside: Outside) -> Self {
        Self::at(Desk::Models(models), outside, Patience::default())
    }

    /// How long a provider may say nothing in the middle of an answer.
    pub fn with_idle(self, idle: Duration) -> Self {
        let Self { shared } = self;
        let patience = Patience { idle, ..shared.patience };
        Self::at(shared.desk.clone(), shared.world.outside.clone(), patience)
    }

    pub(super) fn at(desk: Desk, outside: Outside, patience: Patience) -> Self {
        let world = World { outside, lines: Lines::default(), first_byte_max: patience.first_byte };
        let (places, tracker) = (Places::default(), TaskTracker::new());
        Self { shared: Arc::new(Shared { desk, world, places, patience, tracker }) }
    }

    pub(super) fn world(&self) -> &World {
        &self.shared.world
    }

    /// Answers a request below `/model/`, which came through the door of this sandbox.
    pub async fn serve(&self, sandbox: SandboxId, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let heard = self.shared.places.hears(&sandbox);
        let (dialect, answer) = match route(&head.method, head.uri.path()) {
            Ok(found) if !heard => (found.dialect(), Err(Refusal::TooMany)),
            Ok(Route::Hello) => return Response::new(Body::empty()),
            Ok(Route::Models(dialect)) => (dialect, self.models(sandbox, &head, dialect)),
            Ok(Route::Call(call)) => {
                (call.speech().dialect(), Box::pin(self.call(sandbox, call, head, body)).await)
            }
            Err(refused @ (NoRoute::Path(dialect) | NoRoute::Method(dialect, _))) => {
                (dialect, Err(refused.into()))
            }
        };
        match answer {
            Ok(answer) => answer,
            Err(refusal) => {
                sleep(Duration::from_millis(REFUSED_AFTER_MS)).await;
                refusal.response(dialect)
            }
        }
    }

    fn claim(&self, sandbox: SandboxId, head: &request::Parts) -> Result<Pass, Refusal> {
        let key = key::shown(&head.headers, head.uri.query()).ok_or(Refusal::Key)?;
        self.shared.desk.claim(&sandbox, key).ok_or(Refusal::Key)
    }

    /// Of the task: what a provider has besides is nobody's business.
    fn models(
        &self,
        sandbox: SandboxId,
        head: &request::Parts,
        dialect: Dialect,
    ) -> Result<Response<Body>, Refusal> {
        let names = self.claim(sandbox, head)?.models(dialect);
        let list = match dialect {
            Dialect::Anthropic => json!({
                "data": names.iter().map(|name| json!({"type": "model", "id": name, "display_name": name,
                    "created_at": "1970-01-01T00:00:00Z"})).collect::<Vec<_>>(),
                "has_more": false, "first_id": names.first(), "last_id": names.last(),
            }),
            Dialect::Openai | Dialect::Gemini => json!({
                "object": "list",
                "data": names.iter().map(|name| json!({"id": name, "object": "model", "created": 0,
                    "owned_by": "slipway"})).collect::<Vec<_>>(),
            }),
        };
        Ok(json_response(StatusCode::OK, &list))
    }

    async fn call(
        &self,
        sandbox: SandboxId,
        call: Inference,
        head: request::Parts,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        let pass = self.claim(sandbox, &head)?;
        pass.in_its_turn().await?;
        let count_only = call.count_only();
        let answer = self.call_of(&pass, sandbox, (call, head, body)).await;
        let turned_away = answer.as_ref().err().and_then(|refusal| refusal.turned_away(count_only));
        if let Some(turned_away) = turned_away {
            pass.turned_away(turned_away).await;
        }
        answer
    }

    async fn call_of(
        &self,
        pass: &Pass,
        sandbox: SandboxId,
        (call, head, body): (Inference, request::Parts, Incoming),
    ) -> Result<Response<Body>, Refusal> {
        let place = self.shared.places.take(&sandbox)?;
        if !is_plain(&head.headers) {
            return Err(Refusal::Encoding);
        }
        let mut room = place.room();
        let body = body::whole(body, &mut room).await?;
        // The room is held until an answer has begun.
        let (asked, (place, _room)) = read(&call, &body, pass.bounded(), (place, room)).await?;
        let aim = Arc::new(pass.aim(call.speech(), &asked.model)?);
        let open = pass.begin(&aim, asked.ask).await?;
        let over = open.over();
        let body = asked.body(body, &aim.model, open.max_output_tokens());
        let mut book = Book {
            call: Some(open),
            aim: aim.clone(),
            speech: call.speech(),
            count_only: asked.ask.count_only,
            input_tokens: asked.ask.input_tokens,
            began: Instant::now(),
            attempt: 1,
            used_up: false,
            status: None,
            first_byte_ms: None,
            tracker: self.shared.tracker.clone(),
        };
        match addressed(&call, &aim, &head, body) {
            Ok(outgoing) => {
                let mut answer = tokio::select! {
                    answer = self.pass_on(&outgoing, book, place) => answer,
                    // The call ends where it is, and counts as abandoned.
                    () = over.cancelled() => return Err(CallRefusal::Ended.into()),
                };
                self.shared.places.answered_for(&sandbox);
                answer.extensions_mut().insert(Over(over));
                Ok(answer)
            }
            Err(why) => {
                let said = format!("the provider {}: {why}", aim.provider.name);
                let fault = book.fault(&said, true);
                if let Some(told) = book.close(Err(fault), None, false) {
                    told.await;
                }
                Err(Refusal::Provider(said))
            }
        }
    }

    async fn pass_on(&self, outgoing: &Outgoing, mut book: Book, place: Place) -> Response<Body> {
        let Shared { world, patience, .. } = &*self.shared;
        let aim = book.aim.clone();
        let key = aim.provider.key.as_ref().map(|key| key.0.as_str());
        let Some(call) = &book.call else { return Response::new(Body::empty()) };
        let Tries { tried, count, used_up } = tries(world, outgoing, call, &patience.backoff, key).await;
        book.attempt = count;
        book.used_up = used_up;
        match tried {
            Tried::Begun(begun) => {
                book.first_byte_ms = Some(book.ms_since_began());
                book.status = Some(begun.head.status.as_u16());
                begun_response(*begun, book, patience.idle, place)
            }
            Tried::Failed(failure, fault) => {
                book.status = fault.status;
                let response = failure.response(book.speech.dialect(), key);
                if let Some(told) = book.close(Err(fault), None, false) {
                    told.await;
                }
                response
            }
        }
    }
}

/// A long one out of the way of others. What it holds goes with it: it is read to its end also when the agent has
/// left.
pub(super) async fn read(
    call: &Inference,
    body: &Bytes,
    bounded: ActiveBudgets,
    held: (Place, Room),
) -> Result<(Asked, (Place, Room)), Refusal> {
    if body.len() <= READ_AT_ONCE_MAX_BYTES {
        return Ok((Asked::read(call, body, bounded)?, held));
    }
    let (call, body, reading) = (call.clone(), body.clone(), held.0.reading().await?);
    let read = move || {
        let asked = Asked::read(&call, &body, bounded);
        // Before what it holds is given back.
        drop((body, reading));
        (asked, held)
    };
    // It fails only when hostd is on its way out.
    let (asked, held) = tokio::task::spawn_blocking(read).await.map_err(|_| Refusal::NoBody)?;
    Ok((asked?, held))
}

/// Where it goes, and with which head.
fn addressed(
    call: &Inference,
    aim: &CallTarget,
    head: &request::Parts,
    body: Bytes,
) -> Result<Outgoing, String> {
    let provider = &aim.provider;
    let base = Base::parse(&provider.base_url).map_err(|error| error.to_string())?;
    let query = key::passed_on(head.uri.query());
    let target = base.target(&call.path(&aim.model), &query).map_err(|error| error.to_string())?;
    let headers = outgoing(&head.headers, &base.host, provider).map_err(|error| error.to_string())?;
    let provider = provider.name.clone();
    Ok(Outgoing { provider, origin: base.origin, target, headers, body, speech: call.speech() })
}

/// Without the length of the body: its end is told when it is known how it ended.
fn begun_response(begun: Begun, book: Book, idle: Duration, place: Place) -> Response<Body> {
    let (status, headers) = (begun.head.status, answered(&begun.head.headers, book.key()));
    let mut response = Response::new(Body::new(Passing::new(begun, book, idle, place)));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
