//! The loop of a shim: polls output, dead children and orders, feeds the machine in `core::job` and performs
//! its effects.

use super::acp_conversation::AcpConversation;
use super::child::{self, Started};
use super::control::{receive_spec, refuse, send};
use super::exit_status::{BaselineCounters, JobObservations};
use super::messages::{CONTROL_FD, JobSpec, MESSAGE_MAX_BYTES, Order, Report, Stdin};
use super::output_sink::OutputSink;
use super::pump::Pump;
use super::signal_tree;
use crate::core::agent::OutputProtocol;
use crate::core::job::{Effect, End, Input, Job, Phase};
use crate::sys::clock::monotonic_ms;
use crate::sys::packet::{self, Received};
use crate::sys::{fd_limit, inherited_fds, reap, spawn, user_files};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use protocol::SignalScope;
use std::os::fd::{AsFd, OwnedFd};

/// Pause between two rounds of SIGKILL, once the first few did not suffice.
const KILL_PAUSE_MS: u16 = 1;
const KILL_ROUNDS_WITHOUT_PAUSE: u32 = 50;

/// Runs a job to its end. The exit code only says whether the shim itself worked.
pub fn main() -> std::process::ExitCode {
    let Some(mut shim) = Shim::begin() else { return std::process::ExitCode::from(70) };
    while !shim.finished {
        shim.round();
    }
    std::process::ExitCode::SUCCESS
}

/// The result of a poll.
struct Ready {
    outputs: Vec<i32>,
    /// Orders of PID 1 wait.
    control: bool,
    children: bool,
    input: bool,
}

pub(super) struct Shim {
    pub(super) control: OwnedFd,
    children: SignalFd,
    spec: JobSpec,
    baseline: BaselineCounters,
    pub(super) job: Job,
    pub(super) pump: Pump,
    leader: Option<Pid>,
    terminal: Option<OwnedFd>,
    armed: Option<u64>,
    raw_armed: Option<u64>,
    observed: JobObservations,
    kill_rounds: u32,
    finished: bool,
}

impl Shim {
    fn begin() -> Option<Self> {
        let control = inherited_fds::take(CONTROL_FD)?;
        prctl::set_child_subreaper(true).ok()?;
        let _ = prctl::set_name(c"runtimed-shim");
        let children = watch_children()?;
        let spec = receive_spec(&control)?;
        if let Some(limit) = spec.open_files {
            fd_limit::lower(limit);
        }
        let baseline = BaselineCounters::read(&spec);
        let sink = OutputSink::open(&spec).ok()?;
        let written = user_files::write(spec.identity(), &spec.workspace, &spec.files);
        let started = match written.map_err(|error| error.to_string()).and_then(|()| child::start(&spec)) {
            Ok(started) => started,
            Err(message) => {
                refuse(&control, message, sink.end());
                return None;
            }
        };
        let Started { pid, outputs, input, terminal, cwd } = started;
        let (ours, theirs) = if spec.stdin == Stdin::Shim { (input, None) } else { (None, input) };
        send(&control, &Report::Started { pid: pid.as_raw() }, theirs.as_ref().map(AsFd::as_fd));
        let (sink, protocol) = match spec.conversation.clone() {
            Some(talk) => {
                (OutputSink::converse(spec.task.as_ref(), talk, ours, &cwd), Some(OutputProtocol::Acp))
            }
            None => (sink, spec.task.as_ref().map(|task| task.protocol)),
        };
        let now = monotonic_ms();
        let deadline = spec.timeout_ms.map(|ms| now.saturating_add(ms));
        let stop_request_ms = protocol.map_or(0, OutputProtocol::stop_request_ms);
        let job =
            Job::new(spec.leftovers, deadline, spec.timeout_grace_ms).with_stop_request_ms(stop_request_ms);
        Some(Self {
            job: job.with_idle_ms(spec.idle_ms, now),
            pump: Pump::new(outputs, sink, spec.pattern.as_deref()),
            control,
            children,
            spec,
            baseline,
            leader: Some(pid),
            terminal,
            armed: None,
            raw_armed: None,
            observed: JobObservations::default(),
            kill_rounds: 0,
            finished: false,
        })
    }

    /// Waits until something happened, then handles all of it.
    fn round(&mut self) {
        let Ready { outputs, control, children, input } = self.wait();
        for descriptor in outputs {
            if let Some(stored) = self.pump.read_from(descriptor) {
                self.step(Input::Output);
                if stored.rotated {
                    send(&self.control, &Report::Rotated { end: self.pump.end() }, None);
                }
                if stored.matched {
                    send(&self.control, &Report::Matched, None);
                }
            }
            if self.pump.is_closed() {
                self.step(Input::OutputClosed);
            }
        }
        if input && let Some(acp) = self.pump.acp() {
            acp.write();
        }
        self.handle_conversation_events();
        if control {
            self.receive_orders();
        }
        if children {
            while let Ok(Some(_)) = self.children.read_signal() {}
        }
        if children || matches!(self.job.phase(), Phase::Killing { .. }) {
            self.reap();
        }
        if let Phase::Killing { .. } = self.job.phase() {
            self.kill_rounds += 1;
            signal_tree::signal_all(Signal::SIGKILL);
        }
        self.step(Input::Tick);
        if self.pump.tick() {
            send(&self.control, &Report::Rotated { end: self.pump.end() }, None);
        }
        self.handle_conversation_events();
        self.report_growth();
    }

    fn wait(&self) -> Ready {
        let outputs = self.pump.descriptors();
        let mut fds = vec![
            PollFd::new(self.control.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.children.as_fd(), PollFlags::POLLIN),
        ];
        let input = self.pump.writable_fd();
        fds.extend(self.pump.borrowed().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        fds.extend(input.map(|fd| PollFd::new(fd, PollFlags::POLLOUT)));
        if let Err(errno) = poll(&mut fds, self.timeout())
            && errno != Errno::EINTR
        {
            return Ready { outputs: Vec::new(), control: true, children: true, input: false };
        }
        let hot = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        Ready {
            control: hot(&fds[0]),
            children: hot(&fds[1]),
            input: input.is_some() && fds.last().is_some_and(hot),
            outputs: fds[2..].iter().zip(outputs).filter(|(fd, _)| hot(fd)).map(|(_, raw)| raw).collect(),
        }
    }

    fn timeout(&self) -> PollTimeout {
        if let Phase::Killing { .. } = self.job.phase() {
            let eager = self.kill_rounds < KILL_ROUNDS_WITHOUT_PAUSE;
            return PollTimeout::from(if eager { 0 } else { KILL_PAUSE_MS });
        }
        match self.job.next_wake().into_iter().chain(self.pump.next_wake()).min() {
            None => PollTimeout::NONE,
            Some(at) => {
                let left = at.saturating_sub(monotonic_ms()).min(i32::MAX as u64) as i32;
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            }
        }
    }

    fn receive_orders(&mut self) {
        let mut buffer = [0; MESSAGE_MAX_BYTES];
        loop {
            match packet::receive(self.control.as_fd(), &mut buffer) {
                Ok(Received::Packet { length, descriptor }) => {
                    if let Ok(order) = serde_json::from_slice(&buffer[..length]) {
                        self.handle_order(order, descriptor);
                    }
                }
                Err(Errno::EAGAIN) => return,
                Ok(Received::Closed) | Err(_) => return self.step(Input::ControlLost),
            }
        }
    }

    fn handle_order(&mut self, order: Order, descriptor: Option<OwnedFd>) {
        match order {
            // Several readers may arm: the smallest position decides.
            Order::Arm { seen } => self.armed = Some(self.armed.map_or(seen, |armed| armed.min(seen))),
            Order::ArmRaw { seen } => {
                self.raw_armed = Some(self.raw_armed.map_or(seen, |armed| armed.min(seen)));
            }
            Order::Cancel { grace_ms } => self.step(Input::Cancel { grace_ms }),
            Order::Permit(permit) => self.permit(permit),
            Order::Adopt => self.adopt(descriptor),
            Order::Signal { signal, scope } => {
                let Ok(signal) = Signal::try_from(signal) else { return };
                self.observed.killed_on_request |= signal == Signal::SIGKILL;
                signal_tree::signal(self.leader, signal, scope);
            }
        }
    }

    fn reap(&mut self) {
        let sweep = reap::sweep();
        let leader = sweep.ended.into_iter().find(|(pid, _)| Some(*pid) == self.leader);
        if leader.is_some() {
            self.leader = None;
            self.terminal = None;
        }
        let exited = leader.map(|(_, exit)| Input::LeaderExited(exit));
        // An ending job is reported when its tree is empty, and the leader's exit has to be known by then.
        let stopping = matches!(self.job.phase(), Phase::Stopping { .. } | Phase::Killing { .. });
        let (before, after) = if stopping { (exited, None) } else { (None, exited) };
        before.into_iter().for_each(|exited| self.step(exited));
        // Otherwise the empty tree comes first, so that the end is reported with no process left.
        if sweep.empty {
            self.drain_output();
            self.step(Input::TreeEmpty);
        }
        after.into_iter().for_each(|exited| self.step(exited));
    }

    /// Every process is dead: what the pipes hold is the end of the output, so read it before reporting.
    fn drain_output(&mut self) {
        for descriptor in self.pump.descriptors() {
            while self.pump.has_bytes(descriptor) {
                self.pump.read_from(descriptor);
            }
        }
        if self.pump.is_closed() {
            self.step(Input::OutputClosed);
        }
    }

    pub(super) fn step(&mut self, input: Input) {
        for effect in self.job.step(input, monotonic_ms()) {
            match effect {
                Effect::RequestStop => self.pump.request_stop(),
                Effect::KillLeader => {
                    self.observed.killed_on_request |= self.leader.is_some();
                    signal_tree::signal(self.leader, Signal::SIGKILL, SignalScope::Leader);
                }
                Effect::TermTree => {
                    // Stdin is closed first: a program that reads it may take that as a request to stop.
                    self.pump.acp().into_iter().for_each(AcpConversation::close_now);
                    if self.terminal.is_some() {
                        // SIGHUP is what closing a terminal sends: an interactive shell ignores SIGTERM.
                        signal_tree::signal_all(Signal::SIGHUP);
                    }
                    signal_tree::signal_all(Signal::SIGTERM);
                    // A stopped process can only handle SIGTERM once it runs again.
                    signal_tree::signal_all(Signal::SIGCONT);
                }
                Effect::KillTree => {
                    self.observed.killed_on_request |= self.leader.is_some();
                    signal_tree::signal_all(Signal::SIGKILL);
                }
                Effect::Report(end) => self.report(&end),
                Effect::Finish => self.finished = true,
            }
        }
    }

    fn report(&mut self, end: &End) {
        self.pump.read_available();
        let summary = self.pump.conclude();
        self.observed.output_lost = self.pump.lost();
        // Reading /proc can miss a process; the kernel said that there is one.
        self.observed.left = if self.job.tree_is_empty() { 0 } else { signal_tree::count().max(1) };
        let (exit, hints) = self.baseline.classify(&self.spec, end, self.observed);
        let ended =
            Report::Ended { exit, hints, output_end: self.pump.end(), background: self.observed.left };
        if let Some(bytes) = summary.and_then(|summary| serde_json::to_vec(&summary).ok())
            && let Ok(file) = spawn::memory_file(&bytes)
        {
            send(&self.control, &Report::Summary, Some(file.as_fd()));
        }
        // Before the end is reported: PID 1 writes the events from then on.
        self.pump.detach();
        send(&self.control, &ended, None);
    }

    fn report_growth(&mut self) {
        let end = self.pump.end();
        if self.armed.take_if(|seen| end > *seen).is_some() {
            send(&self.control, &Report::Grew { end }, None);
        }
        let end = self.pump.raw_end();
        if self.raw_armed.take_if(|seen| end > *seen).is_some() {
            send(&self.control, &Report::RawGrew { end }, None);
        }
    }
}

/// Deaths of children arrive through a descriptor to poll. No other signal is delivered to a shim: it ends
/// with its job, or with PID 1.
fn watch_children() -> Option<SignalFd> {
    let mut blocked = SigSet::all();
    blocked.remove(Signal::SIGSEGV);
    blocked.thread_block().ok()?;
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    SignalFd::with_flags(&children, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).ok()
}
