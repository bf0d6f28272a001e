//! The ACP conversation of a task's agent, and the adoption of an agent that was started in advance.

use super::jobs::JobOwner;
use super::main_loop::Supervisor;
use super::task::{State, Task};
use super::task_stages::leftovers;
use crate::core::agent::{self, OutputProtocol};
use crate::core::task::{Input, Stage};
use crate::shim::messages::{Adoption, ConversationReport, JobSummary, Order, TaskOutput};
use crate::sys::spawn;
use protocol::{AcpAgent, Permissions, Stream, TaskFact, TaskId, Text};

impl Supervisor {
    pub(super) fn on_conversation_report(&mut self, id: &TaskId, report: ConversationReport) {
        let Some(live) = self.tasks.live_mut(id) else { return };
        match report {
            ConversationReport::Session { session } => {
                self.sessions.store(live.request.agent.name(), &session);
            }
            ConversationReport::Asked { permission, options } => live.permissions.add(permission, options),
            ConversationReport::Settled { permission } => live.permissions.settle(permission),
            ConversationReport::Adopted => live.adopting = false,
            ConversationReport::Ready => {}
        }
    }

    /// Gives a task the agent that was started for it in advance, where it still exists; whether it did.
    pub(super) fn adopt_warm(&mut self, id: &TaskId) -> bool {
        let Some(live) = self.tasks.live_mut(id) else { return false };
        if live.request.warm.is_none() {
            return false;
        }
        let adopted = self.try_adopt_warm(id).is_some();
        if !adopted {
            self.log_cold_start(id);
        }
        adopted
    }

    fn try_adopt_warm(&mut self, id: &TaskId) -> Option<()> {
        let Some(Task { state: State::Live(live), events, raw, .. }) = self.tasks.get_mut(id) else {
            return None;
        };
        let request = &live.request;
        let (agent, turn) = agent::turn(request)?;
        let warm = self.warm.take_if(|warm| {
            request.warm.as_deref() == Some(warm.name.as_str())
                && request.cwd == warm.request.cwd
                && warm.agent().is_some_and(|there| same(there, agent))
                && warm.continues == live.session
        })?;
        let adoption = Adoption {
            task: TaskOutput {
                dir: events.dir.clone(),
                last: events.head().last,
                protocol: OutputProtocol::Acp,
                raw: Some(raw.dir.clone()),
            },
            turn,
            idle_ms: request.idle_timeout_ms,
            leftovers: leftovers(request.keep_processes),
        };
        let handed = serde_json::to_vec(&adoption)
            .ok()
            .and_then(|bytes| spawn::memory_file(&bytes).ok())
            .is_some_and(|file| self.context.jobs.order_with_file(warm.job, &Order::Adopt, &file));
        if !handed {
            self.context.jobs.order(warm.job, &Order::Cancel { grace_ms: 0 });
            return None;
        }
        // From now on the shim writes the events.
        live.writer = None;
        events.disarm();
        raw.disarm();
        raw.change(|head| head.started = true);
        live.summary = JobSummary::default();
        live.job = Some((warm.job, Stage::Agent));
        live.adopting = true;
        if let Some(session) = &warm.session {
            self.sessions.store(live.request.agent.name(), session);
        }
        self.context.jobs.reassign(warm.job, JobOwner::Task(id.clone(), Stage::Agent));
        Some(())
    }

    /// Starts the agent anew where the one started in advance ended before it took the task; returns the next
    /// input if so.
    pub(super) fn restart_cold(&mut self, id: &TaskId) -> Option<Option<Input>> {
        let live = self.tasks.live_mut(id)?;
        if !std::mem::take(&mut live.adopting) || live.machine.is_stopping() {
            return None;
        }
        live.request.warm = None;
        self.log_cold_start(id);
        Some(self.start_stage(id, Stage::Agent))
    }

    fn log_cold_start(&mut self, id: &TaskId) {
        let text = "no warm agent is ready for this task: starting one now".to_owned();
        let text = Text { text, ..Text::default() };
        self.tasks.write(id, TaskFact::Log { stream: Stream::Stderr, text, lost_events: None });
    }
}

/// Whether two agents are the same but for what a task sets.
fn same(one: &AcpAgent, other: &AcpAgent) -> bool {
    let bare =
        |agent: &AcpAgent| AcpAgent { briefing: None, permissions: Permissions::default(), ..agent.clone() };
    bare(one) == bare(other)
}
