//! Shims and the sockets to them. Knows the owner of each job, not its purpose.

use crate::core::job::RawExit;
use crate::core::task::Stage;
use crate::limits::BEGIN_MAX_MS;
use crate::shim::messages::{JobSpec, MESSAGE_MAX_BYTES, Order, RUN, Report};
use crate::sys::async_fd::{self, PolledFd};
use crate::sys::clock::monotonic_ms;
use crate::sys::fd_limit;
use crate::sys::packet::{self, Received};
use crate::sys::{procfs, spawn};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::{ExecId, ServiceName, TaskId};
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Reports that wait to be handled; further shims block.
const REPORTS_WAITING_MAX: usize = 256;

/// Interval between kills of a job that does not start.
const KILL_AGAIN_MS: u64 = 1_000;

/// How long a spare shim waits for a job.
const SPARE_KEPT_MS: u64 = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub(super) u64);

/// The owner of a job, which gets its reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOwner {
    Exec(ExecId),
    Service(ServiceName),
    /// A health check that is a command.
    Probe(ServiceName),
    Task(TaskId, Stage),
    /// An agent started in advance.
    Warm,
    /// The diff of one file.
    Diff,
    /// A revert to a checkpoint.
    Revert,
}

#[derive(Debug)]
pub enum ShimMessage {
    /// A report, with the descriptor that came with it.
    Report(Report, Option<OwnedFd>),
    /// The shim is gone; no more messages follow.
    Closed,
}

/// Why an order did not reach its shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    #[error("reach a shim that is gone")]
    Gone,
    /// `EAGAIN` where the shim has not read earlier orders.
    #[error("send it: {0}")]
    Unsent(#[source] Errno),
}

pub struct Jobs {
    next: u64,
    live: HashMap<JobId, LiveJob>,
    /// A shim that waits for a job: starting one takes longer than the rest of a short exec.
    spare: Option<SpareShim>,
    /// Shims whose socket is closed and that are not reaped yet.
    unreaped: HashSet<Pid>,
    readers: JoinSet<()>,
    messages: mpsc::Sender<(JobId, ShimMessage)>,
}

struct LiveJob {
    owner: JobOwner,
    shim: Pid,
    socket: Arc<AsyncFd<PolledFd<OwnedFd>>>,
    /// When a job that has not started yet is killed. Its shim is suspended until then: a process that is
    /// stopped between its change of user and its exec suspends the shim too.
    start_deadline: Option<u64>,
    /// The shim is reaped; its last messages are still in the channel.
    reaped: bool,
}

struct SpareShim {
    shim: Pid,
    socket: OwnedFd,
    until: u64,
}

impl SpareShim {
    fn start() -> io::Result<Self> {
        let (ours, theirs) = packet::pair()?;
        Ok(Self { shim: spawn::shim(theirs)?, socket: ours, until: monotonic_ms() + SPARE_KEPT_MS })
    }

    fn hand_over(&self, job: &OwnedFd) -> nix::Result<()> {
        packet::send(self.socket.as_fd(), RUN, Some(job.as_fd()), false)
    }
}

impl Jobs {
    pub fn new() -> (Self, mpsc::Receiver<(JobId, ShimMessage)>) {
        let (messages, receiver) = mpsc::channel(REPORTS_WAITING_MAX);
        (
            Self {
                next: 0,
                live: HashMap::new(),
                spare: None,
                unreaped: HashSet::new(),
                readers: JoinSet::new(),
                messages,
            },
            receiver,
        )
    }

    pub fn start(&mut self, owner: JobOwner, spec: &JobSpec) -> io::Result<JobId> {
        let job = spawn::memory_file(&serde_json::to_vec(spec)?)?;
        if fd_limit::is_scarce(job.as_fd()) {
            return Err(Errno::EMFILE.into());
        }
        let SpareShim { shim, socket, .. } = match self.spare.take() {
            Some(spare) if spare.hand_over(&job).is_ok() => spare,
            // There is no spare, or it died while it waited.
            _ => {
                let fresh = SpareShim::start()?;
                fresh.hand_over(&job)?;
                fresh
            }
        };
        let socket = Arc::new(async_fd::watch(socket)?);
        self.next += 1;
        let id = JobId(self.next);
        self.readers.spawn(forward_reports(id, Arc::clone(&socket), self.messages.clone()));
        let start_deadline = Some(monotonic_ms() + BEGIN_MAX_MS);
        self.live.insert(id, LiveJob { owner, shim, socket, start_deadline, reaped: false });
        Ok(id)
    }

    /// Starts a spare shim for the next job. Called when a job ended, since more may follow.
    pub fn start_spare(&mut self) {
        if self.spare.is_none() {
            self.spare = SpareShim::start()
                .inspect_err(|error| tracing::warn!(%error, "failed to start spare shim"))
                .ok();
        }
    }

    /// Drops an unused spare shim, which exits once its socket is closed, and kills jobs that do not start.
    pub fn tick(&mut self) {
        let now = monotonic_ms();
        self.spare.take_if(|spare| spare.until <= now);
        for live in
            self.live.values_mut().filter(|live| live.start_deadline.is_some_and(|until| until <= now))
        {
            live.start_deadline = Some(now + KILL_AGAIN_MS);
            kill_descendants(live.shim);
        }
    }

    pub fn next_wake(&self) -> Option<u64> {
        let spare = self.spare.as_ref().map(|spare| spare.until);
        self.live.values().filter_map(|live| live.start_deadline).chain(spare).min()
    }

    /// Marks a job as started: its shim has reported.
    pub fn mark_started(&mut self, id: JobId) {
        if let Some(live) = self.live.get_mut(&id) {
            live.start_deadline = None;
        }
    }

    pub fn spare_count(&self) -> u32 {
        u32::from(self.spare.is_some())
    }

    /// Removes reaped shims. Whether one with a job was killed by a signal: its descendants are now children
    /// of PID 1.
    pub fn on_reaped(&mut self, dead: &[(Pid, RawExit)]) -> bool {
        let mut killed = false;
        for (pid, exit) in dead {
            self.spare.take_if(|spare| spare.shim == *pid);
            let live = self.live.values_mut().find(|live| live.shim == *pid);
            let had_a_job = live.map(|live| live.reaped = true).is_some() || self.unreaped.remove(pid);
            killed |= had_a_job && matches!(exit, RawExit::Signalled(_));
        }
        killed
    }

    pub fn drop_spare(&mut self) {
        self.spare = None;
    }

    pub fn owner(&self, id: JobId) -> Option<&JobOwner> {
        self.live.get(&id).map(|live| &live.owner)
    }

    pub fn shim(&self, id: JobId) -> Option<Pid> {
        self.live.get(&id).map(|live| live.shim)
    }

    pub fn is_shim(&self, pid: Pid) -> bool {
        let spare = self.spare.as_ref().is_some_and(|spare| spare.shim == pid);
        spare || self.unreaped.contains(&pid) || self.live.values().any(|live| live.shim == pid)
    }

    pub fn count(&self) -> usize {
        self.live.len()
    }

    pub fn ids(&self) -> Vec<JobId> {
        self.live.keys().copied().collect()
    }

    /// Sends an order without an error. A shim that is gone is noticed as `Closed`.
    pub fn order(&mut self, id: JobId, order: &Order) {
        match self.try_order(id, order) {
            Ok(()) | Err(OrderError::Gone) => {}
            Err(OrderError::Unsent(errno)) => {
                tracing::warn!(shim = ?self.shim(id), ?order, %errno, "failed to send order to shim");
            }
        }
    }

    /// Sends an order, or returns why the shim does not get it.
    pub fn try_order(&mut self, id: JobId, order: &Order) -> Result<(), OrderError> {
        let live = self.live.get_mut(&id).ok_or(OrderError::Gone)?;
        if let Order::Cancel { grace_ms } = order {
            // A suspended shim cannot handle it; the next tick kills its job.
            let until = monotonic_ms().saturating_add(*grace_ms);
            live.start_deadline = live.start_deadline.map(|before| before.min(until));
        }
        let bytes = serde_json::to_vec(order).map_err(|_| OrderError::Unsent(Errno::EINVAL))?;
        packet::send(live.socket.get_ref().as_fd(), &bytes, None, false).map_err(|errno| {
            let gone = matches!(errno, Errno::EPIPE | Errno::ECONNRESET);
            if gone { OrderError::Gone } else { OrderError::Unsent(errno) }
        })
    }

    /// Sends an order with a memory file; whether the shim gets it.
    pub fn order_with_file(&mut self, id: JobId, order: &Order, file: &OwnedFd) -> bool {
        let Some(live) = self.live.get(&id) else { return false };
        let Ok(bytes) = serde_json::to_vec(order) else { return false };
        packet::send(live.socket.get_ref().as_fd(), &bytes, Some(file.as_fd()), false).is_ok()
    }

    /// Gives a job to another owner.
    pub fn reassign(&mut self, id: JobId, owner: JobOwner) {
        if let Some(live) = self.live.get_mut(&id) {
            live.owner = owner;
        }
    }

    /// Kills a shim that does not respond; its descendants become children of PID 1 and are killed too.
    pub fn kill(&mut self, id: JobId) {
        if let Some(live) = self.live.get(&id) {
            let _ = kill(live.shim, Signal::SIGKILL);
        }
    }

    /// Kills a job with all its processes, also where it or its shim is suspended.
    pub fn kill_tree(&mut self, id: JobId) {
        if let Some(shim) = self.shim(id) {
            kill_descendants(shim);
            self.kill(id);
        }
    }

    /// Removes a job whose shim is gone.
    pub fn forget(&mut self, id: JobId) -> Option<JobOwner> {
        while self.readers.try_join_next().is_some() {}
        let live = self.live.remove(&id)?;
        if !live.reaped {
            self.unreaped.insert(live.shim);
        }
        Some(live.owner)
    }
}

fn kill_descendants(shim: Pid) {
    for pid in procfs::descendants(shim.as_raw()) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// Forwards the reports of a shim until it is gone.
async fn forward_reports(
    id: JobId,
    socket: Arc<AsyncFd<PolledFd<OwnedFd>>>,
    messages: mpsc::Sender<(JobId, ShimMessage)>,
) {
    let mut buffer = vec![0; MESSAGE_MAX_BYTES];
    loop {
        let Ok(mut ready) = socket.readable().await else { break };
        let taken = ready.try_io(|fd| match packet::receive(fd.get_ref().as_fd(), &mut buffer) {
            Err(Errno::EAGAIN) => Err(io::ErrorKind::WouldBlock.into()),
            other => Ok(other),
        });
        let (length, descriptor) = match taken {
            Err(_) => continue,
            Ok(Ok(Ok(Received::Packet { length, descriptor }))) => (length, descriptor),
            Ok(_) => break,
        };
        let Ok(report) = serde_json::from_slice(&buffer[..length]) else { continue };
        if messages.send((id, ShimMessage::Report(report, descriptor))).await.is_err() {
            return;
        }
    }
    let _ = messages.send((id, ShimMessage::Closed)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_order_that_the_shim_has_no_room_for_is_refused_and_can_be_given_again() {
        let (mut jobs, _heard) = Jobs::new();
        let (ours, theirs) = packet::pair().expect("a pair");
        let socket = Arc::new(async_fd::watch(ours).expect("watched"));
        let (id, shim) = (JobId(1), Pid::from_raw(i32::MAX));
        jobs.live
            .insert(id, LiveJob { owner: JobOwner::Warm, shim, socket, start_deadline: None, reaped: false });
        let order = Order::Arm { seen: 1 };
        let sent = std::iter::repeat_with(|| jobs.try_order(id, &order)).find(Result::is_err);
        assert_eq!(sent, Some(Err(OrderError::Unsent(Errno::EAGAIN))));
        let mut buffer = [0; MESSAGE_MAX_BYTES];
        while packet::receive(theirs.as_fd(), &mut buffer).is_ok() {}
        assert_eq!(jobs.try_order(id, &order), Ok(()));
        drop(theirs);
        assert_eq!(jobs.try_order(id, &order), Err(OrderError::Gone));
        assert_eq!(jobs.try_order(JobId(2), &order), Err(OrderError::Gone));
    }
}
