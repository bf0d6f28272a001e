//! Dispatches commands to the parts of the supervisor. A caller that no longer waits for its reply changes
//! nothing.

use super::command::{Command, ExecCommand, HoldCommand, Reply, ServiceCommand};
use super::exec::Exec;
use super::execs::Refusal;
use super::main_loop::Supervisor;
use crate::core::manifest::Invalid;
use crate::shim::messages::Order;
use crate::sys::procfs;
use protocol::{
    ErrorBody, ErrorCode, ExecId, ExecRequest, ExecView, ServiceSource, ServiceSpec, ServiceView,
    SignalScope, TraceParent,
};

impl Supervisor {
    pub(super) fn dispatch(&mut self, command: Command) {
        match command {
            Command::Status { reply } => {
                let status = self.status();
                send_reply(reply, Ok(Box::new(status)));
            }
            Command::OwnStatus { reply } => send_reply(reply, Ok(Box::new(self.own_status()))),
            Command::Ports { reply } => {
                send_reply(reply, Ok(procfs::listening(self.context.config.identity())));
            }
            Command::Programs { programs, reply } => send_reply(reply, self.find_programs(programs)),
            Command::Log { key, reply } => send_reply(reply, self.log(key)),
            Command::Arm { key, seen } => self.arm(&key, seen),
            Command::Panic => panic!("asked to"),
            Command::Exec(command) => self.dispatch_exec(command),
            Command::Task(command) => self.dispatch_task(command),
            Command::Warm(command) => self.dispatch_warm(command),
            Command::Service(command) => self.dispatch_service(command),
            Command::Hold(command) => self.dispatch_hold(command),
            Command::StartFiles(start) => self.start_files(start),
        }
    }

    fn dispatch_exec(&mut self, command: ExecCommand) {
        match command {
            ExecCommand::Start { request, trace, reply } => {
                send_reply(reply, self.start_exec(*request, trace));
            }
            ExecCommand::View { id, reply } => send_reply(reply, self.exec_view(&id).map(Box::new)),
            ExecCommand::List { pid, after, limit, reply } => {
                send_reply(reply, Ok(self.exec_views(pid, after.as_ref(), limit)));
            }
            ExecCommand::Signal { id, signal, scope, reply } => {
                let order = Order::Signal { signal: signal as i32, scope };
                send_reply(reply, self.check_signal_scope(&id, scope).and_then(|()| self.order(&id, &order)));
            }
            ExecCommand::Cancel { id, grace_ms, reply } => {
                send_reply(reply, self.order(&id, &Order::Cancel { grace_ms }));
            }
            ExecCommand::Resize { id, size, reply } => {
                let resized = self.execs.input(&id).and_then(|input| {
                    let failed =
                        |errno: nix::Error| refuse(ErrorCode::Conflict, format!("could not resize: {errno}"));
                    input.resize(size).map_err(failed)
                });
                send_reply(reply, resized);
            }
            ExecCommand::Input { id, reply } => send_reply(reply, self.execs.input(&id)),
            ExecCommand::CloseInput { id, reply } => {
                self.execs.close_input(&id);
                send_reply(reply, Ok(()));
            }
        }
    }

    fn dispatch_service(&mut self, command: ServiceCommand) {
        match command {
            ServiceCommand::List { reply } => send_reply(reply, Ok(self.service_views())),
            ServiceCommand::Put { specs, reply } => send_reply(reply, self.put_services(specs)),
            ServiceCommand::View { name, reply } => {
                send_reply(reply, self.services.get(&name).map(|service| Box::new(service.view())));
            }
            ServiceCommand::Control { name, verb, reply } => {
                let driven = self
                    .refuse_during_shutdown()
                    .and_then(|()| self.services.control(&mut self.context, &name, verb));
                send_reply(
                    reply,
                    driven.and_then(|()| self.services.get(&name).map(|service| Box::new(service.view()))),
                );
            }
        }
    }

    fn dispatch_hold(&mut self, command: HoldCommand) {
        match command {
            HoldCommand::List { reply } => send_reply(reply, Ok(self.holds.views())),
            HoldCommand::Take { name, request, at_most, reply } => {
                send_reply(reply, self.holds.take(&mut self.context, name, request, at_most));
            }
            HoldCommand::Release { name, reply } => {
                send_reply(reply, self.holds.release(&mut self.context, &name));
            }
        }
    }

    pub(super) fn refuse_during_shutdown(&self) -> Result<(), Refusal> {
        let closed = || refuse(ErrorCode::ShuttingDown, "runtimed is shutting down".to_owned());
        if self.is_shutting_down() { Err(closed()) } else { Ok(()) }
    }

    fn start_exec(
        &mut self,
        mut request: ExecRequest,
        trace: Option<TraceParent>,
    ) -> Result<ExecId, Refusal> {
        self.refuse_during_shutdown()?;
        let known = request.id.as_ref().is_some_and(|id| self.execs.get(id).is_ok());
        let (stdin, stay_open) = (request.stdin.clone(), request.stdin_open);
        let id = self.execs.start(&mut self.context, std::mem::take(&mut request), trace)?;
        if !known {
            self.keep_inline_input(&id, stdin, stay_open);
        }
        Ok(id)
    }

    /// Whether a signal of this scope has a target: a leader that ended took its group with it.
    fn check_signal_scope(&self, id: &ExecId, scope: SignalScope) -> Result<(), Refusal> {
        if scope == SignalScope::Tree || self.execs.get(id)?.end().is_none() {
            return Ok(());
        }
        let message = format!("exec {id} has ended; what it left running gets signals with the scope tree");
        Err(refuse(ErrorCode::NotRunning, message))
    }

    fn order(&mut self, id: &ExecId, order: &Order) -> Result<(), Refusal> {
        let job = self.execs.running(id)?;
        self.context.jobs.order(job, order);
        Ok(())
    }

    fn exec_view(&self, id: &ExecId) -> Result<ExecView, Refusal> {
        let exec = self.execs.get(id)?;
        Ok(exec.view(exec.job().and_then(|job| self.context.jobs.shim(job))))
    }

    /// Execs sorted by id, after a given one; only those whose leader has, or had, this pid.
    fn exec_views(&self, pid: Option<i32>, after: Option<&ExecId>, limit: usize) -> Vec<ExecView> {
        let later = |id: &ExecId| after.is_none_or(|after| id > after);
        let asked = |exec: &&Exec| later(&exec.start.id) && (pid.is_none() || exec.pid == pid);
        let execs = self.execs.iter().filter(asked).take(limit);
        execs.map(|exec| exec.view(exec.job().and_then(|job| self.context.jobs.shim(job)))).collect()
    }

    pub(super) fn service_views(&self) -> Vec<ServiceView> {
        self.services.iter().map(|service| service.view()).collect()
    }

    fn put_services(&mut self, specs: Vec<ServiceSpec>) -> Result<Vec<ServiceView>, Refusal> {
        self.refuse_during_shutdown()?;
        let invalid = |Invalid { field, message }| Box::new(ErrorBody::invalid(field, message));
        self.services.apply(&mut self.context, specs, ServiceSource::Api).map_err(invalid)?;
        self.manifest.release();
        self.load_manifest();
        self.retry_manifest();
        Ok(self.service_views())
    }
}

pub(super) fn send_reply<T>(reply: Reply<T>, answer: Result<T, Refusal>) {
    let _ = reply.send(answer);
}

fn refuse(code: ErrorCode, message: String) -> Refusal {
    Box::new(ErrorBody::new(code, message))
}
