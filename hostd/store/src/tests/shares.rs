use super::{empty, id, insert, kinds, label, new_sandbox};
use crate::{
    EventFilter, SandboxFilter, ShareChange, ShareMade, SharedFilter, Store, StoreError, Topic, limits,
};
use hostd_core::{Goal, Grantee, Share, Transition};
use protocol::api::{SandboxId, ShareAccess};

fn change(number: u64) -> ShareChange {
    ShareChange { sandbox: id(number), by: "ann".to_owned(), now_ms: 7 }
}

fn with(principal: &str, access: ShareAccess) -> Share {
    Share { grantee: Grantee::Principal(label(principal)), access }
}

async fn share(store: &Store, number: u64, share: Share) {
    let made = store.put_share(change(number), share).await.expect("written");
    assert!(matches!(made, ShareMade::Made(_)), "{made:?}");
}

/// The sandboxes that a principal of acme finds in a list.
async fn listed(store: &Store, principal: &str, shared: SharedFilter) -> Vec<SandboxId> {
    let (tenant, principal) = (Some(label("acme")), Some(label(principal)));
    let filter = SandboxFilter { tenant, principal, shared, ..SandboxFilter::default() };
    store.sandboxes(filter, None, 10).await.expect("a list").into_iter().map(|record| record.id).collect()
}

#[tokio::test]
async fn a_share_is_written_once_and_removed_with_its_event() {
    let (dir, store) = empty();
    insert(&store, new_sandbox(1, None)).await;
    share(&store, 1, with("bob", ShareAccess::Read)).await;
    share(&store, 1, with("bob", ShareAccess::Read)).await;
    share(&store, 1, with("bob", ShareAccess::Run)).await;
    let tenant = Share { grantee: Grantee::Tenant, access: ShareAccess::Read };
    share(&store, 1, tenant.clone()).await;
    let expected = [tenant, with("bob", ShareAccess::Run)];
    assert_eq!(*store.shares().of(&id(1)), expected);
    assert_eq!(
        kinds(&store).await,
        ["sandbox.created", "sandbox.shared", "sandbox.shared", "sandbox.shared"]
    );
    store.close().await;
    let store = Store::open(&dir.path().join("slipway.db")).expect("opened again");
    assert_eq!(*store.shares().of(&id(1)), expected);
    let removed = store.remove_shares(change(1), Some(Grantee::Principal(label("nobody")))).await;
    assert_eq!(removed.expect("written"), 0);
    assert_eq!(store.remove_shares(change(1), None).await.expect("written"), 2);
    assert!(store.shares().of(&id(1)).is_empty());
    assert_eq!(kinds(&store).await[4..], ["sandbox.unshared", "sandbox.unshared"]);
}

#[tokio::test]
async fn lists_and_events_are_those_of_the_principal_and_shared_with_it() {
    let (_dir, store) = empty();
    let mut of_bob = new_sandbox(2, None);
    of_bob.owner.principal = label("bob");
    let mut elsewhere = new_sandbox(3, None);
    elsewhere.owner.tenant = label("other");
    for new in [new_sandbox(1, None), of_bob, elsewhere] {
        insert(&store, new).await;
    }
    share(&store, 1, with("bob", ShareAccess::Read)).await;
    // The same name in another tenant is another principal.
    share(&store, 3, with("bob", ShareAccess::Run)).await;
    share(&store, 3, Share { grantee: Grantee::Tenant, access: ShareAccess::Run }).await;
    let only = || SharedFilter::Only { tenant: label("acme"), principal: label("bob") };
    assert_eq!(listed(&store, "bob", SharedFilter::Without).await, [id(2)]);
    assert_eq!(listed(&store, "bob", SharedFilter::With).await, [id(2), id(1)]);
    let all = SandboxFilter { shared: only(), ..SandboxFilter::default() };
    let found = store.sandboxes(all, None, 10).await.expect("a list");
    assert_eq!(found.iter().map(|record| record.id).collect::<Vec<_>>(), [id(1)]);
    assert_eq!(listed(&store, "eve", SharedFilter::With).await, []);

    let (tenant, principal) = (Some(label("acme")), Some(label("bob")));
    let filter = EventFilter { tenant, principal, ..EventFilter::default() };
    let part = store.log(filter.clone(), 0).await.expect("the log");
    let of = |batches: &[crate::EventBatch]| batches.iter().map(|batch| batch.sandbox).collect::<Vec<_>>();
    assert_eq!(of(&part.batches), [id(1), id(2), id(1)]);
    let everything = store.log(EventFilter::default(), 0).await.expect("the log").batches;
    let admitted: Vec<_> =
        everything.into_iter().filter(|batch| filter.admits(batch, store.shares())).collect();
    assert_eq!(of(&admitted), of(&part.batches), "the feed and the log agree");
}

#[tokio::test]
async fn who_sees_the_event_of_a_share_may_see_the_sandbox() {
    let (_dir, store) = empty();
    insert(&store, new_sandbox(1, None)).await;
    let mut feed = store.subscribe(Topic::All);
    let after = *store.head().borrow();
    let shares = store.shares().clone();
    let seen = tokio::spawn(async move {
        loop {
            let batches = feed.after(after, 1 << 20).expect("in memory");
            if !batches.is_empty() {
                return shares.of(&id(1)).len();
            }
            feed.changed().await;
        }
    });
    share(&store, 1, with("bob", ShareAccess::Read)).await;
    assert_eq!(seen.await.expect("no panic"), 1);
}

#[tokio::test]
async fn shares_are_limited_and_end_with_the_sandbox() {
    let (_dir, store) = empty();
    insert(&store, new_sandbox(1, None)).await;
    for number in 0..limits::SHARES_OF_SANDBOX_MAX {
        share(&store, 1, with(&format!("p{number}"), ShareAccess::Read)).await;
    }
    let more = store.put_share(change(1), with("one-more", ShareAccess::Read)).await;
    assert_eq!(more.expect("read"), ShareMade::TooMany);
    share(&store, 1, with("p7", ShareAccess::Run)).await;
    let destroy = Transition::Accept { goal: Goal::Destroyed, deadline_ms: 9 };
    store.transition_sandbox(&id(1), destroy, 2).await.expect("accepted");
    assert!(!store.shares().of(&id(1)).is_empty(), "until it is destroyed");
    store.transition_sandbox(&id(1), Transition::Reached, 3).await.expect("destroyed");
    assert!(store.shares().of(&id(1)).is_empty());
    assert!(store.share_records(&id(1)).await.expect("read").is_empty());
    let late = store.put_share(change(1), with("bob", ShareAccess::Read)).await;
    assert!(matches!(late, Err(StoreError::Refused(_))), "{late:?}");
}
