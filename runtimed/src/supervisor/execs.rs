//! All execs: starts them, handles reports of their shims, keeps their records within bounds.

use super::context::{Context, add_trace};
use super::exec::{Exec, State};
use super::exec_record::{ExecEnd, ExecStart, Records};
use super::exec_table::ExecTable;
use super::job_input::JobInput;
use super::jobs::{JobId, JobOwner};
use super::output_log::{LogKey, OutputLog};
use crate::core::job::Leftovers;
use crate::core::log_retention::LogUsage;
use crate::core::validation;
use crate::limits::EXECS_LIVE_MAX;
use crate::shim::messages::{Order, Report, Stdin};
use crate::sys::clock::{monotonic_ms, wall_ms};
use crate::sys::ulid;
use protocol::{Cursor, ErrorBody, ErrorCode, ExecId, ExecRequest, Exit, Fact, Hint, TraceParent};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

pub struct Execs {
    dir: PathBuf,
    table: ExecTable,
    records: Records,
}

pub type Refusal = Box<ErrorBody>;

/// The end of an exec that was not observed.
fn lost_end(started_ms: u64, output_end: u64, hints: Vec<Hint>) -> ExecEnd {
    let ended_ms = wall_ms();
    let duration_ms = ended_ms.saturating_sub(started_ms);
    ExecEnd { exit: Exit::Lost, hints, ended_ms, duration_ms, output_end, told: None }
}

/// The end of an exec that no shim could be started for.
fn not_begun(message: &str) -> ExecEnd {
    ExecEnd { exit: Exit::SpawnFailed { message: message.to_owned() }, ..lost_end(wall_ms(), 0, Vec::new()) }
}

impl Execs {
    /// Takes over the records of an earlier boot; execs that ran then are lost, and reported so.
    pub fn load(context: &mut Context) -> std::io::Result<Self> {
        let dir = context.config.control_dir.join("execs");
        std::fs::create_dir_all(&dir)?;
        let (records, known) = Records::open(&context.config.control_dir.join("execs.log"))?;
        let mut execs = Self { table: ExecTable::default(), dir, records };
        for (start, end) in known {
            let log = OutputLog::existing(execs.dir.join(start.id.as_str()));
            let unreported = end.as_ref().is_none_or(|end| is_unreported(end, context.events.before()));
            let end = end.unwrap_or_else(|| {
                let mut end = lost_end(start.started_ms, log.head().end, Vec::new());
                execs.record_end_at_next(context, &start.id, &mut end);
                end
            });
            if unreported {
                context.record(ended(&start.id, &end, 0));
            }
            log.ended(end.output_end);
            execs.table.insert(Exec { start, pid: None, log, state: State::Gone { end } });
        }
        execs.forget_old(context);
        execs.remove_unknown();
        Ok(execs)
    }

    /// Removes output that belongs to no known exec.
    fn remove_unknown(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let known = entry.file_name().to_str().and_then(|name| ExecId::parse(name).ok());
            if known.is_none_or(|id| self.table.get(&id).is_none()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    pub fn get(&self, id: &ExecId) -> Result<&Exec, Refusal> {
        self.table.get(id).ok_or_else(|| refuse(ErrorCode::NotFound, format!("there is no exec {id}")))
    }

    pub fn get_mut(&mut self, id: &ExecId) -> Option<&mut Exec> {
        self.table.get_mut(id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Exec> {
        self.table.iter()
    }

    /// Execs that run, or left processes running.
    pub fn live(&self) -> impl Iterator<Item = &Exec> {
        self.table.live()
    }

    /// Starts an exec, or finds the one started by the same request before.
    pub fn start(
        &mut self,
        context: &mut Context,
        mut request: ExecRequest,
        trace: Option<TraceParent>,
    ) -> Result<ExecId, Refusal> {
        validation::check_exec(&request)?;
        // Without the trace: a request that is sent again may belong to another one.
        let fingerprint = fingerprint(&request);
        add_trace(&mut request.env, trace);
        let id = match &request.id {
            Some(id) => id.clone(),
            None => ExecId::parse(&ulid::new()).expect("a fresh id is a good name"),
        };
        if let Some(exec) = self.table.get(&id) {
            let same = exec.start.fingerprint == fingerprint;
            let conflict =
                || refuse(ErrorCode::Conflict, format!("exec {id} was started with another request"));
            return if same { Ok(id) } else { Err(conflict()) };
        }
        if self.table.live_count() >= EXECS_LIVE_MAX {
            return Err(refuse(
                ErrorCode::TooMany,
                format!("{EXECS_LIVE_MAX} execs run already; wait or cancel one"),
            ));
        }
        self.spawn(context, &id, request, fingerprint)?;
        Ok(id)
    }

    fn spawn(
        &mut self,
        context: &mut Context,
        id: &ExecId,
        request: ExecRequest,
        fingerprint: u64,
    ) -> Result<(), Refusal> {
        let argv = match (request.argv, &request.shell) {
            (Some(argv), _) => argv,
            (None, line) => context.shell_line(line.as_deref().unwrap_or_default()),
        };
        let mut spec = context.job(argv, &request.env, request.cwd.as_deref());
        let dir = self.dir.join(id.as_str());
        spec.env = context.environment(&request.env, request.tty.is_some());
        context.add_proxy_env("exec", id.as_str(), &mut spec);
        spec.tty = request.tty;
        spec.timeout_ms = request.timeout_ms;
        spec.leftovers = Leftovers::Keep;
        spec.log = Some(dir.clone());
        if request.stdin.is_some() || request.stdin_open {
            spec.stdin = Stdin::Pipe;
        }
        let cwd = spec.cwd.first().map(|dir| dir.display().to_string()).unwrap_or_default();
        let (argv, tty, started_ms) = (spec.argv.clone(), request.tty.is_some(), wall_ms());
        let start = ExecStart { id: id.clone(), argv, cwd, tty, started_ms, fingerprint };
        self.records
            .start(&start)
            .map_err(|error| refuse(ErrorCode::Internal, format!("could not record the exec: {error}")))?;
        let job = context.jobs.start(JobOwner::Exec(id.clone()), &spec).map_err(|error| {
            self.record(id, &not_begun(&error.to_string()));
            no_shim(&error)
        })?;
        let state = State::Running { job, input: None, started_at: monotonic_ms() };
        self.table.insert(Exec { start, pid: None, log: OutputLog::fresh(dir), state });
        Ok(())
    }

    /// Handles a report of an exec's shim. Returns the stdin of an exec that just started.
    pub fn on_report(
        &mut self,
        context: &mut Context,
        id: &ExecId,
        report: Report,
        descriptor: Option<OwnedFd>,
    ) -> Option<Arc<JobInput>> {
        let exec = self.table.get_mut(id)?;
        match report {
            Report::Started { pid: leader } => {
                let tty = exec.start.tty;
                context.record(Fact::ExecStarted { exec: id.clone(), pid: leader, tty });
                exec.log.change(|head| head.started = true);
                exec.pid = Some(leader);
                let State::Running { input, .. } = &mut exec.state else { return None };
                *input = descriptor.and_then(|fd| JobInput::new(fd, tty).ok()).map(Arc::new);
                input.clone()
            }
            Report::Grew { end } => {
                exec.log.grew(end);
                None
            }
            Report::Rotated { end } => {
                exec.log.grew(end);
                exec.log.measure();
                None
            }
            Report::Matched | Report::Summary | Report::RawGrew { .. } | Report::Conversation(_) => None,
            Report::Ended { exit, hints, output_end, background } => {
                let State::Running { job, started_at, .. } = exec.state else { return None };
                let duration_ms = monotonic_ms().saturating_sub(started_at);
                let end = ExecEnd { exit, hints, ended_ms: wall_ms(), duration_ms, output_end, told: None };
                self.ended(context, id, end, Some((job, background)));
                None
            }
        }
    }

    /// Handles the end of an exec's shim: every process below it is gone too.
    pub fn on_shim_exit(&mut self, context: &mut Context, id: &ExecId) {
        let Some(exec) = self.table.get_mut(id) else { return };
        exec.log.disarm();
        exec.log.measure();
        match &exec.state {
            State::Running { .. } => {
                let end = lost_end(exec.start.started_ms, exec.log.head().end, vec![Hint::ShimDied]);
                self.ended(context, id, end, None);
            }
            State::Left { end, background, .. } => {
                if *background > 0 {
                    context.record(Fact::ExecGone { exec: id.clone() });
                }
                exec.state = State::Gone { end: end.clone() };
            }
            State::Gone { .. } => {}
        }
        self.table.retire(id);
        self.forget_old(context);
    }

    /// Records the end of an exec, first on disk, then as an event. `left` is the shim that still has this
    /// many processes.
    fn ended(&mut self, context: &mut Context, id: &ExecId, mut end: ExecEnd, left: Option<(JobId, u32)>) {
        self.record_end_at_next(context, id, &mut end);
        let Some(exec) = self.table.get_mut(id) else { return };
        context.record(ended(id, &end, left.map_or(0, |(_, background)| background)));
        exec.log.measure();
        exec.log.ended(end.output_end);
        exec.state = match left {
            Some((job, background)) => State::Left { job, end, background },
            None => State::Gone { end },
        };
    }

    /// Drops finished execs beyond count and age, oldest first.
    fn forget_old(&mut self, context: &mut Context) {
        while let Some(exec) = self.table.take_old(wall_ms()) {
            if !exec.log.segments.is_empty() {
                let _ = std::fs::remove_dir_all(&exec.log.dir);
            }
            context.record(Fact::ExecForgotten { exec: exec.start.id });
        }
        if self.records.wants_rewrite() {
            let kept = self.table.iter().map(|exec| (&exec.start, exec.end()));
            if let Err(error) = self.records.rewrite(kept) {
                tracing::error!(%error, "failed to rewrite exec records");
            }
        }
    }

    /// Records an end together with the cursor of the event that will report it.
    fn record_end_at_next(&mut self, context: &Context, id: &ExecId, end: &mut ExecEnd) {
        end.told = Some(context.events.next());
        self.record(id, end);
    }

    /// Records an end. A disk so full that even the reserved space is used up must not keep an exec from
    /// ending: its end is then only in memory and in the event log.
    fn record(&mut self, id: &ExecId, end: &ExecEnd) {
        if let Err(error) = self.records.end(id, end) {
            tracing::error!(%id, %error, "failed to record end of exec");
        }
    }

    pub fn cancel_all(&self, context: &mut Context, grace_ms: u64) {
        for job in self.table.live().filter_map(Exec::job) {
            context.jobs.order(job, &Order::Cancel { grace_ms });
        }
    }

    /// The running job of an exec, or why there is none.
    pub fn running(&self, id: &ExecId) -> Result<JobId, Refusal> {
        let exec = self.get(id)?;
        exec.job().filter(|_| exec.has_processes()).ok_or_else(|| not_running(id))
    }

    pub fn input(&self, id: &ExecId) -> Result<Arc<JobInput>, Refusal> {
        match &self.get(id)?.state {
            State::Running { input: Some(input), .. } => Ok(Arc::clone(input)),
            State::Running { input: None, .. } => {
                let message =
                    format!("the input of exec {id} is not open; start it with stdin_open or a tty");
                Err(refuse(ErrorCode::Conflict, message))
            }
            State::Left { .. } | State::Gone { .. } => Err(not_running(id)),
        }
    }

    /// Drops stdin, so that the job reads end of file once pending writes are done.
    pub fn close_input(&mut self, id: &ExecId) {
        if let Some(Exec { state: State::Running { input, .. }, .. }) = self.table.get_mut(id) {
            input.take_if(|input| !input.tty);
        }
    }

    pub fn log_bytes(&self) -> u64 {
        self.table.iter().map(|exec| exec.log.bytes()).sum()
    }

    pub fn log_uses(&self) -> impl Iterator<Item = LogUsage<LogKey>> {
        self.table.iter().map(|exec| LogUsage {
            key: LogKey::Exec(exec.start.id.clone()),
            finished_ms: if exec.is_gone() { exec.end().map(|end| end.ended_ms) } else { None },
            segments: exec.log.segments.clone(),
        })
    }
}

/// Whether the event that reports an end is missing from the event log.
fn is_unreported(end: &ExecEnd, last: Option<Cursor>) -> bool {
    end.told.zip(last).is_some_and(|(told, last)| told > last)
}

fn ended(id: &ExecId, end: &ExecEnd, background: u32) -> Fact {
    let (exit, hints, output_end) = (end.exit.clone(), end.hints.clone(), end.output_end);
    Fact::ExecEnded { exec: id.clone(), exit, hints, output_end, background }
}

/// EAGAIN from fork is the limit of processes, which the caller can retry.
fn no_shim(error: &std::io::Error) -> Refusal {
    if error.kind() == std::io::ErrorKind::WouldBlock {
        return refuse(ErrorCode::TooMany, "the sandbox is at its limit of processes; try again".to_owned());
    }
    if error.raw_os_error() == Some(nix::errno::Errno::EMFILE as i32) {
        return refuse(ErrorCode::TooMany, "the sandbox is at its limit of open files; try again".to_owned());
    }
    refuse(ErrorCode::Internal, format!("could not start a shim: {error}"))
}

fn refuse(code: ErrorCode, message: String) -> Refusal {
    Box::new(ErrorBody::new(code, message))
}

fn not_running(id: &ExecId) -> Refusal {
    refuse(ErrorCode::NotRunning, format!("exec {id} has ended"))
}

/// Hashes everything but the id: the same id with another fingerprint is another request. The hash is stored
/// on disk, so it must not change with the version of a library.
fn fingerprint(request: &ExecRequest) -> u64 {
    let request = ExecRequest { id: None, ..request.clone() };
    let json = serde_json::to_vec(&request).unwrap_or_default();
    (json.len() as u64) << 32 | u64::from(crc32fast::hash(&json))
}
