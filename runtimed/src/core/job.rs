//! The life of one job, as its shim decides it. Knows nothing of processes or clocks: the shim tells what
//! it saw and does what comes out.
//!
//! ```text
//!            cancel, timeout                grace over
//!  Running ──────────────────▶ Stopping ─────────────────▶ Killing ──┐
//!     │ leader exits               │ tree empty               │      │ tree empty,
//!     ▼                            ▼                          ▼      ▼ or given up
//!  Draining ──▶ (kill the rest: Killing) ─────────────────────────▶ Over
//!     │ output closed, or DRAIN_MS                                    ▲
//!     ▼                            tree empty                         │
//!  Background (reported; what is left lives on) ──────────────────────┘
//! ```
//!
//! The end is reported exactly once. `Over` is reached only with an empty tree, or after SIGKILL was
//! tried for KILL_MAX_MS.

use crate::limits::{DRAIN_MS, KILL_MAX_MS};
use serde::{Deserialize, Serialize};

/// How the kernel says a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawExit {
    Exited(i32),
    Signalled(i32),
}

/// What becomes of processes that outlive the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leftovers {
    Keep,
    Kill,
}

/// Why we ended a job that would have gone on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    TimedOut,
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Running { deadline: Option<u64> },
    Stopping { end: End, kill_at: u64 },
    Killing { end: End, give_up_at: u64 },
    Draining { leader: RawExit, until: u64 },
    Background,
    Over,
}

/// What is known about the end so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct End {
    pub why: Option<Why>,
    pub leader: Option<RawExit>,
    pub leaky: bool,
    /// SIGKILL did not empty the tree in time.
    pub gave_up: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    LeaderExited(RawExit),
    /// It printed something.
    Output,
    /// Nobody holds the output any more, and all of it is in the log.
    OutputClosed,
    /// No descendant is left.
    TreeEmpty,
    Cancel {
        grace_ms: u64,
    },
    /// PID 1 is gone: nobody is left to report to.
    ControlLost,
    Tick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// SIGTERM to every descendant, once.
    TermTree,
    /// SIGKILL to every descendant, again and again while in `Killing`.
    KillTree,
    Report(End),
    /// The shim may exit.
    Finish,
}

#[derive(Debug, Clone)]
pub struct Job {
    phase: Phase,
    leftovers: Leftovers,
    /// Between SIGTERM and SIGKILL when its time is up.
    timeout_grace_ms: u64,
    /// How long it may print nothing, and until when.
    idle_ms: Option<u64>,
    silent_until: Option<u64>,
    reported: bool,
    output_open: bool,
    tree_empty: bool,
}

impl Job {
    pub fn new(leftovers: Leftovers, deadline: Option<u64>, timeout_grace_ms: u64) -> Self {
        let phase = Phase::Running { deadline };
        Self {
            phase,
            leftovers,
            timeout_grace_ms,
            idle_ms: None,
            silent_until: None,
            reported: false,
            output_open: true,
            tree_empty: false,
        }
    }

    /// The same job, ended as timed out when it prints nothing for so long.
    pub fn with_idle_ms(mut self, idle_ms: Option<u64>, now: u64) -> Self {
        self.idle_ms = idle_ms;
        self.silent_until = idle_ms.map(|ms| now.saturating_add(ms));
        self
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether no descendant was left when that was last looked at.
    pub fn tree_is_empty(&self) -> bool {
        self.tree_empty
    }

    pub fn step(&mut self, input: Input, now: u64) -> Vec<Effect> {
        match input {
            Input::LeaderExited(raw) => self.leader_exited(raw, now),
            Input::Output => {
                self.silent_until = self.idle_ms.map(|ms| now.saturating_add(ms));
                Vec::new()
            }
            Input::OutputClosed => {
                self.output_open = false;
                self.drained(now, false)
            }
            Input::TreeEmpty => {
                self.tree_empty = true;
                self.emptied()
            }
            Input::Cancel { grace_ms } => self.cancel(grace_ms, now),
            Input::ControlLost => {
                self.reported = true;
                self.kill(End::default(), now)
            }
            Input::Tick => self.tick(now),
        }
    }

    /// When the next `Tick` is due.
    pub fn next_wake(&self) -> Option<u64> {
        match self.phase {
            Phase::Running { deadline } => deadline.into_iter().chain(self.silent_until).min(),
            Phase::Stopping { kill_at, .. } => Some(kill_at),
            Phase::Killing { give_up_at, .. } => Some(give_up_at),
            Phase::Draining { until, .. } => Some(until),
            Phase::Background | Phase::Over => None,
        }
    }

    fn leader_exited(&mut self, raw: RawExit, now: u64) -> Vec<Effect> {
        match &mut self.phase {
            Phase::Running { .. } => {
                self.phase = Phase::Draining { leader: raw, until: now.saturating_add(DRAIN_MS) };
                if self.output_open { Vec::new() } else { self.drained(now, false) }
            }
            Phase::Stopping { end, .. } | Phase::Killing { end, .. } => {
                end.leader.get_or_insert(raw);
                Vec::new()
            }
            Phase::Draining { .. } | Phase::Background | Phase::Over => Vec::new(),
        }
    }

    /// The output is complete, or was waited for long enough.
    fn drained(&mut self, now: u64, leaky: bool) -> Vec<Effect> {
        let Phase::Draining { leader, .. } = self.phase else { return Vec::new() };
        let end = End { leader: Some(leader), leaky, ..End::default() };
        match (self.tree_empty, self.leftovers) {
            (true, _) => self.over(end),
            (false, Leftovers::Kill) => self.kill(end, now),
            (false, Leftovers::Keep) => {
                self.phase = Phase::Background;
                self.report(end)
            }
        }
    }

    fn emptied(&mut self) -> Vec<Effect> {
        match self.phase {
            Phase::Stopping { end, .. } | Phase::Killing { end, .. } => self.over(end),
            Phase::Background => self.over(End::default()),
            // The last of the output is still to be read.
            Phase::Running { .. } | Phase::Draining { .. } | Phase::Over => Vec::new(),
        }
    }

    fn cancel(&mut self, grace_ms: u64, now: u64) -> Vec<Effect> {
        let end = match self.phase {
            Phase::Running { .. } => End { why: Some(Why::Cancelled), ..End::default() },
            Phase::Draining { leader, .. } => End { leader: Some(leader), ..End::default() },
            Phase::Background => End::default(),
            Phase::Stopping { end, kill_at } => {
                // A second, more impatient caller shortens the grace.
                self.phase = Phase::Stopping { end, kill_at: kill_at.min(now.saturating_add(grace_ms)) };
                return Vec::new();
            }
            Phase::Killing { .. } | Phase::Over => return Vec::new(),
        };
        self.stop(end, grace_ms, now)
    }

    fn tick(&mut self, now: u64) -> Vec<Effect> {
        if self.next_wake().is_none_or(|at| now < at) {
            return Vec::new();
        }
        match self.phase {
            Phase::Running { .. } => {
                let end = End { why: Some(Why::TimedOut), ..End::default() };
                self.stop(end, self.timeout_grace_ms, now)
            }
            Phase::Stopping { end, .. } => self.kill(end, now),
            Phase::Killing { end, .. } => self.over(End { gave_up: true, ..end }),
            Phase::Draining { .. } => self.drained(now, true),
            Phase::Background | Phase::Over => Vec::new(),
        }
    }

    fn stop(&mut self, end: End, grace_ms: u64, now: u64) -> Vec<Effect> {
        if self.tree_empty {
            return self.over(end);
        }
        if grace_ms == 0 {
            return self.kill(end, now);
        }
        self.phase = Phase::Stopping { end, kill_at: now.saturating_add(grace_ms) };
        vec![Effect::TermTree]
    }

    fn kill(&mut self, end: End, now: u64) -> Vec<Effect> {
        if self.tree_empty {
            return self.over(end);
        }
        self.phase = Phase::Killing { end, give_up_at: now.saturating_add(KILL_MAX_MS) };
        vec![Effect::KillTree]
    }

    fn over(&mut self, end: End) -> Vec<Effect> {
        self.phase = Phase::Over;
        let mut effects = self.report(end);
        effects.push(Effect::Finish);
        effects
    }

    fn report(&mut self, end: End) -> Vec<Effect> {
        if self.reported {
            return Vec::new();
        }
        self.reported = true;
        vec![Effect::Report(end)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A world that obeys the kernel's rules: a leader exits once, the tree is empty only after that,
    /// and SIGKILL empties it in the end.
    #[derive(Debug, Clone, Copy)]
    enum World {
        LeaderExits,
        OutputCloses,
        TreeEmpties,
        Cancel,
        CancelNow,
        Time(u64),
    }

    fn world() -> impl Strategy<Value = World> {
        prop_oneof![
            Just(World::LeaderExits),
            Just(World::OutputCloses),
            Just(World::TreeEmpties),
            Just(World::Cancel),
            Just(World::CancelNow),
            (0u64..20_000).prop_map(World::Time),
        ]
    }

    struct Run {
        job: Job,
        now: u64,
        leader: bool,
        output: bool,
        tree: bool,
        effects: Vec<Effect>,
    }

    impl Run {
        fn new(leftovers: Leftovers, deadline: Option<u64>) -> Self {
            let job = Job::new(leftovers, deadline, 500);
            Self { job, now: 0, leader: true, output: true, tree: true, effects: Vec::new() }
        }

        fn input(&mut self, input: Input) {
            self.effects.extend(self.job.step(input, self.now));
        }

        fn happen(&mut self, what: World) {
            match what {
                World::LeaderExits if self.leader => {
                    self.leader = false;
                    self.input(Input::LeaderExited(RawExit::Exited(3)));
                }
                World::OutputCloses if self.output => {
                    self.output = false;
                    self.input(Input::OutputClosed);
                }
                World::TreeEmpties if self.tree && !self.leader => {
                    self.tree = false;
                    self.input(Input::TreeEmpty);
                }
                World::Cancel => self.input(Input::Cancel { grace_ms: 500 }),
                World::CancelNow => self.input(Input::Cancel { grace_ms: 0 }),
                World::Time(by) => {
                    self.now += by;
                    self.input(Input::Tick);
                }
                World::LeaderExits | World::OutputCloses | World::TreeEmpties => {}
            }
        }

        fn reports(&self) -> usize {
            self.effects.iter().filter(|e| matches!(e, Effect::Report(_))).count()
        }
    }

    proptest! {
        #[test]
        fn a_cancelled_job_ends_and_is_reported_once(
            keep: bool, deadline in prop::option::of(0u64..5_000), before in prop::collection::vec(world(), 0..20),
            kernel_obeys: bool,
        ) {
            let leftovers = if keep { Leftovers::Keep } else { Leftovers::Kill };
            let mut run = Run::new(leftovers, deadline);
            before.into_iter().for_each(|what| run.happen(what));
            run.happen(World::Cancel);
            run.happen(World::Time(500));
            if kernel_obeys {
                for what in [World::LeaderExits, World::TreeEmpties, World::OutputCloses] {
                    run.happen(what);
                }
            }
            run.happen(World::Time(KILL_MAX_MS + DRAIN_MS));
            run.happen(World::Time(KILL_MAX_MS + DRAIN_MS));
            prop_assert_eq!(run.job.phase(), Phase::Over);
            prop_assert_eq!(run.reports(), 1);
            prop_assert_eq!(run.effects.iter().filter(|e| **e == Effect::Finish).count(), 1);
        }

        #[test]
        fn a_leader_that_exits_is_reported_whatever_it_left(
            keep: bool, before in prop::collection::vec(world(), 0..20),
        ) {
            let leftovers = if keep { Leftovers::Keep } else { Leftovers::Kill };
            let mut run = Run::new(leftovers, None);
            before.into_iter().for_each(|what| run.happen(what));
            run.happen(World::LeaderExits);
            for _ in 0..3 {
                run.happen(World::Time(KILL_MAX_MS + DRAIN_MS));
            }
            prop_assert_eq!(run.reports(), 1);
        }

        #[test]
        fn a_tick_when_due_makes_progress(steps in prop::collection::vec(world(), 0..30)) {
            let mut run = Run::new(Leftovers::Kill, Some(100));
            for what in steps {
                run.happen(what);
                if let Some(at) = run.job.next_wake() {
                    run.now = run.now.max(at);
                    let before = run.job.phase();
                    run.input(Input::Tick);
                    prop_assert_ne!(run.job.phase(), before);
                }
            }
        }
    }

    #[test]
    fn a_silent_job_is_timed_out_and_a_talking_one_is_not() {
        let mut job = Job::new(Leftovers::Kill, None, 500).with_idle_ms(Some(100), 0);
        for now in [90, 180, 270] {
            assert_eq!(job.step(Input::Tick, now), []);
            job.step(Input::Output, now);
        }
        assert_eq!(job.next_wake(), Some(370));
        assert_eq!(job.step(Input::Tick, 370), [Effect::TermTree]);
        let end = End { why: Some(Why::TimedOut), ..End::default() };
        assert_eq!(job.phase(), Phase::Stopping { end, kill_at: 870 });
    }

    #[test]
    fn the_true_exit_survives_a_late_cancel() {
        let mut run = Run::new(Leftovers::Keep, None);
        run.happen(World::LeaderExits);
        run.happen(World::Cancel);
        run.happen(World::TreeEmpties);
        let end = End { leader: Some(RawExit::Exited(3)), ..End::default() };
        assert!(run.effects.contains(&Effect::Report(end)));
    }

    #[test]
    fn a_held_pipe_is_leaky_and_its_holder_lives_on() {
        let mut run = Run::new(Leftovers::Keep, None);
        run.happen(World::LeaderExits);
        run.happen(World::Time(DRAIN_MS));
        assert_eq!(run.job.phase(), Phase::Background);
        let end = End { leader: Some(RawExit::Exited(3)), leaky: true, ..End::default() };
        assert_eq!(run.effects, [Effect::Report(end)]);
    }
}
