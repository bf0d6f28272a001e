//! Liveness first: whatever happened before, an outage that ends leads to a try, an attempt is closed exactly once,
//! and stop stops. Then tables of single changes.

use super::*;
use crate::core::{Death, Desired, DriverVerb, Transition, apply, drift, plan};
use proptest::prelude::*;
use protocol::api::{DeathCause, IdlePolicy};

/// Rounds until rest, on a backend that does what it is told. A restart costs a few.
const ROUNDS_MAX: usize = 60;
/// Each round takes as long: deadlines pass after a few.
const ROUND_MS: u64 = 100;
const OPERATION_MS: u64 = 250;

fn run(number: u64) -> Handle {
    Handle(number.into())
}

fn away() -> Problem {
    Problem { code: ProblemCode::DriverUnavailable, message: "gone fishing".to_owned(), output: Vec::new() }
}

fn deadline_passed() -> Problem {
    Problem { code: ProblemCode::DeadlinePassed, message: "late".to_owned(), output: Vec::new() }
}

fn running(number: u64) -> ContainerState {
    ContainerState::Running { frozen: false, handle: run(number) }
}

fn up() -> State {
    apply(&State::new(9), Transition::Reached).expect("it comes up")
}

/// What goes wrong in one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// No inspection is answered, and the driver knows that its backend is unhealthy.
    Blind,
    /// Verbs find the backend away.
    Away,
    /// Verbs fail.
    Fails,
    /// Verbs are not answered, and take effect all the same.
    Late,
}

/// What happens between two rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happening {
    Nothing,
    Wanted(Goal),
    Died(DeathCause),
    /// Someone else freezes, thaws or restarts it.
    Frozen(bool),
    Restarted,
    /// hostd is killed and started again.
    Crash,
}

/// A sandbox with its actor as a model: record, container, rows of attempts, and the situation.
#[derive(Debug)]
struct Model {
    state: State,
    idle_policy: IdlePolicy,
    container: ContainerState,
    runs: u64,
    /// Rows of attempts: open, or closed how often.
    attempts: Vec<(bool, u32)>,
    situation: Situation,
    generation: u64,
    now_ms: u64,
    launches: u64,
}

impl Model {
    fn new(idle_policy: IdlePolicy) -> Self {
        Self {
            state: State::new(OPERATION_MS),
            idle_policy,
            container: ContainerState::Absent,
            runs: 0,
            attempts: vec![(true, 0)],
            situation: Situation::created(),
            generation: 1,
            now_ms: 0,
            launches: 0,
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Nothing => {}
            Happening::Wanted(goal) => {
                let wanted = Transition::Accept { goal, deadline_ms: self.now_ms + OPERATION_MS };
                if apply(&self.state, wanted.clone()).is_ok() {
                    self.record(wanted);
                }
            }
            Happening::Died(cause) => {
                if let ContainerState::Running { .. } = self.container {
                    self.container = ContainerState::Dead(Death { cause, ..Death::default() });
                }
            }
            Happening::Frozen(now) => self.set_frozen(now),
            Happening::Restarted => {
                if let ContainerState::Running { handle, .. } = &mut self.container {
                    self.runs += 1;
                    *handle = run(self.runs);
                }
            }
            Happening::Crash => {
                let attempts = u32::try_from(self.attempts.len()).expect("a few");
                self.situation = Situation::resumed(&self.state, self.generation, attempts);
                if self.state.operation.is_some() {
                    self.record(Transition::Extend { deadline_ms: self.now_ms + OPERATION_MS });
                }
            }
        }
    }

    /// One round of the actor, which takes a while. Whether it rests.
    fn round(&mut self, fault: Fault) -> bool {
        self.now_ms += ROUND_MS;
        self.turn(fault)
    }

    fn turn(&mut self, fault: Fault) -> bool {
        let observed = if fault == Fault::Blind {
            self.situation.inspection_failed(Some(away()));
            Observed::Unknown
        } else {
            let container = self.container.clone();
            self.situation.inspected(&container, &self.state).0
        };
        if self.state.status == SandboxStatus::Destroyed {
            return true;
        }
        let state = self.state.clone();
        let desired = Desired { state: &state, idle_policy: self.idle_policy };
        let steps = plan(&desired, &observed, self.now_ms);
        if drift(&desired, &observed, &steps).is_some() {
            self.situation.drift_found(&observed);
        }
        let healthy = fault != Fault::Blind;
        match self.situation.planned(&steps, &observed, &state, healthy) {
            PlanDecision::Rest => true,
            PlanDecision::Perform => {
                for step in steps {
                    if !self.perform(step, fault) || self.state.goal != state.goal {
                        break;
                    }
                }
                false
            }
        }
    }

    /// Whether the rest of the plan holds.
    fn perform(&mut self, step: PlanStep, fault: Fault) -> bool {
        let deadline_ms = self.now_ms + OPERATION_MS;
        match step {
            PlanStep::Launch => self.launch(fault),
            PlanStep::AwaitReady => {
                let ContainerState::Running { frozen: false, .. } = self.container else { return false };
                self.situation.became_ready();
                true
            }
            PlanStep::InspectAgain => false,
            PlanStep::Drive(verb) => self.drive(verb, fault),
            PlanStep::Renewed => self.record(Transition::Renewed),
            PlanStep::Reached => {
                if self.state.goal == Goal::Running && self.situation.attempt().needs_end() {
                    self.close_attempt();
                }
                self.record(Transition::Reached)
            }
            PlanStep::GiveUp(problem) => {
                let problem = self.situation.give_up(problem);
                if self.situation.attempt().needs_end() {
                    self.close_attempt();
                }
                let found = self.situation.found();
                self.record(Transition::GiveUp { problem, found });
                false
            }
            PlanStep::Lost(death) => !self.record(Transition::Lost { death: Box::new(death) }),
            PlanStep::Ended(death) => !self.record(Transition::Ended { death: Box::new(death) }),
            PlanStep::Restart(death) => {
                self.situation.restarting();
                !self.record(Transition::Restart { death: Box::new(death), deadline_ms })
            }
            PlanStep::TryAgain => {
                self.situation.take_retry();
                self.situation.restarting();
                !self.record(Transition::Accept { goal: Goal::Running, deadline_ms })
            }
            PlanStep::Extend => self.record(Transition::Extend { deadline_ms }),
        }
    }

    fn launch(&mut self, fault: Fault) -> bool {
        self.situation.run_ended();
        if !self.situation.attempt().is_open() {
            // The store ends a row that is still open.
            if let Some(row @ (true, _)) = self.attempts.last_mut() {
                *row = (false, row.1 + 1);
            }
            self.attempts.push((true, 0));
            self.situation.begin_attempt();
        }
        self.launches += 1;
        let outcome = outcome(fault);
        let unavailable = matches!(outcome, VerbOutcome::Unanswered(_));
        self.situation.verb_ended(Some(Goal::Running), outcome);
        match fault {
            Fault::None => {
                self.start();
                self.situation.record_launch(run(self.runs));
                true
            }
            Fault::Late => {
                self.start();
                false
            }
            Fault::Fails => self.perform(PlanStep::GiveUp(Death::default().problem()), fault),
            Fault::Away | Fault::Blind => {
                self.situation.step_failed(unavailable);
                false
            }
        }
    }

    fn start(&mut self) {
        self.runs += 1;
        self.container = running(self.runs);
    }

    fn drive(&mut self, verb: DriverVerb, fault: Fault) -> bool {
        if fault == Fault::None || fault == Fault::Late {
            match verb {
                DriverVerb::Freeze => self.set_frozen(true),
                DriverVerb::Thaw => self.set_frozen(false),
                DriverVerb::Terminate => self.container = ContainerState::Dead(Death::default()),
                DriverVerb::RemoveContainer | DriverVerb::Destroy => self.container = ContainerState::Absent,
                DriverVerb::ResetWorkspace => {}
            }
        }
        if verb.ends_run() {
            self.situation.run_ended();
        }
        self.situation.verb_ended(verb.brings(), outcome(fault));
        match fault {
            Fault::None => true,
            Fault::Late => false,
            Fault::Blind | Fault::Away | Fault::Fails => {
                self.situation.step_failed(fault != Fault::Fails);
                false
            }
        }
    }

    /// The faults are over, what was under way has ended, and a client asks.
    fn ask(&mut self, goal: Goal) {
        self.settle();
        self.happen(Happening::Wanted(goal));
        self.settle();
    }

    fn set_frozen(&mut self, now: bool) {
        if let ContainerState::Running { frozen, .. } = &mut self.container {
            *frozen = now;
        }
    }

    fn record(&mut self, transition: Transition) -> bool {
        self.situation.act();
        self.generation += 1;
        self.state = apply(&self.state, transition).expect("a planned transition is a legal one");
        true
    }

    fn close_attempt(&mut self) {
        let row = self.attempts.last_mut().expect("an attempt");
        assert!(row.0 || !self.situation.attempt().is_open(), "a row that is said to be open is open");
        // A dead hostd may have left the row open, or not: the store does not end a row twice.
        if row.0 {
            *row = (false, row.1 + 1);
        }
        self.situation.close_attempt();
    }

    /// The backend does from now on what it is told, and in no time.
    fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            if self.turn(Fault::None) {
                return;
            }
        }
        panic!("no rest: {self:?}");
    }
}

fn outcome(fault: Fault) -> VerbOutcome {
    match fault {
        Fault::None => VerbOutcome::Done,
        Fault::Fails => VerbOutcome::Failed,
        Fault::Late => VerbOutcome::Abandoned,
        Fault::Away | Fault::Blind => VerbOutcome::Unanswered(away()),
    }
}

fn faults() -> impl Strategy<Value = Fault> {
    prop_oneof![
        4 => Just(Fault::None),
        1 => Just(Fault::Blind),
        1 => Just(Fault::Away),
        1 => Just(Fault::Fails),
        1 => Just(Fault::Late),
    ]
}

fn happenings() -> impl Strategy<Value = Happening> {
    let goals = prop_oneof![Just(Goal::Running), Just(Goal::Paused), Just(Goal::Stopped)];
    let causes = prop_oneof![Just(DeathCause::Oom), Just(DeathCause::ShutDown), Just(DeathCause::Backend)];
    prop_oneof![
        6 => Just(Happening::Nothing),
        3 => goals.prop_map(Happening::Wanted),
        1 => causes.prop_map(Happening::Died),
        1 => any::<bool>().prop_map(Happening::Frozen),
        1 => Just(Happening::Restarted),
        1 => Just(Happening::Crash),
    ]
}

fn histories() -> impl Strategy<Value = (IdlePolicy, Vec<(Happening, Fault)>)> {
    let policies = prop_oneof![Just(IdlePolicy::Sleep), Just(IdlePolicy::AlwaysOn)];
    (policies, proptest::collection::vec((happenings(), faults()), 0..40))
}

fn lived(idle_policy: IdlePolicy, history: &[(Happening, Fault)]) -> Model {
    let mut model = Model::new(idle_policy);
    for (happening, fault) in history {
        model.happen(*happening);
        model.round(*fault);
    }
    model
}

proptest! {
    #[test]
    fn whatever_happened_stop_stops_and_destroy_destroys((policy, history) in histories()) {
        for (goal, status) in [(Goal::Stopped, SandboxStatus::Stopped), (Goal::Destroyed, SandboxStatus::Destroyed)] {
            let mut model = lived(policy, &history);
            model.ask(goal);
            prop_assert_eq!(model.state.status, status, "{:?}", model);
            prop_assert_eq!(&model.container, &ContainerState::Absent);
        }
    }

    #[test]
    fn whatever_happened_start_starts_and_leaves_no_attempt_open((policy, history) in histories()) {
        let mut model = lived(policy, &history);
        model.ask(Goal::Running);
        prop_assert!(model.state.is_up() && model.situation.is_ready(), "{:?}", model);
        prop_assert_eq!(model.situation.attempt(), &Attempt::Closed);
        let closed_once = model.attempts.iter().all(|attempt| *attempt == (false, 1));
        prop_assert!(closed_once, "{:?}", model.attempts);
        prop_assert_eq!(model.situation.backend(), &Backend::Answering);
    }

    #[test]
    fn an_outage_that_ends_leads_to_a_try((policy, history) in histories(), rounds in 1..20_usize) {
        let mut model = lived(policy, &history);
        model.ask(Goal::Running);
        // It died with its backend, and that is seen by nobody until the backend is back.
        model.happen(Happening::Died(DeathCause::Backend));
        for _ in 0..rounds {
            model.round(Fault::Blind);
        }
        let before = model.launches;
        model.settle();
        match policy {
            IdlePolicy::AlwaysOn => prop_assert!(model.launches > before && model.state.is_up(), "{:?}", model),
            IdlePolicy::Sleep => prop_assert_eq!(model.state.status, SandboxStatus::Stopped),
        }
    }

    #[test]
    fn what_hostd_did_itself_is_no_drift(history in proptest::collection::vec(faults(), 0..20)) {
        let mut model = lived(IdlePolicy::Sleep, &[]);
        model.settle();
        model.happen(Happening::Wanted(Goal::Paused));
        for fault in history {
            model.round(fault);
            let unsettled = model.state.operation.is_some();
            if unsettled {
                let cause = model.situation.clone().drift_found(&model.container.observed(true));
                prop_assert_eq!(cause, DriftCause::Unsettled);
            }
        }
    }
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
        (Backend::Answering, true, Backend::GivenUp, deadline_passed(), Backend::Answering),
        (gone(false), true, gone(true), away(), Backend::Answering),
        (gone(true), false, gone(true), away(), Backend::GivenUp),
        (Backend::GivenUp, false, Backend::GivenUp, deadline_passed(), Backend::GivenUp),
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
        (Backend::GivenUp, false, Wait::Retry),
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
