//! Classifies the end of a job as a typed exit with hints.

use super::messages::JobSpec;
use super::signal_tree;
use crate::core::job::{End, RawExit, StopReason};
use crate::sys::{cgroup, disk};
use protocol::{Exit, Hint};

/// Counters of the control group at the start of the job.
pub struct BaselineCounters {
    counters: cgroup::Counters,
}

/// Facts about the end of a job that only the shim knows.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobObservations {
    pub output_lost: u64,
    /// A SIGKILL was sent on a caller's request, so it was not the kernel's.
    pub killed_on_request: bool,
    pub left: u32,
}

impl BaselineCounters {
    pub fn read(spec: &JobSpec) -> Self {
        Self { counters: cgroup::counters(&spec.cgroup) }
    }

    pub fn classify(&self, spec: &JobSpec, end: &End, observed: JobObservations) -> (Exit, Vec<Hint>) {
        let now = cgroup::counters(&spec.cgroup);
        let rose =
            |now: Option<u64>, before: Option<u64>| now.zip(before).map_or(0, |(n, b)| n.saturating_sub(b));
        let oom_kills = rose(now.oom_kills, self.counters.oom_kills);
        let pids_hits = rose(now.pids_limit_hits, self.counters.pids_limit_hits);
        let exit = exit(end, oom_kills > 0 && !observed.killed_on_request);
        let facts = [
            (oom_kills > 0).then_some(Hint::OomKills { times: oom_kills }),
            (pids_hits > 0).then_some(Hint::PidsLimit { times: pids_hits }),
            disk::is_full(&spec.workspace).then_some(Hint::DiskFull),
            (observed.output_lost > 0).then_some(Hint::OutputLost { bytes: observed.output_lost }),
            end.leaky.then_some(Hint::Leaky),
            end.gave_up.then_some(Hint::Unkillable { processes: observed.left }),
        ];
        (exit, facts.into_iter().flatten().collect())
    }
}

fn exit(end: &End, oom: bool) -> Exit {
    match (end.reason, end.leader) {
        (Some(StopReason::TimedOut), _) => Exit::TimedOut,
        (Some(StopReason::Cancelled), _) => Exit::Cancelled,
        (None, Some(raw)) if oom && signal_tree::was_killed(raw) => Exit::Oom,
        (None, Some(RawExit::Exited(code))) => Exit::Exited { code },
        (None, Some(RawExit::Signalled(signal))) => Exit::Signalled { signal },
        // Only after giving up on a leader that SIGKILL could not end.
        (None, None) => Exit::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oom_is_only_reported_for_a_leader_the_kernel_killed() {
        let raw = |leader| End { leader: Some(leader), ..End::default() };
        for (end, oom, expected) in [
            (raw(RawExit::Signalled(9)), true, Exit::Oom),
            (raw(RawExit::Signalled(9)), false, Exit::Signalled { signal: 9 }),
            (raw(RawExit::Signalled(15)), true, Exit::Signalled { signal: 15 }),
            (raw(RawExit::Exited(137)), true, Exit::Exited { code: 137 }),
            (End { reason: Some(StopReason::TimedOut), ..raw(RawExit::Signalled(9)) }, true, Exit::TimedOut),
            (End { reason: Some(StopReason::Cancelled), ..raw(RawExit::Exited(0)) }, false, Exit::Cancelled),
        ] {
            assert_eq!(exit(&end, oom), expected, "{end:?}");
        }
    }
}
