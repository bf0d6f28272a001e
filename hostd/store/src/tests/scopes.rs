use super::{empty, id, insert, label, new_sandbox};
use crate::{SandboxFilter, StoreError};
use hostd_core::{Goal, Transition};
use protocol::api::{AttemptRelation, SandboxScope, ScopeKind};

fn inner() -> SandboxScope {
    SandboxScope { kind: ScopeKind::SharedProjectUser, key: None }
}

fn conversation(key: &str) -> SandboxScope {
    SandboxScope { kind: ScopeKind::Conversation, key: Some(label(key)) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_at_once_one_gets_the_scope() {
    for scope in [inner(), conversation("c1")] {
        let (_dir, store) = empty();
        let tasks: Vec<_> = (1..=50)
            .map(|number| {
                let (store, new) = (store.clone(), new_sandbox(number, Some(scope.clone())));
                tokio::spawn(async move { store.insert_sandbox(new, AttemptRelation::Create).await })
            })
            .collect();
        let (mut won, mut lost) = (Vec::new(), Vec::new());
        for task in tasks {
            match task.await.unwrap() {
                Ok(record) => won.push(record.id),
                Err(StoreError::ScopeTaken { existing }) => lost.push(existing),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!((won.len(), lost.len()), (1, 49));
        assert!(lost.iter().all(|existing| *existing == won[0]));
        let filter = SandboxFilter { scope: Some(scope), ..SandboxFilter::default() };
        assert_eq!(store.sandboxes(filter, None, 10).await.unwrap()[0].id, won[0]);
        // The losers left no events behind.
        assert_eq!(super::kinds(&store).await, ["sandbox.created"]);
    }
}

#[tokio::test]
async fn a_destroyed_sandbox_frees_its_scope() {
    let (_dir, store) = empty();
    insert(&store, new_sandbox(1, Some(inner()))).await;
    store
        .transition_sandbox(&id(1), Transition::Accept { goal: Goal::Destroyed, deadline_ms: 9 }, 2)
        .await
        .unwrap();
    let early = store.insert_sandbox(new_sandbox(2, Some(inner())), AttemptRelation::Create).await;
    assert!(matches!(early, Err(StoreError::ScopeTaken { existing }) if existing == id(1)));
    store.transition_sandbox(&id(1), Transition::Reached, 3).await.unwrap();
    insert(&store, new_sandbox(2, Some(inner()))).await;
}

#[tokio::test]
async fn other_owners_kinds_and_keys_are_other_scopes() {
    let (_dir, store) = empty();
    let mut all = vec![
        new_sandbox(1, Some(inner())),
        new_sandbox(2, Some(conversation("c1"))),
        new_sandbox(3, Some(conversation("c2"))),
        new_sandbox(4, None),
        new_sandbox(5, None),
    ];
    for number in 6..=8 {
        all.push(new_sandbox(number, Some(inner())));
    }
    all[5].owner.tenant = label("other");
    all[6].owner.principal = label("bob");
    all[7].owner.project = label("another");
    for new in all {
        insert(&store, new).await;
    }
}
