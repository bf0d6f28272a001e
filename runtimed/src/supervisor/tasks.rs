//! All tasks: the queue, the table, and their records on disk. What a task does is in `task_steps`.

use super::context::{Context, add_trace};
use super::execs::Refusal;
use super::jobs::JobId;
use super::output_log::{LogKey, OutputLog};
use super::task::{self, LiveTask, START, Start, State, Task, TaskEventLog, TaskHead};
use super::task_recovery::recover;
use crate::core::log_retention::LogUsage;
use crate::core::task::{Machine, Policy, Stage};
use crate::core::validation::check_task;
use crate::limits::{TASK_HEALTH_DEFAULT_MS, TASK_TIMEOUT_DEFAULT_MS, TASKS_KEPT_MAX, TASKS_QUEUED_MAX};
use crate::log::task_log::{self, TaskLog};
use crate::sys::clock::{monotonic_ms, wall_ms};
use crate::sys::ulid;
use protocol::{
    AgentKind, ErrorBody, ErrorCode, Fact, TaskFact, TaskId, TaskPhase, TaskRequest, TaskView, TraceParent,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

/// Renamed to [`START`] once it is complete.
const START_NEW: &str = "task.json.new";

pub struct Tasks {
    dir: PathBuf,
    pub(super) table: BTreeMap<TaskId, Task>,
    pub(super) queue: VecDeque<TaskId>,
    /// The running task.
    pub(super) active: Option<TaskId>,
    /// Finished tasks, by when they ended.
    pub(super) finished: BTreeSet<(u64, TaskId)>,
    /// Tasks whose last event is still to be written.
    pub(super) ending: BTreeSet<TaskId>,
}

impl Tasks {
    /// Takes over the tasks of an earlier boot. Unfinished ones are lost, and reported so.
    pub fn load(context: &mut Context) -> io::Result<Self> {
        let dir = context.config.control_dir.join("tasks");
        std::fs::create_dir_all(&dir)?;
        let mut tasks = Self {
            table: BTreeMap::new(),
            queue: VecDeque::new(),
            active: None,
            finished: BTreeSet::new(),
            ending: BTreeSet::new(),
            dir,
        };
        for entry in std::fs::read_dir(&tasks.dir)?.flatten() {
            let id = entry.file_name().to_str().and_then(|name| TaskId::parse(name).ok());
            let known = id.and_then(|id| recover(context, id, entry.path()));
            match known {
                Some(task) => tasks.insert(task),
                None => drop(std::fs::remove_dir_all(entry.path())),
            }
        }
        tasks.forget_old(context);
        Ok(tasks)
    }

    fn insert(&mut self, task: Task) {
        match &task.state {
            State::Live(_) => {}
            State::Ending(_) => drop(self.ending.insert(task.id.clone())),
            State::Done(ended) => drop(self.finished.insert((ended.ended_ms, task.id.clone()))),
        }
        self.table.insert(task.id.clone(), task);
    }

    pub fn get(&self, id: &TaskId) -> Result<&Task, Refusal> {
        self.table.get(id).ok_or_else(|| task::missing(id))
    }

    pub fn get_mut(&mut self, id: &TaskId) -> Option<&mut Task> {
        self.table.get_mut(id)
    }

    pub fn live_mut(&mut self, id: &TaskId) -> Option<&mut LiveTask> {
        self.table.get_mut(id).and_then(Task::live_mut)
    }

    /// Queued and running tasks.
    pub fn live(&self) -> impl Iterator<Item = &TaskId> {
        self.active.iter().chain(&self.queue)
    }

    /// Accepts a task, or finds the one accepted for the same request before. Whether it is new.
    pub fn submit(
        &mut self,
        context: &mut Context,
        mut request: TaskRequest,
        trace: Option<TraceParent>,
    ) -> Result<(TaskId, bool), Refusal> {
        check_task(&request)?;
        // Without the trace, as for execs.
        let fingerprint = fingerprint(&request);
        add_trace(&mut request.env, trace);
        let id = match &request.id {
            Some(id) => id.clone(),
            None => TaskId::parse(&ulid::new()).expect("a fresh id is a good name"),
        };
        if let Some(task) = self.table.get(&id) {
            let other =
                || refuse(ErrorCode::Conflict, format!("task {id} was asked for with another request"));
            return if task.start.fingerprint == fingerprint { Ok((id, false)) } else { Err(other()) };
        }
        if self.queue.len() >= TASKS_QUEUED_MAX {
            let message = format!("{TASKS_QUEUED_MAX} tasks wait already; wait or cancel one");
            return Err(refuse(ErrorCode::TooMany, message));
        }
        let (agent, name) = (request.agent.kind(), request.agent.name().into());
        let start = Start { agent, name, created_ms: wall_ms(), fingerprint };
        let dir = self.dir.join(id.as_str());
        if let Err(error) = write_down(&dir, &start) {
            let _ = std::fs::remove_dir_all(&dir);
            return Err(refuse(ErrorCode::Internal, format!("could not record the task: {error}")));
        }
        let policy = Policy {
            timeout_ms: Some(request.timeout_ms.unwrap_or(TASK_TIMEOUT_DEFAULT_MS)),
            health_timeout_ms: request.health_timeout_ms.unwrap_or(TASK_HEALTH_DEFAULT_MS),
        };
        let machine = Machine::new(policy, monotonic_ms());
        let live = LiveTask::new(machine, request, TaskLog::after(&dir, 0));
        let raw = OutputLog::fresh(task::raw_dir(&dir));
        let changes = OutputLog::fresh(task::changes_dir(&dir));
        let events = TaskEventLog::new(dir, Vec::new(), TaskHead::default());
        let state = State::Live(Box::new(live));
        self.insert(Task { id: id.clone(), start, started_ms: None, events, raw, changes, state });
        self.write(&id, TaskFact::Status { phase: TaskPhase::Queued, checkpoint: None });
        self.queue.push_back(id.clone());
        context.record(Fact::TaskQueued { task: id.clone() });
        Ok((id, true))
    }

    /// Writes an event of a task that has no shim writing.
    pub fn write(&mut self, id: &TaskId, fact: TaskFact) {
        self.write_all(id, [fact]);
    }

    pub fn write_all(&mut self, id: &TaskId, facts: impl IntoIterator<Item = TaskFact>) {
        let Some(Task { state: State::Live(live), events, .. }) = self.table.get_mut(id) else { return };
        let last = events.head().last;
        let writer = live.writer.get_or_insert_with(|| TaskLog::after(&events.dir, last));
        let now = wall_ms();
        let mut rotated = false;
        for fact in facts {
            rotated |= writer.push(fact, now).rotated;
        }
        rotated |= writer.flush().rotated;
        let last = writer.last();
        events.grew(last);
        if rotated {
            events.measure();
        }
    }

    /// Drops finished tasks beyond their limit, oldest first.
    pub(super) fn forget_old(&mut self, context: &mut Context) {
        while self.finished.len() > TASKS_KEPT_MAX {
            let Some((_, id)) = self.finished.pop_first() else { return };
            if let Some(task) = self.table.remove(&id) {
                let _ = std::fs::remove_dir_all(&task.events.dir);
            }
            context.record(Fact::TaskForgotten { task: id });
        }
    }

    /// A task with its result, if it has one.
    pub fn view(&self, id: &TaskId) -> Result<TaskView, Refusal> {
        let task = self.get(id)?;
        let done = task.ended().and_then(|_| task::read_done(&task.events.dir, &task.events.segments));
        Ok(TaskView { result: done.map(|done| done.result), ..task.view(self.ahead(id)) })
    }

    /// Tasks sorted by id, after a given one.
    pub fn views(&self, after: Option<&TaskId>, limit: usize) -> Vec<TaskView> {
        let later = self.table.values().filter(|task| after.is_none_or(|after| task.id > *after));
        later.take(limit).map(|task| task.view(self.ahead(&task.id))).collect()
    }

    fn ahead(&self, id: &TaskId) -> Option<usize> {
        let place = self.queue.iter().position(|queued| queued == id)?;
        Some(place + usize::from(self.active.is_some()))
    }

    pub fn next_wake(&self) -> Option<u64> {
        let active = self.active.as_ref().and_then(|id| match &self.table.get(id)?.state {
            State::Live(live) => live.machine.next_wake(),
            State::Ending(_) | State::Done(_) => None,
        });
        active.into_iter().chain(self.next_end()).min()
    }

    pub fn log_bytes(&self) -> u64 {
        self.table.values().map(|task| task.events.bytes() + task.raw.bytes() + task.changes.bytes()).sum()
    }

    /// Files that may be trimmed: of a finished task all but its last event.
    pub fn log_uses(&self) -> impl Iterator<Item = LogUsage<TaskId>> {
        self.table.values().map(|task| {
            let finished_ms = task.ended().map(|ended| ended.ended_ms);
            let mut segments = task.events.segments.clone();
            if finished_ms.is_some() {
                segments.pop();
            }
            LogUsage { key: task.id.clone(), finished_ms, segments }
        })
    }

    /// Files of raw logs and of changes that may be trimmed.
    pub fn raw_uses(&self) -> impl Iterator<Item = LogUsage<LogKey>> {
        let logs = self.table.values().flat_map(|task| {
            let finished_ms = task.ended().map(|ended| ended.ended_ms);
            let raw = (LogKey::Task(task.id.clone()), &task.raw);
            [raw, (LogKey::TaskChanges(task.id.clone()), &task.changes)]
                .map(|(key, log)| (key, log, finished_ms))
        });
        logs.filter(|(_, log, _)| !log.segments.is_empty()).map(|(key, log, finished_ms)| LogUsage {
            key,
            finished_ms,
            segments: log.segments.clone(),
        })
    }

    /// The job of a running task's agent.
    pub fn agent_job(&mut self, id: &TaskId) -> Option<JobId> {
        self.live_mut(id)?.job.filter(|(_, stage)| *stage == Stage::Agent).map(|(job, _)| job)
    }

    /// The raw log of a task's agent. A plain command has none: its lines are its events.
    pub fn raw(&self, id: &TaskId) -> Result<&OutputLog, Refusal> {
        let task = self.get(id)?;
        match task.start.agent {
            AgentKind::Acp | AgentKind::StreamJson => Ok(&task.raw),
            AgentKind::Command => {
                let message = format!("what the command of task {id} prints is in its events");
                Err(refuse(ErrorCode::Conflict, message))
            }
        }
    }
}

fn write_down(dir: &Path, start: &Start) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    task_log::reserve(dir)?;
    // Written as a whole: a partial record would lose the task after a crash.
    let written = dir.join(START_NEW);
    std::fs::write(&written, serde_json::to_vec(start)?)?;
    std::fs::rename(written, dir.join(START))
}

pub fn refuse(code: ErrorCode, message: String) -> Refusal {
    Box::new(ErrorBody::new(code, message))
}

/// Hashes everything but the id, as for execs.
fn fingerprint(request: &TaskRequest) -> u64 {
    let request = TaskRequest { id: None, ..request.clone() };
    let json = serde_json::to_vec(&request).unwrap_or_default();
    (json.len() as u64) << 32 | u64::from(crc32fast::hash(&json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_written_down_as_a_whole_or_not_at_all() {
        let home = tempfile::tempdir().expect("a directory");
        let start =
            |created_ms| Start { agent: AgentKind::Command, name: "x".into(), created_ms, fingerprint: 1 };
        write_down(home.path(), &start(1)).expect("room");
        let kept = home.path().join("kept");
        std::fs::hard_link(home.path().join(START), &kept).expect("a second name");
        write_down(home.path(), &start(2)).expect("room");
        // The rename replaced the first file without touching it.
        for (path, created_ms) in [(kept, 1), (home.path().join(START), 2)] {
            let read: Start = serde_json::from_slice(&std::fs::read(path).expect("there")).expect("JSON");
            assert_eq!(read, start(created_ms));
        }
        assert!(!home.path().join(START_NEW).exists());
    }
}
