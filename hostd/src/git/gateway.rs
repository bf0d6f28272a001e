//! Serves git in sandboxes: finds the grant, checks a push, adds the credential, forwards and streams.

use super::{
    bodies::{DownloadBody, Transfer, UploadBody},
    failure::GitFailure,
    grants::{GitAccess, GitGrant, Grant, GrantError, GrantRequest, Grants, hash, reached, url_inside},
    headers::{basic, request_headers, response_headers},
    limits::{RECORDING_MAX_MS, REDIRECTS_MAX, REFUSAL_DELAY_MS},
    route::{GitRequest, route},
    token_hook::{TokenHook, TokenHookSettings, TokenRequest},
    upstream::{self, UpstreamResponse},
};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use hostd_core::{
    AdvertisedBranch, GitRemote, PUSH_COMMANDS_MAX_BYTES, PushCommands, PushRefused, check_push_commands,
    login_of, pushed_commit,
};
use hostd_edge::egress::SandboxEgress;
use hostd_net::outbound::OutboundConnector;
use hostd_store::{Clock, SecretError, SecretValue, Secrets, Store};
use http_body_util::BodyExt;
use hyper::{
    HeaderMap, Request, Response, StatusCode, Uri,
    body::Incoming,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, LOCATION},
};
use protocol::api::{SecretName, SecretRef};
use serde_json::json;
use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, timeout},
};
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

/// The gateway, shared by all sandboxes. Cheap to clone.
#[derive(Clone)]
pub struct GitGateway {
    pub(super) inner: Arc<GatewayInner>,
}

/// What the operator configured.
#[derive(Debug, Default)]
pub struct GitSettings {
    pub token_hook: Option<TokenHookSettings>,
    /// The file of host keys of SSH servers.
    pub known_hosts: PathBuf,
}

pub(super) struct GatewayInner {
    pub(super) grants: Grants,
    store: Store,
    secrets: Secrets,
    pub(super) connector: OutboundConnector,
    /// The file of host keys of SSH servers.
    pub(super) known_hosts: PathBuf,
    clock: Clock,
    token_hook: Option<TokenHook>,
    /// Tasks that record the end of an operation.
    tracker: TaskTracker,
}

impl GitGateway {
    pub fn new(
        store: Store,
        secrets: Secrets,
        connector: OutboundConnector,
        clock: Clock,
        settings: GitSettings,
    ) -> Self {
        let (grants, tracker) = (Grants::default(), TaskTracker::new());
        let GitSettings { token_hook, known_hosts } = settings;
        let token_hook = token_hook.map(TokenHook::new);
        let inner =
            GatewayInner { grants, store, secrets, connector, known_hosts, clock, token_hook, tracker };
        Self { inner: Arc::new(inner) }
    }

    /// Lets a sandbox speak to one repository until the grant is dropped.
    pub async fn grant(&self, request: GrantRequest<'_>) -> Result<GitGrant, GrantError> {
        let has_key = self.inner.has_key(&request).await?;
        let reached = reached(request.remote, request.auth.as_ref(), has_key)?;
        let (token, grant) = self.inner.grants.insert(reached, request, Instant::now())?;
        let (url_inside, token_hash) = (url_inside(&grant.remote, &token), hash(&token));
        Ok(GitGrant { url_inside, grant, token_hash, gateway: self.clone() })
    }

    /// Ends a grant, and records the operation.
    pub(super) fn end(&self, token_hash: &[u8; 32], grant: &Arc<Grant>) {
        self.inner.grants.revoke(token_hash);
        let (inner, grant) = (self.inner.clone(), grant.clone());
        // Without a runtime hostd has ended.
        if let Ok(runtime) = Handle::try_current() {
            self.inner.tracker.spawn_on(async move { inner.record(&grant).await }, &runtime);
        }
    }

    /// Waits until the operations that ended are recorded.
    pub async fn finish(&self) {
        self.inner.tracker.close();
        if timeout(Duration::from_millis(RECORDING_MAX_MS), self.inner.tracker.wait()).await.is_err() {
            warn!("git operations that ended are not recorded yet");
        }
    }

    /// Answers a request below `/git/` that came through the listener of this sandbox.
    pub async fn serve(&self, egress: &Arc<SandboxEgress>, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let Some((token, asked)) = route(&head.method, &head.uri) else {
            return refused(StatusCode::NOT_FOUND, "unknown git gateway path");
        };
        let Some(grant) = self.inner.grants.find(&egress.id(), token, Instant::now()) else {
            sleep(Duration::from_millis(REFUSAL_DELAY_MS)).await;
            return refused(GitFailure::Ended.status(), &GitFailure::Ended.message());
        };
        if grant.remote.is_ssh() {
            return refused(StatusCode::NOT_FOUND, "there is no such path here");
        }
        let transfer = Transfer::new(grant.clone(), egress.clone());
        let exchange = Box::pin(async {
            let place = transfer.grant.admit().await?;
            let answered = self.inner.exchange(&transfer, asked, &head.headers, body).await?;
            Ok((answered, place))
        });
        let answered = tokio::select! {
            answered = exchange => answered,
            // Dropping the exchange closes its connection.
            failure = transfer.clone().until_cut() => Err(failure),
        };
        match answered {
            Ok((UpstreamResponse { head, body, window }, place)) => {
                let branch = advertised_branch(&grant, asked);
                let mut response = Response::new(Body::new(DownloadBody::new(body, transfer, branch, place)));
                *response.headers_mut() = response_headers(&head.headers);
                response.extensions_mut().insert(window);
                response
            }
            Err(failure) => {
                debug!(sandbox = %grant.sandbox, remote = %grant.remote, %failure, "git request failed");
                grant.note_failure(&failure);
                refused(failure.status(), &failure.message())
            }
        }
    }
}

impl GatewayInner {
    /// Whether the tenant has a key for the SSH server of a remote.
    async fn has_key(&self, request: &GrantRequest<'_>) -> Result<bool, GrantError> {
        if !request.remote.is_ssh() || request.auth.is_some() {
            return Ok(false);
        }
        let Ok(name) = SecretName::parse(&request.remote.secret_name()) else { return Ok(false) };
        let found = self.store.secret(request.tenant, &name).await;
        Ok(found.map_err(|error| GrantError::Store(error.to_string()))?.is_some())
    }

    /// Checks that the sandbox may use the network further.
    pub(super) async fn admit(egress: &SandboxEgress) -> Result<(), GitFailure> {
        let unread = |_| GitFailure::Denied("hostd could not read the network use of the sandbox".to_owned());
        egress.load().await.map_err(unread)?;
        // Loads the quota too.
        egress.policy();
        match egress.exceeded_quota() {
            Some(max_bytes) => Err(GitFailure::TooLarge { max_bytes }),
            None => Ok(()),
        }
    }

    async fn exchange(
        &self,
        transfer: &Arc<Transfer>,
        asked: GitRequest,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Result<UpstreamResponse, GitFailure> {
        let (grant, egress) = (&transfer.grant, &transfer.egress);
        asked.service().check(&grant.access)?;
        Self::admit(egress).await?;
        let authorization = self.authorization(grant, egress).await?;
        match asked {
            GitRequest::Refs(_) => self.refs(transfer, asked, headers, authorization.as_ref()).await,
            GitRequest::Call(_) => {
                let (body, commit) = checked_upload(transfer, headers, body).await?;
                let request = to_server(transfer, asked, headers, authorization.as_ref())?.map(|()| body);
                let response = upstream::send(&self.connector, transfer, request).await?;
                let response = accepted(grant, asked, response, authorization.is_some())?;
                if let Some(commit) = commit {
                    grant.note_on_server(commit);
                }
                Ok(response)
            }
        }
    }

    /// Asks for the refs, and follows redirects within the server: a repository may have been renamed.
    async fn refs(
        &self,
        transfer: &Arc<Transfer>,
        asked: GitRequest,
        headers: &HeaderMap,
        authorization: Option<&HeaderValue>,
    ) -> Result<UpstreamResponse, GitFailure> {
        let grant = &transfer.grant;
        for _ in 0..=REDIRECTS_MAX {
            let body = UploadBody::empty(transfer.clone());
            let request = to_server(transfer, asked, headers, authorization)?.map(|()| body);
            let response = upstream::send(&self.connector, transfer, request).await?;
            if !is_redirect(response.head.status) {
                return accepted(grant, asked, response, authorization.is_some());
            }
            let location = response.head.headers.get(LOCATION).and_then(|value| value.to_str().ok());
            grant.set_path(redirected_path(&grant.remote, asked, location.unwrap_or_default())?);
        }
        Err(GitFailure::NotGit { remote: grant.remote.to_string() })
    }

    /// Returns the header with the credential, read from its secret now.
    async fn authorization(
        &self,
        grant: &Grant,
        egress: &SandboxEgress,
    ) -> Result<Option<HeaderValue>, GitFailure> {
        let Some((_, value)) = self.secret(grant, egress).await? else {
            return self.minted(grant, egress).await;
        };
        let (user, password) = login_of(value.as_str(), grant.remote.provider());
        Ok(basic(user, password))
    }

    /// Returns the secret with the credential: the one that the operation names, else that of the server if there is one.
    pub(super) async fn secret(
        &self,
        grant: &Grant,
        egress: &SandboxEgress,
    ) -> Result<Option<(SecretName, SecretValue)>, GitFailure> {
        let tenant = egress.record().owner.tenant.clone();
        let Some(reference) = secret_of(grant) else { return Ok(None) };
        let value = match self.secrets.resolve(&tenant, &reference).await {
            Ok(value) => value,
            Err(SecretError::Missing { .. }) if grant.auth.is_none() => return Ok(None),
            Err(error) => return Err(GitFailure::Secret(error.to_string())),
        };
        self.secrets.note_use(&tenant, &reference, self.clock.now_ms());
        grant.note_used(&reference);
        Ok(Some((reference.name().clone(), value)))
    }

    /// Returns the header with a token of the hook, minted once for an operation; none where the hook has none.
    async fn minted(&self, grant: &Grant, egress: &SandboxEgress) -> Result<Option<HeaderValue>, GitFailure> {
        let Some(hook) = self.token_hook.as_ref().filter(|hook| hook.serves(&grant.remote)) else {
            return Ok(None);
        };
        let (owner, sandbox) = (egress.record().owner.clone(), grant.sandbox.to_string());
        let (access, branch) = match &grant.access {
            GitAccess::Fetch => ("fetch", None),
            GitAccess::Push { branch } => ("push", Some(branch.as_str())),
        };
        let request = TokenRequest {
            tenant: owner.tenant.as_str(),
            principal: owner.principal.as_str(),
            project: owner.project.as_str(),
            sandbox: &sandbox,
            server: &grant.remote.host_header(),
            repository: grant.remote.path(),
            access,
            branch,
        };
        let minted = grant.minted.get_or_try_init(|| hook.mint(&request)).await;
        let value = minted.map_err(|error| GitFailure::Secret(error.to_string()))?;
        let Some(value) = value else { return Ok(None) };
        let (user, password) = login_of(value.as_str(), grant.remote.provider());
        Ok(basic(user, password))
    }

    /// Records an operation that has ended as an event of the sandbox.
    async fn record(&self, grant: &Grant) {
        let kind = match grant.access {
            GitAccess::Fetch => "git.fetch",
            GitAccess::Push { .. } => "git.push",
        };
        let branch = match &grant.access {
            GitAccess::Fetch => None,
            GitAccess::Push { branch } => Some(branch.as_str()),
        };
        let data = json!({
            "remote": grant.remote.to_string(),
            "branch": branch,
            "secret": grant.used().as_ref().map(|used| used.name().as_str()),
            "bytes_up": grant.bytes_up.load(Relaxed),
            "bytes_down": grant.bytes_down.load(Relaxed),
            "error": grant.failure().map(|failure| failure.message()),
        });
        let recorded = self.store.record_event(&grant.sandbox, kind, data, self.clock.now_ms()).await;
        if let Err(error) = recorded {
            warn!(sandbox = %grant.sandbox, %error, "failed to record a git operation");
        }
    }
}

/// The secret that the operation names, else that of the server.
fn secret_of(grant: &Grant) -> Option<SecretRef> {
    let of_server = || SecretName::parse(&grant.remote.secret_name()).ok().map(SecretRef::new);
    grant.auth.clone().or_else(of_server)
}

/// Returns what finds the branch of a push among the refs that the server is asked for.
fn advertised_branch(grant: &Grant, asked: GitRequest) -> Option<AdvertisedBranch> {
    match (&grant.access, asked) {
        (GitAccess::Push { branch }, GitRequest::Refs(_)) => Some(AdvertisedBranch::new(branch)),
        (GitAccess::Push { .. }, GitRequest::Call(_)) | (GitAccess::Fetch, _) => None,
    }
}

/// Reads the commands of a push, and checks that it changes the branch of its grant only. Returns the commit that it is
/// set to, if there is a command.
async fn checked_upload(
    transfer: &Arc<Transfer>,
    headers: &HeaderMap,
    mut body: Incoming,
) -> Result<(UploadBody, Option<String>), GitFailure> {
    let GitAccess::Push { branch } = &transfer.grant.access else {
        return Ok((UploadBody::new(Bytes::new(), body, transfer.clone()), None));
    };
    // Compressed commands could not be checked. git compresses fetches only.
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(PushRefused::Unsupported { what: "compression" }.into());
    }
    let mut read = BytesMut::new();
    loop {
        let Some(frame) = body.frame().await else { return Err(PushRefused::Malformed.into()) };
        let frame = frame.map_err(|_| PushRefused::Malformed)?;
        read.extend_from_slice(&frame.into_data().unwrap_or_default());
        let commands = &read[..read.len().min(PUSH_COMMANDS_MAX_BYTES)];
        match check_push_commands(commands, branch)? {
            PushCommands::Allowed => {
                let commit = pushed_commit(&read);
                return Ok((UploadBody::new(read.freeze(), body, transfer.clone()), commit));
            }
            PushCommands::Incomplete => {}
        }
    }
}

fn to_server(
    transfer: &Transfer,
    asked: GitRequest,
    headers: &HeaderMap,
    authorization: Option<&HeaderValue>,
) -> Result<Request<()>, GitFailure> {
    let grant = &transfer.grant;
    let malformed = || GitFailure::NotGit { remote: grant.remote.to_string() };
    let target: Uri = format!("{}{}", grant.path(), asked.target()).parse().map_err(|_| malformed())?;
    let host = HeaderValue::from_str(&grant.remote.host_header()).map_err(|_| malformed())?;
    let mut request = Request::new(());
    *request.method_mut() = asked.method();
    *request.uri_mut() = target;
    *request.headers_mut() = request_headers(headers, host, authorization);
    if let GitRequest::Refs(_) = asked {
        // The gateway reads the refs that the server has.
        request.headers_mut().remove(ACCEPT_ENCODING);
    }
    Ok(request)
}

/// Returns the response if it is one of a git server that did what it was asked.
fn accepted(
    grant: &Grant,
    asked: GitRequest,
    response: UpstreamResponse,
    had_credential: bool,
) -> Result<UpstreamResponse, GitFailure> {
    let (server, remote) = (grant.remote.host_header(), grant.remote.to_string());
    match response.head.status {
        StatusCode::OK => {}
        status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            let secret =
                secret_of(grant).map_or_else(|| grant.remote.secret_name(), |it| it.name().to_string());
            let remedy = match had_credential {
                true if grant.minted.get().is_some_and(Option::is_some) => {
                    format!("the token of this host's hook may not do this at {remote}; ask its operator")
                }
                true => format!("check the value of the secret {secret} and what it may do at {remote}"),
                false => format!("set one with `slipway secret set {secret}`"),
            };
            return Err(GitFailure::AuthFailed {
                server,
                why: format!("status {}", status.as_u16()),
                remedy,
            });
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => return Err(GitFailure::NotFound { remote }),
        status if is_redirect(status) => {
            return Err(GitFailure::Redirected { server, to: "another address in the middle".to_owned() });
        }
        status => {
            return Err(GitFailure::Unreachable(format!(
                "{server} answered with the status {}",
                status.as_u16()
            )));
        }
    }
    let kind = response.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_git = kind.is_some_and(|kind| kind.eq_ignore_ascii_case(&asked.response_type()));
    if is_git { Ok(response) } else { Err(GitFailure::NotGit { remote }) }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Returns the path of the repository that a redirect points to, if that is on the same server.
pub(super) fn redirected_path(
    remote: &GitRemote,
    asked: GitRequest,
    location: &str,
) -> Result<String, GitFailure> {
    let server = remote.host_header();
    let repository = location.strip_suffix(&asked.target());
    let whole = match repository {
        Some(path) if path.starts_with('/') && !path.starts_with("//") => {
            let scheme = if remote.is_secure() { "https" } else { "http" };
            format!("{scheme}://{server}{path}")
        }
        _ => repository.unwrap_or_default().to_owned(),
    };
    match GitRemote::parse(&whole) {
        Ok(to) if to.server() == remote.server() && to.transport() == remote.transport() => {
            Ok(to.path().to_owned())
        }
        Ok(to) => Err(GitFailure::Redirected { server, to: to.host_header() }),
        Err(_) => Err(GitFailure::NotGit { remote: remote.to_string() }),
    }
}

/// A refusal that git shows to its user.
fn refused(status: StatusCode, message: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{message}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}
