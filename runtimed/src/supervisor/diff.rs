//! The diff of one file between two recorded states, for a caller that waits for it. One at a time: it is asked for
//! by hand, of files whose diff was too large to be recorded.

use super::command::Reply;
use super::dispatch::send_reply;
use super::jobs::{JobId, JobOwner};
use super::main_loop::Supervisor;
use super::task_stages::checkpoint_job;
use super::tasks::refuse;
use crate::checkpoint::Verb;
use crate::limits::ONE_DIFF_MAX_MS;
use crate::log::segment;
use crate::shim::messages::{JobSpec, Report};
use protocol::{DiffRequest, ErrorCode, TaskId};
use std::fs::File;
use std::path::PathBuf;

/// A diff that is under way.
pub struct PendingDiff {
    job: JobId,
    reply: Reply<File>,
}

impl Supervisor {
    pub(super) fn start_diff(&mut self, id: &TaskId, request: DiffRequest, reply: Reply<File>) {
        if let Err(refusal) = self.refuse_during_shutdown() {
            return send_reply(reply, Err(refusal));
        }
        if self.diff.is_some() {
            let message = "another diff is under way; try again".to_owned();
            return send_reply(reply, Err(refuse(ErrorCode::TooMany, message)));
        }
        let dir = self.diff_dir();
        let _ = std::fs::remove_dir_all(&dir);
        let job = checkpoint_job(&self.context, id, Verb::Diff(request));
        let job = JobSpec { log: Some(dir), timeout_ms: Some(ONE_DIFF_MAX_MS), ..job };
        match self.context.jobs.start(JobOwner::Diff, &job) {
            Ok(job) => self.diff = Some(PendingDiff { job, reply }),
            Err(error) => {
                let message = format!("could not start a shim: {error}");
                send_reply(reply, Err(refuse(ErrorCode::Internal, message)));
            }
        }
    }

    pub(super) fn on_diff_report(&mut self, job: JobId, report: &Report) {
        match report {
            Report::Ended { .. } => self.end_diff(job),
            Report::Started { .. }
            | Report::Grew { .. }
            | Report::RawGrew { .. }
            | Report::Rotated { .. }
            | Report::Matched
            | Report::Conversation(_)
            | Report::Summary => {}
        }
    }

    /// Hands the document over: its name is gone when it is read.
    pub(super) fn end_diff(&mut self, job: JobId) {
        let Some(PendingDiff { reply, .. }) = self.diff.take_if(|pending| pending.job == job) else { return };
        let dir = self.diff_dir();
        let file = File::open(segment::data_path(&dir, 0));
        let _ = std::fs::remove_dir_all(dir);
        let none = |_| refuse(ErrorCode::Internal, "the process that compares files said nothing".to_owned());
        send_reply(reply, file.map_err(none));
    }

    fn diff_dir(&self) -> PathBuf {
        self.context.config.control_dir.join("diff")
    }
}
