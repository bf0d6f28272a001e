use super::{SECRET, id, insert, lines, new_sandbox, new_task, with_one};
use crate::{
    EventFilter, NewSnapshot, RestoreOptions, RestoredRows, Store, TaskBegun, TokenRecord,
    newest_schema_version, prepare_restored,
};
use hostd_core::{Blueprint, Transition};
use protocol::{
    TaskStatus,
    api::{SandboxStatus, SnapshotState, TokenScope},
};
use std::{collections::BTreeSet, fs, sync::Arc};

#[tokio::test]
async fn a_copy_is_one_moment_and_opens_as_a_new_host_finds_it() {
    let (dir, store, sandbox) = with_one().await;
    insert(&store, new_sandbox(2, None)).await;
    store.transition_sandbox(&sandbox, Transition::Reached, 5).await.unwrap();
    let mut tasks = vec![];
    for name in ["runs", "waits"] {
        let TaskBegun::New(task) = store.begin_task(new_task(name)).await.unwrap() else { panic!("{name}") };
        tasks.push(task.number);
    }
    store.mark_task_dispatched(tasks[0]).await.unwrap();
    store.append_task(tasks[0], lines(1..=3)).await.unwrap();
    let owner = new_sandbox(1, None).owner;
    let token = TokenRecord {
        id: "t".into(),
        tenant: owner.tenant.clone(),
        principal: owner.principal.clone(),
        scope: TokenScope::Run,
        created_ms: 1,
        expires_ms: None,
        revoked_ms: None,
    };
    store.insert_token(token, [1; 32]).await.unwrap();
    let (kept, lost) = (snapshot(&store, 7).await, snapshot(&store, 8).await);

    let copy = dir.path().join("copy.db");
    fs::write(&copy, "").unwrap();
    store.copy_to(copy.clone()).await.unwrap();
    assert!(fs::metadata(&copy).unwrap().len() <= store.copy_bytes_max().await.unwrap());
    let newest = store.newest(0).await.unwrap();
    // Later than the copy.
    store.record_event(&sandbox, "later", serde_json::json!({}), 9).await.unwrap();

    let options =
        RestoreOptions { now_ms: 50_000, snapshots: BTreeSet::from([kept]), ..RestoreOptions::default() };
    let rows = prepare_restored(&copy, &options).unwrap();
    let expected = RestoredRows { sandboxes: 2, tasks_ended: 2, snapshots: 1, ..RestoredRows::default() };
    assert_eq!(rows, expected);
    let restored = Store::open(&copy).unwrap();
    for number in 1..=2 {
        let record = restored.sandbox(&id(number)).await.unwrap().expect("it is there");
        assert_eq!((record.state.status, record.state.operation), (SandboxStatus::Stopped, None));
        assert_eq!(record.env.0.all["PASSWORD"], SECRET);
        assert!(
            record.expires_ms.is_some_and(|expires_ms| expires_ms > 50_000),
            "it does not expire at once"
        );
    }
    assert_eq!(restored.open_tasks(None).await.unwrap(), []);
    for number in tasks {
        let task = restored.task_by_number(number).await.unwrap().expect("it is there");
        assert_eq!(task.status, TaskStatus::Failed);
        assert!(task.done_seq.is_some_and(|done| done > newest), "its followers end");
    }
    let events = restored.events(EventFilter::default(), newest, 99).await.unwrap();
    assert!(events.iter().all(|event| event.seq > newest + (1 << 29)), "no number comes twice");
    assert!(events.iter().any(|event| event.kind == "sandbox.restored"));
    let found = restored.snapshot(&kept).await.unwrap().expect("its files are there");
    assert_eq!((found.state, found.content), (SnapshotState::Ready, None));
    assert_eq!(restored.snapshot(&lost).await.unwrap(), None);
    assert_eq!(restored.token("t").await.unwrap().expect("a token").revoked_ms, None);
    restored.close().await;
    let revoke = RestoreOptions { revoke_tokens: true, ..options };
    assert_eq!(prepare_restored(&copy, &revoke).unwrap().tokens_revoked, 1);
    assert!(newest_schema_version() > 0);
}

async fn snapshot(store: &Store, number: u64) -> protocol::api::SnapshotId {
    let new = NewSnapshot {
        id: format!("{number:026}").parse().unwrap(),
        name: None,
        sandbox: None,
        owner: new_sandbox(1, None).owner,
        excludes: vec![],
        blueprint: Arc::new(Blueprint::sample()),
        created_ms: 1,
    };
    let id = new.id;
    store.insert_snapshot_of_backup(new).await.unwrap();
    id
}
