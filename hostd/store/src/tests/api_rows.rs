use super::{empty, label, with_one};
use crate::{
    AuditFilter, AuditOutcome, AuditRecord, ExecBegun, ExecEnd, ExecRecord, ExpiredRows, IdempotencyClaim,
    IdempotencyKey, Store, StoreError, TokenRecord, limits,
};
use hostd_core::{Goal, Transition};
use protocol::{ExecId, Exit, api::TokenScope};

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey {
        tenant: label("acme"),
        principal: label("ann"),
        route: "POST /x".to_owned(),
        key: text.to_owned(),
    }
}

#[tokio::test]
async fn a_key_is_claimed_once_replayed_and_expires_after_a_day() {
    let (_dir, store) = empty();
    let begin = async |key, hash, now_ms| store.idempotency_begin(key, [hash; 32], now_ms).await.unwrap();
    assert_eq!(begin(key("k"), 1, 10).await, IdempotencyClaim::New);
    assert_eq!(begin(key("k"), 1, 11).await, IdempotencyClaim::Unfinished { since_ms: 10 });
    assert_eq!(begin(key("k"), 2, 11).await, IdempotencyClaim::Mismatch);
    assert_eq!(begin(key("other"), 2, 11).await, IdempotencyClaim::New);
    let elsewhere = IdempotencyKey { principal: label("bob"), ..key("k") };
    assert_eq!(begin(elsewhere, 2, 11).await, IdempotencyClaim::New);

    store.idempotency_finish(key("k"), 201, b"made".to_vec(), 20).await.unwrap();
    let replay = IdempotencyClaim::Replay { status: 201, body: b"made".to_vec() };
    assert_eq!(begin(key("k"), 1, 21).await, replay);
    assert_eq!(begin(key("k"), 2, 21).await, IdempotencyClaim::Mismatch);
    // A stored response cannot be replaced or abandoned.
    store.idempotency_finish(key("k"), 500, vec![], 22).await.unwrap();
    store.idempotency_abandon(key("k")).await.unwrap();
    assert_eq!(begin(key("k"), 1, 19 + limits::IDEMPOTENCY_RETENTION_MS).await, replay);
    assert_eq!(begin(key("k"), 2, 20 + limits::IDEMPOTENCY_RETENTION_MS).await, IdempotencyClaim::New);

    store.idempotency_abandon(key("other")).await.unwrap();
    assert_eq!(begin(key("other"), 3, 30).await, IdempotencyClaim::New);
}

#[tokio::test]
async fn a_key_left_by_a_dead_hostd_is_unfinished() {
    let (dir, store) = empty();
    for name in ["pending", "done"] {
        store.idempotency_begin(key(name), [1; 32], 10).await.unwrap();
    }
    store.idempotency_finish(key("done"), 200, vec![], 11).await.unwrap();
    store.close().await;
    let store = Store::open(&dir.path().join("slipway.db")).unwrap();
    let unfinished = IdempotencyClaim::Unfinished { since_ms: 10 };
    assert_eq!(store.idempotency_begin(key("pending"), [1; 32], 12).await.unwrap(), unfinished);
    assert_eq!(
        store.idempotency_begin(key("pending"), [2; 32], 12).await.unwrap(),
        IdempotencyClaim::Mismatch
    );
    let replay = IdempotencyClaim::Replay { status: 200, body: vec![] };
    assert_eq!(store.idempotency_begin(key("done"), [1; 32], 12).await.unwrap(), replay);
}

fn token(id: &str, tenant: &str) -> TokenRecord {
    TokenRecord {
        id: id.to_owned(),
        tenant: label(tenant),
        principal: label("ann"),
        scope: TokenScope::Run,
        created_ms: 1,
        expires_ms: None,
        revoked_ms: None,
    }
}

#[tokio::test]
async fn a_token_is_found_by_its_hash() {
    let (_dir, store) = empty();
    store.insert_token(token("t1", "acme"), [1; 32]).await.unwrap();
    store.insert_token(token("t2", "other"), [2; 32]).await.unwrap();
    for (id, hash) in [("t1", 9), ("t3", 1)] {
        let again = store.insert_token(token(id, "acme"), [hash; 32]).await;
        assert!(matches!(again, Err(StoreError::Exists)), "{id} {hash}");
    }
    assert_eq!(store.token_by_hash(&[1; 32]).await.unwrap(), Some(token("t1", "acme")));
    assert_eq!(store.token_by_hash(&[3; 32]).await.unwrap(), None);
    assert!(store.revoke_token("t1", 5).await.unwrap());
    assert!(!store.revoke_token("t1", 6).await.unwrap());
    assert_eq!(store.token_by_hash(&[1; 32]).await.unwrap().unwrap().revoked_ms, Some(5));
    assert_eq!(store.tokens(None, None, 10).await.unwrap().len(), 2);
    assert_eq!(store.tokens(Some(&label("other")), None, 10).await.unwrap(), [token("t2", "other")]);
}

fn call(time_ms: u64, tenant: &str) -> AuditRecord {
    AuditRecord {
        time_ms,
        tenant: tenant.to_owned(),
        principal: "ann".to_owned(),
        via: "t1".to_owned(),
        request_id: "r".to_owned(),
        method: "POST".to_owned(),
        path: "/v1/sandboxes".to_owned(),
        status: 403,
        code: Some("forbidden".to_owned()),
        operation: "createSandbox".to_owned(),
        object: String::new(),
        sandbox: String::new(),
        peer: "127.0.0.1".to_owned(),
    }
}

#[tokio::test]
async fn the_audit_is_paged_newest_first() {
    let (_dir, store) = empty();
    for (time_ms, tenant) in [(1, "acme"), (2, "other"), (3, "acme")] {
        store.audit(call(time_ms, tenant)).await.unwrap();
    }
    let acme = label("acme");
    let of_acme = AuditFilter { tenant: Some(acme), ..AuditFilter::default() };
    let newest = store.audits(of_acme.clone(), None, 1).await.unwrap();
    assert_eq!(newest, [(3, call(3, "acme"))]);
    assert_eq!(store.audits(of_acme.clone(), Some(3), 9).await.unwrap(), [(1, call(1, "acme"))]);
    assert_eq!(store.audits(AuditFilter::default(), None, 9).await.unwrap().len(), 3);
    assert_eq!(store.audits_from(of_acme.clone(), 0, 1).await.unwrap(), [(1, call(1, "acme"))]);
    assert_eq!(store.audits_from(of_acme, 1, 9).await.unwrap(), [(3, call(3, "acme"))]);
}

#[tokio::test]
async fn the_audit_is_filtered_by_each_of_its_columns() {
    let (_dir, store) = empty();
    let text = |text: &str| text.to_owned();
    let rows = [
        AuditRecord { time_ms: 10, status: 201, object: text("s1"), sandbox: text("s1"), ..call(0, "a") },
        AuditRecord { time_ms: 20, principal: text("bob"), via: text("t2"), ..call(0, "a") },
        AuditRecord {
            time_ms: 30,
            status: 500,
            operation: text("stopSandbox"),
            sandbox: text("s1"),
            ..call(0, "a")
        },
        AuditRecord { time_ms: 40, peer: text("10.0.0.5"), request_id: text("r4"), ..call(0, "a") },
    ];
    for row in rows {
        store.audit(row).await.unwrap();
    }
    let all = AuditFilter::default;
    let some = |value: &str| Some(value.to_owned());
    for (filter, expected) in [
        (AuditFilter { principal: some("bob"), ..all() }, vec![2]),
        (AuditFilter { via: some("t2"), ..all() }, vec![2]),
        (AuditFilter { operation: some("stopSandbox"), ..all() }, vec![3]),
        (AuditFilter { outcome: Some(AuditOutcome::Succeeded), ..all() }, vec![1]),
        (AuditFilter { outcome: Some(AuditOutcome::Refused), ..all() }, vec![4, 2]),
        (AuditFilter { outcome: Some(AuditOutcome::Failed), ..all() }, vec![3]),
        (AuditFilter { object: some("s1"), ..all() }, vec![1]),
        (AuditFilter { sandbox: some("s1"), ..all() }, vec![3, 1]),
        (AuditFilter { peer: some("10.0.0.5"), ..all() }, vec![4]),
        (AuditFilter { request_id: some("r4"), ..all() }, vec![4]),
        (AuditFilter { since_ms: Some(20), until_ms: Some(40), ..all() }, vec![3, 2]),
        (AuditFilter { principal: some("bob"), via: some("t1"), ..all() }, vec![]),
    ] {
        let found: Vec<u64> =
            store.audits(filter.clone(), None, 9).await.unwrap().iter().map(|(number, _)| *number).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
}

#[tokio::test]
async fn retention_deletes_expired_rows_and_nothing_else() {
    let (_dir, store, id) = with_one().await;
    let now_ms = 2 * limits::AUDIT_RETENTION_DEFAULT_MS;
    for time_ms in [1, now_ms] {
        store.audit(call(time_ms, "acme")).await.unwrap();
        store.idempotency_begin(key(&time_ms.to_string()), [1; 32], time_ms).await.unwrap();
        let dead = TokenRecord { revoked_ms: Some(time_ms), ..token(&time_ms.to_string(), "acme") };
        store.insert_token(dead, [u8::from(time_ms == 1); 32]).await.unwrap();
    }
    store.insert_token(token("alive", "acme"), [9; 32]).await.unwrap();
    let exec = ExecRecord {
        sandbox: id,
        id: ExecId::parse("e1").unwrap(),
        argv: vec![],
        cwd: String::new(),
        tty: false,
        request_hash: [0; 32],
        started_ms: 1,
        ended_ms: None,
        exit: None,
        hints: vec![],
    };
    assert_eq!(store.begin_exec(exec.clone()).await.unwrap(), ExecBegun::New);
    let end = ExecEnd { exit: Exit::Exited { code: 0 }, hints: vec![], ended_ms: 2 };
    store.end_exec(&id, &exec.id, end).await.unwrap();
    let some = ExpiredRows { audits: 1, idempotency: 1, tokens: 1, ..ExpiredRows::default() };
    assert_eq!(store.delete_expired(now_ms, Some(limits::AUDIT_RETENTION_DEFAULT_MS)).await.unwrap(), some);
    store
        .transition_sandbox(&id, Transition::Accept { goal: Goal::Destroyed, deadline_ms: 9 }, 3)
        .await
        .unwrap();
    store.transition_sandbox(&id, Transition::Reached, 4).await.unwrap();
    assert_eq!(
        store.delete_expired(now_ms, Some(limits::AUDIT_RETENTION_DEFAULT_MS)).await.unwrap(),
        ExpiredRows { execs: 1, ..ExpiredRows::default() }
    );
    assert_eq!(
        store.delete_expired(now_ms, Some(limits::AUDIT_RETENTION_DEFAULT_MS)).await.unwrap(),
        ExpiredRows::default()
    );
}

#[tokio::test]
async fn a_dropped_write_is_performed_even_when_the_queue_is_full() {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };
    let (_dir, store) = empty();
    let (go, wait) = mpsc::sync_channel::<()>(1);
    let stored = store.post("hold", move |_| {
        let _ = wait.recv();
        Ok(())
    });
    let written = Arc::new(AtomicUsize::new(0));
    let count = crate::limits::WRITE_QUEUE_MAX + 100;
    for _ in 0..count {
        let written = written.clone();
        drop(store.post("count", move |_| {
            written.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }));
    }
    go.send(()).expect("the writer waits");
    stored.written().await.expect("written");
    let all = async {
        while written.load(Ordering::SeqCst) < count {
            store.write("look", |_| Ok(())).await.expect("written");
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), all).await.expect("none is lost");
}
