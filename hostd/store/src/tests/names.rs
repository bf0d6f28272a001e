use super::{empty, id, insert, label, new_sandbox};
use crate::{NewSandbox, SandboxUpdate, Store, StoreError, schema};
use hostd_core::{Goal, State, Transition, generated_name};
use protocol::api::{AttemptRelation, Owner, SandboxScope, ScopeKind};
use rusqlite::{Connection, params};
use std::collections::BTreeSet;

fn named(number: u64, name: &str) -> NewSandbox {
    NewSandbox { name: name.to_owned(), ..new_sandbox(number, None) }
}

async fn holder_of(store: &Store, new: NewSandbox) -> Option<u64> {
    let taken = store.insert_sandbox(new, AttemptRelation::Create).await;
    match taken {
        Ok(_) => None,
        Err(StoreError::NameTaken { existing, .. }) => Some(existing.as_str().parse().unwrap()),
        Err(error) => panic!("{error}"),
    }
}

/// The numbers of the sandboxes that live under a name.
async fn living(store: &Store, name: &str) -> Vec<u64> {
    let all = store.live_sandboxes().await.unwrap().into_iter();
    let named = all.filter(|record| record.name == name && record.replaced_by.is_none());
    let living = named.filter(|record| record.state.goal != Goal::Destroyed);
    living.map(|record| record.id.as_str().parse().unwrap()).collect()
}

#[tokio::test]
async fn a_name_is_taken_until_its_sandbox_is_to_be_destroyed() {
    let (_dir, store) = empty();
    insert(&store, named(1, "web")).await;
    assert_eq!(holder_of(&store, named(2, "web")).await, Some(1));
    let other = |principal, project| Owner {
        principal: label(principal),
        project: label(project),
        ..named(1, "web").owner
    };
    for (number, owner) in [(3, other("bob", "default")), (4, other("ann", "shop"))] {
        assert_eq!(holder_of(&store, NewSandbox { owner, ..named(number, "web") }).await, None);
    }
    let destroy = Transition::Accept { goal: Goal::Destroyed, deadline_ms: 9 };
    store.transition_sandbox(&id(1), destroy, 2).await.unwrap();
    assert_eq!(holder_of(&store, named(5, "web")).await, None, "it is free at once");
}

#[tokio::test]
async fn a_sandbox_is_renamed_only_to_a_free_name() {
    let (_dir, store) = empty();
    insert(&store, named(1, "web")).await;
    insert(&store, named(2, "api")).await;
    let rename = |name: &str| SandboxUpdate { name: Some(name.to_owned()), ..SandboxUpdate::default() };
    let taken = store.update_sandbox(&id(2), rename("web"), 5).await;
    assert!(matches!(taken, Err(StoreError::NameTaken { existing, .. }) if existing == id(1)));
    for (number, name) in [(2, "api"), (2, "shop"), (1, "api")] {
        assert_eq!(store.update_sandbox(&id(number), rename(name), 5).await.unwrap().name, name);
    }
}

#[tokio::test]
async fn a_generated_or_adopted_name_gives_way() {
    let (_dir, store) = empty();
    let generated = generated_name(&id(2));
    insert(&store, named(1, &generated)).await;
    let second = insert(&store, named(2, &generated)).await;
    assert_eq!(second.name, format!("{generated}-00000002"));
    insert(&store, named(3, "web")).await;
    insert(&store, named(4, "web-00000005")).await;
    let found = NewSandbox { state: State::at(Goal::Running), ..named(5, "web") };
    assert_eq!(store.adopt_sandbox(found, vec![]).await.unwrap().name, format!("web-{}", id(5)));
}

#[tokio::test]
async fn a_replaced_sandbox_loses_its_name_and_expires_in_one_step() {
    let (_dir, store) = empty();
    let scope = || Some(SandboxScope { kind: ScopeKind::Custom, key: Some(label("up")) });
    let scoped =
        |number| NewSandbox { name: "up".to_owned(), created_ms: 7_000, ..new_sandbox(number, scope()) };
    insert(&store, scoped(1)).await;
    let made = store.replace_sandbox(scoped(2), AttemptRelation::Create, true).await.unwrap();
    let replaced = made.replaced.expect("the first");
    assert_eq!((replaced.id, replaced.replaced_by, replaced.expires_ms), (id(1), Some(id(2)), Some(7_000)));
    assert!(replaced.keep_workspace && made.record.scope == scope());
    assert_eq!(store.sandbox(&id(1)).await.unwrap(), Some(replaced));
    assert_eq!(living(&store, "up").await, [2]);
    let later = SandboxUpdate { expires_ms: Some(None), ..SandboxUpdate::default() };
    assert!(matches!(store.update_sandbox(&id(1), later, 9).await, Err(StoreError::Refused(_))));
    // The same call again, after a crash.
    let again = store.replace_sandbox(scoped(2), AttemptRelation::Create, true).await;
    assert!(matches!(again, Err(StoreError::Exists)));
    assert_eq!(living(&store, "up").await, [2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_replacements_at_once_one_lives() {
    let (_dir, store) = empty();
    insert(&store, named(99, "web")).await;
    let replace = |number| {
        let store = store.clone();
        tokio::spawn(async move {
            store.replace_sandbox(named(number, "web"), AttemptRelation::Create, false).await
        })
    };
    let all: Vec<_> = (1..=50).map(replace).collect();
    let mut replaced = BTreeSet::new();
    for made in all {
        replaced.extend(made.await.unwrap().unwrap().replaced.map(|record| record.id));
    }
    assert_eq!((living(&store, "web").await.len(), replaced.len()), (1, 50));
}

#[tokio::test]
async fn names_of_older_databases_are_made_unique() {
    let (dir, store) = empty();
    for number in 1..=6 {
        insert(&store, named(number, &format!("n{number}"))).await;
    }
    store.close().await;
    let path = dir.path().join("slipway.db");
    let conn = Connection::open(&path).unwrap();
    // As the version before it left them: three of one name, one that is gone, and one that foresaw a suffix.
    conn.execute_batch(
        "DROP INDEX sandboxes_name; DROP INDEX sandboxes_trimmed; DROP INDEX sandboxes_use; DROP INDEX sandboxes_kept;
        DROP INDEX sandboxes_layers; ALTER TABLE sandboxes DROP COLUMN layer_bytes;
        DROP INDEX tasks_use; DROP INDEX task_changes_tenant; DROP INDEX task_change_files_tenant;
        ALTER TABLE sandboxes DROP COLUMN replaced_by; ALTER TABLE sandboxes DROP COLUMN trimmed_seq;
        ALTER TABLE sandboxes DROP COLUMN trimmed_origin_epoch; ALTER TABLE sandboxes DROP COLUMN trimmed_origin_seq;
        ALTER TABLE tasks DROP COLUMN trimmed_seq; ALTER TABLE sandboxes DROP COLUMN memory_mb;
        ALTER TABLE sandboxes DROP COLUMN cpus_milli; ALTER TABLE sandboxes DROP COLUMN disk_bytes;
        DROP TABLE quotas; DROP TABLE log_sizes; DROP TABLE snapshots;
        ALTER TABLE sandboxes DROP COLUMN base_snapshot;
        ALTER TABLE sandboxes DROP COLUMN provisioning; DROP TABLE dotfiles;
        DROP TABLE client_records; DROP TABLE trimmed_history; DROP INDEX events_time; DROP TABLE webhook_deliveries; DROP TABLE webhooks;
        DROP INDEX sandboxes_expired;
        ALTER TABLE sandboxes DROP COLUMN expired_seq; DROP INDEX audit_sandbox; ALTER TABLE audit DROP COLUMN operation; ALTER TABLE audit DROP COLUMN object;
        ALTER TABLE audit DROP COLUMN sandbox; ALTER TABLE audit DROP COLUMN peer;",
    )
    .unwrap();
    for (number, name) in [(1, "web"), (2, "web"), (3, "web"), (4, "web"), (5, "web-00000001"), (6, "shop")] {
        let sql = "UPDATE sandboxes SET name = ?2 WHERE id = ?1";
        conn.execute(sql, params![id(number).as_str(), name]).unwrap();
    }
    let sql = "UPDATE sandboxes SET goal = 'destroyed', status = 'destroyed' WHERE id = ?";
    conn.execute(sql, params![id(4).as_str()]).unwrap();
    let before = schema::MIGRATIONS.iter().position(|sql| sql.contains("CREATE TABLE quotas")).unwrap();
    conn.pragma_update(None, "user_version", before as i64).unwrap();
    drop(conn);

    let store = Store::open(&path).unwrap();
    let mut names = Vec::new();
    for number in 1..=6 {
        names.push(store.sandbox(&id(number)).await.unwrap().unwrap().name);
    }
    assert_eq!(names[1..], ["web-00000002", "web", "web", "web-00000001", "shop"]);
    assert!(
        names[0].starts_with("web-00000001-") && names[0].len() == "web-00000001-".len() + 32,
        "{names:?}"
    );
    let used = store.use_by_owner(None).await.unwrap().into_values().next().expect("an owner");
    assert_eq!((used.sandboxes, used.memory_mb, used.cpus_milli), (5, 5 * 512, 5 * 500));
}
