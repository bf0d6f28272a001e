//! Decides who may see a preview.
//!
//! ```text
//!  pass in the address ──▶ 303 to the same address without it, and a cookie
//!  cookie              ──▶ admitted, as often as it comes
//!  X-Slipway-Token     ──▶ admitted: a pass, or a token of the API that may drive the sandbox
//! ```
//!
//! What a token opened ends when the token is revoked or expires, and when the sandbox is not shared any more.
//!
//! **Invariant:** no pass and no token of the API reaches an app: neither in the address, nor in a cookie, nor
//! in any other header or trailer. Bodies are not touched.

mod denial_page;

pub use denial_page::redirect;

use crate::preview_links::{PassCheck, PreviewLinks};
use hostd_core::{
    Access, CredentialScanner, Identity, PASS_PREFIX, PassError, PassPurpose, Preview, PreviewPass, Previews,
    StrippedUrl, bearer, edge::strip_dangerous_headers, is_well_formed_token, limits, make_cookies_host_only,
    pass_cookie, pass_cookies, strip_pass_cookies, strip_passes, token_hash,
};
use hostd_store::{
    Clock, StoreError,
    access_watch::{AccessEnd, AccessWatch},
    token_auth,
};
use hyper::{
    HeaderMap, Method,
    header::{AUTHORIZATION, COOKIE, HeaderValue, ORIGIN, UPGRADE},
    http::request::Parts,
};
use protocol::api::{Owner, SandboxId};
use std::{pin::Pin, sync::Arc};
use tokio::sync::watch;

const TOKEN: &str = "x-slipway-token";
const SANDBOX: &str = "x-sandbox-id";
const PORT: &str = "x-sandbox-port";

/// Completes when the access is taken away that a request was admitted by: what it opened ends.
pub type AccessEnded = Pin<Box<dyn Future<Output = AccessEnd> + Send>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthDecision {
    /// May go on. A visitor with a pass or token is trusted, and may see details of failures.
    Admitted {
        trusted: bool,
    },
    /// The pass leaves the address: 303 to this path, with this `Set-Cookie` if the pass was valid.
    Redirect {
        location: String,
        cookie: Option<HeaderValue>,
    },
    Denied(AccessDenied),
}

/// What opens a preview.
enum Credential {
    Pass(PreviewPass),
    /// A token of the API, and when what it opens ends.
    Token(Option<AccessEnded>),
}

/// Why a visitor may not see a preview. Ordered: of several reasons the greatest is reported, which says
/// most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum AccessDenied {
    #[error("only those who were given a link to it can open it")]
    NoPass,
    #[error("the pass or token it came with is not known here")]
    InvalidPass,
    #[error("the pass or token it came with does not open this one")]
    OtherPreview,
    #[error("links are good for a limited time")]
    Expired,
    #[error("the owner of the sandbox revoked it")]
    Revoked,
    #[error("a pass in the address is for opening a page: send it as X-Slipway-Token")]
    UseHeader,
    #[error("pages of other sites may not connect to this preview")]
    OtherSite,
}

/// Why a program that names a sandbox by headers gets none.
#[derive(Debug, thiserror::Error)]
pub enum HeaderAuthError {
    #[error("X-Sandbox-Id needs a token of the API, as X-Slipway-Token or Authorization: Bearer")]
    Unauthorized,
    #[error("this token may only read the sandbox")]
    Forbidden,
    #[error("no sandbox with this id (or it belongs to another tenant)")]
    NotFound,
    #[error("a pass in the address opens a page under its own name: leave it out")]
    PassInAddress,
    #[error("{0} must be given once, and be valid")]
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

/// Whether a request may carry credentials for us to check.
pub fn may_carry_credentials(parts: &Parts) -> bool {
    let headers = &parts.headers;
    headers.contains_key(COOKIE) || headers.contains_key(TOKEN) || parts.uri.query().is_some()
}

/// Keeps headers of an app's response from acting beyond its own hostname.
pub fn sanitize_response(headers: &mut HeaderMap) {
    make_cookies_host_only(headers);
    strip_dangerous_headers(headers);
}

impl PreviewAuth {
    pub fn new(links: PreviewLinks, admin_token: &str, previews: Previews, clock: Clock) -> Self {
        let scanner = Arc::new(CredentialScanner::new(admin_token));
        Self { links, admin_hash: token_hash(admin_token), scanner, previews, clock }
    }

    /// The scanner that finds tokens and passes in the rest of a request.
    pub fn scanner(&self) -> Arc<CredentialScanner> {
        self.scanner.clone()
    }

    /// Removes our credentials from a request. Returns false where one is in the path, which cannot be
    /// removed.
    #[must_use]
    pub fn strip_credentials(&self, parts: &mut Parts) -> bool {
        let headers = &mut parts.headers;
        strip_pass_cookies(headers);
        let has_token = headers.remove(TOKEN).is_some();
        headers.remove(PORT);
        // A program that names a sandbox by a header authenticates with one of two headers.
        let proof = headers.remove(SANDBOX).is_some() && !has_token;
        if proof && headers.get_all(AUTHORIZATION).iter().any(|value| bearer(value).is_some()) {
            headers.remove(AUTHORIZATION);
        }
        self.scanner.strip_headers(headers);
        self.scanner.strip_query(&mut parts.uri);
        !self.scanner.finds_in(parts.uri.path().as_bytes())
    }

    /// Decides whether this request may see a preview, and until when if it is private and a token opened it. One to
    /// a public preview without credentials costs nothing.
    pub async fn admit(
        &self,
        at: &Preview,
        private: bool,
        parts: &Parts,
    ) -> Result<(AuthDecision, Option<AccessEnded>), StoreError> {
        let stripped = strip_passes(parts.uri.path(), parts.uri.query());
        if stripped.is_some() && !is_page_load(parts) {
            return Ok((AuthDecision::Denied(AccessDenied::UseHeader), None));
        }
        let checked = match parts.headers.get(TOKEN) {
            Some(token) => self.check_header(at, token).await?,
            None => self.check_cookie(at, parts).await?.map(Credential::Pass),
        };
        if let Some(stripped) = stripped {
            return Ok((self.redirect_without_pass(at, private, &stripped, checked).await?, None));
        }
        Ok(match checked {
            Ok(Credential::Token(ended)) if private => (AuthDecision::Admitted { trusted: true }, ended),
            Ok(Credential::Pass(_) | Credential::Token(_)) => {
                (AuthDecision::Admitted { trusted: true }, None)
            }
            Err(_) if !private => (AuthDecision::Admitted { trusted: false }, None),
            Err(denied) => (AuthDecision::Denied(denied), None),
        })
    }

    /// Decides whether a caller, whom a protocol of other clients authenticated, may see a private preview, and until when.
    /// `revocations` is from before that.
    pub async fn admit_caller(
        &self,
        at: &Preview,
        caller: Identity,
        revocations: watch::Receiver<u64>,
    ) -> Result<(AuthDecision, Option<AccessEnded>), StoreError> {
        Ok(match self.opened_by(at, caller, revocations).await? {
            Ok(ended) => (AuthDecision::Admitted { trusted: true }, ended),
            Err(denied) => (AuthDecision::Denied(denied), None),
        })
    }

    /// Returns when what this caller opens ends.
    async fn opened_by(
        &self,
        at: &Preview,
        caller: Identity,
        revocations: watch::Receiver<u64>,
    ) -> Result<Result<Option<AccessEnded>, AccessDenied>, StoreError> {
        let may_open =
            |owner: &Owner| self.can_see(&caller, &at.sandbox, owner) && caller.allows(Access::Write);
        let owner = self.links.store().owner_of(&at.sandbox).await?.filter(may_open);
        Ok(owner
            .map(|owner| self.access_ended(caller, at.sandbox, owner, revocations))
            .ok_or(AccessDenied::OtherPreview))
    }

    /// Returns the sandbox and port that headers name, if they do; they need a token of the API that may
    /// write, of a caller that may see the sandbox, and are good as long as both is so.
    pub async fn preview_from_headers(
        &self,
        parts: &Parts,
    ) -> Result<Option<(Preview, Option<AccessEnded>)>, HeaderAuthError> {
        let headers = &parts.headers;
        if !headers.contains_key(SANDBOX) {
            return Ok(None);
        }
        if strip_passes(parts.uri.path(), parts.uri.query()).is_some() {
            return Err(HeaderAuthError::PassInAddress);
        }
        let token = match headers.get(TOKEN) {
            Some(value) => value.to_str().ok().filter(|token| is_well_formed_token(token)),
            None => headers.get(AUTHORIZATION).and_then(bearer),
        };
        let token = token.ok_or(HeaderAuthError::Unauthorized)?;
        let (now_ms, revocations) = (self.clock.now_ms(), self.links.store().token_revocations());
        let identity = token_auth::authenticate(self.links.store(), &self.admin_hash, token, now_ms).await?;
        let identity = identity.ok_or(HeaderAuthError::Unauthorized)?;
        let id = one(headers, SANDBOX).ok_or(HeaderAuthError::Malformed("X-Sandbox-Id"))?;
        let sandbox: SandboxId = id.parse().map_err(|_| HeaderAuthError::NotFound)?;
        let port = one(headers, PORT).and_then(|port| Preview::new(sandbox, port));
        let preview = port.ok_or(HeaderAuthError::Malformed("X-Sandbox-Port"))?;
        let owner = self.links.store().owner_of(&sandbox).await?;
        match owner {
            Some(owner) if !self.can_see(&identity, &sandbox, &owner) => Err(HeaderAuthError::NotFound),
            Some(owner) if identity.allows(Access::Write) => {
                Ok(Some((preview, self.access_ended(identity, sandbox, owner, revocations))))
            }
            Some(_) => Err(HeaderAuthError::Forbidden),
            None => Err(HeaderAuthError::NotFound),
        }
    }

    /// Whether the sandbox is the caller's own, or shared with the caller, if only to read: a preview is for viewers.
    fn can_see(&self, identity: &Identity, sandbox: &SandboxId, owner: &Owner) -> bool {
        identity.access_to(owner, &self.links.store().shares().of(sandbox)).is_some()
    }

    /// The end of what a token opens; `None` for the operator, whose access never ends. `revocations` is from before
    /// the token was checked.
    fn access_ended(
        &self,
        identity: Identity,
        sandbox: SandboxId,
        owner: Owner,
        revocations: watch::Receiver<u64>,
    ) -> Option<AccessEnded> {
        if identity.operator {
            return None;
        }
        let watch = AccessWatch::new(self.links.store().clone(), identity, self.clock, revocations);
        Some(Box::pin(async move { watch.ended(|| watch.access_to(&sandbox, &owner).is_none()).await }))
    }

    /// Redirects to the address without its pass. A visitor with a valid cookie keeps it, whatever pass the
    /// address has.
    async fn redirect_without_pass(
        &self,
        at: &Preview,
        private: bool,
        stripped: &StrippedUrl<'_>,
        checked: Result<Credential, AccessDenied>,
    ) -> Result<AuthDecision, StoreError> {
        let texts = stripped.passes.iter().map(|text| text.as_bytes());
        let pass = match (self.first_valid(at, PassPurpose::Link, texts).await?, checked) {
            (Ok(pass), _) | (Err(_), Ok(Credential::Pass(pass))) => Some(pass),
            (Err(_), Ok(Credential::Token(_))) => None,
            (Err(denied), Err(other)) if private => return Ok(AuthDecision::Denied(denied.max(other))),
            (Err(_), Err(_)) => None,
        };
        let cookie = pass.map(|pass| self.cookie(&pass));
        Ok(AuthDecision::Redirect { location: stripped.location.clone(), cookie })
    }

    fn cookie(&self, pass: &PreviewPass) -> HeaderValue {
        let good_for_s = pass.expires_ms.saturating_sub(self.clock.now_ms()) / 1000;
        pass_cookie(self.previews.scheme, &self.links.pass_text(pass, PassPurpose::Cookie), good_for_s)
    }

    /// Checks a pass, or a token of the API, which opens a preview as well.
    async fn check_header(
        &self,
        at: &Preview,
        value: &HeaderValue,
    ) -> Result<Result<Credential, AccessDenied>, StoreError> {
        if value.as_bytes().starts_with(PASS_PREFIX.as_bytes()) {
            let texts = std::iter::once(value.as_bytes());
            return Ok(self.first_valid(at, PassPurpose::Link, texts).await?.map(Credential::Pass));
        }
        let Some(token) = value.to_str().ok().filter(|token| is_well_formed_token(token)) else {
            return Ok(Err(AccessDenied::InvalidPass));
        };
        let (store, now_ms) = (self.links.store(), self.clock.now_ms());
        let revocations = store.token_revocations();
        let Some(identity) = token_auth::authenticate(store, &self.admin_hash, token, now_ms).await? else {
            return Ok(Err(AccessDenied::InvalidPass));
        };
        Ok(self.opened_by(at, identity, revocations).await?.map(Credential::Token))
    }

    async fn check_cookie(
        &self,
        at: &Preview,
        parts: &Parts,
    ) -> Result<Result<PreviewPass, AccessDenied>, StoreError> {
        let checked = self
            .first_valid(at, PassPurpose::Cookie, pass_cookies(self.previews.scheme, &parts.headers))
            .await?;
        // Browsers keep responses from pages of other sites, but not the streams of upgrades.
        let cross_site = checked.is_ok() && is_upgrade(parts) && !self.same_sandbox(at, &parts.headers);
        Ok(if cross_site { Err(AccessDenied::OtherSite) } else { checked })
    }

    /// Returns the first valid pass: cookies that a neighbour preview set neither admit nor lock out.
    async fn first_valid(
        &self,
        at: &Preview,
        purpose: PassPurpose,
        texts: impl Iterator<Item = &[u8]>,
    ) -> Result<Result<PreviewPass, AccessDenied>, StoreError> {
        let (mut strongest, mut lookups) = (AccessDenied::NoPass, 0);
        let now_ms = self.clock.now_ms();
        for text in texts {
            let denied = match self.links.check(text, at, purpose, now_ms).await? {
                PassCheck::Valid(pass) => return Ok(Ok(pass)),
                PassCheck::Revoked(_) => {
                    lookups += 1;
                    AccessDenied::Revoked
                }
                PassCheck::Invalid(PassError::Expired) => AccessDenied::Expired,
                PassCheck::Invalid(PassError::OtherPreview) => AccessDenied::OtherPreview,
                PassCheck::Invalid(PassError::Forged | PassError::OtherUse) => AccessDenied::InvalidPass,
            };
            strongest = strongest.max(denied);
            if lookups >= limits::LINK_LOOKUPS_MAX {
                break;
            }
        }
        Ok(Err(strongest))
    }

    /// Whether an upgrade comes from a page of the same sandbox, of any port. Programs send no `Origin`.
    fn same_sandbox(&self, at: &Preview, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return true };
        let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        let from = authority.and_then(|(_, authority)| self.previews.parse(authority));
        from.is_some_and(|from| from.sandbox == at.sandbox) && origins.next().is_none()
    }
}

/// Requests that a redirect does not harm: others would lose their body or their upgrade.
fn is_page_load(parts: &Parts) -> bool {
    matches!(parts.method, Method::GET | Method::HEAD) && !is_upgrade(parts)
}

/// An offer of HTTP/2 does not count: it is never accepted.
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
