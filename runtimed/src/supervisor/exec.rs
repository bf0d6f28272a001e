//! One exec, from its request until its record is dropped.
//!
//! ```text
//!  Running ──ended──▶ Left (processes live on) ──all gone──▶ Gone
//!     └───────────────ended, nothing left───────────────────▶ Gone
//! ```

use super::exec_record::{ExecEnd, ExecStart};
use super::job_input::JobInput;
use super::jobs::JobId;
use super::output_log::OutputLog;
use crate::sys::procfs;
use nix::unistd::Pid;
use protocol::{ExecState, ExecView, Process};
use std::sync::Arc;

pub struct Exec {
    pub start: ExecStart,
    /// The leader's, also after its end; unknown where another boot ran it.
    pub pid: Option<i32>,
    pub log: OutputLog,
    pub state: State,
}

pub enum State {
    Running { job: JobId, input: Option<Arc<JobInput>>, started_at: u64 },
    Left { job: JobId, end: ExecEnd, background: u32 },
    Gone { end: ExecEnd },
}

impl Exec {
    pub fn job(&self) -> Option<JobId> {
        match &self.state {
            State::Running { job, .. } | State::Left { job, .. } => Some(*job),
            State::Gone { .. } => None,
        }
    }

    pub fn end(&self) -> Option<&ExecEnd> {
        match &self.state {
            State::Running { .. } => None,
            State::Left { end, .. } | State::Gone { end } => Some(end),
        }
    }

    pub fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone { .. })
    }

    /// Whether processes may still run below its shim, as last reported.
    pub fn has_processes(&self) -> bool {
        match &self.state {
            State::Running { .. } => true,
            State::Left { background, .. } => *background > 0,
            State::Gone { .. } => false,
        }
    }

    /// The exec as callers see it. `shim` is used to list leftover processes.
    pub fn view(&self, shim: Option<Pid>) -> ExecView {
        let end = self.end();
        ExecView {
            id: self.start.id.clone(),
            state: if end.is_some() { ExecState::Ended } else { ExecState::Running },
            argv: self.start.argv.clone(),
            cwd: self.start.cwd.clone(),
            tty: self.start.tty,
            pid: self.pid,
            started_ms: self.start.started_ms,
            ended_ms: end.map(|end| end.ended_ms),
            duration_ms: end.map(|end| end.duration_ms),
            exit: end.map(|end| end.exit.clone()),
            hints: end.map(|end| end.hints.clone()).unwrap_or_default(),
            output_oldest: self.log.oldest(),
            output_end: end.map(|end| end.output_end),
            background: self.background(shim),
            stdout: None,
            stderr: None,
            truncated: false,
        }
    }

    fn background(&self, shim: Option<Pid>) -> Vec<Process> {
        match (&self.state, shim) {
            (State::Left { background: 1.., .. }, Some(shim)) => {
                procfs::descendants(shim.as_raw()).into_iter().filter_map(procfs::process).collect()
            }
            (State::Left { .. } | State::Running { .. } | State::Gone { .. }, _) => Vec::new(),
        }
    }
}
