//! A world that obeys the kernel's rules, in which jobs are cancelled at any moment.

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
        Self::asking(leftovers, deadline, 0)
    }

    fn asking(leftovers: Leftovers, deadline: Option<u64>, ask_ms: u64) -> Self {
        let job = Job::new(leftovers, deadline, 500).with_ask_ms(ask_ms);
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
        kernel_obeys: bool, ask_ms in 0u64..2_000,
    ) {
        let leftovers = if keep { Leftovers::Keep } else { Leftovers::Kill };
        let mut run = Run::asking(leftovers, deadline, ask_ms);
        before.into_iter().for_each(|what| run.happen(what));
        run.happen(World::Cancel);
        // First for who is asked, then for all.
        run.happen(World::Time(250));
        run.happen(World::Time(250));
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
    fn a_tick_when_due_makes_progress(
        steps in prop::collection::vec(world(), 0..30), ask_ms in 0u64..2_000,
    ) {
        let mut run = Run::asking(Leftovers::Kill, Some(100), ask_ms);
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
fn who_has_a_word_for_stop_hears_that_first_and_the_rest_within_the_same_grace() {
    let mut run = Run::asking(Leftovers::Kill, None, 100);
    run.happen(World::Cancel);
    assert_eq!(run.effects, [Effect::Ask]);
    run.happen(World::Time(100));
    assert_eq!(run.effects, [Effect::Ask, Effect::TermTree]);
    run.happen(World::Time(400));
    assert_eq!(run.effects, [Effect::Ask, Effect::TermTree, Effect::KillTree]);
    let mut obeys = Run::asking(Leftovers::Kill, None, 100);
    for what in [World::Cancel, World::LeaderExits, World::TreeEmpties] {
        obeys.happen(what);
    }
    let end = End { why: Some(Why::Cancelled), leader: Some(RawExit::Exited(3)), ..End::default() };
    assert_eq!(obeys.effects, [Effect::Ask, Effect::TermTree, Effect::Report(end), Effect::Finish]);
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
