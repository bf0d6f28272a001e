//! A fixture that obeys the kernel's rules, in which jobs are cancelled at any moment.

use super::*;
use proptest::prelude::*;

/// Events of a job. A leader exits once, the tree is empty only after that, and SIGKILL empties it
/// in the end.
#[derive(Debug, Clone, Copy)]
enum Event {
    LeaderExits,
    OutputCloses,
    TreeEmpties,
    Cancel,
    CancelNow,
    Concludes,
    Waits(bool),
    Time(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::LeaderExits),
        Just(Event::OutputCloses),
        Just(Event::TreeEmpties),
        Just(Event::Cancel),
        Just(Event::CancelNow),
        Just(Event::Concludes),
        any::<bool>().prop_map(Event::Waits),
        (0u64..20_000).prop_map(Event::Time),
    ]
}

struct JobFixture {
    job: Job,
    now: u64,
    leader: bool,
    output: bool,
    tree: bool,
    effects: Vec<Effect>,
}

impl JobFixture {
    fn new(leftovers: Leftovers, deadline: Option<u64>) -> Self {
        Self::with_stop_request(leftovers, deadline, 0)
    }

    fn with_stop_request(leftovers: Leftovers, deadline: Option<u64>, stop_request_ms: u64) -> Self {
        let job = Job::new(leftovers, deadline, 500).with_stop_request_ms(stop_request_ms);
        Self { job, now: 0, leader: true, output: true, tree: true, effects: Vec::new() }
    }

    fn input(&mut self, input: Input) {
        self.effects.extend(self.job.step(input, self.now));
    }

    fn apply(&mut self, what: Event) {
        match what {
            Event::LeaderExits if self.leader => {
                self.leader = false;
                self.input(Input::LeaderExited(RawExit::Exited(3)));
            }
            Event::OutputCloses if self.output => {
                self.output = false;
                self.input(Input::OutputClosed);
            }
            Event::TreeEmpties if self.tree && !self.leader => {
                self.tree = false;
                self.input(Input::TreeEmpty);
            }
            Event::Cancel => self.input(Input::Cancel { grace_ms: 500 }),
            Event::CancelNow => self.input(Input::Cancel { grace_ms: 0 }),
            Event::Concludes => self.input(Input::Concluded),
            Event::Waits(waits) => self.input(Input::AwaitsDecision(waits)),
            Event::Time(by) => {
                self.now += by;
                self.input(Input::Tick);
            }
            Event::LeaderExits | Event::OutputCloses | Event::TreeEmpties => {}
        }
    }

    fn reports(&self) -> usize {
        self.effects.iter().filter(|e| matches!(e, Effect::Report(_))).count()
    }
}

proptest! {
    #[test]
    fn a_cancelled_job_ends_and_is_reported_once(
        keep: bool, deadline in prop::option::of(0u64..5_000), before in prop::collection::vec(event(), 0..20),
        kernel_obeys: bool, stop_request_ms in 0u64..2_000,
    ) {
        let leftovers = if keep { Leftovers::Keep } else { Leftovers::Kill };
        let mut fixture = JobFixture::with_stop_request(leftovers, deadline, stop_request_ms);
        before.into_iter().for_each(|what| fixture.apply(what));
        fixture.apply(Event::Cancel);
        // First the stop request expires, then the grace.
        fixture.apply(Event::Time(250));
        fixture.apply(Event::Time(250));
        if kernel_obeys {
            for what in [Event::LeaderExits, Event::TreeEmpties, Event::OutputCloses] {
                fixture.apply(what);
            }
        }
        fixture.apply(Event::Time(KILL_MAX_MS + DRAIN_MS));
        fixture.apply(Event::Time(KILL_MAX_MS + DRAIN_MS));
        prop_assert_eq!(fixture.job.phase(), Phase::Over);
        prop_assert_eq!(fixture.reports(), 1);
        prop_assert_eq!(fixture.effects.iter().filter(|e| **e == Effect::Finish).count(), 1);
    }

    #[test]
    fn a_leader_that_exits_is_reported_whatever_it_left(
        keep: bool, before in prop::collection::vec(event(), 0..20),
    ) {
        let leftovers = if keep { Leftovers::Keep } else { Leftovers::Kill };
        let mut fixture = JobFixture::new(leftovers, None);
        before.into_iter().for_each(|what| fixture.apply(what));
        fixture.apply(Event::LeaderExits);
        for _ in 0..3 {
            fixture.apply(Event::Time(KILL_MAX_MS + DRAIN_MS));
        }
        prop_assert_eq!(fixture.reports(), 1);
    }

    #[test]
    fn a_tick_when_due_makes_progress(
        keep: bool, deadline in prop::option::of(0u64..5_000),
        steps in prop::collection::vec(event(), 0..30), stop_request_ms in 0u64..2_000,
    ) {
        let leftovers = if keep { Leftovers::Keep } else { Leftovers::Kill };
        let mut fixture = JobFixture::with_stop_request(leftovers, deadline, stop_request_ms);
        for what in steps {
            fixture.apply(what);
            if let Some(at) = fixture.job.next_wake() {
                fixture.now = fixture.now.max(at);
                let before = fixture.job.phase();
                fixture.input(Input::Tick);
                prop_assert_ne!(fixture.job.phase(), before);
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
    let end = End { reason: Some(StopReason::TimedOut), ..End::default() };
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
fn a_job_that_waits_for_a_decision_may_be_silent() {
    let mut job = Job::new(Leftovers::Kill, None, 500).with_idle_ms(Some(100), 0);
    job.step(Input::AwaitsDecision(true), 50);
    job.step(Input::Output, 60);
    assert_eq!(job.next_wake(), None);
    job.step(Input::AwaitsDecision(false), 1_000);
    assert_eq!(job.next_wake(), Some(1_100));
}

#[test]
fn a_job_whose_conversation_is_over_exits_or_is_killed_and_that_is_no_failure() {
    for (goes, exit) in [(true, RawExit::Exited(3)), (false, RawExit::Signalled(9))] {
        let mut fixture = JobFixture::with_stop_request(Leftovers::Kill, None, 100);
        fixture.apply(Event::Concludes);
        if goes {
            fixture.apply(Event::LeaderExits);
            fixture.apply(Event::OutputCloses);
        } else {
            fixture.apply(Event::Time(LEAVE_MS));
            assert_eq!(fixture.effects, [Effect::KillTree]);
            fixture.leader = false;
            fixture.input(Input::LeaderExited(exit));
        }
        fixture.apply(Event::TreeEmpties);
        let end = End { leader: Some(exit), ..End::default() };
        assert!(fixture.effects.contains(&Effect::Report(end)), "{:?}", fixture.effects);
    }
}

#[test]
fn a_job_that_does_not_exit_is_killed_alone_where_leftovers_are_kept() {
    let mut fixture = JobFixture::new(Leftovers::Keep, None);
    fixture.apply(Event::Concludes);
    fixture.apply(Event::Time(LEAVE_MS));
    assert_eq!(fixture.effects, [Effect::KillLeader]);
    fixture.leader = false;
    fixture.input(Input::LeaderExited(RawExit::Signalled(9)));
    fixture.apply(Event::OutputCloses);
    let end = End { leader: Some(RawExit::Signalled(9)), ..End::default() };
    assert_eq!(fixture.effects, [Effect::KillLeader, Effect::Report(end)]);
    assert_eq!(fixture.job.phase(), Phase::Background);
    // A leader that SIGKILL cannot end does not take the rest of the tree with it, and blocks nothing.
    let mut stuck = JobFixture::new(Leftovers::Keep, None);
    stuck.apply(Event::Concludes);
    stuck.apply(Event::Time(LEAVE_MS));
    stuck.apply(Event::Time(KILL_MAX_MS));
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
fn a_stop_request_comes_first_and_signals_within_the_same_grace() {
    let mut fixture = JobFixture::with_stop_request(Leftovers::Kill, None, 100);
    fixture.apply(Event::Cancel);
    assert_eq!(fixture.effects, [Effect::RequestStop]);
    fixture.apply(Event::Time(100));
    assert_eq!(fixture.effects, [Effect::RequestStop, Effect::TermTree]);
    fixture.apply(Event::Time(400));
    assert_eq!(fixture.effects, [Effect::RequestStop, Effect::TermTree, Effect::KillTree]);
    let mut obeys = JobFixture::with_stop_request(Leftovers::Kill, None, 100);
    for what in [Event::Cancel, Event::LeaderExits, Event::TreeEmpties] {
        obeys.apply(what);
    }
    let end = End { reason: Some(StopReason::Cancelled), leader: Some(RawExit::Exited(3)), ..End::default() };
    assert_eq!(obeys.effects, [Effect::RequestStop, Effect::TermTree, Effect::Report(end), Effect::Finish]);
}

#[test]
fn the_true_exit_survives_a_late_cancel() {
    let mut fixture = JobFixture::new(Leftovers::Keep, None);
    fixture.apply(Event::LeaderExits);
    fixture.apply(Event::Cancel);
    fixture.apply(Event::TreeEmpties);
    let end = End { leader: Some(RawExit::Exited(3)), ..End::default() };
    assert!(fixture.effects.contains(&Effect::Report(end)));
}

#[test]
fn a_held_pipe_is_leaky_and_its_holder_lives_on() {
    let mut fixture = JobFixture::new(Leftovers::Keep, None);
    fixture.apply(Event::LeaderExits);
    fixture.apply(Event::Time(DRAIN_MS));
    assert_eq!(fixture.job.phase(), Phase::Background);
    let end = End { leader: Some(RawExit::Exited(3)), leaky: true, ..End::default() };
    assert_eq!(fixture.effects, [Effect::Report(end)]);
}
