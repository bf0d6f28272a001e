//! Liveness of plan and situation together: whatever happened before, an outage that ends leads to a try, an attempt
//! is closed exactly once, and stop stops.

use super::*;
use crate::{Death, Desired, DriverVerb, Transition, apply, drift, plan};
use proptest::prelude::*;
use protocol::api::{DeathCause, IdlePolicy};

/// The most rounds until rest, on a backend without faults. A restart costs a few.
const ROUNDS_MAX: usize = 60;
/// Each round takes as long: deadlines pass after a few.
const ROUND_MS: u64 = 100;
const OPERATION_MS: u64 = 250;

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

fn running(number: u64) -> ContainerState {
    ContainerState::Running { frozen: false, handle: run(number) }
}

/// A fault of the backend during one round.
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

/// An event between two rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Nothing,
    Wanted(Goal),
    Died(DeathCause),
    /// Frozen or thawed from outside.
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
    /// Rows of attempts: whether open, and how often closed.
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

    fn happen(&mut self, event: Event) {
        match event {
            Event::Nothing => {}
            Event::Wanted(goal) => {
                let wanted = Transition::Accept { goal, deadline_ms: self.now_ms + OPERATION_MS };
                if apply(&self.state, wanted.clone()).is_ok() {
                    self.record(wanted);
                }
            }
            Event::Died(cause) => {
                if let ContainerState::Running { .. } = self.container {
                    self.container = ContainerState::Dead(Death { cause, ..Death::default() });
                }
            }
            Event::Frozen(now) => self.set_frozen(now),
            Event::Restarted => {
                if let ContainerState::Running { handle, .. } = &mut self.container {
                    self.runs += 1;
                    *handle = run(self.runs);
                }
            }
            Event::Crash => {
                let attempts = u32::try_from(self.attempts.len()).expect("a few");
                self.situation = Situation::resumed(&self.state, self.generation, attempts);
                if self.state.operation.is_some() {
                    self.record(Transition::Extend { deadline_ms: self.now_ms + OPERATION_MS });
                }
            }
        }
    }

    /// Performs one round of the actor, which takes a while. Returns whether the actor rests.
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
        let desired = Desired { state: &state, idle_policy: self.idle_policy, to_provision: false };
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

    /// Performs a step. Returns whether the rest of the plan holds.
    fn perform(&mut self, step: PlanStep, fault: Fault) -> bool {
        let deadline_ms = self.now_ms + OPERATION_MS;
        match step {
            PlanStep::Launch => self.launch(fault),
            PlanStep::AwaitReady => {
                let ContainerState::Running { frozen: false, .. } = self.container else { return false };
                self.situation.became_ready();
                true
            }
            PlanStep::Provision => {
                self.situation.provisioned();
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
                DriverVerb::CleanUp | DriverVerb::Destroy => self.container = ContainerState::Absent,
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
        self.happen(Event::Wanted(goal));
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

    /// Performs rounds without faults, and in no time, until the actor rests.
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

fn events() -> impl Strategy<Value = Event> {
    let goals = prop_oneof![Just(Goal::Running), Just(Goal::Paused), Just(Goal::Stopped)];
    let causes = prop_oneof![Just(DeathCause::Oom), Just(DeathCause::ShutDown), Just(DeathCause::Backend)];
    prop_oneof![
        6 => Just(Event::Nothing),
        3 => goals.prop_map(Event::Wanted),
        1 => causes.prop_map(Event::Died),
        1 => any::<bool>().prop_map(Event::Frozen),
        1 => Just(Event::Restarted),
        1 => Just(Event::Crash),
    ]
}

fn histories() -> impl Strategy<Value = (IdlePolicy, Vec<(Event, Fault)>)> {
    let policies = prop_oneof![Just(IdlePolicy::Sleep), Just(IdlePolicy::AlwaysOn)];
    (policies, proptest::collection::vec((events(), faults()), 0..40))
}

fn lived(idle_policy: IdlePolicy, history: &[(Event, Fault)]) -> Model {
    let mut model = Model::new(idle_policy);
    for (event, fault) in history {
        model.happen(*event);
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
        // The sandbox dies with its backend, and no inspection shows that before the backend is back.
        model.happen(Event::Died(DeathCause::Backend));
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
        model.happen(Event::Wanted(Goal::Paused));
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
