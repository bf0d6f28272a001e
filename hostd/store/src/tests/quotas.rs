use super::{empty, id, insert, label, new_sandbox, new_task, owner, problem};
use crate::{NewSandbox, NewTask, SandboxUpdate, Store, StoreError, TaskBegun, fixture::no_room_for};
use hostd_core::{Death, Goal, QuotaExceeded, Transition, Usage};
use protocol::api::{AttemptRelation, Limits, Owner, Quota, QuotaResource, QuotaScope};

fn of(principal: &str, number: u64) -> NewSandbox {
    NewSandbox { owner: Owner { principal: label(principal), ..owner() }, ..new_sandbox(number, None) }
}

async fn set(store: &Store, principal: Option<&str>, quota: Quota) {
    assert!(store.put_quota(label("acme"), principal.map(label), quota, 1).await.unwrap());
}

fn refusal<T>(written: Result<T, StoreError>) -> Option<QuotaExceeded> {
    match written {
        Ok(_) => None,
        Err(StoreError::QuotaExceeded(refused)) => Some(*refused),
        Err(error) => panic!("{error}"),
    }
}

async fn create(store: &Store, new: NewSandbox) -> Option<QuotaExceeded> {
    refusal(store.insert_sandbox(new, AttemptRelation::Create).await)
}

async fn accept(store: &Store, number: u64, goal: Goal) -> Option<QuotaExceeded> {
    let change = Transition::Accept { goal, deadline_ms: 9 };
    refusal(store.transition_sandbox(&id(number), change, 2).await)
}

async fn settle(store: &Store, number: u64, goal: Goal) {
    assert_eq!(accept(store, number, goal).await, None);
    store.transition_sandbox(&id(number), Transition::Reached, 3).await.unwrap();
}

async fn used(store: &Store) -> Usage {
    let all = store.use_by_owner(Some(label("acme"))).await.unwrap();
    all.into_values().fold(Usage::default(), |sum, each| sum.plus(&each))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_hundred_at_once_as_many_are_created_as_there_is_room_for() {
    let tables = [
        (QuotaResource::Sandboxes, Quota { sandboxes: Some(7), ..Quota::default() }),
        (QuotaResource::Running, Quota { running: Some(7), ..Quota::default() }),
        (QuotaResource::MemoryMb, Quota { memory_mb: Some(7 * 512 + 511), ..Quota::default() }),
        (QuotaResource::Cpus, Quota { cpus: Some(3.6), ..Quota::default() }),
    ];
    for (resource, quota) in tables {
        for principal in [None, Some("ann")] {
            let (_dir, store) = empty();
            set(&store, principal, quota.clone()).await;
            let creates: Vec<_> = (1..=100)
                .map(|number| {
                    let store = store.clone();
                    tokio::spawn(async move { create(&store, new_sandbox(number, None)).await })
                })
                .collect();
            let mut refused = Vec::new();
            for create in creates {
                refused.extend(create.await.unwrap());
            }
            let scope = if principal.is_some() { QuotaScope::Principal } else { QuotaScope::Tenant };
            assert_eq!((refused.len(), used(&store).await.sandboxes), (93, 7), "{resource:?} {scope:?}");
            assert!(refused.iter().all(|each| each.resource() == resource && each.scope == scope));
            assert!(refused.iter().all(|each| each.by.len() == 7 && each.others == 0));
        }
    }
}

#[tokio::test]
async fn limits_of_a_sandbox_that_is_up_grow_only_as_far_as_there_is_room() {
    let (_dir, store) = empty();
    set(&store, None, Quota { memory_mb: Some(1_200), ..Quota::default() }).await;
    let before = insert(&store, new_sandbox(1, None)).await.blueprint.limits.clone();
    insert(&store, new_sandbox(2, None)).await;
    let with = |memory_mb| Some(Limits { memory_mb, ..before.clone() });
    let update = async |limits, found_limits| {
        let change = SandboxUpdate { limits, found_limits, ..SandboxUpdate::default() };
        refusal(store.update_sandbox(&id(1), change, 2).await)
    };
    let refused = update(with(689), None).await.expect("there is room for 688");
    assert_eq!((refused.resource(), refused.shortage.requested), (QuotaResource::MemoryMb, 177));
    assert_eq!(update(with(688), None).await, None);
    assert_eq!(update(with(64), None).await, None, "less is always possible");
    // Limits that are in force already are only recorded.
    assert_eq!(update(None, with(900)).await, None);
    assert_eq!(update(with(899), None).await, None);
    assert_eq!(used(&store).await.memory_mb, 899 + 512);
    // A sandbox that is down uses no memory; what it needs is checked when it comes up.
    settle(&store, 1, Goal::Stopped).await;
    assert_eq!(update(with(2_000), None).await, None);
    assert!(accept(&store, 1, Goal::Running).await.is_some());
}

#[tokio::test]
async fn what_is_stopped_frees_its_memory_when_it_is_down_and_what_is_destroyed_all() {
    let (_dir, store) = empty();
    set(&store, None, Quota { sandboxes: Some(3), running: Some(1), ..Quota::default() }).await;
    insert(&store, new_sandbox(1, None)).await;
    store.transition_sandbox(&id(1), Transition::Reached, 2).await.unwrap();
    let refused = create(&store, new_sandbox(2, None)).await.expect("one is up");
    assert_eq!((refused.resource(), refused.by[0].id), (QuotaResource::Running, id(1)));
    // A pause and a resume change nothing.
    settle(&store, 1, Goal::Paused).await;
    assert_eq!(used(&store).await.running, 1);
    settle(&store, 1, Goal::Running).await;
    assert_eq!(accept(&store, 1, Goal::Stopped).await, None);
    assert!(create(&store, new_sandbox(2, None)).await.is_some(), "its processes may still be there");
    store.transition_sandbox(&id(1), Transition::Reached, 3).await.unwrap();
    assert_eq!(create(&store, new_sandbox(2, None)).await, None);
    let refused = accept(&store, 1, Goal::Running).await.expect("the other is up");
    assert_eq!((refused.resource(), refused.shortage.used), (QuotaResource::Running, 1));
    assert_eq!(
        store.sandbox(&id(1)).await.unwrap().unwrap().state.goal,
        Goal::Stopped,
        "nothing was written"
    );
    settle(&store, 2, Goal::Destroyed).await;
    assert_eq!(accept(&store, 1, Goal::Running).await, None);
    assert_eq!((used(&store).await.sandboxes, used(&store).await.memory_mb), (1, 512));
}

#[tokio::test]
async fn one_that_died_and_is_launched_again_needs_no_new_room() {
    let (_dir, store) = empty();
    set(&store, None, Quota { running: Some(1), ..Quota::default() }).await;
    insert(&store, new_sandbox(1, None)).await;
    store.transition_sandbox(&id(1), Transition::Reached, 2).await.unwrap();
    set(&store, None, Quota { running: Some(0), ..Quota::default() }).await;
    let restart = Transition::Restart { death: Box::new(Death::default()), deadline_ms: 9 };
    assert_eq!(refusal(store.transition_sandbox(&id(1), restart, 3).await), None);
    let given_up = Transition::GiveUp { problem: problem(), found: None };
    store.transition_sandbox(&id(1), given_up, 4).await.unwrap();
    assert_eq!(used(&store).await.running, 0, "in error, it is down");
    assert!(accept(&store, 1, Goal::Running).await.is_some());
}

#[tokio::test]
async fn a_principal_is_bound_by_its_own_quota_and_by_that_of_its_tenant() {
    let (_dir, store) = empty();
    set(&store, None, Quota { sandboxes: Some(3), ..Quota::default() }).await;
    set(&store, Some("ann"), Quota { sandboxes: Some(1), ..Quota::default() }).await;
    insert(&store, of("ann", 1)).await;
    let refused = create(&store, of("ann", 2)).await.expect("her own");
    assert_eq!((refused.scope, refused.shortage.limit), (QuotaScope::Principal, 1));
    insert(&store, of("bob", 3)).await;
    insert(&store, of("bob", 4)).await;
    let refused = create(&store, of("carl", 5)).await.expect("the tenant's");
    assert_eq!((refused.scope, refused.by.len(), refused.others), (QuotaScope::Tenant, 0, 3));
    // Another tenant does not notice.
    let other = Owner { tenant: label("other"), ..owner() };
    assert_eq!(create(&store, NewSandbox { owner: other, ..new_sandbox(6, None) }).await, None);
}

#[tokio::test]
async fn defaults_bind_all_that_have_no_quota_of_their_own() {
    let (_dir, store) = empty();
    let (two, one) =
        (Quota { sandboxes: Some(2), ..Quota::default() }, Quota { sandboxes: Some(1), ..Quota::default() });
    store.set_default_quotas(Some(two), Some(one)).await.unwrap();
    insert(&store, of("ann", 1)).await;
    assert_eq!(create(&store, of("ann", 2)).await.map(|each| each.scope), Some(QuotaScope::Principal));
    insert(&store, of("bob", 2)).await;
    assert_eq!(create(&store, of("carl", 3)).await.map(|each| each.scope), Some(QuotaScope::Tenant));
    set(&store, None, Quota::default()).await;
    assert_eq!(create(&store, of("carl", 3)).await, None, "a quota without a limit is unlimited");
    assert!(store.remove_quota(&label("acme"), None).await.unwrap());
    assert!(!store.remove_quota(&label("acme"), None).await.unwrap());
    assert!(create(&store, of("dora", 4)).await.is_some());
    store.set_default_quotas(None, None).await.unwrap();
    assert_eq!(create(&store, of("dora", 4)).await, None);
}

#[tokio::test]
async fn defaults_that_are_in_force_are_not_written_again() {
    let (_dir, store) = empty();
    let one = || Some(Quota { sandboxes: Some(1), ..Quota::default() });
    store.set_default_quotas(one(), None).await.unwrap();
    no_room_for(&store, "DELETE ON quotas", true).await;
    store.set_default_quotas(one(), None).await.unwrap();
    assert!(store.set_default_quotas(None, None).await.is_err());
    no_room_for(&store, "DELETE ON quotas", false).await;
    assert_eq!(store.quota_book().await.unwrap().tenant_default, one());
    insert(&store, of("ann", 1)).await;
    assert!(create(&store, of("ann", 2)).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_quota_that_is_set_while_another_is_removed_is_kept() {
    let (_dir, store) = empty();
    let one = Quota { sandboxes: Some(1), ..Quota::default() };
    insert(&store, of("ann", 1)).await;
    for _ in 0..200 {
        store.put_quota(label("other"), None, one.clone(), 1).await.unwrap();
        let (remover, putter, quota) = (store.clone(), store.clone(), one.clone());
        let removed = tokio::spawn(async move { remover.remove_quota(&label("other"), None).await });
        let put = tokio::spawn(async move { putter.put_quota(label("acme"), None, quota, 1).await });
        assert!(removed.await.unwrap().unwrap() && put.await.unwrap().unwrap());
        assert!(store.has_quotas(), "a quota is set");
        store.remove_quota(&label("acme"), None).await.unwrap();
        assert!(!store.has_quotas(), "none is set");
    }
}

#[tokio::test]
async fn a_successor_takes_the_room_of_the_sandbox_it_replaces() {
    let (_dir, store) = empty();
    set(
        &store,
        None,
        Quota { sandboxes: Some(1), running: Some(1), memory_mb: Some(512), ..Quota::default() },
    )
    .await;
    let named = |number| NewSandbox { name: "web".to_owned(), ..new_sandbox(number, None) };
    insert(&store, named(1)).await;
    assert!(store.replace_sandbox(named(2), AttemptRelation::Create, false).await.is_ok());
    // There is no room for a third while the first is not gone.
    let other = NewSandbox { name: "api".to_owned(), ..new_sandbox(3, None) };
    assert!(create(&store, other).await.is_some());
}

#[tokio::test]
async fn tasks_wait_up_to_the_quota_and_run_in_as_many_sandboxes_as_it_says() {
    let (_dir, store) = empty();
    set(&store, None, Quota { tasks_queued: Some(3), tasks_running: Some(1), ..Quota::default() }).await;
    for number in [1, 2] {
        insert(&store, new_sandbox(number, None)).await;
    }
    let task = |name: &str, sandbox| NewTask { sandbox: id(sandbox), ..new_task(name) };
    let mut numbers = Vec::new();
    for (name, sandbox) in [("t1", 1), ("t2", 1), ("t3", 2)] {
        let TaskBegun::New(task) = store.begin_task(task(name, sandbox)).await.unwrap() else {
            panic!("{name}")
        };
        numbers.push(task.number);
    }
    let refused = refusal(store.begin_task(task("t4", 2)).await).expect("three wait");
    assert_eq!((refused.resource(), refused.by.len()), (QuotaResource::TasksQueued, 2));
    assert!(
        matches!(store.begin_task(task("t3", 2)).await.unwrap(), TaskBegun::Same(_)),
        "it is there already"
    );
    assert_eq!(refusal(store.mark_task_dispatched(numbers[0]).await), None);
    // The second waits behind the first, in the same sandbox; the third would be a second at work.
    assert_eq!(refusal(store.mark_task_dispatched(numbers[1]).await), None);
    let refused = refusal(store.mark_task_dispatched(numbers[2]).await).expect("one runs");
    assert_eq!(refused.resource(), QuotaResource::TasksRunning);
    assert!(store.check_task_quota(numbers[2]).await.is_err());
    assert_eq!((used(&store).await.tasks_queued, used(&store).await.tasks_running), (2, 1));
    for number in &numbers[..2] {
        store.conclude_task(*number, hostd_core::TaskEnding::Lost, 9).await.unwrap();
    }
    assert!(store.check_task_quota(numbers[2]).await.is_ok());
    assert_eq!(refusal(store.mark_task_dispatched(numbers[2]).await), None);
}

#[tokio::test]
async fn a_task_for_a_sandbox_that_could_not_be_woken_is_refused() {
    let (_dir, store) = empty();
    insert(&store, new_sandbox(1, None)).await;
    settle(&store, 1, Goal::Stopped).await;
    set(&store, None, Quota { running: Some(0), ..Quota::default() }).await;
    let refused = refusal(store.begin_task(new_task("t1")).await).expect("it is asleep");
    assert_eq!(refused.resource(), QuotaResource::Running);
}

#[tokio::test]
async fn disk_counts_as_it_was_measured_and_also_what_was_kept() {
    let (_dir, store) = empty();
    set(&store, None, Quota { disk_mb: Some(10), ..Quota::default() }).await;
    insert(&store, new_sandbox(1, None)).await;
    store.record_workspace_sizes(vec![(id(1), 9 << 20)]).await.unwrap();
    assert!(store.check_disk_quota(&owner()).await.is_ok());
    store.record_workspace_sizes(vec![(id(1), (9 << 20) + 1)]).await.unwrap();
    let refused = refusal(store.check_disk_quota(&owner()).await).expect("used up");
    assert_eq!(
        (refused.resource(), refused.shortage.used, refused.by[0].used),
        (QuotaResource::DiskMb, 10, 10.0)
    );
    assert!(create(&store, new_sandbox(2, None)).await.is_some());
    let keep = crate::SandboxUpdate { keep_workspace: Some(true), ..Default::default() };
    store.update_sandbox(&id(1), keep, 2).await.unwrap();
    settle(&store, 1, Goal::Destroyed).await;
    assert!(create(&store, new_sandbox(2, None)).await.is_some(), "its files are still there");
    store.record_workspace_sizes(vec![(id(1), 0)]).await.unwrap();
    assert_eq!(create(&store, new_sandbox(2, None)).await, None);
}

#[tokio::test]
async fn adoption_counts_and_is_never_refused() {
    let (_dir, store) = empty();
    set(&store, None, Quota { sandboxes: Some(0), running: Some(0), ..Quota::default() }).await;
    store.adopt_sandbox(new_sandbox(1, None), vec![]).await.unwrap();
    assert_eq!((used(&store).await.sandboxes, used(&store).await.running), (1, 1));
}

#[tokio::test]
async fn a_write_that_fails_takes_no_room() {
    let (_dir, store) = empty();
    set(&store, None, Quota { sandboxes: Some(1), ..Quota::default() }).await;
    no_room_for(&store, "name ON sandboxes", true).await;
    assert!(matches!(
        store.insert_sandbox(new_sandbox(1, None), AttemptRelation::Create).await,
        Err(StoreError::Sqlite { .. })
    ));
    no_room_for(&store, "name ON sandboxes", false).await;
    assert_eq!(create(&store, new_sandbox(1, None)).await, None);
}

#[tokio::test]
async fn sums_are_read_from_indexes_alone() {
    let (_dir, store) = empty();
    insert(&store, new_sandbox(1, None)).await;
    let plan = |sql: &'static str| {
        let store = store.clone();
        async move {
            store
                .write("test", move |conn| {
                    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
                    let rows = statement.query_map([], |row| row.get::<_, String>(3)).unwrap();
                    Ok(rows.map(Result::unwrap).collect::<Vec<_>>().join("; "))
                })
                .await
                .unwrap()
        }
    };
    let sandboxes = plan(
        "SELECT tenant, principal, sum((goal IN ('running') OR status IN ('running')) * memory_mb), sum(cpus_milli),
        sum(disk_bytes + layer_bytes) FROM sandboxes WHERE tenant = 'a' AND status <> 'destroyed' GROUP BY tenant, principal",
    );
    assert!(sandboxes.await.contains("COVERING INDEX sandboxes_use"));
    let tasks = plan(
        "SELECT tenant, principal, count(DISTINCT CASE WHEN taken THEN sandbox END) FROM tasks
        WHERE tenant = 'a' AND done_seq IS NULL GROUP BY tenant, principal",
    );
    assert!(tasks.await.contains("COVERING INDEX tasks_use"));
}

#[tokio::test]
async fn what_of_a_workspace_became_a_layer_counts_once() {
    let (_dir, store) = empty();
    insert(&store, new_sandbox(1, None)).await;
    store.record_workspace_sizes(vec![(id(1), 12 << 20)]).await.unwrap();
    let (layers, workspaces) = ([(id(1), 10 << 20)].into(), [(id(1), 2 << 20)].into());
    store.record_layer_sizes([].into(), layers, workspaces).await.unwrap();
    assert_eq!(used(&store).await.disk.workspaces_bytes, 12 << 20);
}
