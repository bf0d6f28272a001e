//! The main loop of the supervisor: handles one event at a time, each without waiting.

use super::command::Command;
use super::context::Context;
use super::diff::PendingDiff;
use super::execs::{Execs, Refusal};
use super::file_verbs::{FilePermits, FileVerbs};
use super::file_watch::FileWatch;
use super::handle::{Handle, LogHandle, SharedState};
use super::holds::Holds;
use super::job_input::JobInput;
use super::jobs::{JobId, JobOwner, Jobs, ShimMessage};
use super::manifest::Manifest;
use super::output_log::{LogKey, OutputLog};
use super::revert::PendingRevert;
use super::services::Services;
use super::sessions::Sessions;
use super::status::StatusSampler;
use super::tasks::Tasks;
use super::warm_agent::WarmAgent;
use crate::config::Config;
use crate::core::log_retention;
use crate::core::shutdown::{self, Shutdown};
use crate::limits::FOLLOWERS_MAX;
use crate::log::EventLog;
use crate::shim::messages::{Order, Report};
use crate::sys::clock::monotonic_ms;
use crate::sys::{procfs, reap};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::{ExecId, Exit, Fact, Hint, TaskId};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

/// Commands that wait for the supervisor; further callers block.
const COMMANDS_WAITING_MAX: usize = 256;
/// Yields to other tasks between the end of the last job and the exit.
const FINAL_YIELDS: usize = 8;

pub struct Supervisor {
    pub(super) context: Context,
    pub(super) execs: Execs,
    pub(super) services: Services,
    pub(super) tasks: Tasks,
    pub(super) sessions: Sessions,
    pub(super) warm: Option<WarmAgent>,
    pub(super) diff: Option<PendingDiff>,
    pub(super) revert: Option<PendingRevert>,
    pub(super) holds: Holds,
    pub(super) file_verbs: FileVerbs,
    pub(super) status_sampler: StatusSampler,
    file_watch: FileWatch,
    pub(super) manifest: Manifest,
    shutdown: Option<Shutdown>,
    commands: mpsc::Receiver<Command>,
    shim_messages: mpsc::Receiver<(JobId, ShimMessage)>,
    /// Writes of inline input into pipes.
    pub(super) feeding: JoinSet<()>,
    inline_input: HashMap<ExecId, (String, bool)>,
    /// A shim was killed: its descendants, now children of PID 1, have to be killed.
    orphans_to_kill: bool,
    children: Signals,
    terminate: Signals,
    interrupt: Signals,
}

/// A log to trim.
#[derive(Debug, Clone)]
enum TrimTarget {
    Log(LogKey),
    Task(TaskId),
}

/// Returned by the main loop after a complete shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupervisorEnded;

impl Supervisor {
    /// Takes over the state of an earlier boot.
    pub fn new(
        config: Arc<Config>,
        mut events: EventLog,
        boot: Fact,
        gap: Option<Fact>,
    ) -> io::Result<(Self, Handle)> {
        let (commands_sender, commands) = mpsc::channel(COMMANDS_WAITING_MAX);
        let (jobs, shim_messages) = Jobs::new();
        let shared = SharedState {
            events_dir: events.dir().to_owned(),
            events: events.watch(),
            viewers: AtomicU32::new(0),
            tunnels: AtomicU32::new(0),
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
            file_permits: FilePermits::new(),
            faults: config.faults,
        };
        let shared = Arc::new(shared);
        for fact in std::iter::once(boot).chain(gap) {
            events.append(fact, crate::sys::clock::wall_ms());
        }
        let mut context = Context::new(config, jobs, events);
        let supervisor = Self {
            execs: Execs::load(&mut context)?,
            services: Services::load(&context),
            tasks: Tasks::load(&mut context)?,
            sessions: Sessions::load(&context.config.control_dir),
            warm: None,
            diff: None,
            revert: None,
            holds: Holds::default(),
            file_verbs: FileVerbs::default(),
            status_sampler: StatusSampler::new(Arc::clone(&shared)),
            file_watch: FileWatch::new(),
            manifest: Manifest::new(context.config.services_held),
            context,
            shutdown: None,
            commands,
            shim_messages,
            feeding: JoinSet::new(),
            inline_input: HashMap::new(),
            orphans_to_kill: false,
            children: signal(SignalKind::child())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        };
        Ok((supervisor, Handle { commands: commands_sender, shared }))
    }

    /// Runs until the shutdown is complete.
    pub async fn run(mut self) -> SupervisorEnded {
        // Watches first, then a read: a change in between is seen.
        self.follow_files();
        self.load_manifest();
        loop {
            self.follow_files();
            let wake = Duration::from_millis(self.next_wake().saturating_sub(monotonic_ms()));
            // Each arm only takes what is ready; the rest stays where it is.
            tokio::select! {
                _ = self.children.recv() => self.reap(),
                Some((job, message)) = self.shim_messages.recv() => self.on_shim_message(job, message),
                Some(command) = self.commands.recv() => self.dispatch(command),
                (name, result) = self.services.next_probe() => {
                    self.services.probed(&mut self.context, &name, result);
                }
                // Cancelling loses no change: `file_watch` collects them until they are taken.
                () = self.file_watch.changed() => self.files_changed(),
                _ = self.terminate.recv() => self.begin_shutdown("SIGTERM"),
                _ = self.interrupt.recv() => self.begin_shutdown("SIGINT"),
                Some(_) = self.feeding.join_next() => {}
                () = self.status_sampler.walk() => {}
                () = tokio::time::sleep(wake) => self.tick(),
            }
            self.recheck_services();
            self.note_activity();
            if self.proceed_with_shutdown() {
                self.drain_commands().await;
                return SupervisorEnded;
            }
        }
    }

    /// Answers callers that wait for the end of a job. They run on this thread, so a few yields are enough
    /// for all of them to wake, send their command and write their response.
    async fn drain_commands(&mut self) {
        for _ in 0..FINAL_YIELDS {
            tokio::task::yield_now().await;
            while let Ok(command) = self.commands.try_recv() {
                self.dispatch(command);
            }
        }
    }

    /// When the next tick is due; far away when none is.
    fn next_wake(&self) -> u64 {
        const FAR_MS: u64 = 24 * 3600 * 1000;
        let shutdown = self.shutdown.as_ref().map(Shutdown::next_wake);
        let tasks = self.tasks.next_wake();
        let revert = self.revert.as_ref().map(PendingRevert::next_wake);
        [
            tasks,
            revert,
            self.services.next_wake(),
            self.holds.next_wake(),
            self.context.jobs.next_wake(),
            shutdown,
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or_else(|| monotonic_ms() + FAR_MS)
    }

    fn tick(&mut self) {
        self.holds.tick(&mut self.context);
        self.context.jobs.tick();
        self.tick_revert();
        self.tick_task();
        if self.shutdown.is_none() {
            self.services.tick(&mut self.context);
        }
    }

    /// Reaps dead children. Shims are handled when their socket closes; orphans only have to be reaped.
    pub(super) fn reap(&mut self) {
        let ended = reap::sweep().ended;
        self.file_verbs.on_reaped(&ended);
        self.orphans_to_kill |= self.context.jobs.on_reaped(&ended);
        if self.orphans_to_kill {
            self.kill_orphans();
        }
    }

    fn kill_orphans(&mut self) {
        let ours = procfs::children(nix::unistd::getpid().as_raw());
        let is_ours = |pid: &Pid| self.context.jobs.is_shim(*pid) || self.file_verbs.contains(*pid);
        let orphans: Vec<Pid> = ours.into_iter().map(Pid::from_raw).filter(|pid| !is_ours(pid)).collect();
        for orphan in &orphans {
            for pid in procfs::descendants(orphan.as_raw()).into_iter().chain([orphan.as_raw()]) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        self.orphans_to_kill = !orphans.is_empty();
    }

    fn on_shim_message(&mut self, job: JobId, message: ShimMessage) {
        let Some(owner) = self.context.jobs.owner(job).cloned() else { return };
        match message {
            ShimMessage::Report(report, descriptor) => {
                self.context.jobs.mark_started(job);
                let rotated = matches!(report, Report::Rotated { .. } | Report::Ended { .. });
                match owner {
                    JobOwner::Exec(id) => {
                        let input = self.execs.on_report(&mut self.context, &id, report, descriptor);
                        self.write_inline_input(&id, input);
                    }
                    JobOwner::Service(name) => self.services.on_report(&mut self.context, &name, job, report),
                    JobOwner::Probe(name) => {
                        self.services.on_check_report(&mut self.context, &name, job, &report);
                    }
                    JobOwner::Task(id, stage) => self.on_task_report((&id, stage), job, report, descriptor),
                    JobOwner::Warm => self.on_warm_report(job, report),
                    JobOwner::Diff => self.on_diff_report(job, &report),
                    JobOwner::Revert => self.on_revert_report(job, report, descriptor),
                }
                if rotated {
                    self.enforce_log_quota();
                }
            }
            ShimMessage::Closed => {
                self.context.jobs.forget(job);
                if self.shutdown.is_none() {
                    self.context.jobs.start_spare();
                }
                match owner {
                    JobOwner::Exec(id) => {
                        self.inline_input.remove(&id);
                        self.execs.on_shim_exit(&mut self.context, &id);
                    }
                    JobOwner::Service(name) => self.services.on_shim_exit(&mut self.context, &name, job),
                    JobOwner::Probe(name) => self.services.on_check_shim_exit(&mut self.context, &name, job),
                    JobOwner::Task(id, stage) => self.on_task_shim_exit(&id, stage, job),
                    JobOwner::Warm => self.on_warm_shim_exit(job),
                    JobOwner::Diff => self.end_diff(job),
                    JobOwner::Revert => self.end_revert(job, &Exit::Lost, &[Hint::ShimDied]),
                }
                self.reap();
            }
        }
    }

    /// Writes input of the request, once the job runs.
    fn write_inline_input(&mut self, id: &ExecId, input: Option<Arc<JobInput>>) {
        let Some(input) = input else { return };
        let Some((text, stay_open)) = self.inline_input.remove(id) else { return };
        if !stay_open {
            self.execs.close_input(id);
        }
        self.feeding.spawn(async move {
            // A job that does not read all of its input is no error.
            if input.write_all(text.as_bytes()).await.is_ok() && !stay_open {
                let _ = input.end(!text.is_empty() && !text.ends_with('\n')).await;
            }
        });
    }

    pub(super) fn keep_inline_input(&mut self, id: &ExecId, stdin: Option<String>, stay_open: bool) {
        if let Some(text) = stdin {
            self.inline_input.entry(id.clone()).or_insert((text, stay_open));
        }
    }

    /// Trims logs when all of them together exceed the quota.
    fn enforce_log_quota(&mut self) {
        let quota = self.context.config.log_quota_bytes;
        if self.execs.log_bytes() + self.services.log_bytes() + self.tasks.log_bytes() <= quota {
            return;
        }
        let logs = self.execs.log_uses().chain(self.services.log_uses()).chain(self.tasks.raw_uses());
        let logs = logs.map(|log| log.keyed(TrimTarget::Log));
        let tasks = self.tasks.log_uses().map(|log| log.keyed(TrimTarget::Task));
        let uses: Vec<_> = tasks.chain(logs).collect();
        for (key, start) in log_retention::plan(&uses, quota) {
            let key = match key {
                TrimTarget::Log(key) => key,
                TrimTarget::Task(task) => {
                    self.trim_task(task, start);
                    continue;
                }
            };
            let Some(log) = self.log_mut(&key) else { continue };
            log.remove_segment(start);
            let oldest = log.oldest();
            if let LogKey::Exec(exec) = key {
                self.context.record(Fact::ExecTrimmed { exec, oldest });
            }
        }
    }

    fn trim_task(&mut self, task: TaskId, start: u64) {
        let Some(found) = self.tasks.get_mut(&task) else { return };
        found.events.remove_segment(start);
        let oldest = found.events.oldest();
        self.context.record(Fact::TaskTrimmed { task, oldest });
    }

    fn log_mut(&mut self, key: &LogKey) -> Option<&mut OutputLog> {
        match key {
            LogKey::Exec(id) => self.execs.get_mut(id).map(|exec| &mut exec.log),
            LogKey::Service(name) => self.services.log_mut(name),
            LogKey::Task(id) => self.tasks.get_mut(id).map(|task| &mut task.raw),
            LogKey::TaskChanges(id) => self.tasks.get_mut(id).map(|task| &mut task.changes),
        }
    }

    pub(super) fn log(&mut self, key: LogKey) -> Result<LogHandle, Refusal> {
        let log = match &key {
            LogKey::Exec(id) => &self.execs.get(id)?.log,
            LogKey::Service(name) => &self.services.get(name)?.log,
            LogKey::Task(id) => self.tasks.raw(id)?,
            LogKey::TaskChanges(id) => &self.tasks.get(id)?.changes,
        };
        Ok(LogHandle { dir: log.dir.clone(), oldest: log.oldest(), head: log.watch(), key })
    }

    /// Asks the shim behind a log to report growth.
    pub(super) fn arm(&mut self, key: &LogKey, seen: u64) {
        let job = match key {
            LogKey::Exec(id) => self.execs.get(id).ok().and_then(|exec| exec.job()),
            LogKey::Service(name) => self.services.get(name).ok().and_then(|service| service.job),
            LogKey::Task(id) => self.tasks.agent_job(id),
            // Read when it is complete, and never followed.
            LogKey::TaskChanges(_) => None,
        };
        let Some(job) = job else { return };
        if self.log_mut(key).is_some_and(|log| log.arm(seen)) {
            let order = match key {
                LogKey::Exec(_) | LogKey::Service(_) | LogKey::TaskChanges(_) => Order::Arm { seen },
                LogKey::Task(_) => Order::ArmRaw { seen },
            };
            self.context.jobs.order(job, &order);
        }
    }

    fn follow_files(&mut self) {
        self.file_watch.follow(&self.context.config, &self.services);
    }

    pub(super) fn load_manifest(&mut self) {
        self.manifest.load(&mut self.context, &mut self.services);
    }

    pub(super) fn retry_manifest(&mut self) {
        self.manifest.retry(&mut self.context, &mut self.services);
    }

    fn files_changed(&mut self) {
        let change = self.file_watch.take_changes();
        if self.shutdown.is_some() {
            return;
        }
        self.follow_files();
        if change.manifest {
            self.load_manifest();
        }
        self.services.changed(&mut self.context, &change.services);
    }

    /// Warnings for the user that are no events.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.file_watch.warning().into_iter().collect()
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutdown.is_some()
    }

    fn begin_shutdown(&mut self, reason: &str) {
        if self.shutdown.is_some() {
            return;
        }
        tracing::info!(reason, "shutting down");
        self.context.record(Fact::Shutdown { reason: reason.to_owned() });
        self.context.jobs.drop_spare();
        self.file_verbs.kill_all();
        let levels = self.services.stop_levels();
        let (machine, effects) = Shutdown::begin(levels, self.context.config.shutdown_ms, monotonic_ms());
        self.shutdown = Some(machine);
        self.perform(effects);
    }

    /// Advances a shutdown that has begun; whether it is complete.
    fn proceed_with_shutdown(&mut self) -> bool {
        let Some(machine) = &mut self.shutdown else { return false };
        let processes = self.context.jobs.count() + self.file_verbs.count();
        let effects = machine.step(&self.services.alive(), processes, monotonic_ms());
        self.perform(effects)
    }

    fn perform(&mut self, effects: Vec<shutdown::Effect>) -> bool {
        let mut exit = false;
        for effect in effects {
            match effect {
                shutdown::Effect::StopServices { names, grace_ms } => {
                    self.services.stop(&mut self.context, &names, grace_ms);
                }
                shutdown::Effect::StopExecs { grace_ms } => {
                    self.execs.cancel_all(&mut self.context, grace_ms);
                    self.stop_tasks(grace_ms);
                    self.stop_revert();
                    self.stop_warm(grace_ms);
                }
                shutdown::Effect::KillAll => {
                    for job in self.context.jobs.ids() {
                        self.context.jobs.order(job, &Order::Cancel { grace_ms: 0 });
                    }
                }
                shutdown::Effect::Exit => exit = true,
            }
        }
        exit
    }
}
