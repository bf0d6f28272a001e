//! Grants: the right of one sandbox to speak to one repository, for one operation.
//!
//! ```text
//!  grant ──▶ valid: the token opens the gateway from its own sandbox ──▶ dropped, or the deadline ──▶ requests in
//!                                                                                                     flight end
//! ```

use super::{
    failure::GitFailure,
    gateway::GitGateway,
    limits::{
        GRANT_REQUESTS_AT_ONCE, GRANT_REQUESTS_MAX, GRANTS_OF_SANDBOX_MAX, OPERATION_MAX_MS, TOKEN_BYTES,
        TRANSFER_MAX_BYTES,
    },
    route::REPOSITORY,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hostd_core::{BranchName, GitRemote};
use hostd_store::SecretValue;
use protocol::{
    HOSTD_PORT_IN_SANDBOX,
    api::{Label, SandboxId, SecretRef},
};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::{OnceCell, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// What an operation may do at its repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitAccess {
    Fetch,
    /// Changes this branch, and no other ref.
    Push {
        branch: BranchName,
    },
}

/// An operation that needs a repository on a server.
pub struct GrantRequest<'a> {
    pub sandbox: SandboxId,
    /// Of the sandbox.
    pub tenant: &'a Label,
    pub remote: &'a GitRemote,
    /// The secret with the credential. Without one it is the secret `ssh.HOST` or `git.HOST` of the tenant, if there is
    /// one.
    pub auth: Option<SecretRef>,
    pub access: GitAccess,
    /// How long the operation may take.
    pub within: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    #[error(
        "{remote} is reached with SSH and there is no key: set one with `slipway secret set {secret}`, or use its https:// address"
    )]
    NoKey { remote: String, secret: String },
    #[error(
        "the secret {secret} is not for this server: a credential for {remote} has the name {wanted} or {labelled}"
    )]
    SecretOfOtherServer { secret: String, remote: String, wanted: String, labelled: String },
    #[error("this sandbox has {GRANTS_OF_SANDBOX_MAX} operations on servers already: wait for one to end")]
    TooMany,
    #[error("could not generate a token: {0}")]
    Random(String),
    #[error("could not look for a key: {0}")]
    Store(String),
}

/// The shared state of a grant.
pub(super) struct Grant {
    pub sandbox: SandboxId,
    pub remote: GitRemote,
    pub auth: Option<SecretRef>,
    pub access: GitAccess,
    pub deadline: Instant,
    /// The token of the hook, where one was asked for.
    pub minted: OnceCell<Option<SecretValue>>,
    /// Cancelled when the operation has ended.
    pub ended: CancellationToken,
    /// The path of the repository, as a redirect within its server may have changed it.
    path: Mutex<String>,
    failure: Mutex<Option<GitFailure>>,
    /// The secret whose value was sent to the server.
    used: Mutex<Option<SecretRef>>,
    /// The commit that the server has at the branch of a push, as far as it passed the gateway.
    on_server: Mutex<Option<String>>,
    /// Requests so far, and permits of those at once.
    requests: AtomicU64,
    places: Arc<Semaphore>,
    pub bytes_up: AtomicU64,
    pub bytes_down: AtomicU64,
}

impl Grant {
    pub fn path(&self) -> String {
        lock(&self.path).clone()
    }

    pub fn set_path(&self, path: String) {
        *lock(&self.path) = path;
    }

    /// Notes why a request failed. The first reason is kept: others follow from it.
    pub fn note_failure(&self, failure: &GitFailure) {
        lock(&self.failure).get_or_insert_with(|| failure.clone());
    }

    pub fn failure(&self) -> Option<GitFailure> {
        lock(&self.failure).clone()
    }

    pub fn note_used(&self, secret: &SecretRef) {
        *lock(&self.used) = Some(secret.clone());
    }

    pub fn used(&self) -> Option<SecretRef> {
        lock(&self.used).clone()
    }

    /// Notes what the server advertised, or accepted, as the commit of the branch.
    pub fn note_on_server(&self, commit: String) {
        *lock(&self.on_server) = Some(commit);
    }

    /// Waits until the grant may have another request.
    pub async fn admit(&self) -> Result<OwnedSemaphorePermit, GitFailure> {
        if self.requests.fetch_add(1, Relaxed) >= GRANT_REQUESTS_MAX {
            return Err(GitFailure::Denied(format!(
                "one git operation sends at most {GRANT_REQUESTS_MAX} requests"
            )));
        }
        Ok(self.places.clone().acquire_owned().await.expect("never closed"))
    }

    /// Counts bytes of one direction, and checks the limit of both.
    pub fn count(&self, direction: &AtomicU64, bytes: u64) -> Result<(), GitFailure> {
        direction.fetch_add(bytes, Relaxed);
        let both = self.bytes_up.load(Relaxed).saturating_add(self.bytes_down.load(Relaxed));
        match both <= TRANSFER_MAX_BYTES {
            true => Ok(()),
            false => Err(GitFailure::TooLarge { max_bytes: TRANSFER_MAX_BYTES }),
        }
    }

    pub fn is_over(&self, now: Instant) -> bool {
        self.ended.is_cancelled() || now >= self.deadline
    }
}

type Table = HashMap<[u8; 32], Arc<Grant>>;

/// All grants, by the hash of their token.
#[derive(Clone, Default)]
pub(super) struct Grants(Arc<Mutex<Table>>);

impl Grants {
    /// Returns the grant of a token, if it is valid in this sandbox.
    pub fn find(&self, sandbox: &SandboxId, token: &str, now: Instant) -> Option<Arc<Grant>> {
        let found = lock(&self.0).get(&hash(token)).cloned()?;
        (found.sandbox == *sandbox && !found.is_over(now)).then_some(found)
    }

    /// Makes a grant for a remote as it is `reached`.
    pub fn insert(
        &self,
        remote: GitRemote,
        request: GrantRequest<'_>,
        now: Instant,
    ) -> Result<(String, Arc<Grant>), GrantError> {
        let GrantRequest { sandbox, auth, access, within, .. } = request;
        let token = random_token()?;
        let grant = Arc::new(Grant {
            sandbox,
            path: Mutex::new(remote.path().to_owned()),
            remote,
            auth,
            access,
            deadline: now + within.min(Duration::from_millis(OPERATION_MAX_MS)),
            minted: OnceCell::new(),
            ended: CancellationToken::new(),
            failure: Mutex::default(),
            used: Mutex::default(),
            on_server: Mutex::default(),
            requests: AtomicU64::new(0),
            places: Arc::new(Semaphore::new(GRANT_REQUESTS_AT_ONCE)),
            bytes_up: AtomicU64::new(0),
            bytes_down: AtomicU64::new(0),
        });
        let mut table = lock(&self.0);
        if table.values().filter(|each| each.sandbox == sandbox).count() >= GRANTS_OF_SANDBOX_MAX {
            return Err(GrantError::TooMany);
        }
        table.insert(hash(&token), grant.clone());
        Ok((token, grant))
    }

    pub fn revoke(&self, token_hash: &[u8; 32]) {
        if let Some(grant) = lock(&self.0).remove(token_hash) {
            grant.ended.cancel();
        }
    }
}

/// Returns the repository as it is reached: with SSH or over HTTP. A secret for another server is refused.
pub(super) fn reached(
    remote: &GitRemote,
    auth: Option<&SecretRef>,
    has_key: bool,
) -> Result<GitRemote, GrantError> {
    let name = auth.map(|auth| auth.name().as_str());
    if let Some(secret) = name.filter(|name| !remote.accepts_any_secret(name)) {
        return Err(GrantError::SecretOfOtherServer {
            secret: secret.to_owned(),
            remote: remote.to_string(),
            wanted: remote.secret_name(),
            labelled: remote.labelled_secret_name(),
        });
    }
    let no_key = || GrantError::NoKey { remote: remote.to_string(), secret: remote.secret_name() };
    remote.reached(name, has_key).ok_or_else(no_key)
}

/// A valid grant. It ends, with all that is in flight, when this is dropped.
pub struct GitGrant {
    /// The address of the repository for git in the sandbox.
    pub url_inside: String,
    pub(super) grant: Arc<Grant>,
    pub(super) token_hash: [u8; 32],
    pub(super) gateway: GitGateway,
}

impl GitGrant {
    /// Returns why the operation failed, if it failed at the gateway or at the server.
    pub fn failure(&self) -> Option<GitFailure> {
        self.grant.failure()
    }

    /// Whether the server has this commit at the branch of a push, as the gateway saw it: git in the sandbox may say
    /// anything.
    pub fn is_on_server(&self, commit: &str) -> bool {
        lock(&self.grant.on_server).as_deref() == Some(commit)
    }

    /// Returns the repository as it is reached.
    pub fn remote(&self) -> &GitRemote {
        &self.grant.remote
    }
}

impl Drop for GitGrant {
    fn drop(&mut self) {
        self.gateway.end(&self.token_hash, &self.grant);
    }
}

pub(super) fn url_inside(remote: &GitRemote, token: &str) -> String {
    match remote.is_ssh() {
        true => format!("git://127.0.0.1:{HOSTD_PORT_IN_SANDBOX}/{token}/{REPOSITORY}"),
        false => format!("http://127.0.0.1:{HOSTD_PORT_IN_SANDBOX}/git/{token}/{REPOSITORY}"),
    }
}

pub(super) fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

fn random_token() -> Result<String, GrantError> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| GrantError::Random(error.to_string()))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
