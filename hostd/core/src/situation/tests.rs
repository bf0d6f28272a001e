//! Tables of single changes.

use super::*;
use crate::{Death, DriverVerb, Transition, apply};

fn run(number: u64) -> Handle {
    Handle(number.into())
}

fn away() -> Problem {
    Problem {
        code: ProblemCode::DriverUnavailable,
        message: "gone fishing".to_owned(),
        output: Vec::new(),
        step: None,
    }
}

fn deadline_passed() -> Problem {
    Problem { code: ProblemCode::DeadlinePassed, message: "late".to_owned(), output: Vec::new(), step: None }
}

fn running(number: u64) -> ContainerState {
    ContainerState::Running { frozen: false, handle: run(number) }
}

fn up() -> State {
    apply(&State::new(9), Transition::Reached).expect("it comes up")
}

/// A launch that found the backend away is given up at its deadline. The sandbox should always run, so the launch is
/// tried again: at once when the backend was seen to recover, else after a pause.
#[test]
fn a_try_comes_at_once_after_an_outage_and_after_a_pause_otherwise() {
    let failed = Transition::Restart { death: Box::default(), deadline_ms: 10 };
    let failed = apply(&up(), failed).expect("it ran");
    let failed = apply(&failed, Transition::GiveUp { problem: away(), found: None }).expect("it was tried");
    let steps = [PlanStep::TryAgain];
    for (outage, retry) in [(true, Retry::OnRecovery), (false, Retry::AfterPause)] {
        let mut situation = Situation::default();
        if outage {
            let waits = situation.planned(&steps, &Observed::Absent, &failed, false);
            assert_eq!((waits, situation.retry()), (PlanDecision::Rest, Retry::OnRecovery));
        }
        let tries = situation.planned(&steps, &Observed::Absent, &failed, true);
        assert_eq!((tries, situation.take_retry()), (PlanDecision::Perform, retry), "outage: {outage}");
        assert_eq!(situation.retry(), Retry::AfterPause, "the next one comes after a pause");
    }
    // An outage in which nothing was seen ends in the same way.
    let mut situation = Situation::default();
    let working = State::new(10);
    situation.planned(&[PlanStep::InspectAgain], &Observed::Unknown, &working, false);
    situation.planned(&[], &Observed::Unknown, &failed, false);
    assert_eq!(situation.planned(&steps, &Observed::Absent, &failed, true), PlanDecision::Perform);
    assert_eq!(situation.take_retry(), Retry::OnRecovery);
}

#[test]
fn an_attempt_is_closed_once_and_has_the_newest_run() {
    let open = |launched| Attempt::Open { launched };
    let table = [
        // before, after begin_attempt, after record_launch
        (Attempt::Closed, open(None), open(Some(run(2)))),
        (Attempt::LeftOpen, open(None), open(Some(run(2)))),
        (open(None), open(None), open(Some(run(2)))),
        (open(Some(run(1))), open(Some(run(1))), open(Some(run(2)))),
    ];
    for (before, begun, launched) in table {
        let mut situation = Situation { attempt: before.clone(), ..Situation::default() };
        assert_eq!(before.needs_end(), before != Attempt::Closed);
        situation.begin_attempt();
        assert_eq!(situation.attempt(), &begun, "{before:?}");
        situation.record_launch(run(2));
        assert_eq!((situation.attempt(), situation.attempt().run()), (&launched, Some(&run(2))));
        situation.close_attempt();
        assert!(!situation.attempt().needs_end() && !situation.attempt().is_open());
    }
}

#[test]
fn what_an_earlier_hostd_left_decides_where_an_actor_begins() {
    let working = State::new(9);
    let failed = apply(&up(), Transition::Lost { death: Box::default() }).expect("it ran");
    let table = [
        // state, generation, attempt
        (&up(), 5, 1, Rest::AtRest, Attempt::Closed),
        (&working, 5, 1, Rest::Working, Attempt::LeftOpen),
        (&working, 5, 0, Rest::Working, Attempt::Closed),
        // Cleaning up may have been cut off.
        (&failed, 5, 1, Rest::Working, Attempt::Closed),
        // Adopted: hostd never left it in any state.
        (&up(), 1, 0, Rest::Working, Attempt::Closed),
    ];
    for (state, generation, attempt, rest, expected) in table {
        let situation = Situation::resumed(state, generation, attempt);
        assert_eq!((situation.rest, situation.attempt), (rest, expected), "{state:?} {generation} {attempt}");
    }
    assert_eq!(Situation::created().attempt, Attempt::Open { launched: None });
}

#[test]
fn readiness_belongs_to_one_run() {
    let (seen, ready) = (|n| Readiness::Seen { run: run(n) }, |n| Readiness::Ready { run: Some(run(n)) });
    let replaced = RunChange::Replaced { drift: None };
    let table = [
        (Readiness::Unknown, running(1), seen(1), RunChange::None),
        (seen(1), running(2), seen(2), RunChange::None),
        (Readiness::Ready { run: None }, running(1), ready(1), RunChange::None),
        (ready(1), running(1), ready(1), RunChange::None),
        (ready(1), running(2), seen(2), replaced),
        (ready(1), ContainerState::OtherPidNamespace, ready(1), RunChange::None),
        (ready(1), ContainerState::Absent, Readiness::Unknown, RunChange::Ended),
        (ready(1), ContainerState::Launching, Readiness::Unknown, RunChange::Ended),
        (seen(1), ContainerState::Dead(Death::default()), Readiness::Unknown, RunChange::Ended),
    ];
    for (readiness, container, after, change) in table {
        let mut situation = Situation { readiness: readiness.clone(), ..Situation::default() };
        assert_eq!(situation.inspected(&container, &up()).1, change, "{readiness:?} {container:?}");
        assert_eq!(situation.readiness, after, "{readiness:?} {container:?}");
    }
    // Only a restart of a sandbox at rest was the doing of someone else.
    let mut situation = Situation { readiness: ready(1), rest: Rest::AtRest, ..Situation::default() };
    let (_, change) = situation.inspected(&running(2), &up());
    assert_eq!((change, situation.rest), (RunChange::Replaced { drift: restarted(&up()) }, Rest::Working));
    for (before, after) in [(Readiness::Unknown, Readiness::Ready { run: None }), (seen(3), ready(3))] {
        let mut situation = Situation { readiness: before, ..Situation::default() };
        situation.became_ready();
        assert_eq!(situation.readiness, after);
    }
}

#[test]
fn an_outage_is_the_cause_of_a_missed_deadline_and_logged_once() {
    let gone = |logged| Backend::Away { problem: away(), logged };
    let table = [
        // before; a step that finds the backend away: news, after; give up: problem, after
        (Backend::Answering, true, Backend::OutageLogged, deadline_passed(), Backend::Answering),
        (gone(false), true, gone(true), away(), Backend::Answering),
        (gone(true), false, gone(true), away(), Backend::OutageLogged),
        (Backend::OutageLogged, false, Backend::OutageLogged, deadline_passed(), Backend::OutageLogged),
    ];
    for (before, news, after, problem, given_up) in table {
        let mut situation = Situation { backend: before.clone(), ..Situation::default() };
        let failure = situation.step_failed(true);
        assert_eq!((failure.is_news, failure.wait), (news, Wait::Backend), "{before:?}");
        assert_eq!((situation.backend(), situation.backoff().failures), (&after, 1), "{before:?}");

        let mut situation = Situation { backend: before.clone(), ..Situation::default() };
        assert_eq!(situation.give_up(deadline_passed()), problem, "{before:?}");
        assert_eq!(situation.backend(), &given_up, "{before:?}");
        // Another problem is its own cause.
        let (mut situation, died) = (Situation { backend: before, ..Situation::default() }, Death::default());
        assert_eq!(situation.give_up(died.problem()), died.problem());
    }
    // Another failure is always logged, and so is the next outage.
    let mut situation = Situation { backend: gone(true), ..Situation::default() };
    let failure = situation.step_failed(false);
    assert_eq!((failure.is_news, failure.wait), (true, Wait::Retry));
    assert_eq!(situation.backend(), &gone(false));
}

#[test]
fn a_verb_without_an_answer_may_take_effect_late() {
    let gone = Backend::Away { problem: away(), logged: false };
    let table = [
        (VerbOutcome::Done, None, Backend::Answering),
        (VerbOutcome::Failed, None, gone.clone()),
        (VerbOutcome::Abandoned, Some(Goal::Paused), gone.clone()),
        (VerbOutcome::Unanswered(away()), Some(Goal::Paused), gone.clone()),
    ];
    for (outcome, late_effect, backend) in table {
        let mut situation = Situation { backend: gone.clone(), ..Situation::default() };
        situation.verb_ended(DriverVerb::Freeze.brings(), outcome.clone());
        assert_eq!((situation.late_effect, &situation.backend), (late_effect, &backend), "{outcome:?}");
        // A verb that brings no goal leaves what is expected of an earlier one.
        let mut situation = Situation { late_effect: Some(Goal::Paused), ..Situation::default() };
        situation.verb_ended(DriverVerb::Terminate.brings(), outcome);
        assert_eq!(situation.late_effect, Some(Goal::Paused));
    }
    let frozen = Observed::Running { frozen: true, ready: true };
    let late = Situation { late_effect: Some(Goal::Paused), rest: Rest::AtRest, ..Situation::default() };
    let table = [
        (late.clone(), DriftCause::LateVerb),
        (Situation { rest: Rest::Working, ..late.clone() }, DriftCause::Unsettled),
        (Situation { late_effect: Some(Goal::Running), ..late.clone() }, DriftCause::External),
        (Situation { late_effect: None, ..late }, DriftCause::External),
    ];
    for (mut situation, cause) in table {
        assert_eq!(situation.drift_found(&frozen), cause, "{situation:?}");
        // Each occurrence is reported once.
        assert_eq!(situation.drift_found(&frozen), DriftCause::Unsettled, "{situation:?}");
    }
}

#[test]
fn only_what_can_be_seen_is_at_rest() {
    let frozen = Observed::Running { frozen: true, ready: true };
    for (observed, rest) in [
        (Observed::Absent, Rest::AtRest),
        (frozen, Rest::AtRest),
        (Observed::Unknown, Rest::Working),
        (Observed::OtherPidNamespace, Rest::Working),
    ] {
        let mut situation = Situation {
            backoff: BackoffCounts { failures: 3, ..BackoffCounts::default() },
            ..Situation::default()
        };
        assert_eq!(situation.planned(&[], &observed, &up(), true), PlanDecision::Rest);
        assert_eq!((situation.rest, situation.backoff().failures), (rest, 0), "{observed:?}");
    }
}

#[test]
fn what_is_waited_for_before_the_next_inspection() {
    let gone = Backend::Away { problem: away(), logged: false };
    for (backend, elsewhere, wait) in [
        (Backend::Answering, false, Wait::Retry),
        (Backend::OutageLogged, false, Wait::Retry),
        (gone.clone(), false, Wait::Backend),
        (gone, true, Wait::Unseen),
    ] {
        let situation = Situation { backend: backend.clone(), ..Situation::default() };
        assert_eq!(situation.wait_to_inspect(elsewhere), wait, "{backend:?} {elsewhere}");
    }
}

#[test]
fn an_inspection_that_fails_again_is_no_news() {
    let mut situation = Situation::default();
    assert!(situation.inspection_failed(None));
    assert!(!situation.inspection_failed(Some(away())));
    assert_eq!((situation.backoff().failures, situation.backend().is_away()), (2, true));
    situation.inspected(&ContainerState::Absent, &up());
    assert_eq!(situation.found(), Some(Goal::Stopped));
    situation.inspection_unanswered();
    assert!(!situation.inspection_failed(None));
    assert_eq!((situation.found(), situation.backoff().failures), (None, 3));
}

#[test]
fn counts_grow_in_a_row_and_start_again() {
    let mut situation = Situation::default();
    for _ in 0..3 {
        situation.change_signalled();
        situation.restarting();
    }
    situation.timer_elapsed(SandboxStatus::Stopped);
    assert_eq!((situation.backoff().spurious_changes, situation.backoff().restarts), (0, 3));
    situation.timer_elapsed(SandboxStatus::Running);
    assert_eq!(situation.backoff().restarts, 0);
    situation.change_signalled();
    situation.planned(&[PlanStep::Reached], &Observed::Absent, &up(), true);
    assert_eq!(situation.backoff().spurious_changes, 0, "a change that called for steps was none too many");
}
