//! The jobs of a task: their specs, and what their end means. The agent is only a program with input and
//! output here.

use super::job_input::JobInput;
use super::jobs::{JobId, JobOwner};
use super::main_loop::Supervisor;
use super::sessions;
use super::task::{LiveTask, State, Task};
use super::task_steps::writes_events;
use crate::checkpoint::{self, Reply, Verb};
use crate::core::agent::{self, OutputProtocol};
use crate::core::job::Leftovers;
use crate::core::task::{AgentEnd, Input, Stage};
use crate::limits::{ANSWER_MAX_BYTES, BUILD_TIMEOUT_DEFAULT_MS, CHECKPOINT_MAX_MS};
use crate::log::task_log;
use crate::shim::messages::{Claim, ConversationSpec, JobSpec, JobSummary, Order, Report, Stdin, TaskOutput};
use crate::sys::clock::monotonic_ms;
use protocol::{BuildOutcome, BuildSpec, BuildStatus, Checkpoint, EnvMap, Exit, Hint, TaskFact, TaskId};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Where checkpoints are kept, below the home.
const REPOSITORY: &str = ".slipway/checkpoints.git";
/// This binary, also where its file was replaced.
const SELF: &str = "/proc/self/exe";
/// Size of a summary as JSON: base64 and escapes make it larger.
const SUMMARY_MAX_BYTES: u64 = 8 * ANSWER_MAX_BYTES as u64;

impl Supervisor {
    /// Starts the job of a stage; returns the next input where there is no job to wait for.
    pub(super) fn start_stage(&mut self, id: &TaskId, stage: Stage) -> Option<Input> {
        if stage == Stage::Agent {
            self.find_session(id);
        }
        let build = if stage == Stage::Build { self.build_of(id) } else { None };
        if stage == Stage::Agent && self.adopt_warm(id) {
            return None;
        }
        let Some(Task { state: State::Live(live), events, raw, changes, .. }) = self.tasks.get_mut(id) else {
            return None;
        };
        live.summary = JobSummary::default();
        let mut spec = match stage {
            Stage::Checkpoint => checkpoint_job(&self.context, id, Verb::Take),
            Stage::Changes => match &live.checkpoint {
                Checkpoint::Taken { id: since, .. } => {
                    let job = checkpoint_job(
                        &self.context,
                        id,
                        Verb::Changes { since: since.clone(), index: live.index.clone() },
                    );
                    JobSpec { log: Some(changes.dir.clone()), ..job }
                }
                Checkpoint::Unavailable { .. } => return self.stage_ended(id, stage, Exit::Lost, Vec::new()),
            },
            Stage::Agent => agent_job(&self.context, id, live),
            Stage::Build => build_job(&self.context, id, build.as_ref()?, live),
        };
        if writes_events(stage) {
            // From now on the shim writes the events.
            live.writer = None;
            let (dir, last, agent) = (events.dir.clone(), events.head().last, &live.request.agent);
            let protocol =
                if stage == Stage::Build { OutputProtocol::Build } else { OutputProtocol::of(agent) };
            let keeps = stage == Stage::Agent && agent::keeps_raw_output(agent);
            spec.task = Some(TaskOutput { dir, last, protocol, raw: keeps.then(|| raw.dir.clone()) });
        }
        events.disarm();
        raw.disarm();
        live.build_since = monotonic_ms();
        match self.context.jobs.start(JobOwner::Task(id.clone(), stage), &spec) {
            Ok(job) => {
                live.job = Some((job, stage));
                // Followers that connected before the job existed arm again.
                raw.change(|head| head.started |= stage == Stage::Agent);
                None
            }
            Err(error) => {
                let exit = Exit::SpawnFailed { message: format!("start a shim: {error}") };
                self.stage_ended(id, stage, exit, Vec::new())
            }
        }
    }

    pub(super) fn stop_stage(&mut self, id: &TaskId, grace_ms: u64) {
        let Some(live) = self.tasks.live_mut(id) else { return };
        // Stdin is closed first: a program that reads it may take that as a request to stop.
        if let Some(feeding) = live.feeding.take() {
            feeding.abort();
        }
        if let Some((job, _)) = live.job {
            self.context.jobs.order(job, &Order::Cancel { grace_ms });
        }
    }

    /// Kills the shim of a task that is over, so that it writes no more events. Returns the job whose exit
    /// has to be waited for.
    pub(super) fn abandon_stage(&mut self, id: &TaskId) -> Option<JobId> {
        let (job, stage) = self.tasks.live_mut(id)?.job.take()?;
        self.context.jobs.kill(job);
        writes_events(stage).then_some(job)
    }

    pub(super) fn on_task_report(
        &mut self,
        (id, stage): (&TaskId, Stage),
        job: JobId,
        report: Report,
        descriptor: Option<OwnedFd>,
    ) {
        let Some(Task { state: State::Live(live), events, raw, .. }) = self.tasks.get_mut(id) else { return };
        if live.job != Some((job, stage)) {
            return;
        }
        match report {
            Report::Started { .. } => self.feed_agent(id, descriptor),
            Report::Grew { end } => events.grew(end),
            Report::RawGrew { end } => raw.grew(end),
            Report::Rotated { end } => {
                events.grew(end);
                events.measure();
                raw.measure();
            }
            Report::Matched => {}
            Report::Conversation(report) => self.on_conversation_report(id, report),
            Report::Summary => live.summary = descriptor.and_then(read_summary).unwrap_or_default(),
            Report::Ended { exit, hints, output_end, .. } => {
                live.job = None;
                if writes_events(stage) {
                    events.grew(output_end);
                    events.measure();
                }
                let input = match self.restart_cold(id) {
                    Some(started) => started,
                    None => self.stage_ended(id, stage, exit, hints),
                };
                input.into_iter().for_each(|input| self.step_task(id, input));
            }
        }
    }

    /// Handles the end of a stage's shim; without a report before, the end is found in the files at most.
    pub(super) fn on_task_shim_exit(&mut self, id: &TaskId, stage: Stage, job: JobId) {
        self.tasks.end_after(&mut self.context, id, job);
        let Some(Task { state: State::Live(live), events, .. }) = self.tasks.get_mut(id) else { return };
        if live.job != Some((job, stage)) {
            return;
        }
        live.job = None;
        if writes_events(stage) {
            let scan = task_log::scan(&events.dir);
            events.segments = scan.segments;
            events.grew(scan.last);
        }
        let input = match self.restart_cold(id) {
            Some(started) => started,
            None => self.stage_ended(id, stage, Exit::Lost, vec![Hint::ShimDied]),
        };
        input.into_iter().for_each(|input| self.step_task(id, input));
    }

    /// Handles the end of a stage's job; returns the next input.
    fn stage_ended(&mut self, id: &TaskId, stage: Stage, exit: Exit, hints: Vec<Hint>) -> Option<Input> {
        if stage == Stage::Agent {
            self.tasks.get_mut(id)?.raw_ends();
        }
        match stage {
            Stage::Checkpoint => {
                let live = self.tasks.live_mut(id)?;
                live.checkpoint = match live.summary.checkpoint.take() {
                    Some(Reply::Taken { id, skipped, index }) => {
                        live.index = index;
                        Checkpoint::Taken { id, skipped }
                    }
                    Some(Reply::Unavailable { why }) => Checkpoint::Unavailable { why },
                    Some(Reply::Changed(_) | Reply::Compared | Reply::Reverted { .. }) | None => {
                        Checkpoint::Unavailable { why: why_not(&exit) }
                    }
                };
                Some(Input::Checkpointed)
            }
            Stage::Agent => {
                let live = self.tasks.live_mut(id)?;
                live.claim = live.summary.claim.take().map(|claim| Claim {
                    session: claim.session.filter(|session| sessions::is_safe_name(session)),
                    ..claim
                });
                let end = agent_end(OutputProtocol::of(&live.request.agent), &exit, live.claim.as_ref());
                let resumed = has_resumed(live, &exit);
                self.sessions.update_from_claim(live.request.agent.name(), live.claim.as_ref(), resumed);
                live.final_message = live.summary.tail.take();
                live.agent_stderr = live.summary.stderr.take();
                (live.exit, live.hints) = (Some(exit), hints);
                Some(Input::AgentEnded(end))
            }
            Stage::Changes => {
                self.tasks.get_mut(id)?.changes_end();
                let live = self.tasks.live_mut(id)?;
                if let Some(Reply::Changed(changes)) = live.summary.checkpoint.take() {
                    let files: Vec<_> = changes.files.iter().map(|file| file.clone().into()).collect();
                    live.changes = Some(changes);
                    self.tasks.write_all(id, files);
                }
                self.load_manifest();
                Some(Input::ChangesCounted { build: self.build_of(id).is_some() })
            }
            Stage::Build => {
                let live = self.tasks.live_mut(id)?;
                let passed = exit == Exit::Exited { code: 0 };
                live.build = BuildOutcome {
                    status: if passed { BuildStatus::Passed } else { BuildStatus::Failed },
                    exit: Some(exit),
                    output: live.summary.tail.take().filter(|_| !passed),
                    duration_ms: monotonic_ms().saturating_sub(live.build_since),
                };
                let build = live.build.clone();
                self.tasks.write(id, TaskFact::Build { build });
                Some(Input::Built { passed })
            }
        }
    }

    /// The build to run after a task: that of the request, else that of the manifest.
    fn build_of(&mut self, id: &TaskId) -> Option<BuildSpec> {
        let asked = self.tasks.live_mut(id)?.request.build.clone();
        asked.or_else(|| self.manifest.build().cloned()).filter(|build| !build.command.trim().is_empty())
    }

    /// Looks up the session that the agent of a task continues.
    fn find_session(&mut self, id: &TaskId) {
        let Some(live) = self.tasks.live_mut(id) else { return };
        let agent = &live.request.agent;
        let named = live.request.session.clone();
        let session = || named.or_else(|| self.sessions.last(agent.name()));
        live.session = agent::continues(agent).then(session).flatten();
    }

    /// Writes the prompt to the agent's stdin and closes it.
    fn feed_agent(&mut self, id: &TaskId, descriptor: Option<OwnedFd>) {
        let Some(live) = self.tasks.live_mut(id) else { return };
        let Some(input) = descriptor.and_then(|fd| JobInput::new(fd, false).ok()) else { return };
        let text = agent::program(id, &live.request, live.session.as_deref()).input;
        live.feeding = Some(self.feeding.spawn(async move {
            // An agent that does not read all of its stdin finds the prompt in its environment.
            let _ = input.write_all(text.as_bytes()).await;
        }));
    }
}

pub(super) fn checkpoint_repository(context: &super::context::Context) -> PathBuf {
    context.config.home.join(REPOSITORY)
}

pub(super) fn checkpoint_job(context: &super::context::Context, id: &TaskId, verb: Verb) -> JobSpec {
    let config = &context.config;
    let (repository, work_tree) = (checkpoint_repository(context), config.app_dir.clone());
    let request = checkpoint::Request { repository, work_tree, task: id.clone(), verb };
    let request = serde_json::to_string(&request).unwrap_or_default();
    let argv = vec![SELF.to_owned(), "checkpoint".to_owned(), request];
    let mut spec = context.job(argv, &EnvMap::new(), Some("/"));
    spec.captures_reply = true;
    spec.timeout_ms = Some(CHECKPOINT_MAX_MS);
    // A checkpoint helper has nothing to save.
    spec.timeout_grace_ms = 0;
    spec
}

fn agent_job(context: &super::context::Context, id: &TaskId, live: &LiveTask) -> JobSpec {
    let request = &live.request;
    let program = agent::program(id, request, live.session.as_deref());
    let mut spec = context.job(program.argv, &program.env, request.cwd.as_deref());
    context.add_proxy_env("task", id.as_str(), &mut spec);
    spec.stdin = Stdin::Pipe;
    spec.files = agent::files(&request.agent);
    if let Some((agent, turn)) = agent::turn(request) {
        spec.stdin = Stdin::Shim;
        let session = live.session.clone();
        spec.conversation = Some(ConversationSpec { agent: agent.clone(), session, turn: Some(turn) });
    }
    spec.idle_ms = request.idle_timeout_ms;
    spec.leftovers = leftovers(request.keep_processes);
    spec
}

pub(super) fn leftovers(keep: bool) -> Leftovers {
    if keep { Leftovers::Keep } else { Leftovers::Kill }
}

fn build_job(context: &super::context::Context, id: &TaskId, build: &BuildSpec, live: &LiveTask) -> JobSpec {
    let mut spec = context.job(context.shell_line(&build.command), &live.request.env, None);
    context.add_proxy_env("task", id.as_str(), &mut spec);
    spec.timeout_ms = Some(build.timeout_ms.unwrap_or(BUILD_TIMEOUT_DEFAULT_MS));
    spec
}

/// An agent with a structured protocol has to claim success. One that prints JSON has to exit with 0 as well;
/// an ACP agent has responded by then, and how it exits does not matter.
fn agent_end(protocol: OutputProtocol, exit: &Exit, claim: Option<&Claim>) -> AgentEnd {
    let good = claim.is_some_and(|claim| claim.good);
    match exit {
        Exit::Exited { code: 0 } => match protocol {
            OutputProtocol::Command | OutputProtocol::Build => AgentEnd::Succeeded,
            OutputProtocol::Acp | OutputProtocol::Json(_) if good => AgentEnd::Succeeded,
            OutputProtocol::Acp | OutputProtocol::Json(_) => AgentEnd::Failed,
        },
        Exit::Exited { .. } | Exit::Signalled { .. } | Exit::Cancelled
            if protocol == OutputProtocol::Acp && good =>
        {
            AgentEnd::Succeeded
        }
        // The machine knows whether the end was requested.
        Exit::Exited { .. } | Exit::Signalled { .. } | Exit::Oom | Exit::Cancelled => AgentEnd::Failed,
        // The shim enforces only one timeout for agents: that of silence.
        Exit::TimedOut => AgentEnd::Idle,
        Exit::SpawnFailed { .. } => AgentEnd::NotStarted,
        Exit::Lost => AgentEnd::Lost,
    }
}

/// Whether an agent was started with a session to continue and ended by itself. A stopped agent says nothing
/// about its session, and an ACP agent tries other ways while it runs.
fn has_resumed(live: &LiveTask, exit: &Exit) -> bool {
    let by_itself = matches!(exit, Exit::Exited { .. }) && !live.machine.is_stopping();
    let by_arguments = matches!(OutputProtocol::of(&live.request.agent), OutputProtocol::Json(_));
    by_arguments && live.session.is_some() && by_itself
}

fn why_not(exit: &Exit) -> String {
    match exit {
        Exit::TimedOut => format!("it took longer than {} seconds", CHECKPOINT_MAX_MS / 1000),
        Exit::SpawnFailed { message } => format!("could not {message}"),
        Exit::Cancelled => "the task was stopped before there was one".to_owned(),
        Exit::Exited { .. } | Exit::Signalled { .. } | Exit::Oom | Exit::Lost => {
            "the process that takes checkpoints ended without an answer".to_owned()
        }
    }
}

pub(super) fn read_summary(file: OwnedFd) -> Option<JobSummary> {
    let mut text = Vec::new();
    std::fs::File::from(file).take(SUMMARY_MAX_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}
