//! Who may see a preview.
//!
//! ```text
//!  pass in the address ──▶ 303 to the same without it, and a cookie
//!  cookie              ──▶ in, as often as it comes
//!  X-Slipway-Token     ──▶ in: a pass, or a token of the API that may drive the sandbox
//! ```
//!
//! **Invariant:** no pass and no token of the API reaches an app: neither in the address, nor in a cookie, nor
//! in any other header or trailer. What a body says is the app's.

mod denial_page;

pub use denial_page::redirect;

use crate::{
    core::{
        Access, CredentialScanner, PASS_PREFIX, PassError, PassPurpose, Preview, PreviewPass, Previews,
        StrippedUrl, edge::strip_dangerous_headers, make_cookies_host_only, pass_cookie, pass_cookies,
        strip_pass_cookies, strip_passes,
    },
    limits,
    preview_links::{PassCheck, PreviewLinks},
    reconcile::Clock,
    store::StoreError,
    token_auth::{self, bearer},
};
use hyper::{
    HeaderMap, Method,
    header::{AUTHORIZATION, COOKIE, HeaderValue, ORIGIN, UPGRADE},
    http::request::Parts,
};
use protocol::api::SandboxId;
use std::sync::Arc;

const TOKEN: &str = "x-slipway-token";
const SANDBOX: &str = "x-sandbox-id";
const PORT: &str = "x-sandbox-port";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthDecision {
    /// May go on. Whoever came with a pass or a token is trusted, and may see details of failures.
    Admitted {
        trusted: bool,
    },
    /// The pass leaves the address: 303 to this path, with this `Set-Cookie` if the pass was good.
    Redirect {
        location: String,
        cookie: Option<HeaderValue>,
    },
    Denied(AccessDenied),
}

/// Later ones say more, and are told where there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum AccessDenied {
    #[error("only those who were given a link to it can open it")]
    NoPass,
    #[error("the pass or token it came with is not known here")]
    PassError,
    #[error("the pass or token it came with does not open this one")]
    OtherPreview,
    #[error("links are good for a limited time")]
    Expired,
    #[error("its owner took it back")]
    Revoked,
    #[error("a pass in the address is for opening a page: send it as X-Slipway-Token")]
    UseHeader,
    #[error("pages of other sites may not connect to this preview")]
    OtherSite,
}

/// AccessDenied a program that names a sandbox by headers gets none.
#[derive(Debug, thiserror::Error)]
pub enum HeaderAuthError {
    #[error("X-Sandbox-Id needs a token of the API, as X-Slipway-Token or Authorization: Bearer")]
    Unauthorized,
    #[error("this token may look at the sandbox and no more")]
    Forbidden,
    #[error("it does not exist, or is not yours")]
    NotFound,
    #[error("a pass in the address opens a page under its own name: leave it out")]
    PassInAddress,
    #[error("{0} must be given once, and be what it says")]
    Malformed(&'static str),
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub struct PreviewAuth {
    links: PreviewLinks,
    admin_hash: [u8; 32],
    scanner: Arc<CredentialScanner>,
    previews: Previews,
    clock: Clock,
}

/// Whether there may be something in a request for us to judge.
pub fn may_carry_credentials(parts: &Parts) -> bool {
    let headers = &parts.headers;
    headers.contains_key(COOKIE) || headers.contains_key(TOKEN) || parts.uri.query().is_some()
}

/// Keeps what an app's answer says to its own hostname, and away from ours.
pub fn sanitize_response(headers: &mut HeaderMap) {
    make_cookies_host_only(headers);
    strip_dangerous_headers(headers);
}

impl PreviewAuth {
    pub fn new(links: PreviewLinks, admin_token: &str, previews: Previews, clock: Clock) -> Self {
        let scanner = Arc::new(CredentialScanner::new(admin_token));
        Self { links, admin_hash: token_auth::token_hash(admin_token), scanner, previews, clock }
    }

    /// What finds tokens and passes in the rest of a request.
    pub fn scanner(&self) -> Arc<CredentialScanner> {
        self.scanner.clone()
    }

    /// Takes out of a request what is for us: the app gets none of it. False where a credential is in the path,
    /// which cannot be taken out.
    #[must_use]
    pub fn strip_credentials(&self, parts: &mut Parts) -> bool {
        let headers = &mut parts.headers;
        strip_pass_cookies(headers);
        let told = headers.remove(TOKEN).is_some();
        headers.remove(PORT);
        // A program that names a sandbox by a header proves by one of two that it may.
        let proof = headers.remove(SANDBOX).is_some() && !told;
        if proof && headers.get_all(AUTHORIZATION).iter().any(|value| bearer(value).is_some()) {
            headers.remove(AUTHORIZATION);
        }
        self.scanner.strip_headers(headers);
        self.scanner.strip_query(&mut parts.uri);
        !self.scanner.finds_in(parts.uri.path().as_bytes())
    }

    /// Whether this request may see a preview. One to a public preview with nothing for us in it costs
    /// nothing.
    pub async fn admit(
        &self,
        at: &Preview,
        private: bool,
        parts: &Parts,
    ) -> Result<AuthDecision, StoreError> {
        let shown = strip_passes(parts.uri.path(), parts.uri.query());
        if shown.is_some() && !is_page_load(parts) {
            return Ok(AuthDecision::Denied(AccessDenied::UseHeader));
        }
        let judged = match parts.headers.get(TOKEN) {
            Some(token) => self.check_header(at, token).await?,
            None => self.check_cookie(at, parts).await?.map(Some),
        };
        if let Some(shown) = shown {
            return self.redirect_without_pass(at, private, &shown, judged).await;
        }
        Ok(match judged {
            Ok(_) => AuthDecision::Admitted { trusted: true },
            Err(_) if !private => AuthDecision::Admitted { trusted: false },
            Err(why) => AuthDecision::Denied(why),
        })
    }

    /// The sandbox and port that a program names by headers, if it does: with a token of the API that may
    /// drive the sandbox.
    pub async fn preview_from_headers(&self, parts: &Parts) -> Result<Option<Preview>, HeaderAuthError> {
        let headers = &parts.headers;
        if !headers.contains_key(SANDBOX) {
            return Ok(None);
        }
        if strip_passes(parts.uri.path(), parts.uri.query()).is_some() {
            return Err(HeaderAuthError::PassInAddress);
        }
        let token = match headers.get(TOKEN) {
            Some(value) => value.to_str().ok().filter(|token| token_auth::is_well_formed(token)),
            None => headers.get(AUTHORIZATION).and_then(bearer),
        };
        let token = token.ok_or(HeaderAuthError::Unauthorized)?;
        let now_ms = self.clock.now_ms();
        let who = token_auth::authenticate(self.links.store(), &self.admin_hash, token, now_ms).await?;
        let who = who.ok_or(HeaderAuthError::Unauthorized)?;
        let id = one(headers, SANDBOX).ok_or(HeaderAuthError::Malformed("X-Sandbox-Id"))?;
        let sandbox: SandboxId = id.parse().map_err(|_| HeaderAuthError::NotFound)?;
        let port = one(headers, PORT).and_then(|port| Preview::new(sandbox, port));
        let preview = port.ok_or(HeaderAuthError::Malformed("X-Sandbox-Port"))?;
        let owner = self.links.store().owner_of(&sandbox).await?;
        match owner {
            Some(owner) if who.can_see(&owner) && who.allows(Access::Write) => Ok(Some(preview)),
            Some(owner) if who.can_see(&owner) => Err(HeaderAuthError::Forbidden),
            Some(_) | None => Err(HeaderAuthError::NotFound),
        }
    }

    /// The address without its pass. A visitor who has a good cookie keeps it, whatever the address says.
    async fn redirect_without_pass(
        &self,
        at: &Preview,
        private: bool,
        shown: &StrippedUrl<'_>,
        judged: Result<Option<PreviewPass>, AccessDenied>,
    ) -> Result<AuthDecision, StoreError> {
        let texts = shown.passes.iter().map(|text| text.as_bytes());
        let pass = match (self.first_valid(at, PassPurpose::Link, texts).await?, judged) {
            (Ok(pass), _) | (Err(_), Ok(Some(pass))) => Some(pass),
            (Err(_), Ok(None)) => None,
            (Err(why), Err(other)) if private => return Ok(AuthDecision::Denied(why.max(other))),
            (Err(_), Err(_)) => None,
        };
        let cookie = pass.map(|pass| self.cookie(&pass));
        Ok(AuthDecision::Redirect { location: shown.location.clone(), cookie })
    }

    fn cookie(&self, pass: &PreviewPass) -> HeaderValue {
        let good_for_s = pass.expires_ms.saturating_sub(self.clock.now_ms()) / 1000;
        pass_cookie(self.previews.scheme, &self.links.pass_text(pass, PassPurpose::Cookie), good_for_s)
    }

    /// A token of the API is no pass, and as good.
    async fn check_header(
        &self,
        at: &Preview,
        value: &HeaderValue,
    ) -> Result<Result<Option<PreviewPass>, AccessDenied>, StoreError> {
        if value.as_bytes().starts_with(PASS_PREFIX.as_bytes()) {
            let texts = std::iter::once(value.as_bytes());
            return Ok(self.first_valid(at, PassPurpose::Link, texts).await?.map(Some));
        }
        let Some(token) = value.to_str().ok().filter(|token| token_auth::is_well_formed(token)) else {
            return Ok(Err(AccessDenied::PassError));
        };
        let (store, now_ms) = (self.links.store(), self.clock.now_ms());
        let Some(who) = token_auth::authenticate(store, &self.admin_hash, token, now_ms).await? else {
            return Ok(Err(AccessDenied::PassError));
        };
        let owner = store.owner_of(&at.sandbox).await?;
        let drives = |owner| who.can_see(&owner) && who.allows(Access::Write);
        Ok(if owner.is_some_and(drives) { Ok(None) } else { Err(AccessDenied::OtherPreview) })
    }

    async fn check_cookie(
        &self,
        at: &Preview,
        parts: &Parts,
    ) -> Result<Result<PreviewPass, AccessDenied>, StoreError> {
        let judged = self
            .first_valid(at, PassPurpose::Cookie, pass_cookies(self.previews.scheme, &parts.headers))
            .await?;
        // Answers to pages of other sites are kept from them by the browser; streams of an upgrade are not.
        let rides = judged.is_ok() && is_upgrade(parts) && !self.same_sandbox(at, &parts.headers);
        Ok(if rides { Err(AccessDenied::OtherSite) } else { judged })
    }

    /// The first that is good: what a neighbour set neither lets in nor locks out.
    async fn first_valid(
        &self,
        at: &Preview,
        purpose: PassPurpose,
        texts: impl Iterator<Item = &[u8]>,
    ) -> Result<Result<PreviewPass, AccessDenied>, StoreError> {
        let (mut worst, mut asked) = (AccessDenied::NoPass, 0);
        let now_ms = self.clock.now_ms();
        for text in texts {
            let why = match self.links.check(text, at, purpose, now_ms).await? {
                PassCheck::Valid(pass) => return Ok(Ok(pass)),
                PassCheck::Revoked(_) => {
                    asked += 1;
                    AccessDenied::Revoked
                }
                PassCheck::Invalid(PassError::Expired) => AccessDenied::Expired,
                PassCheck::Invalid(PassError::OtherPreview) => AccessDenied::OtherPreview,
                PassCheck::Invalid(PassError::Forged | PassError::OtherUse) => AccessDenied::PassError,
            };
            worst = worst.max(why);
            if asked >= limits::LINK_LOOKUPS_MAX {
                break;
            }
        }
        Ok(Err(worst))
    }

    /// Programs send no `Origin`; pages of another port of the same sandbox may connect.
    fn same_sandbox(&self, at: &Preview, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return true };
        let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        let from = authority.and_then(|(_, authority)| self.previews.parse(authority));
        from.is_some_and(|from| from.sandbox == at.sandbox) && origins.next().is_none()
    }
}

/// Others would lose their body or their upgrade by a redirect.
fn is_page_load(parts: &Parts) -> bool {
    matches!(parts.method, Method::GET | Method::HEAD) && !is_upgrade(parts)
}

/// An offer of HTTP/2 is none: it is never taken up.
fn is_upgrade(parts: &Parts) -> bool {
    parts.headers.get_all(UPGRADE).iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"h2c"))
}

fn one<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests;
