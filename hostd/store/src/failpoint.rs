//! Failpoints: named points at which hostd kills itself, so that tests can stop it exactly there. With
//! `SLIPWAY_FAILPOINT=<name>[:<n>]` in its environment hostd dies as by `kill -9` the n-th time it reaches
//! the point (the first time when `n` is absent). Without the variable a failpoint costs one load.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

pub const VARIABLE: &str = "SLIPWAY_FAILPOINT";

/// The names of all failpoints.
pub const NAMES: &[&str] = &[
    "store.insert_sandbox.before_commit",
    "store.insert_sandbox.after_commit",
    "store.move_sandbox.before_commit",
    "store.move_sandbox.after_commit",
    "store.begin_attempt.before_commit",
    "store.begin_attempt.after_commit",
    "store.attempt_launched.before_commit",
    "store.attempt_launched.after_commit",
    "store.end_attempt.before_commit",
    "store.end_attempt.after_commit",
    "store.append_events.before_commit",
    "store.append_events.after_commit",
    "store.begin_exec.before_commit",
    "store.begin_exec.after_commit",
    "store.end_exec.before_commit",
    "store.end_exec.after_commit",
    "store.begin_task.before_commit",
    "store.begin_task.after_commit",
    "store.task_taken.before_commit",
    "store.task_taken.after_commit",
    "store.task_given.before_commit",
    "store.task_given.after_commit",
    "store.append_task.before_commit",
    "store.append_task.after_commit",
    "store.record_task_changes.before_commit",
    "store.record_task_changes.after_commit",
    "store.conclude_task.before_commit",
    "store.conclude_task.after_commit",
    "store.call_ended.before_commit",
    "store.call_ended.after_commit",
    "store.judge_task.before_commit",
    "store.judge_task.after_commit",
    "store.cancel_task.before_commit",
    "store.cancel_task.after_commit",
    "store.put_provider.before_commit",
    "store.put_provider.after_commit",
    "store.put_budget.before_commit",
    "store.put_budget.after_commit",
    "store.put_quota.before_commit",
    "store.put_quota.after_commit",
    "store.replace_sandbox.before_commit",
    "store.replace_sandbox.after_commit",
    "store.insert_token.before_commit",
    "store.insert_token.after_commit",
    "store.idempotency_begin.before_commit",
    "store.idempotency_begin.after_commit",
    "store.idempotency_finish.before_commit",
    "store.idempotency_finish.after_commit",
];

/// Further points, of snapshots: between the steps that change files, and beside the commits of their rows.
pub const OF_SNAPSHOTS: &[&str] = &[
    "store.insert_snapshot.after_commit",
    "snapshot.prepared",
    "snapshot.captured",
    "snapshot.thawed",
    "snapshot.published",
    "store.snapshot_taken.before_commit",
    "store.snapshot_taken.after_commit",
    "store.snapshot_hashed.before_commit",
];
pub const OF_RESTORES: &[&str] = &[
    "restore.begun",
    "restore.swapped",
    "restore.launched",
    "restore.committed",
    "store.sandbox_restored.before_commit",
];
pub const OF_REMOVALS: &[&str] = &[
    "store.hide_snapshot.before_commit",
    "store.hide_snapshot.after_commit",
    "snapshot.removed",
    "store.forget_snapshot.before_commit",
    "store.forget_snapshot.after_commit",
];

/// Points of a backup of the host, and of its restore, which another process does.
pub const OF_BACKUPS: &[&str] = &["backup.copied", "backup.captured", "backup.exported"];
pub const OF_HOST_RESTORES: &[&str] =
    &["host_restore.verified", "host_restore.unpacked", "host_restore.prepared", "host_restore.renamed"];

struct ArmedFailpoint {
    name: String,
    nth: u64,
    reached: AtomicU64,
}

static ARMED: OnceLock<Option<ArmedFailpoint>> = OnceLock::new();

fn armed() -> Option<&'static ArmedFailpoint> {
    ARMED.get_or_init(|| parse(&std::env::var(VARIABLE).ok()?)).as_ref()
}

fn parse(text: &str) -> Option<ArmedFailpoint> {
    let (name, nth) = match text.rsplit_once(':') {
        None => (text, 1),
        Some((name, nth)) => (name, nth.parse().ok().filter(|nth| *nth > 0)?),
    };
    Some(ArmedFailpoint { name: name.to_owned(), nth, reached: AtomicU64::new(0) })
}

/// Marks a failpoint as reached. Does not return when it is the armed one.
pub fn hit(name: &str) {
    let Some(armed) = armed() else { return };
    if armed.name == name && armed.reached.fetch_add(1, Ordering::Relaxed) + 1 == armed.nth {
        die();
    }
}

/// Hits the failpoint before or after the commit of a job. Formats the name only when a failpoint is armed.
pub(super) fn hit_job(job: &str, side: &str) {
    if armed().is_some() {
        hit(&format!("store.{job}.{side}"));
    }
}

fn die() -> ! {
    // SIGKILL leaves everything unwritten, unflushed and locked, as a crash does.
    let _ = kill(Pid::this(), Signal::SIGKILL);
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_point_is_a_name_and_maybe_a_count() {
        let table = [
            ("store.x.y", Some(("store.x.y", 1))),
            ("store.x.y:3", Some(("store.x.y", 3))),
            ("store.x.y:0", None),
            ("store.x.y:z", None),
        ];
        for (text, expected) in table {
            let found = parse(text).map(|armed| (armed.name, armed.nth));
            assert_eq!(found.as_ref().map(|(name, nth)| (name.as_str(), *nth)), expected, "{text}");
        }
    }
}
