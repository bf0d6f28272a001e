//! The writer under failure: failing jobs, a failing commit, a full disk.

use super::{id, kinds, with_one};
use crate::{
    Store, StoreError,
    disk_space::DiskSpace,
    error::{During, Result},
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use protocol::api::{DiskLevel, SandboxId};
use rusqlite::Connection;
use serde_json::json;
use std::{io::Write, sync::mpsc};
use tokio::sync::oneshot;

/// Blocks the writer until released, so that jobs queued meanwhile form one batch.
async fn hold(store: &Store) -> mpsc::SyncSender<()> {
    let (go, released) = mpsc::sync_channel(1);
    let (started, running) = oneshot::channel();
    let job = move |_: &Connection| {
        let _ = started.send(());
        released.recv().expect("the test lets go");
        Ok(())
    };
    let store = store.clone();
    tokio::spawn(async move { store.write("test", job).await });
    running.await.unwrap();
    go
}

fn raw(sql: &'static str) -> impl FnOnce(&Connection) -> Result<()> + Send + 'static {
    move |conn| conn.execute_batch(sql).during("run a test")
}

async fn limit_pages(store: &Store, pages: u32) {
    let set = move |conn: &Connection| conn.pragma_update(None, "max_page_count", pages).during("run a test");
    store.write("test", set).await.unwrap();
}

#[tokio::test]
async fn a_job_that_fails_or_panics_affects_no_other_of_its_batch() {
    let (_dir, store, id) = with_one().await;
    let go = hold(&store).await;
    let half = raw("DELETE FROM events; INSERT INTO nowhere VALUES (1)");
    let fault = |conn: &Connection| -> Result<()> {
        conn.execute_batch("DELETE FROM events").unwrap();
        panic!("on purpose")
    };
    let (first, failed, faulty, last, ()) = tokio::join!(
        store.record_event(&id, "first", json!({}), 1),
        store.write("test", half),
        store.write("test", fault),
        store.record_event(&id, "last", json!({}), 1),
        async { go.send(()).unwrap() },
    );
    assert!(matches!(failed, Err(StoreError::Sqlite { .. })), "{failed:?}");
    assert!(matches!(faulty, Err(StoreError::Broken)), "{faulty:?}");
    first.and(last).unwrap();
    assert_eq!(kinds(&store).await, ["sandbox.created", "first", "last"]);
}

#[tokio::test]
async fn when_the_commit_fails_every_caller_of_the_batch_gets_an_error() {
    let (_dir, store, id) = with_one().await;
    let go = hold(&store).await;
    // A broken reference that SQLite checks only at the commit.
    let broken = raw("PRAGMA defer_foreign_keys = ON;
        INSERT INTO attempts (sandbox, attempt, tenant, principal, project, relation, state, blueprint,
            started_ms) VALUES ('missing', 1, '', '', '', '', '', '', 1)");
    let (noted, broken, ()) =
        tokio::join!(store.record_event(&id, "first", json!({}), 1), store.write("test", broken), async {
            go.send(()).unwrap();
        },);
    assert!(noted.is_err() && broken.is_err(), "{noted:?} {broken:?}");
    assert_eq!(kinds(&store).await, ["sandbox.created"]);
    assert_eq!(*store.head().borrow(), 1);
    store.record_event(&id, "again", json!({}), 1).await.unwrap();
    assert_eq!(kinds(&store).await, ["sandbox.created", "again"]);
}

#[tokio::test]
async fn when_sqlite_rolls_the_transaction_back_the_whole_batch_gets_an_error() {
    let (_dir, store, id) = with_one().await;
    let go = hold(&store).await;
    // SQLite itself rolls back like this on some errors.
    let given_up = raw("ROLLBACK; INSERT INTO nowhere VALUES (1)");
    let (before, given_up, after, ()) = tokio::join!(
        store.record_event(&id, "before", json!({}), 1),
        store.write("test", given_up),
        store.record_event(&id, "after", json!({}), 1),
        async {
            go.send(()).unwrap();
        },
    );
    assert!(before.is_err() && given_up.is_err() && after.is_err());
    store.record_event(&id, "again", json!({}), 1).await.unwrap();
    assert_eq!(kinds(&store).await, ["sandbox.created", "again"]);
}

/// Fills the database; returns how many events fitted.
async fn fill(store: &Store, id: &SandboxId) -> usize {
    for number in 0..1_000 {
        match store.record_event(id, "fill", json!({ "text": "x".repeat(1_000) }), 1).await {
            Ok(()) => {}
            Err(StoreError::Full) => return number,
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("it is never full")
}

#[tokio::test]
async fn a_full_disk_is_reported_and_writes_go_on_when_there_is_space() {
    let (_dir, store, id) = with_one().await;
    limit_pages(&store, 60).await;
    let filled = fill(&store, &id).await;
    assert!(filled > 0);
    // Reads go on, and a batch that does not fit is refused whole.
    assert_eq!(kinds(&store).await.len(), 1 + filled);
    let go = hold(&store).await;
    let big = json!({ "text": "x".repeat(100_000) });
    let (one, two, ()) = tokio::join!(
        store.record_event(&id, "big", big.clone(), 1),
        store.record_event(&id, "big", big.clone(), 1),
        async {
            go.send(()).unwrap();
        },
    );
    assert!(matches!((one, two), (Err(StoreError::Full), Err(StoreError::Full))));
    assert_eq!(kinds(&store).await.len(), 1 + filled);

    limit_pages(&store, 1_000_000).await;
    store.record_event(&id, "big", big, 1).await.unwrap();
    assert_eq!(kinds(&store).await.len(), 2 + filled);
}

/// A tmpfs of 16 megabytes.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Self {
        let dir = tempfile::tempdir().unwrap();
        mount(Some("tmpfs"), dir.path(), Some("tmpfs"), MsFlags::empty(), Some("size=16m")).unwrap();
        Self(dir)
    }

    fn fill(&self) {
        let mut filler = std::fs::File::create(self.0.path().join("filler")).unwrap();
        while filler.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = umount2(self.0.path(), MntFlags::MNT_DETACH);
    }
}

#[tokio::test]
async fn commits_go_on_when_the_disk_has_no_block_left() {
    let disk = SmallDisk::mount();
    let (path, space) = (disk.0.path().join("slipway.db"), DiskSpace::open(disk.0.path(), None));
    let store = Store::open_on(&path, space.clone()).unwrap();
    let id = super::insert(&store, super::new_sandbox(1, None)).await.id;
    disk.fill();
    assert_eq!(space.refresh().level, DiskLevel::Full);
    // More writes than any cleanup needs.
    for _ in 0..500 {
        store.record_event(&id, "note", json!({}), 1).await.unwrap();
    }
    store.close().await;
    // The next process continues with the same files.
    let store = Store::open_on(&path, DiskSpace::open(disk.0.path(), None)).unwrap();
    store.record_event(&id, "note", json!({}), 1).await.unwrap();
    assert_eq!(kinds(&store).await.len(), 502);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_at_once_all_get_their_own_reply() {
    let (_dir, store, _) = with_one().await;
    let tasks: Vec<_> = (100..1_100_u64)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                super::insert(&store, super::new_sandbox(number, None)).await.id == id(number)
            })
        })
        .collect();
    for task in tasks {
        assert!(task.await.unwrap());
    }
    assert_eq!(store.live_sandboxes().await.unwrap().len(), 1_001);
    assert_eq!(*store.head().borrow(), 1_001);
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_a_whole_write_or_none() {
    let (_dir, store, id) = with_one().await;
    let go = hold(&store).await;
    {
        let mut released = std::pin::pin!(store.record_event(&id, "left", json!({}), 1));
        let waited = std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::future::Future::poll(released.as_mut(), context).is_pending())
        });
        assert!(waited.await);
    }
    go.send(()).unwrap();
    store.record_event(&id, "next", json!({}), 1).await.unwrap();
    assert_eq!(kinds(&store).await, ["sandbox.created", "left", "next"]);
}
