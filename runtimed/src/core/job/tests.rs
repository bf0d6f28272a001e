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
    Concludes,
    Waits(bool),
    Time(u64),
}

fn world() -> impl Strategy<Value = World> {
    prop_oneof![
        Just(World::LeaderExits),
        Just(World::OutputCloses),
        Just(World::TreeEmpties),
        Just(World::Cancel),
        Just(World::CancelNow),
        Just(World::Concludes),
        any::<bool>().prop_map(World::Waits),
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
            World::Concludes => self.input(Input::Concluded),
            World::Waits(waits) => self.input(Input::Waits(waits)),
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
        keep: bool, deadline in prop::option::of(0u64..5_000),
        steps in prop::collection::vec(world(), 0..30), ask_ms in 0u64..2_000,
    ) {
        let leftovers = if keep { Leftovers::Keep } else { Leftovers::Kill };
        let mut run = Run::asking(leftovers, deadline, ask_ms);
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
fn a_pause_of_the_sandbox_is_no_silence() {
    let mut job = Job::new(Leftovers::Kill, Some(100_000), 500).with_idle_ms(Some(100), 0);
    let thawed = 100 + PAUSED_MS;
    assert_eq!(job.step(Input::Tick, thawed), []);
    assert_eq!(job.next_wake(), Some(thawed + 100), "its time begins anew");
    assert_eq!(job.step(Input::Tick, thawed + 100), [Effect::TermTree]);
    let mut late = Job::new(Leftovers::Kill, Some(1_000), 500).with_idle_ms(Some(100), 0);
    assert_eq!(
        late.step(Input::Tick, 1_000 + PAUSED_MS),
        [Effect::TermTree],
        "the time for all of it goes on"
    );
}

#[test]
fn a_job_that_waits_for_somebody_may_be_silent() {
    let mut job = Job::new(Leftovers::Kill, None, 500).with_idle_ms(Some(100), 0);
    job.step(Input::Waits(true), 50);
    job.step(Input::Output, 60);
    assert_eq!(job.next_wake(), None);
    job.step(Input::Waits(false), 1_000);
    assert_eq!(job.next_wake(), Some(1_100));
}

#[test]
fn a_job_that_said_all_goes_or_is_killed_and_that_is_no_failure() {
    for (goes, exit) in [(true, RawExit::Exited(3)), (false, RawExit::Signalled(9))] {
        let mut run = Run::asking(Leftovers::Kill, None, 100);
        run.happen(World::Concludes);
        if goes {
            run.happen(World::LeaderExits);
            run.happen(World::OutputCloses);
        } else {
            run.happen(World::Time(LEAVE_MS));
            assert_eq!(run.effects, [Effect::KillTree]);
            run.leader = false;
            run.input(Input::LeaderExited(exit));
        }
        run.happen(World::TreeEmpties);
        let end = End { leader: Some(exit), ..End::default() };
        assert!(run.effects.contains(&Effect::Report(end)), "{:?}", run.effects);
    }
}

#[test]
fn a_job_that_does_not_go_is_killed_alone_where_what_it_left_is_kept() {
    let mut run = Run::new(Leftovers::Keep, None);
    run.happen(World::Concludes);
    run.happen(World::Time(LEAVE_MS));
    assert_eq!(run.effects, [Effect::KillLeader]);
    run.leader = false;
    run.input(Input::LeaderExited(RawExit::Signalled(9)));
    run.happen(World::OutputCloses);
    let end = End { leader: Some(RawExit::Signalled(9)), ..End::default() };
    assert_eq!(run.effects, [Effect::KillLeader, Effect::Report(end)]);
    assert_eq!(run.job.phase(), Phase::Background);
    // One that SIGKILL cannot end is no reason to end the others, and holds up nobody.
    let mut stuck = Run::new(Leftovers::Keep, None);
    stuck.happen(World::Concludes);
    stuck.happen(World::Time(LEAVE_MS));
    stuck.happen(World::Time(KILL_MAX_MS));
    let end = End { gave_up: true, ..End::default() };
    assert_eq!(stuck.effects, [Effect::KillLeader, Effect::Report(end)]);
    assert_eq!(stuck.job.phase(), Phase::Background);
}

#[test]
fn a_job_that_was_started_in_advance_gets_other_limits_with_its_purpose() {
    let mut job = Job::new(Leftovers::Kill, Some(100), 500);
    assert!(job.adopt(Leftovers::Keep, Some(50), 90));
    assert_eq!(job.next_wake(), Some(140));
    let mut ends = Job::new(Leftovers::Kill, Some(100), 500);
    ends.step(Input::Tick, 100);
    assert!(!ends.adopt(Leftovers::Keep, None, 100), "one that is being ended has no purpose any more");
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
