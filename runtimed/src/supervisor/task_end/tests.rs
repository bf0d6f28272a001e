//! The largest possible results against the reserved space; ends that have to wait.

use super::*;
use crate::config::Config;
use crate::limits::{
    AGENT_STDERR_MAX_BYTES, BUILD_TAIL_MAX_BYTES, CHANGES_SHOWN_MAX, CHANGES_SHOWN_MAX_BYTES,
    FINAL_MESSAGE_MAX_BYTES, SERVICES_MAX,
};
use crate::log::{EventLog, TaskLog};
use crate::supervisor::jobs::Jobs;
use protocol::log_line::file_name;
use protocol::{
    BuildOutcome, BuildStatus, ChangeKind, Changes, Cursor, Durations, Encoding, FailureReason, FileChange,
    HealthOutcome, HealthStatus, Payload, ServiceName, TaskPhase, TaskStatus,
};
use std::path::Path;
use std::sync::Arc;

/// Text that is six times as long in JSON.
fn control_characters(bytes: usize) -> Payload {
    Payload { data: "\u{1}".repeat(bytes), encoding: Encoding::Utf8 }
}

fn largest() -> TaskResult {
    let exit = || Some(Exit::SpawnFailed { message: "\u{1}".repeat(100_000) });
    let path = || control_characters(CHANGES_SHOWN_MAX_BYTES / CHANGES_SHOWN_MAX);
    let file = || FileChange {
        path: path(),
        change: ChangeKind::Added,
        added_lines: Some(9),
        deleted_lines: Some(9),
    };
    let files = std::iter::repeat_with(file).take(CHANGES_SHOWN_MAX).collect();
    let service = |n| ServiceName::parse(&format!("{n:064}")).expect("a name");
    TaskResult {
        status: TaskStatus::Failed,
        failure_reason: Some(FailureReason::AgentFailed),
        message: Some("\u{1}".repeat(MESSAGE_MAX_CHARS)),
        exit: exit(),
        hints: Vec::new(),
        final_message: Some(control_characters(FINAL_MESSAGE_MAX_BYTES)),
        agent_stderr: Some(control_characters(AGENT_STDERR_MAX_BYTES)),
        files_changed: Some(Changes { added: 500, files, ..Changes::default() }),
        build: BuildOutcome {
            status: BuildStatus::Failed,
            exit: exit(),
            output: Some(control_characters(BUILD_TAIL_MAX_BYTES)),
            duration_ms: u64::MAX,
        },
        health: HealthOutcome {
            status: HealthStatus::Unhealthy,
            unready: (0..SERVICES_MAX).map(service).collect(),
        },
        usage: None,
        models: Vec::new(),
        session: None,
        durations: Durations::default(),
        checkpoint: Checkpoint::Unavailable { why: "\u{1}".repeat(100_000) },
    }
}

#[test]
fn the_largest_result_fits_into_the_reserved_space() {
    assert!(!fits(&largest()));
    let result = truncated_to_fit(largest());
    assert!(fits(&result));
    // The agent's message is kept rather than names that were events.
    assert_eq!(result.final_message, Some(control_characters(FINAL_MESSAGE_MAX_BYTES)));
    assert_eq!(result.agent_stderr, Some(control_characters(AGENT_STDERR_MAX_BYTES)));
    let changes = result.files_changed.expect("still counted");
    assert!(changes.truncated && changes.files.is_empty() && changes.added == 500);
}

#[test]
fn a_result_that_fits_is_not_changed() {
    let mut result = without_details(largest());
    (result.exit, result.build.exit) = (None, None);
    result.checkpoint = Checkpoint::Unavailable { why: "none".to_owned() };
    result.final_message = Some(control_characters(10));
    assert_eq!(truncated_to_fit(result.clone()), result);
}

fn context(home: &Path) -> Context {
    let dir = home.to_str().expect("a path that is text").to_owned();
    let config = Config::from_env(|name| (name == "RUNTIMED_DIR").then(|| dir.clone()));
    let (events, _) = EventLog::open(&home.join("events"), 1).expect("room");
    Context::new(Arc::new(config.expect("a good directory")), Jobs::new().0, events)
}

fn submitted(context: &mut Context, tasks: &mut Tasks) -> TaskId {
    let request = r#"{"prompt": "", "agent": {"kind": "command", "argv": ["true"]}}"#;
    let request = serde_json::from_str(request).expect("a request");
    tasks.submit(context, request, None).expect("a good request").0
}

#[test]
fn the_last_event_of_a_killed_writer_comes_before_the_end() {
    let home = tempfile::tempdir().expect("a directory");
    let mut context = context(home.path());
    let mut tasks = Tasks::load(&mut context).expect("readable");
    let id = submitted(&mut context, &mut tasks);
    let killed = JobId(7);
    tasks.finish(&mut context, &id, without_details(largest()), Some(killed));
    let events = tasks.get(&id).expect("known").events.handle();
    assert_eq!((events.head.borrow().last, events.head.borrow().done), (1, false));
    assert!(!tasks.view(&id).expect("known").status.is_final());
    assert!(tasks.next_wake().is_some_and(|at| at <= monotonic_ms() + TASK_WRITER_DIES_MS));
    let mut shim = TaskLog::after(&events.dir, 1);
    shim.push(TaskFact::Status { phase: TaskPhase::Agent, checkpoint: None }, 1);
    shim.flush();
    tasks.end_after(&mut context, &id, JobId(8));
    assert!(!events.head.borrow().done);
    tasks.end_after(&mut context, &id, killed);
    assert_eq!((events.head.borrow().last, events.head.borrow().done), (3, true));
    assert!(tasks.view(&id).expect("known").result.is_some());
    assert_eq!(tasks.next_wake(), None);
}

#[test]
fn a_task_that_a_boot_cannot_end_yet_is_ended_later() {
    let home = tempfile::tempdir().expect("a directory");
    let mut context = context(home.path());
    let mut before = Tasks::load(&mut context).expect("readable");
    let id = submitted(&mut context, &mut before);
    let in_the_way = home.path().join("tasks").join(id.as_str()).join(file_name(Cursor { epoch: 0, seq: 2 }));
    std::fs::create_dir(&in_the_way).expect("nothing there yet");
    let mut tasks = Tasks::load(&mut context).expect("readable");
    let head = tasks.get(&id).expect("known").events.handle().head;
    assert!(!head.borrow().done && tasks.view(&id).expect("known").result.is_none());
    std::fs::remove_dir(&in_the_way).expect("it is there");
    tasks.end_due(&mut context);
    assert_eq!((head.borrow().last, head.borrow().done), (2, true));
    assert_eq!(tasks.view(&id).expect("known").status, TaskStatus::Failed);
}
