//! The loop of the supervisor: one event at a time, each handled to its end without waiting.

use super::command::Command;
use super::context::Context;
use super::execs::{Execs, Refusal};
use super::handle::{Handle, LogHandle, Shared};
use super::holds::Holds;
use super::input::Input;
use super::jobs::{Heard, JobId, Jobs, Owner};
use super::logs::{Log, LogKey};
use super::manifest::Manifest;
use super::services::Services;
use super::sessions::Sessions;
use super::status::Looks;
use super::tasks::Tasks;
use super::warm::Warm;
use super::watching::Watching;
use crate::config::Config;
use crate::core::budget;
use crate::core::shutdown::{self, Shutdown};
use crate::limits::FOLLOWERS_MAX;
use crate::log::EventLog;
use crate::shim::wire::{Order, Report};
use crate::sys::clock::monotonic_ms;
use crate::sys::{procfs, reap};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::{ExecId, Fact, TaskId};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

/// Questions that wait for the supervisor; askers wait when there is no room.
const COMMANDS_WAITING_MAX: usize = 256;
/// Turns that everybody gets between the end of the last job and ours.
const LAST_TURNS: usize = 8;

pub struct Supervisor {
    pub(super) context: Context,
    pub(super) execs: Execs,
    pub(super) services: Services,
    pub(super) tasks: Tasks,
    pub(super) sessions: Sessions,
    pub(super) warm: Option<Warm>,
    pub(super) holds: Holds,
    pub(super) looks: Looks,
    watching: Watching,
    pub(super) manifest: Manifest,
    shutdown: Option<Shutdown>,
    commands: mpsc::Receiver<Command>,
    heard: mpsc::Receiver<(JobId, Heard)>,
    /// Input that came with requests, on its way into pipes.
    pub(super) feeding: JoinSet<()>,
    inline: HashMap<ExecId, (String, bool)>,
    /// A shim died: what it left with us has to go.
    orphans_condemned: bool,
    children: Signals,
    terminate: Signals,
    interrupt: Signals,
}

/// Whose files go when there is too much.
#[derive(Debug, Clone)]
enum Trim {
    Log(LogKey),
    Task(TaskId),
}

/// How the supervisor came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended;

impl Supervisor {
    /// Takes over what an earlier boot left and gets ready to run.
    pub fn new(
        config: Arc<Config>,
        mut events: EventLog,
        boot: Fact,
        gap: Option<Fact>,
    ) -> io::Result<(Self, Handle)> {
        let (commands_sender, commands) = mpsc::channel(COMMANDS_WAITING_MAX);
        let (jobs, heard) = Jobs::new();
        let shared = Shared {
            events_dir: events.dir().to_owned(),
            events: events.watch(),
            viewers: AtomicU32::new(0),
            tunnels: AtomicU32::new(0),
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
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
            holds: Holds::default(),
            looks: Looks::new(Arc::clone(&shared)),
            watching: Watching::new(),
            manifest: Manifest::default(),
            context,
            shutdown: None,
            commands,
            heard,
            feeding: JoinSet::new(),
            inline: HashMap::new(),
            orphans_condemned: false,
            children: signal(SignalKind::child())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        };
        Ok((supervisor, Handle { commands: commands_sender, shared }))
    }

    /// Runs until the shutdown is complete.
    pub async fn run(mut self) -> Ended {
        // Watches first, then a look: what changes in between is seen.
        self.follow_files();
        self.load_manifest();
        loop {
            self.follow_files();
            let wake = Duration::from_millis(self.next_wake().saturating_sub(monotonic_ms()));
            // Every arm only takes something that is ready; what is not taken stays where it is.
            tokio::select! {
                _ = self.children.recv() => self.reap(),
                Some((job, heard)) = self.heard.recv() => self.hear(job, heard),
                Some(command) = self.commands.recv() => self.answer(command),
                (name, result) = self.services.next_probe() => {
                    self.services.probed(&mut self.context, &name, result);
                }
                // Cancelling forgets no change: they are gathered in `watching` until taken.
                () = self.watching.changed() => self.files_changed(),
                _ = self.terminate.recv() => self.begin_shutdown("SIGTERM"),
                _ = self.interrupt.recv() => self.begin_shutdown("SIGINT"),
                Some(_) = self.feeding.join_next() => {}
                () = self.looks.walk() => {}
                () = tokio::time::sleep(wake) => self.tick(),
            }
            self.services_may_be_ready();
            self.note_activity();
            if self.proceed_with_shutdown() {
                self.answer_the_last().await;
                return Ended;
            }
        }
    }

    /// Those who waited for the end of a job hear of it. They run on this thread, so a few turns for everybody
    /// are enough for all of them to wake, ask and write down their answer.
    async fn answer_the_last(&mut self) {
        for _ in 0..LAST_TURNS {
            tokio::task::yield_now().await;
            while let Ok(command) = self.commands.try_recv() {
                self.answer(command);
            }
        }
    }

    /// When time alone makes something due; far away when nothing is.
    fn next_wake(&self) -> u64 {
        const FAR_MS: u64 = 24 * 3600 * 1000;
        let shutdown = self.shutdown.as_ref().map(Shutdown::next_wake);
        let tasks = self.tasks.next_wake();
        [tasks, self.services.next_wake(), self.holds.next_wake(), self.context.jobs.next_wake(), shutdown]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or_else(|| monotonic_ms() + FAR_MS)
    }

    fn tick(&mut self) {
        self.holds.tick(&mut self.context);
        self.context.jobs.tick();
        self.tick_task();
        if self.shutdown.is_none() {
            self.services.tick(&mut self.context);
        }
    }

    /// Collects the dead. Shims are heard of by their sockets; orphans are nobody's, but must not stay.
    pub(super) fn reap(&mut self) {
        self.orphans_condemned |= self.context.jobs.bury(&reap::sweep().ended);
        if self.orphans_condemned {
            self.kill_orphans();
        }
    }

    fn kill_orphans(&mut self) {
        let ours = procfs::children(nix::unistd::getpid().as_raw());
        let orphans: Vec<Pid> =
            ours.into_iter().map(Pid::from_raw).filter(|pid| !self.context.jobs.is_shim(*pid)).collect();
        for orphan in &orphans {
            for pid in procfs::descendants(orphan.as_raw()).into_iter().chain([orphan.as_raw()]) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        self.orphans_condemned = !orphans.is_empty();
    }

    fn hear(&mut self, job: JobId, heard: Heard) {
        let Some(owner) = self.context.jobs.owner(job).cloned() else { return };
        match heard {
            Heard::Report(report, descriptor) => {
                self.context.jobs.has_begun(job);
                let rotated = matches!(report, Report::Rotated { .. } | Report::Ended { .. });
                match owner {
                    Owner::Exec(id) => {
                        let input = self.execs.report(&mut self.context, &id, report, descriptor);
                        self.feed(&id, input);
                    }
                    Owner::Service(name) => self.services.report(&mut self.context, &name, job, report),
                    Owner::Probe(name) => self.services.probe_report(&mut self.context, &name, job, &report),
                    Owner::Task(id, stage) => self.task_report((&id, stage), job, report, descriptor),
                    Owner::Warm => self.warm_report(job, report),
                }
                if rotated {
                    self.keep_budget();
                }
            }
            Heard::Closed => {
                self.context.jobs.forget(job);
                if self.shutdown.is_none() {
                    self.context.jobs.prepare();
                }
                match owner {
                    Owner::Exec(id) => {
                        self.inline.remove(&id);
                        self.execs.shim_gone(&mut self.context, &id);
                    }
                    Owner::Service(name) => self.services.shim_gone(&mut self.context, &name, job),
                    Owner::Probe(name) => self.services.check_gone(&mut self.context, &name, job),
                    Owner::Task(id, stage) => self.task_shim_gone(&id, stage, job),
                    Owner::Warm => self.warm_gone(job),
                }
                self.reap();
            }
        }
    }

    /// Writes input that came with the request, once the job is there to read it.
    fn feed(&mut self, id: &ExecId, input: Option<Arc<Input>>) {
        let Some(input) = input else { return };
        let Some((text, stay_open)) = self.inline.remove(id) else { return };
        if !stay_open {
            self.execs.close_input(id);
        }
        self.feeding.spawn(async move {
            // A job that does not read its input to the end is none of our business.
            if input.write_all(text.as_bytes()).await.is_ok() && !stay_open {
                let _ = input.end(!text.is_empty() && !text.ends_with('\n')).await;
            }
        });
    }

    pub(super) fn remember_input(&mut self, id: &ExecId, stdin: Option<String>, stay_open: bool) {
        if let Some(text) = stdin {
            self.inline.entry(id.clone()).or_insert((text, stay_open));
        }
    }

    /// Trims logs when all of them together are over the budget.
    fn keep_budget(&mut self) {
        let budget = self.context.config.log_budget_bytes;
        if self.execs.log_bytes() + self.services.log_bytes() + self.tasks.log_bytes() <= budget {
            return;
        }
        let logs = self.execs.log_uses().chain(self.services.log_uses()).chain(self.tasks.raw_uses());
        let logs = logs.map(|log| log.keyed(Trim::Log));
        let tasks = self.tasks.log_uses().map(|log| log.keyed(Trim::Task));
        let uses: Vec<_> = tasks.chain(logs).collect();
        for (key, start) in budget::plan(&uses, budget) {
            let key = match key {
                Trim::Log(key) => key,
                Trim::Task(task) => {
                    self.trim_task(task, start);
                    continue;
                }
            };
            let Some(log) = self.log_mut(&key) else { continue };
            log.remove_segment(start);
            let oldest = log.oldest();
            if let LogKey::Exec(exec) = key {
                self.context.tell(Fact::ExecTrimmed { exec, oldest });
            }
        }
    }

    fn trim_task(&mut self, task: TaskId, start: u64) {
        let Some(found) = self.tasks.get_mut(&task) else { return };
        found.events.remove_segment(start);
        let oldest = found.events.oldest();
        self.context.tell(Fact::TaskTrimmed { task, oldest });
    }

    fn log_mut(&mut self, key: &LogKey) -> Option<&mut Log> {
        match key {
            LogKey::Exec(id) => self.execs.get_mut(id).map(|exec| &mut exec.log),
            LogKey::Service(name) => self.services.log_mut(name),
            LogKey::Task(id) => self.tasks.get_mut(id).map(|task| &mut task.raw),
        }
    }

    pub(super) fn log(&mut self, key: LogKey) -> Result<LogHandle, Refusal> {
        let log = match &key {
            LogKey::Exec(id) => &self.execs.get(id)?.log,
            LogKey::Service(name) => &self.services.get(name)?.log,
            LogKey::Task(id) => self.tasks.raw(id)?,
        };
        Ok(LogHandle { dir: log.dir.clone(), oldest: log.oldest(), head: log.watch(), key })
    }

    /// Asks the shim behind a log to say when it grows.
    pub(super) fn arm(&mut self, key: &LogKey, seen: u64) {
        let job = match key {
            LogKey::Exec(id) => self.execs.get(id).ok().and_then(|exec| exec.job()),
            LogKey::Service(name) => self.services.get(name).ok().and_then(|service| service.job),
            LogKey::Task(id) => self.tasks.agent_job(id),
        };
        let Some(job) = job else { return };
        if self.log_mut(key).is_some_and(|log| log.arm(seen)) {
            let order = match key {
                LogKey::Exec(_) | LogKey::Service(_) => Order::Arm { seen },
                LogKey::Task(_) => Order::ArmRaw { seen },
            };
            self.context.jobs.order(job, &order);
        }
    }

    fn follow_files(&mut self) {
        self.watching.follow(&self.context.config, &self.services);
    }

    pub(super) fn load_manifest(&mut self) {
        self.manifest.load(&mut self.context, &mut self.services);
    }

    pub(super) fn retry_manifest(&mut self) {
        self.manifest.retry(&mut self.context, &mut self.services);
    }

    fn files_changed(&mut self) {
        let change = self.watching.take();
        if self.shutdown.is_some() {
            return;
        }
        self.follow_files();
        if change.manifest {
            self.load_manifest();
        }
        self.services.changed(&mut self.context, &change.services);
    }

    /// What people should know about this sandbox that is no event.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.watching.warning().into_iter().collect()
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutdown.is_some()
    }

    fn begin_shutdown(&mut self, reason: &str) {
        if self.shutdown.is_some() {
            return;
        }
        tracing::info!(reason, "shutting down");
        self.context.tell(Fact::Shutdown { reason: reason.to_owned() });
        self.context.jobs.dismiss_spare();
        let levels = self.services.stop_levels();
        let (machine, effects) = Shutdown::begin(levels, self.context.config.shutdown_ms, monotonic_ms());
        self.shutdown = Some(machine);
        self.perform(effects);
    }

    /// Goes on with a shutdown that has begun; whether it is complete.
    fn proceed_with_shutdown(&mut self) -> bool {
        let Some(machine) = &mut self.shutdown else { return false };
        let effects = machine.step(&self.services.alive(), self.context.jobs.count(), monotonic_ms());
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
