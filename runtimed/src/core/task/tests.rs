//! A world that obeys the rules of shims: a job that was started ends once, when it likes or when it is
//! stopped; inputs come in any order.

use super::{AgentEnd, Effect, Input, Machine, Policy, Stage, Verdict};
use crate::limits::{GRACE_MAX_MS, KILL_MAX_MS};
use proptest::prelude::*;
use protocol::{FailureReason, TaskPhase, TaskStatus};

const AGES_MS: u64 = GRACE_MAX_MS + 2 * KILL_MAX_MS;

#[derive(Debug, Clone, Copy)]
enum World {
    Begin,
    /// What runs ends, well or badly.
    Ends(bool),
    Ready,
    Cancel(u64),
    Shutdown,
    Time(u64),
    /// An input that does not belong here.
    Stray(Input),
}

fn end_of_agent() -> impl Strategy<Value = AgentEnd> {
    prop_oneof![
        Just(AgentEnd::Succeeded),
        Just(AgentEnd::Failed),
        Just(AgentEnd::Silent),
        Just(AgentEnd::NotStarted),
        Just(AgentEnd::Lost)
    ]
}

fn world() -> impl Strategy<Value = World> {
    prop_oneof![
        Just(World::Begin),
        any::<bool>().prop_map(World::Ends),
        any::<bool>().prop_map(World::Ends),
        Just(World::Ready),
        (0u64..=GRACE_MAX_MS).prop_map(World::Cancel),
        Just(World::Shutdown),
        (0u64..20_000).prop_map(World::Time),
        end_of_agent().prop_map(|end| World::Stray(Input::AgentEnded(end))),
        Just(World::Stray(Input::Prepared)),
        any::<bool>().prop_map(|build| World::Stray(Input::Counted { build })),
        any::<bool>().prop_map(|passed| World::Stray(Input::Built { passed })),
    ]
}

struct Run {
    machine: Machine,
    now: u64,
    effects: Vec<Effect>,
}

impl Run {
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

    fn happen(&mut self, what: World) {
        match what {
            World::Begin => self.input(Input::Begin),
            World::Ends(well) => match self.machine.stage() {
                Some(Stage::Checkpoint) => self.input(Input::Checkpointed),
                Some(Stage::Agent) => {
                    self.input(Input::AgentEnded(if well { AgentEnd::Succeeded } else { AgentEnd::Failed }));
                }
                Some(Stage::Changes) => self.input(Input::Counted { build: well }),
                Some(Stage::Build) => self.input(Input::Built { passed: well }),
                None => {}
            },
            World::Ready => self.input(Input::Services { ready: true }),
            World::Cancel(grace_ms) => self.input(Input::Cancel { grace_ms }),
            World::Shutdown => self.input(Input::Shutdown { grace_ms: 1_000 }),
            World::Time(by) => {
                self.now += by;
                self.input(Input::Tick);
            }
            World::Stray(input) => self.input(input),
        }
    }

    fn finishes(&self) -> Vec<Verdict> {
        let verdict = |effect: &Effect| match effect {
            Effect::Finish(verdict) => Some(*verdict),
            _ => None,
        };
        self.effects.iter().filter_map(verdict).collect()
    }
}

proptest! {
    #[test]
    fn cancel_ends_it_in_every_phase_though_no_shim_answers(
        timeout in prop::option::of(0u64..50_000), health in 0u64..30_000,
        before in prop::collection::vec(world(), 0..25), shims_answer: bool,
    ) {
        let mut run = Run::new(timeout, health);
        before.into_iter().for_each(|what| run.happen(what));
        let was_done = run.machine.is_done();
        run.happen(World::Cancel(1_000));
        for _ in 0..3 {
            if shims_answer {
                run.happen(World::Ends(false));
            }
            run.happen(World::Time(AGES_MS));
            // The job that counts changes after a cancel is bounded by its shim.
            run.happen(World::Ends(false));
        }
        prop_assert!(run.machine.is_done());
        prop_assert_eq!(run.finishes().len(), 1);
        if !was_done {
            prop_assert!(run.finishes()[0].status != TaskStatus::Succeeded);
        }
    }

    #[test]
    fn done_is_last_and_exactly_once(
        timeout in prop::option::of(0u64..50_000), health in 0u64..30_000,
        what in prop::collection::vec(world(), 0..60),
    ) {
        let mut run = Run::new(timeout, health);
        what.into_iter().for_each(|what| run.happen(what));
        let at = run.effects.iter().position(|effect| matches!(effect, Effect::Finish(_)));
        prop_assert_eq!(at.is_some(), run.machine.is_done());
        if let Some(at) = at {
            prop_assert_eq!(at, run.effects.len() - 1);
        }
    }

    #[test]
    fn a_deadline_ends_what_runs(
        before in prop::collection::vec(world(), 0..25), timeout in 1u64..5_000,
    ) {
        let mut run = Run::new(Some(timeout), 1_000);
        run.happen(World::Begin);
        before.into_iter().for_each(|what| run.happen(what));
        for _ in 0..6 {
            run.happen(World::Time(AGES_MS));
            if run.machine.stage() == Some(Stage::Changes) {
                run.happen(World::Ends(true));
            }
        }
        prop_assert!(run.machine.is_done());
    }

    #[test]
    fn a_tick_when_due_makes_progress(what in prop::collection::vec(world(), 0..40)) {
        let mut run = Run::new(Some(3_000), 1_000);
        for what in what {
            run.happen(what);
            if let Some(at) = run.machine.next_wake() {
                run.now = run.now.max(at);
                run.input(Input::Tick);
                prop_assert!(run.machine.next_wake() != Some(at) || run.machine.is_done());
            }
        }
    }
}

#[test]
fn phases_come_in_their_order_and_say_how_it_went() {
    use TaskPhase::{Agent, Build, Checkpoint, Health, Preparing};
    let all = [Preparing, Checkpoint, Agent, Build, Health];
    let story = |ends: &[bool]| {
        let mut run = Run::new(None, 1_000);
        run.happen(World::Begin);
        ends.iter().for_each(|well| run.happen(World::Ends(*well)));
        run.happen(World::Ready);
        let phases: Vec<TaskPhase> = run
            .effects
            .iter()
            .filter_map(|effect| if let Effect::Enter(phase) = effect { Some(*phase) } else { None })
            .collect();
        (phases, run.finishes().first().map(|verdict| (verdict.status, verdict.reason)))
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
    let mut run = Run::new(Some(1_000), 0);
    run.happen(World::Begin);
    run.happen(World::Ends(true));
    run.happen(World::Time(1_000));
    run.happen(World::Cancel(0));
    run.happen(World::Ends(false));
    run.happen(World::Ends(false));
    let verdict = run.finishes()[0];
    assert_eq!((verdict.status, verdict.reason), (TaskStatus::Failed, Some(FailureReason::TimedOut)));
    assert_eq!((verdict.durations.agent_ms, verdict.durations.total_ms), (1_000, 1_000));
}
