//! A fixture that obeys the rules of shims: a started job ends once, by itself or when it is stopped; inputs
//! come in any order.

use super::{AgentEnd, Effect, Input, Machine, Outcome, Policy, Stage};
use crate::limits::{GRACE_MAX_MS, KILL_MAX_MS};
use proptest::prelude::*;
use protocol::{FailureReason, TaskPhase, TaskStatus};

const AGES_MS: u64 = GRACE_MAX_MS + 2 * KILL_MAX_MS;

#[derive(Debug, Clone, Copy)]
enum Event {
    Begin,
    /// The running job ends, well or badly.
    Ends(bool),
    Ready,
    Cancel(u64),
    Shutdown,
    Time(u64),
    /// An input that does not belong to the current state.
    Stray(Input),
}

fn end_of_agent() -> impl Strategy<Value = AgentEnd> {
    prop_oneof![
        Just(AgentEnd::Succeeded),
        Just(AgentEnd::Failed),
        Just(AgentEnd::Idle),
        Just(AgentEnd::NotStarted),
        Just(AgentEnd::Lost)
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Begin),
        any::<bool>().prop_map(Event::Ends),
        any::<bool>().prop_map(Event::Ends),
        Just(Event::Ready),
        (0u64..=GRACE_MAX_MS).prop_map(Event::Cancel),
        Just(Event::Shutdown),
        (0u64..20_000).prop_map(Event::Time),
        end_of_agent().prop_map(|end| Event::Stray(Input::AgentEnded(end))),
        Just(Event::Stray(Input::Prepared)),
        any::<bool>().prop_map(|build| Event::Stray(Input::ChangesCounted { build })),
        any::<bool>().prop_map(|passed| Event::Stray(Input::Built { passed })),
    ]
}

struct TaskFixture {
    machine: Machine,
    now: u64,
    effects: Vec<Effect>,
}

impl TaskFixture {
    fn new(timeout_ms: Option<u64>, health_timeout_ms: u64) -> Self {
        let machine = Machine::new(Policy { timeout_ms, health_timeout_ms }, 0);
        Self { machine, now: 0, effects: Vec::new() }
    }

    fn input(&mut self, input: Input) {
        let effects = self.machine.step(input, self.now);
        let prepare = effects.contains(&Effect::Prepare);
        self.effects.extend(effects);
        if prepare {
            self.input(Input::Prepared);
        }
    }

    fn apply(&mut self, what: Event) {
        match what {
            Event::Begin => self.input(Input::Begin),
            Event::Ends(well) => match self.machine.stage() {
                Some(Stage::Checkpoint) => self.input(Input::Checkpointed),
                Some(Stage::Agent) => {
                    self.input(Input::AgentEnded(if well { AgentEnd::Succeeded } else { AgentEnd::Failed }));
                }
                Some(Stage::Changes) => self.input(Input::ChangesCounted { build: well }),
                Some(Stage::Build) => self.input(Input::Built { passed: well }),
                None => {}
            },
            Event::Ready => self.input(Input::Services { ready: true }),
            Event::Cancel(grace_ms) => self.input(Input::Cancel { grace_ms }),
            Event::Shutdown => self.input(Input::Shutdown { grace_ms: 1_000 }),
            Event::Time(by) => {
                self.now += by;
                self.input(Input::Tick);
            }
            Event::Stray(input) => self.input(input),
        }
    }

    fn finishes(&self) -> Vec<Outcome> {
        let outcome =
            |effect: &Effect| if let Effect::Finish(outcome) = effect { Some(*outcome) } else { None };
        self.effects.iter().filter_map(outcome).collect()
    }
}

proptest! {
    #[test]
    fn cancel_ends_it_in_every_phase_though_no_shim_answers(
        timeout in prop::option::of(0u64..50_000), health in 0u64..30_000,
        before in prop::collection::vec(event(), 0..25), shims_answer: bool,
    ) {
        let mut fixture = TaskFixture::new(timeout, health);
        before.into_iter().for_each(|what| fixture.apply(what));
        let was_done = fixture.machine.is_done();
        fixture.apply(Event::Cancel(1_000));
        for _ in 0..3 {
            if shims_answer {
                fixture.apply(Event::Ends(false));
            }
            fixture.apply(Event::Time(AGES_MS));
            // The job that counts changes after a cancel is bounded by its shim.
            fixture.apply(Event::Ends(false));
        }
        prop_assert!(fixture.machine.is_done());
        prop_assert_eq!(fixture.finishes().len(), 1);
        if !was_done {
            prop_assert!(fixture.finishes()[0].status != TaskStatus::Succeeded);
        }
    }

    #[test]
    fn done_is_last_and_exactly_once(
        timeout in prop::option::of(0u64..50_000), health in 0u64..30_000,
        what in prop::collection::vec(event(), 0..60),
    ) {
        let mut fixture = TaskFixture::new(timeout, health);
        what.into_iter().for_each(|what| fixture.apply(what));
        let at = fixture.effects.iter().position(|effect| matches!(effect, Effect::Finish(_)));
        prop_assert_eq!(at.is_some(), fixture.machine.is_done());
        if let Some(at) = at {
            prop_assert_eq!(at, fixture.effects.len() - 1);
        }
    }

    #[test]
    fn a_deadline_ends_what_runs(
        before in prop::collection::vec(event(), 0..25), timeout in 1u64..5_000,
    ) {
        let mut fixture = TaskFixture::new(Some(timeout), 1_000);
        fixture.apply(Event::Begin);
        before.into_iter().for_each(|what| fixture.apply(what));
        for _ in 0..6 {
            fixture.apply(Event::Time(AGES_MS));
            if fixture.machine.stage() == Some(Stage::Changes) {
                fixture.apply(Event::Ends(true));
            }
        }
        prop_assert!(fixture.machine.is_done());
    }

    #[test]
    fn a_tick_when_due_makes_progress(what in prop::collection::vec(event(), 0..40)) {
        let mut fixture = TaskFixture::new(Some(3_000), 1_000);
        for what in what {
            fixture.apply(what);
            if let Some(at) = fixture.machine.next_wake() {
                fixture.now = fixture.now.max(at);
                fixture.input(Input::Tick);
                prop_assert!(fixture.machine.next_wake() != Some(at) || fixture.machine.is_done());
            }
        }
    }
}

#[test]
fn phases_come_in_their_order_and_say_how_it_went() {
    use TaskPhase::{Agent, Build, Checkpoint, Health, Preparing};
    let all = [Preparing, Checkpoint, Agent, Build, Health];
    let story = |ends: &[bool]| {
        let mut fixture = TaskFixture::new(None, 1_000);
        fixture.apply(Event::Begin);
        ends.iter().for_each(|well| fixture.apply(Event::Ends(*well)));
        fixture.apply(Event::Ready);
        let phases: Vec<TaskPhase> = fixture
            .effects
            .iter()
            .filter_map(|effect| if let Effect::Enter(phase) = effect { Some(*phase) } else { None })
            .collect();
        (phases, fixture.finishes().first().map(|outcome| (outcome.status, outcome.reason)))
    };
    for (ends, phases, expected) in [
        (&[true, true, true, true][..], &all[..], (TaskStatus::Succeeded, None)),
        (&[true, true, true, false], &all, (TaskStatus::Failed, Some(FailureReason::BuildFailed))),
        (&[true, true, false], &all, (TaskStatus::Succeeded, None)),
        (
            &[true, false, true],
            &[Preparing, Checkpoint, Agent, Health],
            (TaskStatus::Failed, Some(FailureReason::AgentFailed)),
        ),
    ] {
        assert_eq!(story(ends), (phases.to_vec(), Some(expected)), "{ends:?}");
    }
}

#[test]
fn the_first_reason_stays() {
    let mut fixture = TaskFixture::new(Some(1_000), 0);
    fixture.apply(Event::Begin);
    fixture.apply(Event::Ends(true));
    fixture.apply(Event::Time(1_000));
    fixture.apply(Event::Cancel(0));
    fixture.apply(Event::Ends(false));
    fixture.apply(Event::Ends(false));
    let outcome = fixture.finishes()[0];
    assert_eq!((outcome.status, outcome.reason), (TaskStatus::Failed, Some(FailureReason::TimedOut)));
    assert_eq!((outcome.durations.agent_ms, outcome.durations.total_ms), (1_000, 1_000));
}
