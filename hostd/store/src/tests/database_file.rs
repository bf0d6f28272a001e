use super::{empty, id, insert, kinds, new_sandbox, with_one};
use crate::{OpenError, RepairOutcome, Store, StoreError, repair};
use hostd_core::Transition;
use rusqlite::Connection;
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

type Corruption = fn(&mut Vec<u8>);

fn open_error(path: &Path) -> OpenError {
    Store::open(path).err().expect("it must not open")
}

#[tokio::test]
async fn the_files_have_mode_0600() {
    let (dir, _store, _) = with_one().await;
    for name in ["slipway.db", "slipway.db-wal", "slipway.db-shm"] {
        let mode = fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn what_was_closed_opens_as_it_was() {
    let (dir, store, id) = with_one().await;
    let record = store.transition_sandbox(&id, Transition::Reached, 5).await.unwrap();
    let other = store.clone();
    store.close().await;
    assert!(matches!(other.sandbox(&id).await, Err(StoreError::Closed)));
    assert!(matches!(other.mark_execs_lost(&id, 1).await, Err(StoreError::Closed)));
    other.close().await;
    // The WAL was checkpointed and truncated; the file stays.
    assert_eq!(std::fs::metadata(dir.path().join("slipway.db-wal")).unwrap().len(), 0);
    let store = Store::open(&dir.path().join("slipway.db")).unwrap();
    assert_eq!(*store.head().borrow(), 2);
    assert_eq!(store.sandbox(&id).await.unwrap(), Some(record));
}

#[tokio::test]
async fn a_new_database_takes_the_space_of_its_file_at_once() {
    let (dir, store) = empty();
    let pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    let read = move |conn: &Connection| Ok(conn.query_row(pages, [], |row| row.get::<_, i64>(0)).unwrap());
    let bytes = u64::try_from(store.read(read).await.unwrap()).unwrap();
    let file = fs::metadata(dir.path().join("slipway.db")).unwrap().len();
    assert!(bytes > 4096 && file >= bytes, "{file} of {bytes} bytes are allocated");
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let (dir, store, _) = with_one().await;
    store.close().await;
    let path = dir.path().join("slipway.db");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(&path).unwrap();
    let error = open_error(&path);
    assert!(matches!(error, OpenError::Newer { found: 99, known: 21 }));
    let text = "the database has schema 99 and this hostd knows up to 21: use the newer hostd";
    assert_eq!(error.to_string(), text);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_damaged_file_is_reported_and_moved_aside() {
    let corrupt: [(_, Corruption); 3] = [
        ("no database at all", |bytes| bytes.fill(b'x')),
        ("a page of garbage", |bytes| bytes[4096..8192].fill(0xa5)),
        ("cut short", |bytes| bytes.truncate(bytes.len() / 2)),
    ];
    for (name, corrupt) in corrupt {
        let (dir, store, _) = with_one().await;
        store.close().await;
        let path = dir.path().join("slipway.db");
        let mut bytes = fs::read(&path).unwrap();
        corrupt(&mut bytes);
        fs::write(&path, &bytes).unwrap();

        let error = open_error(&path);
        assert!(matches!(error, OpenError::Corrupt { .. }), "{name}: {error:?}");
        let text = error.to_string();
        assert!(text.contains("`hostd repair`") && !text.contains('\n'), "{name}: {text}");

        let Ok(RepairOutcome::MovedAside { to, .. }) = repair(&path) else { panic!("{name}: not moved") };
        assert!(to.file_name().unwrap().to_str().unwrap().starts_with("slipway.db.corrupt-"), "{name}");
        assert_eq!(fs::read(&to).unwrap(), bytes, "{name}");
        let store = Store::open(&path).unwrap();
        assert_eq!(kinds(&store).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_healthy_file_is_not_repaired() {
    let (dir, store, id) = with_one().await;
    let path = dir.path().join("slipway.db");
    store.close().await;
    let before = fs::read(&path).unwrap();
    assert_eq!(repair(&path).unwrap(), RepairOutcome::Healthy);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(Store::open(&path).unwrap().sandbox(&id).await.unwrap().is_some());
    assert_eq!(repair(&dir.path().join("none.db")).unwrap(), RepairOutcome::Absent);
}

#[tokio::test]
async fn an_invalid_row_is_named() {
    let (_dir, store) = empty();
    for number in 1..=2 {
        insert(&store, new_sandbox(number, None)).await;
    }
    let corrupt = "UPDATE sandboxes SET goal = 'flying' WHERE id LIKE '%2'";
    store.write("test", |conn| Ok(conn.execute(corrupt, []).unwrap())).await.unwrap();
    let error = store.sandbox(&id(2)).await.unwrap_err();
    let StoreError::Row { table, id: row, detail } = error else { panic!("{error}") };
    assert_eq!((table, row), ("sandboxes", id(2).to_string()));
    assert!(detail.starts_with("goal: unknown variant `flying`"), "{detail}");
    assert!(store.sandbox(&id(1)).await.is_ok());
}

#[tokio::test]
async fn a_spoiled_environment_is_not_quoted() {
    let (_dir, store, id) = with_one().await;
    let corrupt = "UPDATE sandboxes SET env = '\"s3cret\"'";
    store.write("test", |conn| Ok(conn.execute(corrupt, []).unwrap())).await.unwrap();
    let error = store.sandbox(&id).await.unwrap_err();
    assert!(!format!("{error:?}").contains("s3cret"));
}
