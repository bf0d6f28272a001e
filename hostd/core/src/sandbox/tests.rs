//! Which transitions lead where.

use super::*;
use protocol::api::ProblemCode;

fn accepted(state: &State, goal: Goal) -> Result<State, TransitionRefused> {
    apply(state, Transition::Accept { goal, deadline_ms: 9 })
}

/// A new variant breaks the match: draw it, then name it here.
fn name(transition: &Transition) -> &'static str {
    match transition {
        Transition::Accept { .. } => "Accept",
        Transition::Doze { .. } => "Doze",
        Transition::Evict { .. } => "Evict",
        Transition::TakeBack { .. } => "TakeBack",
        Transition::Renew { .. } => "Renew",
        Transition::Renewed => "Renewed",
        Transition::Extend { .. } => "Extend",
        Transition::Reached => "Reached",
        Transition::GiveUp { .. } => "GiveUp",
        Transition::Lost { .. } => "Lost",
        Transition::Restart { .. } => "Restart",
        Transition::Ended { .. } => "Ended",
    }
}

#[test]
fn the_diagram_draws_every_transition() {
    let diagram = include_str!("../sandbox.rs").split("```").nth(1).expect("a diagram");
    let problem = Problem { code: ProblemCode::DiskFull, message: String::new(), output: vec![], step: None };
    let (deadline_ms, death) = (9, Box::<Death>::default());
    let all = [
        Transition::Accept { goal: Goal::Running, deadline_ms },
        Transition::Doze { deadline_ms },
        Transition::Evict { problem: problem.clone(), deadline_ms },
        Transition::TakeBack { before: Box::new(settled(Goal::Running)) },
        Transition::Renew { renewal: Renewal { keep_workspace: true }, deadline_ms },
        Transition::Renewed,
        Transition::Extend { deadline_ms },
        Transition::Reached,
        Transition::GiveUp { problem, found: None },
        Transition::Lost { death: death.clone() },
        Transition::Restart { death: death.clone(), deadline_ms },
        Transition::Ended { death },
    ];
    let drawn: Vec<&str> = diagram.split(|letter: char| !letter.is_alphabetic()).collect();
    for transition in all {
        assert!(drawn.contains(&name(&transition)), "{transition:?} is not in the diagram");
    }
}

#[test]
fn a_sandbox_that_cannot_be_frozen_runs_on() {
    let pausing = accepted(&settled(Goal::Running), Goal::Paused).expect("it runs");
    let problem =
        Problem { code: ProblemCode::DeadlinePassed, message: "late".into(), output: vec![], step: None };
    let after =
        apply(&pausing, Transition::GiveUp { problem: problem.clone(), found: None }).expect("it was tried");
    assert_eq!(after, settled(Goal::Running));
    // A sandbox that could not be stopped is in error.
    let stopping = accepted(&settled(Goal::Running), Goal::Stopped).expect("it runs");
    let after = apply(&stopping, Transition::GiveUp { problem, found: None }).expect("it was tried");
    assert_eq!(after.status, SandboxStatus::Error);
}

#[test]
fn while_the_backend_is_away_a_sandbox_is_where_it_is_known_to_be() {
    use Goal::{Paused, Running, Stopped};
    use SandboxStatus as Is;
    let renewal = Renewal { keep_workspace: true };
    let renewing = apply(&settled(Running), Transition::Renew { renewal, deadline_ms: 9 }).expect("legal");
    let renewed = apply(&renewing, Transition::Renewed).expect("legal");
    assert_eq!(renewed.status, Is::Stopped);
    let towards = |from, goal| accepted(&settled(from), goal).expect("legal");
    let and_back = |from| accepted(&towards(from, Stopped), Running).expect("legal");
    let table = [
        // Not seen: only a sandbox that was not to end is as it was.
        (towards(Stopped, Running), None, (Running, Is::Stopped)),
        (towards(Paused, Running), None, (Running, Is::Paused)),
        (towards(Running, Stopped), None, (Stopped, Is::Error)),
        (towards(Paused, Stopped), None, (Stopped, Is::Error)),
        (and_back(Running), None, (Running, Is::Error)),
        (and_back(Paused), None, (Running, Is::Error)),
        (renewing.clone(), None, (Running, Is::Error)),
        (renewed.clone(), None, (Running, Is::Stopped)),
        (State::new(9), None, (Stopped, Is::Error)),
        // Seen: the inspection counts.
        (towards(Running, Stopped), Some(Running), (Running, Is::Running)),
        (towards(Running, Stopped), Some(Stopped), (Stopped, Is::Stopped)),
        (towards(Paused, Running), Some(Paused), (Running, Is::Paused)),
        (towards(Paused, Running), Some(Stopped), (Running, Is::Stopped)),
        (and_back(Running), Some(Stopped), (Running, Is::Stopped)),
        (and_back(Paused), Some(Paused), (Running, Is::Paused)),
        (renewing, Some(Running), (Running, Is::Running)),
        (State::new(9), Some(Stopped), (Stopped, Is::Error)),
    ];
    let code = ProblemCode::DriverUnavailable;
    let problem = Problem { code, message: "gone fishing".into(), output: vec![], step: None };
    for (state, found, expected) in table {
        let after =
            apply(&state, Transition::GiveUp { problem: problem.clone(), found }).expect("it was tried");
        assert_eq!((after.goal, after.status), expected, "{state:?} {found:?}");
        assert_eq!((after.operation, after.renewal), (None, None), "{state:?}");
        assert_eq!(after.problem, Some(problem.clone()));
    }
}

#[test]
fn an_evicted_sandbox_has_its_problem_until_the_next_command() {
    let problem = Problem { code: ProblemCode::DiskFull, message: "full".into(), output: vec![], step: None };
    let evict = |state: &State| apply(state, Transition::Evict { problem: problem.clone(), deadline_ms: 9 });
    for up in [settled(Goal::Running), settled(Goal::Paused)] {
        let going = evict(&up).expect("it is up");
        assert_eq!((going.goal, going.evicted()), (Goal::Stopped, Some(&problem)));
        // A stop joins the eviction.
        assert_eq!(accepted(&going, Goal::Stopped), Ok(going.clone()));
        let stopped = apply(&going, Transition::Reached).expect("it was on its way");
        assert_eq!((stopped.status, stopped.evicted()), (SandboxStatus::Stopped, Some(&problem)));
        assert_eq!(accepted(&stopped, Goal::Stopped), Ok(settled(Goal::Stopped)));
        let woken = accepted(&stopped, Goal::Running).expect("legal");
        assert_eq!(woken.evicted(), None);
        assert_eq!(apply(&woken, Transition::Reached), Ok(settled(Goal::Running)));
    }
    // A stop of a sandbox in error ends that error, whatever its reason.
    let stopping = accepted(&failed(problem.clone()), Goal::Stopped);
    let stopped = stopping.and_then(|state| apply(&state, Transition::Reached));
    assert_eq!(stopped, Ok(settled(Goal::Stopped)));
    for other in [settled(Goal::Stopped), failed(problem.clone()), State::new(9)] {
        assert_eq!(evict(&other), Err(TransitionRefused::NotRunning), "{other:?}");
    }
    let going = accepted(&settled(Goal::Running), Goal::Destroyed).expect("always");
    assert_eq!(evict(&going), Err(TransitionRefused::Destroying));
}

#[test]
fn a_doze_or_an_eviction_that_is_taken_back_leaves_everything_as_it_was() {
    let problem =
        Problem { code: ProblemCode::MemoryPressure, message: "full".into(), output: vec![], step: None };
    let (doze, evict) = (Transition::Doze { deadline_ms: 9 }, Transition::Evict { problem, deadline_ms: 9 });
    let dozing = State { dozing: true, ..settled(Goal::Paused) };
    let resuming = accepted(&settled(Goal::Paused), Goal::Running).expect("legal");
    let table = [
        (settled(Goal::Running), doze),
        (settled(Goal::Running), evict.clone()),
        // Paused by a client.
        (settled(Goal::Paused), evict.clone()),
        (dozing, evict.clone()),
        (resuming, evict.clone()),
    ];
    let take_back = |before: &State| Transition::TakeBack { before: Box::new(before.clone()) };
    for (before, sleep) in table {
        let going = apply(&before, sleep).expect("it is up");
        assert_eq!(apply(&going, take_back(&before)), Ok(before.clone()), "{going:?}");
        // Once it sleeps, or when something else is wanted, it is too late.
        let asleep = apply(&going, Transition::Reached).expect("it was on its way");
        assert_eq!(apply(&asleep, take_back(&before)), Err(TransitionRefused::NoOperation), "{asleep:?}");
        let woken = accepted(&going, Goal::Running).expect("legal");
        assert_eq!(apply(&woken, take_back(&before)), Err(TransitionRefused::NoOperation), "{woken:?}");
        let destroying = accepted(&going, Goal::Destroyed).expect("always");
        assert_eq!(apply(&destroying, take_back(&before)), Err(TransitionRefused::Destroying));
    }
}

#[test]
fn a_sandbox_that_sleeps_was_not_put_down() {
    let problem =
        Problem { code: ProblemCode::MemoryPressure, message: "full".into(), output: vec![], step: None };
    let evict = Transition::Evict { problem: problem.clone(), deadline_ms: 9 };
    let evicted = apply(&settled(Goal::Running), evict).expect("it is up");
    let pausing = accepted(&settled(Goal::Running), Goal::Paused).expect("it is up");
    let table = [
        (settled(Goal::Paused), true),
        (settled(Goal::Stopped), true),
        (failed(problem), true),
        (pausing, true),
        (settled(Goal::Running), false),
        (State { dozing: true, ..settled(Goal::Paused) }, false),
        (apply(&evicted, Transition::Reached).expect("it was on its way"), false),
        (evicted, false),
        (State::new(9), false),
    ];
    for (state, expected) in table {
        assert_eq!(state.is_put_down(), expected, "{state:?}");
    }
}

#[test]
fn only_a_sandbox_that_stays_up_can_be_paused() {
    let running = settled(Goal::Running);
    let renewal = Renewal { keep_workspace: true };
    let going = [
        accepted(&running, Goal::Stopped).expect("legal"),
        apply(&running, Transition::Renew { renewal, deadline_ms: 9 }).expect("legal"),
        State::new(9),
        settled(Goal::Stopped),
    ];
    for state in going {
        assert_eq!(accepted(&state, Goal::Paused), Err(TransitionRefused::NotRunning), "{state:?}");
    }
    assert!(accepted(&settled(Goal::Paused), Goal::Paused).is_ok());
}

#[test]
fn only_a_running_sandbox_dozes_off_and_every_command_ends_that() {
    let doze = |state: &State| apply(state, Transition::Doze { deadline_ms: 9 });
    let running = settled(Goal::Running);
    let going = doze(&running).expect("it runs");
    assert_eq!((going.goal, going.dozing, going.dozes(), going.is_up()), (Goal::Paused, true, false, false));
    let dozing = apply(&going, Transition::Reached).expect("it was on its way");
    assert_eq!((dozing.status, dozing.dozes()), (SandboxStatus::Paused, true));
    for state in [&going, &dozing] {
        for goal in [Goal::Running, Goal::Paused, Goal::Stopped, Goal::Destroyed] {
            let asked = accepted(state, goal).expect("legal");
            assert_eq!((asked.goal, asked.dozing), (goal, false), "{state:?}");
        }
        let renewal = Renewal { keep_workspace: true };
        let renewed = apply(state, Transition::Renew { renewal, deadline_ms: 9 }).expect("legal");
        assert!(!renewed.dozing);
        assert_eq!(doze(state), Err(TransitionRefused::NotRunning));
    }
    // On command it becomes a pause like any other.
    assert_eq!(accepted(&dozing, Goal::Paused), Ok(settled(Goal::Paused)));
    for goal in [Goal::Paused, Goal::Stopped] {
        assert_eq!(doze(&settled(goal)), Err(TransitionRefused::NotRunning));
    }
    assert_eq!(
        doze(&accepted(&running, Goal::Destroyed).expect("always")),
        Err(TransitionRefused::Destroying)
    );
}

/// Rows of the database are in this form: a field of another name would lose the state of every sandbox.
#[test]
fn the_stored_form_of_a_state_keeps_its_names() {
    let problem =
        Problem { code: ProblemCode::DiskFull, message: "full".to_owned(), output: vec![], step: None };
    let state = State {
        operation: Some(Operation { phase: Phase::Starting, deadline_ms: 7 }),
        renewal: Some(Renewal { keep_workspace: true }),
        dozing: true,
        problem: Some(problem),
        ..State::at(Goal::Running)
    };
    let stored = r#"{"goal":"running","status":"running","effort":{"phase":"starting","deadline_ms":7},"renewal":{"keep_workspace":true},"dozing":true,"problem":{"code":"disk_full","message":"full"}}"#;
    assert_eq!(serde_json::to_string(&state).expect("JSON"), stored);
    assert_eq!(serde_json::from_str::<State>(stored).expect("a state"), state);
}
