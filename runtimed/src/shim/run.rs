//! The loop of a shim: waits for output, for dead children and for orders, tells the machine in
//! `core::job` what it saw and does what the machine says.

use super::child::{self, Started};
use super::ending::{Before, Seen};
use super::pump::Pump;
use super::sink::Sink;
use super::tree;
use super::wire::{CONTROL_FD, JobSpec, MESSAGE_MAX_BYTES, Order, Report};
use crate::core::job::{Effect, End, Input, Job, Phase};
use crate::sys::clock::monotonic_ms;
use crate::sys::packet::{self, Received};
use crate::sys::{descriptors, inherited, reap, spawn};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use protocol::Exit;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Between two rounds of SIGKILL, once the first few did not suffice.
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

struct Shim {
    control: OwnedFd,
    children: SignalFd,
    spec: JobSpec,
    before: Before,
    job: Job,
    pump: Pump,
    leader: Option<Pid>,
    terminal: Option<OwnedFd>,
    armed: Option<u64>,
    seen: Seen,
    kill_rounds: u32,
    finished: bool,
}

impl Shim {
    fn begin() -> Option<Self> {
        let control = inherited::take(CONTROL_FD)?;
        prctl::set_child_subreaper(true).ok()?;
        let _ = prctl::set_name(c"runtimed-shim");
        let children = watch_children()?;
        let spec = receive_spec(&control)?;
        if let Some(limit) = spec.open_files {
            descriptors::lower(limit);
        }
        let before = Before::look(&spec);
        let sink = Sink::open(&spec).ok()?;
        let started = match child::start(&spec) {
            Ok(started) => started,
            Err(message) => {
                refuse(&control, message, sink.end());
                return None;
            }
        };
        let Started { pid, outputs, input, terminal } = started;
        send(&control, &Report::Started { pid: pid.as_raw() }, input.as_ref().map(AsFd::as_fd));
        let now = monotonic_ms();
        let deadline = spec.timeout_ms.map(|ms| now.saturating_add(ms));
        let ask_ms = spec.task.as_ref().map_or(0, |task| task.speaks.ask_ms());
        let job = Job::new(spec.leftovers, deadline, spec.timeout_grace_ms).with_ask_ms(ask_ms);
        Some(Self {
            job: job.with_idle_ms(spec.idle_ms, now),
            pump: Pump::new(outputs, sink, spec.pattern.as_deref()),
            control,
            children,
            spec,
            before,
            leader: Some(pid),
            terminal,
            armed: None,
            seen: Seen::default(),
            kill_rounds: 0,
            finished: false,
        })
    }

    /// Waits until something happened, then handles all of it.
    fn round(&mut self) {
        let (ready, control, children) = self.wait();
        for descriptor in ready {
            let moved = self.pump.take(descriptor);
            if moved.any {
                self.step(Input::Output);
            }
            if moved.rotated {
                send(&self.control, &Report::Rotated { end: self.pump.end() }, None);
            }
            if moved.matched {
                send(&self.control, &Report::Matched, None);
            }
            if self.pump.is_closed() {
                self.step(Input::OutputClosed);
            }
        }
        if control {
            self.orders();
        }
        if children {
            while let Ok(Some(_)) = self.children.read_signal() {}
        }
        if children || matches!(self.job.phase(), Phase::Killing { .. }) {
            self.reap();
        }
        if let Phase::Killing { .. } = self.job.phase() {
            self.kill_rounds += 1;
            tree::signal_all(Signal::SIGKILL);
        }
        self.step(Input::Tick);
        self.tell_growth();
    }

    /// Ready outputs, whether PID 1 said something, whether children ended.
    fn wait(&self) -> (Vec<i32>, bool, bool) {
        let outputs = self.pump.descriptors();
        let mut fds = vec![
            PollFd::new(self.control.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.children.as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.pump.borrowed().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        if let Err(errno) = poll(&mut fds, self.timeout())
            && errno != Errno::EINTR
        {
            return (Vec::new(), true, true);
        }
        let hot = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        let ready = fds[2..].iter().zip(outputs).filter(|(fd, _)| hot(fd)).map(|(_, raw)| raw).collect();
        (ready, hot(&fds[0]), hot(&fds[1]))
    }

    fn timeout(&self) -> PollTimeout {
        if let Phase::Killing { .. } = self.job.phase() {
            let eager = self.kill_rounds < KILL_ROUNDS_WITHOUT_PAUSE;
            return PollTimeout::from(if eager { 0 } else { KILL_PAUSE_MS });
        }
        match self.job.next_wake() {
            None => PollTimeout::NONE,
            Some(at) => {
                let left = at.saturating_sub(monotonic_ms()).min(i32::MAX as u64) as i32;
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            }
        }
    }

    fn orders(&mut self) {
        let mut buffer = [0; MESSAGE_MAX_BYTES];
        loop {
            match packet::receive(self.control.as_fd(), &mut buffer) {
                Ok(Received::Packet { length, .. }) => {
                    if let Ok(order) = serde_json::from_slice(&buffer[..length]) {
                        self.obey(&order);
                    }
                }
                Err(Errno::EAGAIN) => return,
                Ok(Received::Closed) | Err(_) => return self.step(Input::ControlLost),
            }
        }
    }

    fn obey(&mut self, order: &Order) {
        match *order {
            // Several readers may ask: the one who saw least decides.
            Order::Arm { seen } => self.armed = Some(self.armed.map_or(seen, |armed| armed.min(seen))),
            Order::Cancel { grace_ms } => self.step(Input::Cancel { grace_ms }),
            Order::Signal { signal, scope } => {
                let Ok(signal) = Signal::try_from(signal) else { return };
                self.seen.killed_on_request |= signal == Signal::SIGKILL;
                tree::signal(self.leader, signal, scope);
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
        // First, so that an end is reported in the knowledge that nobody is left.
        if sweep.empty {
            self.drain_the_dead();
            self.step(Input::TreeEmpty);
        }
        if let Some((_, exit)) = leader {
            self.step(Input::LeaderExited(exit));
        }
    }

    /// Everybody is dead: what is in the pipes is all there will ever be, so take it before reporting.
    fn drain_the_dead(&mut self) {
        for descriptor in self.pump.descriptors() {
            while self.pump.has_bytes(descriptor) {
                self.pump.take(descriptor);
            }
        }
        if self.pump.is_closed() {
            self.step(Input::OutputClosed);
        }
    }

    fn step(&mut self, input: Input) {
        for effect in self.job.step(input, monotonic_ms()) {
            match effect {
                Effect::Ask => self.pump.ask_to_stop(),
                Effect::TermTree => {
                    if self.terminal.is_some() {
                        // What closing a terminal does: a shell in use pays no attention to SIGTERM.
                        tree::signal_all(Signal::SIGHUP);
                    }
                    tree::signal_all(Signal::SIGTERM);
                    // Whoever was stopped can only obey once it runs again.
                    tree::signal_all(Signal::SIGCONT);
                }
                Effect::KillTree => tree::signal_all(Signal::SIGKILL),
                Effect::Report(end) => self.report(&end),
                Effect::Finish => self.finished = true,
            }
        }
    }

    fn report(&mut self, end: &End) {
        self.pump.take_what_is_there();
        let said = self.pump.conclude();
        self.seen.output_lost = self.pump.lost();
        // A look at /proc can miss somebody; the kernel said that there is one.
        self.seen.left = if self.job.tree_is_empty() { 0 } else { tree::count().max(1) };
        let (exit, hints) = self.before.conclude(&self.spec, end, self.seen);
        let ended = Report::Ended { exit, hints, output_end: self.pump.end(), background: self.seen.left };
        if let Some(bytes) = said.and_then(|said| serde_json::to_vec(&said).ok())
            && let Ok(file) = spawn::memory_file(&bytes)
        {
            send(&self.control, &Report::Said, Some(file.as_fd()));
        }
        // Before the end is told: whoever hears of it writes from then on.
        self.pump.hand_over();
        send(&self.control, &ended, None);
    }

    fn tell_growth(&mut self) {
        let end = self.pump.end();
        if self.armed.take_if(|seen| end > *seen).is_some() {
            send(&self.control, &Report::Grew { end }, None);
        }
    }
}

/// Waits for the job. A shim may be started before there is one, and is then told by a closed socket that
/// there will be none.
fn receive_spec(control: &OwnedFd) -> Option<JobSpec> {
    let mut buffer = [0; MESSAGE_MAX_BYTES];
    loop {
        match packet::receive(control.as_fd(), &mut buffer) {
            Ok(Received::Packet { descriptor, .. }) => {
                let mut text = Vec::new();
                std::fs::File::from(descriptor?).read_to_end(&mut text).ok()?;
                return serde_json::from_slice(&text).ok();
            }
            Err(Errno::EAGAIN) => {
                let mut fds = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
                let _ = poll(&mut fds, PollTimeout::NONE);
            }
            Ok(Received::Closed) | Err(_) => return None,
        }
    }
}

/// Deaths of children come as a descriptor to poll. Nothing else is delivered to a shim: it ends with
/// its job, or with PID 1.
fn watch_children() -> Option<SignalFd> {
    let mut blocked = SigSet::all();
    blocked.remove(Signal::SIGSEGV);
    blocked.thread_block().ok()?;
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    SignalFd::with_flags(&children, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).ok()
}

fn refuse(control: &OwnedFd, message: String, output_end: u64) {
    let exit = Exit::SpawnFailed { message };
    send(control, &Report::Ended { exit, hints: Vec::new(), output_end, background: 0 }, None);
}

/// A report that cannot be sent has no reader any more: the next poll sees that.
fn send(control: &OwnedFd, report: &Report, attach: Option<BorrowedFd<'_>>) {
    let Ok(bytes) = serde_json::to_vec(report) else { return };
    let _ = packet::send(control.as_fd(), &bytes, attach, true);
}
