//! Dispatches commands about tasks.

use super::command::TaskCommand;
use super::dispatch::send_reply;
use super::execs::Refusal;
use super::main_loop::Supervisor;
use super::task::{State, Task};
use super::tasks::refuse;
use crate::core::task::Input;
use crate::shim::messages::Order;
use protocol::{ErrorCode, TaskId, TaskRequest, TaskView, TraceParent};

impl Supervisor {
    pub(super) fn dispatch_task(&mut self, command: TaskCommand) {
        match command {
            TaskCommand::Submit { request, trace, reply } => {
                send_reply(reply, self.submit_task(*request, trace).map(Box::new));
            }
            TaskCommand::View { id, reply } => send_reply(reply, self.tasks.view(&id).map(Box::new)),
            TaskCommand::List { after, limit, reply } => {
                send_reply(reply, Ok(self.tasks.views(after.as_ref(), limit)));
            }
            TaskCommand::Cancel { id, grace_ms, reply } => {
                send_reply(reply, self.cancel_task(&id, grace_ms).map(Box::new));
            }
            TaskCommand::Events { id, reply } => {
                send_reply(reply, self.tasks.get(&id).map(|task| task.events.handle()));
            }
            TaskCommand::Arm { id, seen } => self.arm_task(&id, seen),
            TaskCommand::Diff { id, request, reply } => self.start_diff(&id, *request, reply),
            TaskCommand::Revert { id, request, reply } => self.start_revert(id, *request, reply),
            TaskCommand::DecidePermission { id, permission, answer, reply } => {
                send_reply(reply, self.answer_permission(&id, &permission, answer));
            }
        }
    }

    fn submit_task(&mut self, request: TaskRequest, trace: Option<TraceParent>) -> Result<TaskView, Refusal> {
        self.refuse_during_shutdown()?;
        let (id, new) = self.tasks.submit(&mut self.context, request, trace)?;
        if new {
            // Starts the task if no other runs.
            self.step_task(&id, Input::Tick);
        }
        self.tasks.view(&id)
    }

    fn cancel_task(&mut self, id: &TaskId, grace_ms: u64) -> Result<TaskView, Refusal> {
        if self.tasks.get(id)?.ended().is_some() {
            return Err(refuse(ErrorCode::NotRunning, format!("task {id} has ended")));
        }
        self.step_task(id, Input::Cancel { grace_ms });
        self.tasks.view(id)
    }

    /// Asks the shim that writes the events of a task to report growth.
    fn arm_task(&mut self, id: &TaskId, seen: u64) {
        let Some(Task { state: State::Live(live), events, .. }) = self.tasks.get_mut(id) else { return };
        if let Some((job, _)) = live.job
            && events.arm(seen)
        {
            self.context.jobs.order(job, &Order::Arm { seen });
        }
    }
}
