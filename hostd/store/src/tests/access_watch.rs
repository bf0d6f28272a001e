use super::{empty, insert, label, new_sandbox, owner};
use crate::{
    Clock, ShareChange, Store, TokenRecord,
    access_watch::{AccessEnd, AccessWatch},
    token_auth::{self, operator},
};
use futures_util::FutureExt;
use hostd_core::{Grantee, Identity, Share, token_hash};
use protocol::api::{SandboxId, ShareAccess, TokenScope};
use std::time::Duration;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

async fn token(store: &Store, id: &str, expires_ms: Option<u64>) -> Identity {
    let record = TokenRecord {
        id: id.to_owned(),
        tenant: label("acme"),
        principal: label("bob"),
        scope: TokenScope::Run,
        created_ms: 0,
        expires_ms,
        revoked_ms: None,
    };
    store.insert_token(record, token_hash(id)).await.expect("written");
    let found = token_auth::authenticate(store, &[0; 32], id, 0).await;
    found.expect("read").expect("a token")
}

fn watch_of(store: &Store, caller: Identity, clock: Clock) -> AccessWatch {
    AccessWatch::new(store.clone(), caller, clock, store.token_revocations())
}

async fn ended(watch: &AccessWatch, sandbox: &SandboxId) -> AccessEnd {
    let ended = watch.ended(|| watch.access_to(sandbox, &owner()).is_none());
    timeout(PATIENCE, ended).await.expect("it ends")
}

#[tokio::test]
async fn access_ends_with_the_share_and_with_the_token() {
    let (_dir, store) = empty();
    let (sandbox, clock) = (insert(&store, new_sandbox(1, None)).await.id, Clock::new());
    let change = || ShareChange { sandbox, by: "ann".to_owned(), now_ms: 7 };
    let share = |access| Share { grantee: Grantee::Principal(label("bob")), access };
    store.put_share(change(), share(ShareAccess::Run)).await.expect("shared");
    let lasting = watch_of(&store, token(&store, "lasting", None).await, clock);
    let revoked = watch_of(&store, token(&store, "revoked", None).await, clock);
    let short = token(&store, "short", Some(clock.now_ms() + 50)).await;
    let above = watch_of(&store, operator("socket:0".to_owned()), clock);
    let mut open = Box::pin(ended(&lasting, &sandbox));
    assert!(open.as_mut().now_or_never().is_none());
    assert_eq!(ended(&watch_of(&store, short, clock), &sandbox).await, AccessEnd::TokenExpired);
    store.put_share(change(), share(ShareAccess::Read)).await.expect("shared");
    store.revoke_token("revoked", 1).await.expect("revoked");
    assert_eq!(ended(&revoked, &sandbox).await, AccessEnd::TokenRevoked);
    assert!(open.as_mut().now_or_never().is_none(), "still shared, and another token");
    store.remove_shares(change(), None).await.expect("unshared");
    assert_eq!(open.await, AccessEnd::Unshared);
    assert!(above.ended(|| true).now_or_never().is_none(), "the operator has every access");
}
