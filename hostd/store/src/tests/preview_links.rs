use super::{id, insert, new_sandbox, owner, with_one};
use crate::{ExpiredRows, LinkMade, LinkRecord, Store, limits};
use futures_util::future::join_all;
use hostd_core::{Goal, LinkId, Preview, Transition};
use protocol::api::SandboxId;

fn link(sandbox: SandboxId, expires_ms: u64) -> LinkRecord {
    LinkRecord {
        id: LinkId::generate(),
        preview: Preview { sandbox, port: 3000 },
        created_by: "ann".to_owned(),
        created_ms: 10,
        expires_ms,
        revoked_ms: None,
    }
}

async fn make(store: &Store, link: &LinkRecord) -> LinkMade {
    store.insert_link(link.clone()).await.unwrap()
}

async fn destroy(store: &Store, id: &SandboxId) {
    store
        .transition_sandbox(id, Transition::Accept { goal: Goal::Destroyed, deadline_ms: 9 }, 3)
        .await
        .unwrap();
    store.transition_sandbox(id, Transition::Reached, 4).await.unwrap();
}

#[tokio::test]
async fn a_link_is_live_until_it_expires_or_is_revoked() {
    let (dir, store, sandbox) = with_one().await;
    let (first, second) = (link(sandbox, 100), link(sandbox, 200));
    for link in [&first, &second] {
        assert_eq!(make(&store, link).await, LinkMade::Made);
    }
    let live = async |store: &Store, now_ms| {
        let of = async |link: &LinkRecord| store.link_is_live(link.id, now_ms).await.unwrap();
        (of(&first).await, of(&second).await)
    };
    assert_eq!(live(&store, 99).await, (true, true));
    assert_eq!(live(&store, 100).await, (false, true));
    assert!(!store.link_is_live(LinkId::generate(), 1).await.unwrap());
    assert!(!store.revoke_link(&id(2), second.id, 50).await.unwrap(), "it is of another sandbox");
    assert_eq!(live(&store, 60).await, (true, true));
    for now_ms in [50, 55] {
        assert!(store.revoke_link(&sandbox, second.id, now_ms).await.unwrap());
    }
    assert_eq!(live(&store, 60).await, (true, false));
    store.close().await;
    let store = Store::open(&dir.path().join("slipway.db")).unwrap();
    assert_eq!(live(&store, 60).await, (true, false));
    let revoked = LinkRecord { revoked_ms: Some(50), ..second.clone() };
    let mut expected = vec![first, revoked];
    expected.sort_by_key(|link| std::cmp::Reverse(link.id));
    assert_eq!(store.links(&sandbox, None, 9).await.unwrap(), expected);
    let rest = store.links(&sandbox, Some(expected[0].id), 9).await.unwrap();
    assert_eq!(rest, expected[1..]);
    assert_eq!(store.links(&id(2), None, 9).await.unwrap(), []);
}

#[tokio::test]
async fn links_die_with_their_sandbox() {
    let (_dir, store, sandbox) = with_one().await;
    let link = link(sandbox, 100);
    assert_eq!(make(&store, &link).await, LinkMade::Made);
    destroy(&store, &sandbox).await;
    assert!(!store.link_is_live(link.id, 20).await.unwrap());
    assert_eq!(make(&store, &self::link(sandbox, 100)).await, LinkMade::Gone);
    assert_eq!(make(&store, &self::link(id(9), 100)).await, LinkMade::Gone, "there is no such sandbox");
}

#[tokio::test]
async fn live_links_of_a_sandbox_are_limited() {
    let (_dir, store, sandbox) = with_one().await;
    let all =
        join_all((0..limits::LINKS_OF_SANDBOX_MAX).map(|_| store.insert_link(link(sandbox, 100)))).await;
    assert!(all.iter().all(|made| matches!(made, Ok(LinkMade::Made))));
    assert_eq!(make(&store, &link(sandbox, 100)).await, LinkMade::TooMany);
    insert(&store, new_sandbox(2, None)).await;
    assert_eq!(make(&store, &link(id(2), 100)).await, LinkMade::Made);
    let revoked = store.links(&sandbox, None, 1).await.unwrap()[0].id;
    store.revoke_link(&sandbox, revoked, 5).await.unwrap();
    assert_eq!(make(&store, &link(sandbox, 100)).await, LinkMade::Made);
    let later = LinkRecord { created_ms: 100, ..link(sandbox, 200) };
    assert_eq!(make(&store, &later).await, LinkMade::Made, "those that expired do not count");
}

#[tokio::test]
async fn links_are_deleted_after_their_retention() {
    let (_dir, store, sandbox) = with_one().await;
    let now_ms = 2 * limits::DEAD_LINKS_RETENTION_MS;
    for expires_ms in [100, now_ms - 1, now_ms + 1] {
        make(&store, &link(sandbox, expires_ms)).await;
    }
    let tidied = |links| ExpiredRows { links, ..ExpiredRows::default() };
    assert_eq!(
        store.delete_expired(now_ms, Some(limits::AUDIT_RETENTION_DEFAULT_MS)).await.unwrap(),
        tidied(1)
    );
    destroy(&store, &sandbox).await;
    assert_eq!(
        store.delete_expired(now_ms, Some(limits::AUDIT_RETENTION_DEFAULT_MS)).await.unwrap(),
        tidied(2)
    );
}

#[tokio::test]
async fn the_owner_of_a_sandbox_is_known_without_the_rest_of_it() {
    let (_dir, store, sandbox) = with_one().await;
    assert_eq!(store.owner_of(&sandbox).await.unwrap(), Some(owner()));
    assert_eq!(store.owner_of(&id(2)).await.unwrap(), None);
}
