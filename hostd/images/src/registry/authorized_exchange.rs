//! Requests about one image: authorized as its registry wants, and repeated while that may help.
//!
//! ```text
//!  what is known (token, login, nothing) ──▶ 401 with a challenge ──▶ token service, or login ──▶ again, once
//! ```

use super::{
    challenge::Challenge,
    error::{ErrorContext, RegistryError},
    exchange::{BodyError, Exchanged, HttpRequest},
    login::{RegistryLogin, secret_header},
    retry::{is_transient, retry_after_ms, wait_after},
    token::Token,
    token_cache::{Authorization, TokenCache, TokenKey},
    transport::{HttpResponse, Transport, TransportError},
    url::Url,
};
use crate::{ImageReference, limits::TOKEN_RESPONSE_MAX_BYTES};
use hyper::{HeaderMap, Method, StatusCode, header::HeaderValue, header::WWW_AUTHENTICATE};
use std::time::{Instant, SystemTime};
use tokio::time::sleep;
use tracing::warn;
use zeroize::Zeroizing;

/// A request about an image.
pub struct ImageRequest {
    pub method: Method,
    /// Path below the registry.
    pub target: String,
    pub headers: HeaderMap,
    /// What is asked for, for an error message.
    pub what: String,
}

/// Why an attempt failed.
pub enum Failure {
    Transient { why: String, retry_after_ms: Option<u64> },
    Permanent(RegistryError),
}

/// Requests about one image with one login.
pub struct Session<'a> {
    pub transport: &'a Transport,
    pub tokens: &'a TokenCache,
    pub image: &'a ImageReference,
    pub login: Option<&'a RegistryLogin>,
    pub key: TokenKey,
}

impl Session<'_> {
    pub fn errors(&self) -> ErrorContext<'_> {
        ErrorContext { image: self.image }
    }

    /// Returns a response with its whole body.
    pub async fn fetch_document(
        &self,
        request: &ImageRequest,
        max_bytes: u64,
    ) -> Result<(HttpResponse, Option<Vec<u8>>), RegistryError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.attempt_document(request, max_bytes).await {
                Ok(response) => return Ok(response),
                Err(failure) => self.wait_to_retry(failure, attempts).await?,
            }
        }
    }

    /// Waits until another attempt may be made, or returns why there is none.
    pub async fn wait_to_retry(&self, failure: Failure, attempts: u32) -> Result<(), RegistryError> {
        match failure {
            Failure::Permanent(error) => Err(error),
            Failure::Transient { why, retry_after_ms } => {
                let (registry, repository) = (self.image.registry_host(), self.image.repository());
                warn!(registry, repository, attempts, why, "request to an image registry failed");
                match wait_after(attempts, retry_after_ms, &self.transport.waits().backoff) {
                    Some(wait) => sleep(wait).await,
                    None => return Err(self.errors().unavailable(why)),
                }
                Ok(())
            }
        }
    }

    /// The body is none where it is too large.
    async fn attempt_document(
        &self,
        request: &ImageRequest,
        max_bytes: u64,
    ) -> Result<(HttpResponse, Option<Vec<u8>>), Failure> {
        let mut response = self.attempt(request).await?;
        let body = match response.body.collect(max_bytes).await {
            Ok(body) => Some(body),
            Err(BodyError::TooLarge) => None,
            Err(BodyError::Interrupted { why }) => {
                return Err(Failure::Transient { why, retry_after_ms: None });
            }
        };
        Ok((response, body))
    }

    /// Makes one attempt, with at most one new authorization. The status of the response is not one of those that mean
    /// the same for every request.
    pub async fn attempt(&self, request: &ImageRequest) -> Result<HttpResponse, Failure> {
        let known = self.tokens.get(&self.key, Instant::now());
        let mut exchanged = self.exchange(request, &known).await?;
        if exchanged.response.head.status == StatusCode::UNAUTHORIZED && !exchanged.redirected {
            exchanged.response.body.discard().await;
            self.tokens.remove(&self.key);
            let authorization = self.answer_challenge(&exchanged.response, &known).await?;
            exchanged = self.exchange(request, &authorization).await?;
        }
        self.check_status(request, exchanged).await
    }

    async fn exchange(
        &self,
        request: &ImageRequest,
        authorization: &Authorization,
    ) -> Result<Exchanged, Failure> {
        let url = Url::of_registry(self.image, request.target.clone());
        let url = url.map_err(|error| Failure::Permanent(self.errors().unexpected(error.to_string())))?;
        let authorization = match authorization {
            Authorization::Anonymous => None,
            Authorization::Basic => self.login.and_then(RegistryLogin::basic_header),
            Authorization::Bearer(token) => {
                secret_header(&Zeroizing::new(format!("Bearer {}", token.as_str())))
            }
        };
        let (method, headers) = (request.method.clone(), request.headers.clone());
        let request = HttpRequest { method, url, headers, authorization };
        self.transport.exchange(&request).await.map_err(|error| self.failure(error))
    }

    /// Gets what the registry asks for in a response.
    async fn answer_challenge(
        &self,
        response: &HttpResponse,
        known: &Authorization,
    ) -> Result<Authorization, Failure> {
        let unauthorized = || Failure::Permanent(self.errors().unauthorized(self.login.is_some()));
        let headers = response.head.headers.get_all(WWW_AUTHENTICATE);
        let texts = headers.iter().filter_map(|header| header.to_str().ok());
        match Challenge::choose(texts).ok_or_else(unauthorized)? {
            Challenge::Basic if self.login.is_none() || *known == Authorization::Basic => Err(unauthorized()),
            Challenge::Basic => {
                self.tokens.put_basic(&self.key, Instant::now());
                Ok(Authorization::Basic)
            }
            Challenge::Bearer { realm, service } => {
                let realm = response.url.join(&realm).map_err(|error| {
                    let why = format!("its token service has {error}");
                    Failure::Permanent(self.errors().unexpected(why))
                })?;
                let asked = Instant::now();
                let token = self.fetch_token(realm, service.as_deref()).await?;
                self.tokens.put_token(&self.key, &token, asked);
                Ok(Authorization::Bearer(token.text))
            }
        }
    }

    /// Gets a token from a token service, with the login if there is one.
    async fn fetch_token(&self, realm: Url, service: Option<&str>) -> Result<Token, Failure> {
        let scope = format!("repository:{}:pull", self.image.repository());
        let account = self.login.map(|login| ("account", login.username.as_str()));
        let parameters = service.map(|service| ("service", service)).into_iter();
        let parameters: Vec<_> = parameters.chain([("scope", scope.as_str())]).chain(account).collect();
        let request = HttpRequest {
            method: Method::GET,
            url: realm.with_query(&parameters),
            headers: HeaderMap::new(),
            authorization: self.login.and_then(RegistryLogin::basic_header),
        };
        let exchanged = self.transport.exchange(&request).await.map_err(|error| self.failure(error))?;
        let mut response = exchanged.response;
        let body = response.body.collect(TOKEN_RESPONSE_MAX_BYTES).await.map(Zeroizing::new);
        let unexpected = |why: String| Failure::Permanent(self.errors().unexpected(why));
        match (response.head.status, body) {
            (StatusCode::UNAUTHORIZED, _) => {
                Err(Failure::Permanent(self.errors().unauthorized(self.login.is_some())))
            }
            (StatusCode::FORBIDDEN, _) => Err(Failure::Permanent(self.errors().denied())),
            (status, _) if is_transient(status) => Err(refused(&response, "its token service")),
            (status, _) if !status.is_success() => {
                Err(unexpected(format!("its token service answered {}", status.as_u16())))
            }
            (_, Ok(body)) => {
                Token::parse(&body).ok_or_else(|| unexpected("its token service gave no token".to_owned()))
            }
            (_, Err(BodyError::TooLarge)) => Err(unexpected("its token is too large".to_owned())),
            (_, Err(BodyError::Interrupted { why })) => Err(Failure::Transient { why, retry_after_ms: None }),
        }
    }

    /// Deals with the statuses that mean the same for every request.
    async fn check_status(
        &self,
        request: &ImageRequest,
        exchanged: Exchanged,
    ) -> Result<HttpResponse, Failure> {
        let Exchanged { mut response, redirected } = exchanged;
        let status = response.head.status;
        let errors = self.errors();
        let failure = match status {
            // A content server refuses a signature that has expired: the registry gives a new one.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if redirected => {
                refused(&response, "its content server")
            }
            StatusCode::UNAUTHORIZED => {
                self.tokens.remove(&self.key);
                Failure::Permanent(errors.unauthorized(self.login.is_some()))
            }
            StatusCode::FORBIDDEN => Failure::Permanent(errors.denied()),
            StatusCode::NOT_FOUND => Failure::Permanent(errors.not_found(request.what.clone())),
            _ if is_transient(status) => refused(&response, "it"),
            _ => return Ok(response),
        };
        response.body.discard().await;
        Err(failure)
    }

    fn failure(&self, error: TransportError) -> Failure {
        match error {
            TransportError::NotAllowed { why } => Failure::Permanent(self.errors().not_allowed(why)),
            TransportError::Transient { why } => Failure::Transient { why, retry_after_ms: None },
            TransportError::Unreachable { why } => Failure::Permanent(self.errors().unreachable(why)),
            TransportError::BadRedirect { why } => Failure::Permanent(self.errors().unexpected(why)),
        }
    }
}

/// A response with a status that may pass.
fn refused(response: &HttpResponse, who: &str) -> Failure {
    let status = response.head.status;
    let why = match status {
        StatusCode::TOO_MANY_REQUESTS => format!("{who} limits the rate of requests (429)"),
        _ => format!("{who} answered {}", status.as_u16()),
    };
    Failure::Transient { why, retry_after_ms: retry_after_ms(&response.head.headers, SystemTime::now()) }
}

/// Returns a header as text.
pub fn header_text(headers: &HeaderMap, name: impl hyper::header::AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok())
}
