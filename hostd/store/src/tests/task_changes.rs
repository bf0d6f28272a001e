//! What tasks changed: recorded once, read in pages, and gone with the task.

use super::{id, lines, new_task, with_one};
use crate::{ExpiredRows, Store, TaskBegun, TaskRecord, limits};
use hostd_core::{
    ChangesRecord, ChangesSummary, FileChangeRecord, Goal, TaskChanges, TaskEnding, TaskLine, Transition,
};
use protocol::{ChangeKind, Checkpoint, TaskEvent, TaskFact, TaskPhase};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

async fn task(store: &Store) -> TaskRecord {
    let TaskBegun::New(task) = store.begin_task(new_task("t1")).await.unwrap() else { panic!("not new") };
    store.mark_task_dispatched(task.number).await.unwrap();
    store.mark_task_accepted(task.number).await.unwrap()
}

fn file(path: &[u8], diff: Option<usize>) -> FileChangeRecord {
    FileChangeRecord {
        path: path.to_vec(),
        change: ChangeKind::Modified,
        added_lines: Some(3),
        deleted_lines: None,
        binary: diff.is_none(),
        diff: diff.map(|bytes| vec![0xff; bytes]),
    }
}

fn changes(files: Vec<FileChangeRecord>) -> TaskChanges {
    let summary = ChangesSummary { since: COMMIT.to_owned(), modified: 9, ..ChangesSummary::default() };
    TaskChanges { record: ChangesRecord::Recorded(summary), files }
}

fn reports(number: u64, checkpoint: Checkpoint) -> TaskLine {
    let fact = TaskFact::Status { phase: TaskPhase::Agent, checkpoint: Some(checkpoint) };
    let event = TaskEvent { seq: number, time_ms: 1, fact };
    TaskLine::parse(&serde_json::to_vec(&event).unwrap().into()).unwrap()
}

#[tokio::test]
async fn the_first_checkpoint_that_is_reported_stays() {
    let (_dir, store, _) = with_one().await;
    let task = task(&store).await;
    let taken = |id: &str| Checkpoint::Taken { id: id.to_owned(), skipped: 0 };
    let table = [
        (reports(1, Checkpoint::Unavailable { why: "no git".to_owned() }), None),
        (reports(2, taken("--output=x")), None),
        (reports(3, taken(COMMIT)), Some(COMMIT)),
        (reports(4, taken(&COMMIT.replace('0', "f"))), Some(COMMIT)),
    ];
    for (line, expected) in table {
        let task = store.append_task(task.number, vec![line]).await.unwrap();
        assert_eq!(task.checkpoint.as_deref(), expected);
    }
}

#[tokio::test]
async fn changes_are_recorded_once() {
    let (_dir, store, _) = with_one().await;
    let task = task(&store).await;
    assert_eq!(store.task_changes(task.number).await.unwrap(), None);
    let first = changes(vec![file(b"caf\xe9", Some(4)), file(b"b", None)]);
    store.record_task_changes(task.number, first.clone()).await.unwrap();
    store.record_task_changes(task.number, changes(vec![file(b"other", Some(1))])).await.unwrap();
    store.record_task_changes(task.number, TaskChanges::unavailable("late", true)).await.unwrap();
    assert_eq!(store.task_changes(task.number).await.unwrap(), Some(first.record));
    let page = store.changed_files(task.number, 0, 10).await.unwrap();
    assert_eq!((page.files, page.next), (first.files.clone(), None));
    assert_eq!(
        store.changed_file(task.number, b"caf\xe9".to_vec()).await.unwrap().as_ref(),
        first.files.first()
    );
    assert_eq!(store.changed_file(task.number, b"other".to_vec()).await.unwrap(), None);
}

#[tokio::test]
async fn pages_end_by_count_and_by_size() {
    let (_dir, store, _) = with_one().await;
    let task = task(&store).await;
    let large = limits::CHANGES_PAGE_MAX_BYTES;
    let sizes = [10, 10, 10, large, large / 2, large / 2, 10];
    let files = sizes.iter().enumerate().map(|(at, bytes)| file(at.to_string().as_bytes(), Some(*bytes)));
    store.record_task_changes(task.number, changes(files.collect())).await.unwrap();
    let mut pages = Vec::new();
    let mut after = Some(0);
    while let Some(from) = after {
        let page = store.changed_files(task.number, from, 2).await.unwrap();
        pages.push(page.files.len());
        after = page.next;
    }
    assert_eq!(pages, [2, 2, 2, 1]);
    let by_size = store.changed_files(task.number, 3, 100).await.unwrap();
    assert_eq!((by_size.files.len(), by_size.next), (1, Some(4)));
}

#[tokio::test]
async fn changes_go_with_the_task() {
    let (_dir, store, _) = with_one().await;
    let task = task(&store).await;
    store.append_task(task.number, lines(1..=1)).await.unwrap();
    let files = (0..100).map(|at: u32| file(at.to_string().as_bytes(), Some(1))).collect();
    store.record_task_changes(task.number, changes(files)).await.unwrap();
    store.conclude_task(task.number, TaskEnding::Lost, 5).await.unwrap();
    for transition in [Transition::Accept { goal: Goal::Destroyed, deadline_ms: 9 }, Transition::Reached] {
        store.transition_sandbox(&id(1), transition, 3).await.unwrap();
    }
    let late = limits::TASKS_OF_DESTROYED_RETENTION_MS + 4;
    assert_eq!(
        store.delete_expired(late - 2, Some(limits::AUDIT_RETENTION_DEFAULT_MS)).await.unwrap(),
        ExpiredRows::default()
    );
    let gone = store.delete_expired(late, Some(limits::AUDIT_RETENTION_DEFAULT_MS)).await.unwrap();
    assert_eq!((gone.task_changes, gone.tasks), (1, 1));
    assert_eq!(store.task_changes(task.number).await.unwrap(), None);
    assert!(store.changed_files(task.number, 0, 10).await.unwrap().files.is_empty());
}
