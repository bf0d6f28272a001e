//! From any state, whatever is seen, performing what is planned comes to rest, and where it was meant to.

use super::*;
use crate::core::{Effort, Move, Renewal, apply};
use proptest::prelude::*;
use protocol::api::DeathCause;

/// Steps until rest, on a backend that does what it is told.
const STEPS_MAX: usize = 24;

const CAUSES: [DeathCause; 7] = [
    DeathCause::ShutDown,
    DeathCause::Oom,
    DeathCause::Killed,
    DeathCause::Exited,
    DeathCause::Removed,
    DeathCause::Backend,
    DeathCause::Unknown,
];

fn states() -> impl Strategy<Value = State> {
    let goals =
        prop_oneof![Just(Goal::Running), Just(Goal::Paused), Just(Goal::Stopped), Just(Goal::Destroyed)];
    let statuses = prop_oneof![
        Just(SandboxStatus::Creating),
        Just(SandboxStatus::Running),
        Just(SandboxStatus::Paused),
        Just(SandboxStatus::Stopped),
        Just(SandboxStatus::Error)
    ];
    (goals, statuses, any::<bool>(), proptest::option::of(any::<bool>()), any::<bool>()).prop_map(
        |(goal, status, at_work, renew, dozing)| {
            // Being destroyed is never given up.
            let at_work = at_work || goal == Goal::Destroyed;
            let effort = at_work.then_some(Effort { phase: Phase::Starting, deadline_ms: 1_000 });
            let renewal = renew.filter(|_| goal == Goal::Running && effort.is_some());
            let renewal = renewal.map(|keep_workspace| Renewal { keep_workspace });
            let dozing = dozing && goal == Goal::Paused;
            State { goal, status, effort, renewal, dozing, problem: None }
        },
    )
}

fn containers() -> impl Strategy<Value = Container> {
    prop_oneof![
        Just(Container::Absent),
        Just(Container::Launching),
        (any::<bool>(), any::<bool>()).prop_map(|(frozen, ready)| Container::Running { frozen, ready }),
        proptest::sample::select(CAUSES.to_vec())
            .prop_map(|cause| Container::Dead(Death { cause, ..Death::default() })),
    ]
}

/// What a step changes when it works: the record and the backend.
fn perform(step: &Step, state: &State, container: &Container, now_ms: u64) -> (State, Container) {
    let moved = |change| apply(state, change).expect("a planned move is a legal one");
    let seen = container.clone();
    let up = |frozen, ready| Container::Running { frozen, ready };
    match step {
        Step::Launch => (state.clone(), up(false, false)),
        Step::AwaitReady | Step::Thaw => (state.clone(), up(false, true)),
        Step::Freeze => (state.clone(), up(true, true)),
        // Another hostd's launch is over after a while.
        Step::LookAgain => (state.clone(), up(false, false)),
        Step::Terminate => (state.clone(), Container::Dead(Death::default())),
        Step::Clear | Step::Erase => (state.clone(), Container::Absent),
        Step::Empty => (state.clone(), seen),
        Step::Renewed => (moved(Move::Renewed), seen),
        Step::Reached => (moved(Move::Reached), seen),
        Step::GiveUp(problem) => {
            let found = container.found();
            (moved(Move::GiveUp { problem: problem.clone(), found }), seen)
        }
        Step::Lost(death) => (moved(Move::Lost { death: Box::new(death.clone()) }), seen),
        Step::Ended(death) => (moved(Move::Ended { death: Box::new(death.clone()) }), seen),
        Step::Restart(death) => {
            let death = Box::new(death.clone());
            (moved(Move::Restart { death, deadline_ms: now_ms + 1_000 }), seen)
        }
        Step::TryAgain => (moved(Move::Accept { goal: Goal::Running, deadline_ms: now_ms + 1_000 }), seen),
        Step::Extend => (moved(Move::Extend { deadline_ms: now_ms + 1_000 }), seen),
    }
}

fn settle(
    mut state: State,
    mut container: Container,
    idle_policy: IdlePolicy,
    now_ms: u64,
) -> (State, Container) {
    for _ in 0..STEPS_MAX {
        let steps = plan(&Desired { state: &state, idle_policy }, &container, now_ms);
        if steps.is_empty() {
            return (state, container);
        }
        for step in &steps {
            (state, container) = perform(step, &state, &container, now_ms);
        }
        if state.status == SandboxStatus::Destroyed {
            return (state, container);
        }
    }
    panic!("no rest: {state:?} {container:?}");
}

proptest! {
    #[test]
    fn every_plan_comes_to_rest(state in states(), container in containers(), late in any::<bool>(), on in any::<bool>()) {
        let idle_policy = if on { IdlePolicy::AlwaysOn } else { IdlePolicy::Sleep };
        let now_ms = if late { 2_000 } else { 500 };
        let goal = state.goal;
        let driven = state.effort.is_some();
        let (end, container) = settle(state, container, idle_policy, now_ms);
        prop_assert!(end.effort.is_none(), "{end:?}");
        prop_assert!(!end.dozing || end.goal == Goal::Paused, "{end:?}");
        match end.status {
            SandboxStatus::Running => prop_assert_eq!(container, Container::Running { frozen: false, ready: true }),
            SandboxStatus::Paused => {
                let frozen = matches!(container, Container::Running { frozen: true, .. });
                prop_assert!(frozen, "{:?}", container);
            },
            SandboxStatus::Stopped | SandboxStatus::Error | SandboxStatus::Destroyed | SandboxStatus::Creating => {
                prop_assert_eq!(container, Container::Absent);
            }
        }
        if driven && goal == Goal::Destroyed {
            prop_assert_eq!(end.status, SandboxStatus::Destroyed);
        }
        // One that died cannot be paused.
        if driven && !late && goal != Goal::Paused {
            prop_assert_eq!(end.goal, goal);
        }
    }

    #[test]
    fn one_that_dozes_off_comes_to_rest_frozen_or_gone(container in containers(), late in any::<bool>()) {
        let now_ms = if late { 2_000 } else { 500 };
        let up = apply(&State::new(9), Move::Reached).expect("it comes up");
        let dozing = apply(&up, Move::Doze { deadline_ms: 1_000 }).expect("it runs");
        let (end, _) = settle(dozing, container, IdlePolicy::Sleep, now_ms);
        // What could not be frozen in time runs on; what died is in error.
        prop_assert_eq!(end.dozes(), end.status == SandboxStatus::Paused, "{:?}", end);
    }

    #[test]
    fn destroy_is_accepted_from_every_state(state in states()) {
        let next = apply(&state, Move::Accept { goal: Goal::Destroyed, deadline_ms: 9 }).expect("always");
        prop_assert_eq!(next.goal, Goal::Destroyed);
    }

    #[test]
    fn there_is_a_way_out_of_error(problem_first in any::<bool>()) {
        let problem = Death::default().problem();
        let state = State::new(10);
        let change = match problem_first {
            true => Move::GiveUp { problem, found: None },
            false => Move::Lost { death: Box::default() },
        };
        let failed = apply(&state, change).expect("it was on its way");
        for goal in [Goal::Running, Goal::Stopped, Goal::Destroyed] {
            let next = apply(&failed, Move::Accept { goal, deadline_ms: 9 }).expect("a way out");
            prop_assert!(next.effort.is_some());
        }
    }
}

#[test]
fn an_error_stays_until_somebody_asks() {
    let failed = Move::GiveUp { problem: Death::default().problem(), found: None };
    let failed = apply(&State::new(10), failed).expect("legal");
    let desired = Desired { state: &failed, idle_policy: IdlePolicy::AlwaysOn };
    assert_eq!(plan(&desired, &Container::Absent, 99), []);
    let running = Container::Running { frozen: false, ready: true };
    assert_eq!(plan(&desired, &running, 99), [Step::Terminate]);
}

#[test]
fn which_death_leads_where() {
    use SandboxStatus::{Error, Stopped};
    let table = [
        (DeathCause::ShutDown, Stopped),
        (DeathCause::Oom, Error),
        (DeathCause::Killed, Error),
        (DeathCause::Exited, Error),
        (DeathCause::Removed, Error),
        (DeathCause::Backend, Stopped),
        (DeathCause::Unknown, Error),
    ];
    assert_eq!(table.map(|(cause, _)| cause), CAUSES);
    let up = apply(&State::new(9), Move::Reached).expect("it comes up");
    let pausing = apply(&up, Move::Accept { goal: Goal::Paused, deadline_ms: 1_000 }).expect("it runs");
    let paused = apply(&pausing, Move::Reached).expect("it was on its way");
    for (cause, leads_to) in table {
        let dead = Container::Dead(Death { cause, ..Death::default() });
        for state in [&up, &pausing, &paused] {
            let (end, left) = settle(state.clone(), dead.clone(), IdlePolicy::Sleep, 500);
            assert_eq!((end.status, left), (leads_to, Container::Absent), "{cause:?} of {state:?}");
            let (end, _) = settle(state.clone(), dead.clone(), IdlePolicy::AlwaysOn, 500);
            assert_eq!(end.status, SandboxStatus::Running, "{cause:?} of {state:?}");
        }
    }
}

#[test]
fn only_one_that_should_always_run_is_tried_again_when_its_backend_is_back() {
    let away = Problem {
        code: ProblemCode::DriverUnavailable,
        message: "gone fishing".to_owned(),
        output: Vec::new(),
    };
    let give_up = |state: &State| {
        let change = Move::GiveUp { problem: away.clone(), found: None };
        apply(state, change).expect("it was on its way")
    };
    let up = apply(&State::new(10), Move::Reached).expect("it comes up");
    let restarting = Move::Restart { death: Box::default(), deadline_ms: 10 };
    let failed = give_up(&apply(&up, restarting).expect("it ran"));
    let planned =
        |state: &State, idle_policy, container| plan(&Desired { state, idle_policy }, &container, 99);
    assert_eq!(planned(&failed, IdlePolicy::AlwaysOn, Container::Absent), [Step::TryAgain]);
    assert_eq!(planned(&failed, IdlePolicy::AlwaysOn, Container::Unknown), []);
    assert_eq!(planned(&failed, IdlePolicy::Sleep, Container::Absent), []);
    // Nor what never ran, or was to stop.
    let stopping = apply(&up, Move::Accept { goal: Goal::Stopped, deadline_ms: 10 }).expect("it runs");
    for state in [State::new(10), stopping] {
        assert_eq!(planned(&give_up(&state), IdlePolicy::AlwaysOn, Container::Absent), [], "{state:?}");
    }
}

/// Whatever was wanted, being done or overdue: nothing is done to it, and nothing is given up.
#[test]
fn one_in_another_pid_namespace_is_only_looked_at() {
    for goal in [Goal::Running, Goal::Paused, Goal::Stopped, Goal::Destroyed] {
        for status in [
            SandboxStatus::Creating,
            SandboxStatus::Running,
            SandboxStatus::Paused,
            SandboxStatus::Stopped,
            SandboxStatus::Error,
        ] {
            for (effort, renewal) in [(false, false), (true, false), (true, true)] {
                let effort = effort.then_some(Effort { phase: Phase::Starting, deadline_ms: 1_000 });
                let renewal = renewal.then_some(Renewal { keep_workspace: false });
                let expected = if effort.is_some() { vec![Step::LookAgain] } else { vec![] };
                let state = State { goal, status, effort, renewal, dozing: false, problem: None };
                for idle_policy in [IdlePolicy::Sleep, IdlePolicy::AlwaysOn] {
                    let desired = Desired { state: &state, idle_policy };
                    for now_ms in [0, 5_000] {
                        let steps = plan(&desired, &Container::OtherPidNamespace, now_ms);
                        assert_eq!(steps, expected, "{desired:?} at {now_ms}");
                    }
                }
            }
        }
    }
}
