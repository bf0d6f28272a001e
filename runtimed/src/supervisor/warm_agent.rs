//! The agent that is started before its task. There is at most one; it ends by its timeout, with the sandbox,
//! or as the agent of a task.

use super::command::WarmCommand;
use super::dispatch::send_reply;
use super::execs::Refusal;
use super::jobs::{JobId, JobOwner};
use super::main_loop::Supervisor;
use super::tasks::refuse;
use crate::core::agent;
use crate::core::agent_validation::check_warm;
use crate::shim::messages::{ConversationReport, ConversationSpec, Order, Report, Stdin};
use protocol::{AcpAgent, Agent, ErrorCode, WarmName, WarmRequest, WarmView};

/// An agent without a task has nothing to save.
const END_GRACE_MS: u64 = 1_000;

pub struct WarmAgent {
    pub name: WarmName,
    pub request: WarmRequest,
    pub job: JobId,
    /// The session that it was started to continue.
    pub continues: Option<String>,
    /// The session that it has.
    pub session: Option<String>,
    ready: bool,
}

impl WarmAgent {
    pub fn agent(&self) -> Option<&AcpAgent> {
        match &self.request.agent {
            Agent::Acp(agent) => Some(agent),
            Agent::Command { .. } | Agent::StreamJson(_) => None,
        }
    }

    fn view(&self) -> WarmView {
        let (name, agent) = (self.name.to_string(), self.request.agent.name().to_owned());
        WarmView { name, agent, ready: self.ready }
    }
}

impl Supervisor {
    pub(super) fn dispatch_warm(&mut self, command: WarmCommand) {
        match command {
            WarmCommand::Put { name, request, reply } => send_reply(reply, self.put_warm(name, *request)),
            WarmCommand::View { name, reply } => send_reply(reply, self.warm(&name).map(WarmAgent::view)),
            WarmCommand::End { name, reply } => {
                let known = self.warm(&name).map(drop);
                if known.is_ok() {
                    self.stop_warm(END_GRACE_MS);
                }
                send_reply(reply, known);
            }
        }
    }

    fn warm(&self, name: &WarmName) -> Result<&WarmAgent, Refusal> {
        let missing = || refuse(ErrorCode::NotFound, format!("no agent was started in advance as {name}"));
        self.warm.as_ref().filter(|warm| warm.name == *name).ok_or_else(missing)
    }

    /// Starts an agent in place of the existing one, unless that is the same.
    fn put_warm(&mut self, name: WarmName, request: WarmRequest) -> Result<WarmView, Refusal> {
        self.refuse_during_shutdown()?;
        check_warm(&request)?;
        if let Some(warm) = self.warm.as_ref().filter(|warm| warm.name == name && warm.request == request) {
            return Ok(warm.view());
        }
        self.stop_warm(END_GRACE_MS);
        let Agent::Acp(acp) = &request.agent else {
            return Err(refuse(ErrorCode::InvalidRequest, "the agent has no language".to_owned()));
        };
        let continues = if acp.continues { self.sessions.last(&acp.name) } else { None };
        let argv = agent::argv(&request.agent).to_vec();
        let mut spec = self.context.job(argv, &request.env, request.cwd.as_deref());
        // The environment cannot change later: proxy requests carry the warm name, also when a task has
        // adopted the agent.
        self.context.add_proxy_env("warm", name.as_str(), &mut spec);
        spec.stdin = Stdin::Shim;
        spec.files = agent::files(&request.agent);
        spec.conversation =
            Some(ConversationSpec { agent: acp.clone(), session: continues.clone(), turn: None });
        spec.timeout_ms = Some(request.keep_ms);
        spec.timeout_grace_ms = END_GRACE_MS;
        let started = self.context.jobs.start(JobOwner::Warm, &spec);
        let failed = |error| refuse(ErrorCode::Internal, format!("could not start a shim: {error}"));
        let job = started.map_err(failed)?;
        let warm = WarmAgent { name, request, job, continues, session: None, ready: false };
        Ok(self.warm.insert(warm).view())
    }

    pub(super) fn on_warm_report(&mut self, job: JobId, report: Report) {
        let Some(warm) = self.warm.as_mut().filter(|warm| warm.job == job) else { return };
        match report {
            Report::Conversation(ConversationReport::Ready) => warm.ready = true,
            Report::Conversation(ConversationReport::Session { session }) => warm.session = Some(session),
            Report::Ended { exit, .. } => {
                tracing::info!(name = %warm.name, ?exit, "warm agent ended");
                self.warm = None;
            }
            Report::Started { .. }
            | Report::Grew { .. }
            | Report::Rotated { .. }
            | Report::Matched
            | Report::Summary
            | Report::RawGrew { .. }
            | Report::Conversation(
                ConversationReport::Adopted
                | ConversationReport::Asked { .. }
                | ConversationReport::Settled { .. },
            ) => {}
        }
    }

    pub(super) fn on_warm_shim_exit(&mut self, job: JobId) {
        self.warm.take_if(|warm| warm.job == job);
    }

    pub(super) fn stop_warm(&mut self, grace_ms: u64) {
        if let Some(warm) = self.warm.take() {
            self.context.jobs.order(warm.job, &Order::Cancel { grace_ms });
        }
    }
}
