//! One request to somewhere outside: judged, resolved, connected, counted.

use super::{
    forward::{self, Letter},
    line::Line,
    own::Own,
    passage::{Passage, PassageParts},
    profiles::Profiles,
    refusal::Refusal,
    tell::Teller,
    trip::Trip,
    tunnel,
};
use crate::{
    core::{
        Previews,
        egress::{Asked, By, Exceptions, Host, Key, More, Verdict, Why},
    },
    outside::{Outside, OutsideError},
    store::{SandboxRecord, Store},
};
use axum::body::Body;
use futures_util::future::BoxFuture;
use hyper::{
    HeaderMap, Method, Request, Response,
    body::Incoming,
    header::{CONTENT_LENGTH, PROXY_AUTHORIZATION, TRANSFER_ENCODING},
    http::uri::Scheme,
};
use protocol::api::Network;
use std::{net::IpAddr, sync::Arc};
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, watch},
};
use tokio_util::sync::CancellationToken;

/// What is shared by all sandboxes.
#[derive(Clone)]
pub struct Egress {
    shared: Arc<Shared>,
}

struct Shared {
    outside: Outside,
    previews: Previews,
    profiles: Profiles,
    exceptions: Arc<Exceptions>,
    own: Arc<Own>,
    teller: Teller,
}

pub struct EgressParts {
    pub outside: Outside,
    pub previews: Previews,
    pub profiles: Profiles,
    pub exceptions: Exceptions,
    pub store: Store,
}

/// An answer, and what goes on when the connection is no HTTP any more.
pub struct Answered {
    pub response: Response<Body>,
    pub then: Option<BoxFuture<'static, ()>>,
}

impl From<Response<Body>> for Answered {
    fn from(response: Response<Body>) -> Self {
        Self { response, then: None }
    }
}

impl Egress {
    pub fn new(parts: EgressParts) -> Self {
        let EgressParts { outside, previews, profiles, exceptions, store } = parts;
        let (exceptions, own, teller) = (Arc::new(exceptions), Arc::default(), Teller::new(store));
        Self { shared: Arc::new(Shared { outside, previews, profiles, exceptions, own, teller }) }
    }

    pub fn profiles(&self) -> &Profiles {
        &self.shared.profiles
    }

    /// What a sandbox sent and received.
    pub async fn used_bytes(&self, record: &SandboxRecord) -> Result<u64, crate::store::StoreError> {
        self.shared.teller.used_bytes(&record.id).await
    }

    /// Writes events until all is over.
    pub async fn tell(&self, closing: CancellationToken) {
        self.shared.teller.run(closing).await;
    }

    /// Writes what the last connections told when they were closed.
    pub async fn finish(&self) {
        self.shared.teller.finish().await;
    }

    /// The way out of one sandbox, as long as its door is open.
    pub fn passage(&self, record: watch::Receiver<Arc<SandboxRecord>>) -> Arc<Passage> {
        let Shared { profiles, exceptions, own, teller, .. } = &*self.shared;
        let parts = PassageParts {
            profiles: profiles.clone(),
            exceptions: exceptions.clone(),
            own: own.clone(),
            teller: teller.clone(),
        };
        Arc::new(Passage::new(record, parts))
    }

    /// Answers a `CONNECT`, or a request for another host.
    pub async fn serve(&self, passage: &Arc<Passage>, request: Request<Incoming>) -> Answered {
        let heads = request.headers().clone();
        let by = heads.get(PROXY_AUTHORIZATION).and_then(By::parse);
        let answered = match target(&request) {
            Ok(asked) => {
                let visit = Visit { passage, asked: &asked, by };
                match *request.method() {
                    Method::CONNECT => self.tunnel(&visit, request).await,
                    _ => self.forward(&visit, Letter::new(request)).await.map(Answered::from),
                }
            }
            Err(refusal) => {
                passage.tell(nowhere(passage, by, &refusal), More { times: 1, ..More::default() });
                Err(refusal)
            }
        };
        answered.unwrap_or_else(|refusal| refusal.response(&heads).into())
    }

    async fn tunnel(&self, visit: &Visit<'_>, request: Request<Incoming>) -> Result<Answered, Refusal> {
        let place = self.admit(visit).await?;
        let stream = self.connect(visit).await?;
        let address = stream.peer_addr().map_err(|error| visit.broken(&error))?.ip();
        Ok(tunnel::begin(request, stream, visit.trip(address, place)?))
    }

    /// On a line that was kept, if there is one and it may be tried again: its server may have closed it just now.
    async fn forward(&self, visit: &Visit<'_>, mut letter: Letter) -> Result<Response<Body>, Refusal> {
        let mut place = self.admit(visit).await?;
        if let Some(copy) = letter.again()
            && let Some(line) = visit.passage.lines().take(visit.asked, |address| visit.allows(address))
        {
            let trip = visit.trip(line.address, place)?;
            match forward::pass(letter, visit.asked, line, trip).await {
                Err(Refusal::Broken { .. }) => {}
                answer => return answer,
            }
            (letter, place) = (copy, visit.place()?);
        }
        let line = Line::over(self.connect(visit).await?).await.map_err(|error| visit.broken(&error))?;
        let trip = visit.trip(line.address, place)?;
        forward::pass(letter, visit.asked, Box::new(line), trip).await
    }

    /// Lets it through, up to an address.
    async fn admit(&self, visit: &Visit<'_>) -> Result<OwnedSemaphorePermit, Refusal> {
        let Visit { passage, asked, .. } = visit;
        let network = passage.record().blueprint.network;
        if network != Network::Proxy {
            visit.tell("denied", "network", None);
            return Err(Refusal::Mode(network));
        }
        if passage.is_hasty() {
            visit.tell("denied", "rate", None);
            return Err(Refusal::TooMany);
        }
        passage.load().await.map_err(|_| Refusal::Internal)?;
        let policy = passage.policy();
        if let Some(max_bytes) = passage.is_spent() {
            visit.tell("denied", "max_mb", None);
            return Err(Refusal::Spent { max_bytes });
        }
        if let Some(why) = self.preview(asked).or_else(|| policy.before(asked)) {
            return Err(visit.denied(why));
        }
        visit.place()
    }

    async fn connect(&self, visit: &Visit<'_>) -> Result<TcpStream, Refusal> {
        let Visit { passage, asked, .. } = visit;
        let host = match &asked.host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        };
        let error =
            match self.shared.outside.connect(&host, asked.port, |address| visit.allows(address)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
        if let OutsideError::Address { address, .. } = &error
            && let Verdict::Denied(why) = passage.judge(asked, *address)
        {
            return Err(visit.denied(why));
        }
        let mut key = visit.key("allowed", "unreachable");
        key.error = Some(error.to_string());
        passage.tell(key, More { times: 1, ..More::default() });
        Err(Refusal::Unreachable(error))
    }

    fn preview(&self, asked: &Asked) -> Option<Why> {
        let preview = self.shared.previews.parse(&asked.host.to_string())?;
        Some(Why::Preview { port: preview.port })
    }
}

/// Who wants to go where.
struct Visit<'a> {
    passage: &'a Arc<Passage>,
    asked: &'a Asked,
    by: Option<By>,
}

impl Visit<'_> {
    fn allows(&self, address: IpAddr) -> bool {
        matches!(self.passage.judge(self.asked, address), Verdict::Allowed(_))
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.passage.place().ok_or_else(|| {
            self.tell("denied", "connections", None);
            Refusal::NoPlace
        })
    }

    /// It goes to this address, as told; judged once more, since that took a while.
    fn trip(&self, address: IpAddr, place: OwnedSemaphorePermit) -> Result<Arc<Trip>, Refusal> {
        let rule = match self.passage.judge(self.asked, address) {
            Verdict::Allowed(rule) => rule,
            Verdict::Denied(why) => return Err(self.denied(why)),
        };
        let key = self.key("allowed", &rule);
        self.passage.tell(key.clone(), More { times: 1, address: Some(address), ..More::default() });
        Ok(Trip::new(self.passage.clone(), self.asked.clone(), address, key, place))
    }

    fn key(&self, verdict: &'static str, rule: &str) -> Key {
        Key {
            sandbox: self.passage.id(),
            verdict,
            host: self.asked.host.to_string(),
            port: self.asked.port,
            rule: rule.to_owned(),
            profile: None,
            by: self.by.clone(),
            error: None,
        }
    }

    fn tell(&self, verdict: &'static str, rule: &str, why: Option<&Why>) {
        let profile = why.and_then(Why::profile).map(str::to_owned);
        let address = why.and_then(|why| why.address(self.asked));
        let key = Key { profile, ..self.key(verdict, rule) };
        self.passage.tell(key, More { times: 1, address, ..More::default() });
    }

    fn denied(&self, why: Why) -> Refusal {
        self.tell("denied", &why.rule(), Some(&why));
        Refusal::Denied { asked: self.asked.clone(), why }
    }

    fn broken(&self, why: &dyn ToString) -> Refusal {
        Refusal::Broken { asked: self.asked.clone(), why: why.to_string() }
    }
}

/// Of a request that cannot be read, so that there is no telling where it goes.
fn nowhere(passage: &Passage, by: Option<By>, refusal: &Refusal) -> Key {
    Key {
        sandbox: passage.id(),
        verdict: "denied",
        host: String::new(),
        port: 0,
        rule: "malformed".to_owned(),
        profile: None,
        by,
        error: Some(refusal.words()),
    }
}

/// Where a request goes, by its first line.
fn target(request: &Request<Incoming>) -> Result<Asked, Refusal> {
    let no_host = Refusal::Malformed("the request names no host that can be asked for");
    let uri = request.uri();
    let authority = uri.authority().ok_or(Refusal::Malformed("the request names no host"))?.as_str();
    if request.method() == Method::CONNECT {
        return Asked::parse(authority, None).map_err(|_| no_host);
    }
    if uri.scheme() != Some(&Scheme::HTTP) {
        return Err(Refusal::Malformed("only http:// is passed on; ask for others with CONNECT"));
    }
    if has_two_lengths(request.headers()) {
        return Err(Refusal::Malformed("the request says the length of its body twice"));
    }
    Asked::parse(authority, Some(80)).map_err(|_| no_host)
}

fn has_two_lengths(headers: &HeaderMap) -> bool {
    let count = |name| headers.get_all(name).iter().count();
    count(CONTENT_LENGTH) + count(TRANSFER_ENCODING) > 1
}
