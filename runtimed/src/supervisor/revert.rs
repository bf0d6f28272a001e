//! Restoring the files of a task's checkpoint, for a caller that waits for it. No task runs meanwhile: one that is queued or
//! running refuses it, and one that is submitted during it waits for its end.

use super::command::Reply;
use super::dispatch::send_reply;
use super::execs::Refusal;
use super::jobs::{JobId, JobOwner};
use super::main_loop::Supervisor;
use super::task_stages::{checkpoint_job, checkpoint_repository, read_summary};
use super::tasks::refuse;
use crate::checkpoint::{self, STAGING, Verb};
use crate::limits::{REVERT_KILL_MS, REVERT_MAX_MS};
use crate::log::segment;
use crate::shim::messages::{JobSpec, Order, Report};
use crate::sys::clock::monotonic_ms;
use protocol::{ErrorCode, Exit, Fact, Hint, RevertRequest, TaskId};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Interval between kills of a process that outlives its time.
const KILL_AGAIN_MS: u64 = 1_000;

/// A revert that is under way. It goes on where its caller is gone.
pub struct PendingRevert {
    pub(super) task: TaskId,
    job: JobId,
    dry_run: bool,
    reply: Reply<File>,
    summary: Option<checkpoint::Reply>,
    /// When its process is killed, whatever its shim does.
    kill_at_ms: u64,
    is_overdue: bool,
}

impl PendingRevert {
    pub(super) fn next_wake(&self) -> u64 {
        self.kill_at_ms
    }
}

impl Supervisor {
    pub(super) fn start_revert(&mut self, id: TaskId, request: RevertRequest, reply: Reply<File>) {
        if let Err(refusal) = self.refuse_during_shutdown().and_then(|()| self.refuse_beside_tasks()) {
            return send_reply(reply, Err(refusal));
        }
        let dir = self.revert_dir();
        let _ = std::fs::remove_dir_all(&dir);
        let dry_run = request.dry_run;
        let job = checkpoint_job(&self.context, &id, Verb::Revert(request));
        let job = JobSpec { log: Some(dir), timeout_ms: Some(REVERT_MAX_MS), ..job };
        match self.context.jobs.start(JobOwner::Revert, &job) {
            Ok(job) => {
                let kill_at_ms = monotonic_ms() + REVERT_KILL_MS;
                let (summary, is_overdue) = (None, false);
                self.revert =
                    Some(PendingRevert { task: id, job, dry_run, reply, summary, kill_at_ms, is_overdue });
            }
            Err(error) => {
                let message = format!("could not start a shim: {error}");
                send_reply(reply, Err(refuse(ErrorCode::Internal, message)));
            }
        }
    }

    fn refuse_beside_tasks(&self) -> Result<(), Refusal> {
        if let Some(pending) = &self.revert {
            let message =
                format!("a revert to task {} is under way; try again when it has ended", pending.task);
            return Err(refuse(ErrorCode::TooMany, message));
        }
        let Some(task) = self.tasks.live().next() else { return Ok(()) };
        let message = format!("task {task} has not ended; wait for it or cancel it, then revert");
        Err(refuse(ErrorCode::Conflict, message))
    }

    pub(super) fn on_revert_report(&mut self, job: JobId, report: Report, descriptor: Option<OwnedFd>) {
        match report {
            Report::Ended { exit, hints, .. } => self.end_revert(job, &exit, &hints),
            Report::Summary => {
                if let Some(pending) = self.revert.as_mut().filter(|pending| pending.job == job) {
                    pending.summary =
                        descriptor.and_then(read_summary).and_then(|summary| summary.checkpoint);
                }
            }
            Report::Started { .. }
            | Report::Grew { .. }
            | Report::RawGrew { .. }
            | Report::Rotated { .. }
            | Report::Matched
            | Report::Conversation(_) => {}
        }
    }

    /// Kills a revert that outlives its time: its shim may be suspended. Its end follows as that of a shim that died.
    pub(super) fn tick_revert(&mut self) {
        let now = monotonic_ms();
        let Some(pending) = self.revert.as_mut().filter(|pending| pending.kill_at_ms <= now) else { return };
        pending.is_overdue = true;
        pending.kill_at_ms = now + KILL_AGAIN_MS;
        self.context.jobs.kill_tree(pending.job);
    }

    /// Ends a revert for a shutdown; the same request continues where it ended.
    pub(super) fn stop_revert(&mut self) {
        if let Some(pending) = &self.revert {
            self.context.jobs.order(pending.job, &Order::Cancel { grace_ms: 0 });
        }
    }

    /// Records what was restored, hands the outcome over and starts the next task.
    pub(super) fn end_revert(&mut self, job: JobId, exit: &Exit, hints: &[Hint]) {
        let Some(pending) = self.revert.take_if(|pending| pending.job == job) else { return };
        let dir = self.revert_dir();
        let file = File::open(segment::data_path(&dir, 0));
        let _ = std::fs::remove_dir_all(dir);
        let exit = if pending.is_overdue { &Exit::TimedOut } else { exit };
        if !pending.dry_run {
            self.record_revert(pending.task, pending.summary.as_ref(), exit);
        }
        let outcome = match (pending.summary, file) {
            (Some(_), Ok(file)) => Ok(file),
            (_, Err(_)) | (None, _) => Err(refuse(ErrorCode::Internal, why_ended(exit, hints))),
        };
        send_reply(pending.reply, outcome);
        self.start_next_task();
    }

    /// A revert that was killed has no summary: what it stages files in shows that it was changing some.
    fn record_revert(&mut self, task: TaskId, summary: Option<&checkpoint::Reply>, exit: &Exit) {
        let (restored, deleted, complete, saved) = match summary {
            Some(checkpoint::Reply::Reverted { started: false, .. }) => return,
            Some(checkpoint::Reply::Reverted { restored, deleted, complete, saved, .. }) => {
                (*restored, *deleted, *complete, saved.clone())
            }
            Some(
                checkpoint::Reply::Taken { .. }
                | checkpoint::Reply::Changed(_)
                | checkpoint::Reply::Compared
                | checkpoint::Reply::Unavailable { .. },
            )
            | None => {
                let staging = checkpoint_repository(&self.context).with_file_name(STAGING);
                let was_started = !matches!(exit, Exit::SpawnFailed { .. });
                if !was_started || std::fs::symlink_metadata(staging).is_err() {
                    return;
                }
                (0, 0, false, None)
            }
        };
        self.context.record(Fact::TaskReverted { task, restored, deleted, complete, saved });
        if !self.is_shutting_down() {
            self.load_manifest();
            self.services.task_ended(&mut self.context);
        }
    }

    fn revert_dir(&self) -> PathBuf {
        self.context.config.control_dir.join("revert")
    }
}

/// The message for a revert without an outcome.
fn why_ended(exit: &Exit, hints: &[Hint]) -> String {
    let cause = match exit {
        Exit::Exited { code } => format!("its process exited with {code}"),
        Exit::Signalled { signal } => format!("its process was killed by signal {signal}"),
        Exit::Oom => "its process was killed for memory".to_owned(),
        Exit::TimedOut => format!("it took longer than {} minutes", REVERT_MAX_MS / 60_000),
        Exit::Cancelled => "the sandbox was stopped".to_owned(),
        Exit::SpawnFailed { message } => format!("could not {message}"),
        Exit::Lost => "its process died".to_owned(),
    };
    let hints = hints.iter().filter_map(|hint| match hint {
        Hint::PidsLimit { .. } => Some("; the process limit was reached"),
        Hint::OomKills { .. } => Some("; processes were killed for memory"),
        Hint::DiskFull => Some("; the file system of the workspace is full"),
        Hint::OutputLost { .. } | Hint::Leaky | Hint::Unkillable { .. } | Hint::ShimDied => None,
    });
    let hints: String = hints.collect();
    format!("the revert ended before all files were restored: {cause}{hints}; repeat it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_why_a_revert_ended() {
        let oom = why_ended(&Exit::Oom, &[Hint::OomKills { times: 1 }, Hint::ShimDied]);
        let expected = "the revert ended before all files were restored: its process was killed for memory; \
            processes were killed for memory; repeat it";
        assert_eq!(oom, expected);
        let spawn = why_ended(&Exit::SpawnFailed { message: "run it: no such file".to_owned() }, &[]);
        assert!(spawn.contains("could not run it"), "{spawn}");
    }
}
