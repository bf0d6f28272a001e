//! From any state, whatever is observed, performing the planned steps comes to rest at the goal.

use super::*;
use crate::{Operation, Renewal, Transition, apply};
use proptest::prelude::*;
use protocol::api::DeathCause;

/// The most plans until rest, on a backend without faults.
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
            // A destroy is never given up.
            let at_work = at_work || goal == Goal::Destroyed;
            let operation = at_work.then_some(Operation { phase: Phase::Starting, deadline_ms: 1_000 });
            let renewal = renew.filter(|_| goal == Goal::Running && operation.is_some());
            let renewal = renewal.map(|keep_workspace| Renewal { keep_workspace });
            let dozing = dozing && goal == Goal::Paused;
            State { goal, status, operation, renewal, dozing, problem: None }
        },
    )
}

fn observations() -> impl Strategy<Value = Observed> {
    prop_oneof![
        Just(Observed::Absent),
        Just(Observed::Launching),
        (any::<bool>(), any::<bool>()).prop_map(|(frozen, ready)| Observed::Running { frozen, ready }),
        proptest::sample::select(CAUSES.to_vec())
            .prop_map(|cause| Observed::Dead(Death { cause, ..Death::default() })),
    ]
}

/// The record and the container after a step that works.
fn perform(step: &PlanStep, state: &State, observed: &Observed, now_ms: u64) -> (State, Observed) {
    let moved = |change| apply(state, change).expect("a planned transition is a legal one");
    let seen = observed.clone();
    let up = |frozen, ready| Observed::Running { frozen, ready };
    match step {
        PlanStep::Launch | PlanStep::Provision => (state.clone(), up(false, false)),
        PlanStep::AwaitReady | PlanStep::Drive(DriverVerb::Thaw) => (state.clone(), up(false, true)),
        PlanStep::Drive(DriverVerb::Freeze) => (state.clone(), up(true, true)),
        // Another hostd's launch is over after a while.
        PlanStep::InspectAgain => (state.clone(), up(false, false)),
        PlanStep::Drive(DriverVerb::Terminate) => (state.clone(), Observed::Dead(Death::default())),
        PlanStep::Drive(DriverVerb::CleanUp) | PlanStep::Drive(DriverVerb::Destroy) => {
            (state.clone(), Observed::Absent)
        }
        PlanStep::Drive(DriverVerb::ResetWorkspace) => (state.clone(), seen),
        PlanStep::Renewed => (moved(Transition::Renewed), seen),
        PlanStep::Reached => (moved(Transition::Reached), seen),
        PlanStep::GiveUp(problem) => {
            let found = observed.as_goal();
            (moved(Transition::GiveUp { problem: problem.clone(), found }), seen)
        }
        PlanStep::Lost(death) => (moved(Transition::Lost { death: Box::new(death.clone()) }), seen),
        PlanStep::Ended(death) => (moved(Transition::Ended { death: Box::new(death.clone()) }), seen),
        PlanStep::Restart(death) => {
            let death = Box::new(death.clone());
            (moved(Transition::Restart { death, deadline_ms: now_ms + 1_000 }), seen)
        }
        PlanStep::TryAgain => {
            (moved(Transition::Accept { goal: Goal::Running, deadline_ms: now_ms + 1_000 }), seen)
        }
        PlanStep::Extend => (moved(Transition::Extend { deadline_ms: now_ms + 1_000 }), seen),
    }
}

fn settle(
    mut state: State,
    mut observed: Observed,
    idle_policy: IdlePolicy,
    now_ms: u64,
) -> (State, Observed) {
    for _ in 0..STEPS_MAX {
        let steps = plan(&Desired { state: &state, idle_policy, to_provision: false }, &observed, now_ms);
        if steps.is_empty() {
            return (state, observed);
        }
        for step in &steps {
            (state, observed) = perform(step, &state, &observed, now_ms);
        }
        if state.status == SandboxStatus::Destroyed {
            return (state, observed);
        }
    }
    panic!("no rest: {state:?} {observed:?}");
}

proptest! {
    #[test]
    fn every_plan_comes_to_rest(state in states(), observed in observations(), late in any::<bool>(), on in any::<bool>()) {
        let idle_policy = if on { IdlePolicy::AlwaysOn } else { IdlePolicy::Sleep };
        let now_ms = if late { 2_000 } else { 500 };
        let goal = state.goal;
        let driven = state.operation.is_some();
        let (end, observed) = settle(state, observed, idle_policy, now_ms);
        prop_assert!(end.operation.is_none(), "{end:?}");
        prop_assert!(!end.dozing || end.goal == Goal::Paused, "{end:?}");
        match end.status {
            SandboxStatus::Running => prop_assert_eq!(observed, Observed::Running { frozen: false, ready: true }),
            SandboxStatus::Paused => {
                let frozen = matches!(observed, Observed::Running { frozen: true, .. });
                prop_assert!(frozen, "{:?}", observed);
            },
            SandboxStatus::Stopped | SandboxStatus::Error | SandboxStatus::Destroyed | SandboxStatus::Creating => {
                prop_assert_eq!(observed, Observed::Absent);
            }
        }
        if driven && goal == Goal::Destroyed {
            prop_assert_eq!(end.status, SandboxStatus::Destroyed);
        }
        // A dead sandbox cannot be paused.
        if driven && !late && goal != Goal::Paused {
            prop_assert_eq!(end.goal, goal);
        }
    }

    #[test]
    fn a_sandbox_that_dozes_off_comes_to_rest_frozen_or_gone(observed in observations(), late in any::<bool>()) {
        let now_ms = if late { 2_000 } else { 500 };
        let up = apply(&State::new(9), Transition::Reached).expect("it comes up");
        let dozing = apply(&up, Transition::Doze { deadline_ms: 1_000 }).expect("it runs");
        let (end, _) = settle(dozing, observed, IdlePolicy::Sleep, now_ms);
        // A sandbox that could not be frozen in time runs on; a dead one is in error.
        prop_assert_eq!(end.dozes(), end.status == SandboxStatus::Paused, "{:?}", end);
    }

    #[test]
    fn destroy_is_accepted_from_every_state(state in states()) {
        let next = apply(&state, Transition::Accept { goal: Goal::Destroyed, deadline_ms: 9 }).expect("always");
        prop_assert_eq!(next.goal, Goal::Destroyed);
    }

    #[test]
    fn there_is_a_way_out_of_error(problem_first in any::<bool>()) {
        let problem = Death::default().problem();
        let state = State::new(10);
        let change = match problem_first {
            true => Transition::GiveUp { problem, found: None },
            false => Transition::Lost { death: Box::default() },
        };
        let failed = apply(&state, change).expect("it was on its way");
        for goal in [Goal::Running, Goal::Stopped, Goal::Destroyed] {
            let next = apply(&failed, Transition::Accept { goal, deadline_ms: 9 }).expect("a way out");
            prop_assert!(next.operation.is_some());
        }
    }
}

#[test]
fn an_error_stays_until_a_client_asks() {
    let failed = Transition::GiveUp { problem: Death::default().problem(), found: None };
    let failed = apply(&State::new(10), failed).expect("legal");
    let desired = Desired { state: &failed, idle_policy: IdlePolicy::AlwaysOn, to_provision: false };
    assert_eq!(plan(&desired, &Observed::Absent, 99), []);
    let running = Observed::Running { frozen: false, ready: true };
    assert_eq!(plan(&desired, &running, 99), [PlanStep::Drive(DriverVerb::Terminate)]);
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
    let up = apply(&State::new(9), Transition::Reached).expect("it comes up");
    let pausing = apply(&up, Transition::Accept { goal: Goal::Paused, deadline_ms: 1_000 }).expect("it runs");
    let paused = apply(&pausing, Transition::Reached).expect("it was on its way");
    for (cause, leads_to) in table {
        let dead = Observed::Dead(Death { cause, ..Death::default() });
        for state in [&up, &pausing, &paused] {
            let (end, left) = settle(state.clone(), dead.clone(), IdlePolicy::Sleep, 500);
            assert_eq!((end.status, left), (leads_to, Observed::Absent), "{cause:?} of {state:?}");
            let (end, _) = settle(state.clone(), dead.clone(), IdlePolicy::AlwaysOn, 500);
            assert_eq!(end.status, SandboxStatus::Running, "{cause:?} of {state:?}");
        }
    }
}

#[test]
fn only_an_always_on_sandbox_is_tried_again_when_its_backend_is_back() {
    let away = Problem {
        code: ProblemCode::DriverUnavailable,
        message: "gone fishing".to_owned(),
        output: Vec::new(),
        step: None,
    };
    let give_up = |state: &State| {
        let change = Transition::GiveUp { problem: away.clone(), found: None };
        apply(state, change).expect("it was on its way")
    };
    let up = apply(&State::new(10), Transition::Reached).expect("it comes up");
    let restarting = Transition::Restart { death: Box::default(), deadline_ms: 10 };
    let failed = give_up(&apply(&up, restarting).expect("it ran"));
    let planned = |state: &State, idle_policy, observed| {
        plan(&Desired { state, idle_policy, to_provision: false }, &observed, 99)
    };
    assert_eq!(planned(&failed, IdlePolicy::AlwaysOn, Observed::Absent), [PlanStep::TryAgain]);
    assert_eq!(planned(&failed, IdlePolicy::AlwaysOn, Observed::Unknown), []);
    assert_eq!(planned(&failed, IdlePolicy::Sleep, Observed::Absent), []);
    // A sandbox that never ran, or was to stop, is not tried again.
    let stopping = apply(&up, Transition::Accept { goal: Goal::Stopped, deadline_ms: 10 }).expect("it runs");
    for state in [State::new(10), stopping] {
        assert_eq!(planned(&give_up(&state), IdlePolicy::AlwaysOn, Observed::Absent), [], "{state:?}");
    }
}

/// Nothing is done to the sandbox, and no operation is given up, whatever is wanted, under way or overdue.
#[test]
fn a_sandbox_in_another_pid_namespace_is_only_inspected() {
    for goal in [Goal::Running, Goal::Paused, Goal::Stopped, Goal::Destroyed] {
        for status in [
            SandboxStatus::Creating,
            SandboxStatus::Running,
            SandboxStatus::Paused,
            SandboxStatus::Stopped,
            SandboxStatus::Error,
        ] {
            for (operation, renewal) in [(false, false), (true, false), (true, true)] {
                let operation = operation.then_some(Operation { phase: Phase::Starting, deadline_ms: 1_000 });
                let renewal = renewal.then_some(Renewal { keep_workspace: false });
                let expected = if operation.is_some() { vec![PlanStep::InspectAgain] } else { vec![] };
                let state = State { goal, status, operation, renewal, dozing: false, problem: None };
                for idle_policy in [IdlePolicy::Sleep, IdlePolicy::AlwaysOn] {
                    let desired = Desired { state: &state, idle_policy, to_provision: false };
                    for now_ms in [0, 5_000] {
                        let steps = plan(&desired, &Observed::OtherPidNamespace, now_ms);
                        assert_eq!(steps, expected, "{desired:?} at {now_ms}");
                    }
                }
            }
        }
    }
}
