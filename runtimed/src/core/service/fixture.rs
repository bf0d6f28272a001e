//! A fixture for tests of the machine: performs effects on a fake process and a fake check, and rejects any
//! step that a supervisor could not carry out.

use super::{Dependencies, Effect, Input, Machine, Phase, Policy};
use crate::limits::{BACKOFF_MAX_MS, BACKOFF_MIN_MS};
use proptest::prelude::*;
use protocol::{Exit, RestartPolicy, ServiceName};

pub struct ServiceFixture {
    pub machine: Machine,
    pub policy: Policy,
    pub now: u64,
    pub process: Option<FakeProcess>,
}

/// The process of the service, with its check.
#[derive(Debug, Default)]
pub struct FakeProcess {
    pub probing: bool,
    stop_sent: bool,
}

/// Something that happens to the service.
#[derive(Debug, Clone)]
pub enum Event {
    /// An input. Ends and checks may come where nothing runs or is checked: they are stale then.
    Input(Input),
    Later(u64),
    /// The clock goes back.
    Earlier(u64),
    /// Time passes until the next wake-up.
    Wakes,
}

impl ServiceFixture {
    pub fn new(policy: Policy, now: u64) -> Self {
        Self { machine: Machine::new(), policy, now, process: None }
    }

    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Input(input) => drop(self.send(input)),
            Event::Later(ms) => self.now = self.now.saturating_add(ms),
            Event::Earlier(ms) => self.now = self.now.saturating_sub(ms),
            Event::Wakes => self.wake(),
        }
    }

    pub fn send(&mut self, input: Input) -> Vec<Effect> {
        let before = self.machine.clone();
        let early = input == Input::Tick && before.next_wake().is_none_or(|wake| self.now < wake);
        match &input {
            Input::Ended(_) => self.process = None,
            Input::Probe(_) => self.process.iter_mut().for_each(|process| process.probing = false),
            Input::Start
            | Input::Stop
            | Input::Restart
            | Input::RetryNow
            | Input::TaskEnded
            | Input::Dependencies(_)
            | Input::Tick => {}
        }
        let effects = self.machine.step(input, self.now, &self.policy);
        for effect in &effects {
            self.perform(*effect);
        }
        assert!(!early || self.machine == before, "an early tick changed {before:?}");
        self.check(&before);
        effects
    }

    /// Advances to the next wake-up and ticks. A tick that leaves the same wake-up would be a busy loop.
    pub fn wake(&mut self) {
        let Some(wake) = self.machine.next_wake() else { return };
        self.now = self.now.max(wake);
        self.send(Input::Tick);
        assert_eq!(self.machine.next_wake(), None, "after a tick something else must happen first");
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Spawn => {
                assert!(self.process.is_none(), "a second process");
                self.process = Some(FakeProcess::default());
            }
            Effect::Stop => {
                let process = self.process.as_mut().expect("nothing to stop");
                assert!(!process.stop_sent, "stopped twice");
                process.stop_sent = true;
            }
            Effect::Probe => {
                let process = self.process.as_mut().expect("nothing to check");
                assert!(!process.probing, "a second check");
                process.probing = true;
            }
        }
    }

    pub fn is_probing(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.probing)
    }

    fn check(&self, before: &Machine) {
        let machine = &self.machine;
        assert_eq!(machine.has_process(), self.process.is_some(), "{machine:?}");
        match &machine.phase {
            Phase::Waiting { .. } | Phase::FailedDependency { .. } => assert!(machine.wanted),
            Phase::Starting { .. } | Phase::Ready { .. } | Phase::Unhealthy { .. } => {
                assert!(machine.wanted);
                assert!(!self.is_probing() || machine.next_wake().is_none(), "{machine:?}");
            }
            Phase::Backoff { until, failures } if machine.phase != before.phase => {
                let longest = self.now.saturating_add(BACKOFF_MAX_MS);
                let shortest = self.now.saturating_add(BACKOFF_MIN_MS);
                assert!((shortest..=longest).contains(until), "{machine:?} at {}", self.now);
                assert!(machine.wanted && *failures > 0);
            }
            Phase::Backoff { .. } => assert!(machine.wanted),
            Phase::Stopped | Phase::Stopping { .. } => {}
        }
    }
}

pub fn name(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("a good name")
}

pub fn any_policy() -> impl Strategy<Value = Policy> {
    let restart = vec![RestartPolicy::Always, RestartPolicy::OnFailure, RestartPolicy::Never];
    let interval = prop::option::of(0_u64..20_000);
    (prop::sample::select(restart), any::<bool>(), interval, any::<bool>()).prop_map(
        |(restart, restart_after_task, probe_interval_ms, checked)| Policy {
            restart,
            restart_after_task,
            probe_interval_ms,
            checked,
        },
    )
}

pub fn any_exit() -> impl Strategy<Value = Exit> {
    prop_oneof![
        (-1_i32..3).prop_map(|code| Exit::Exited { code }),
        Just(Exit::Signalled { signal: 9 }),
        Just(Exit::Oom),
        Just(Exit::TimedOut),
        Just(Exit::Cancelled),
        Just(Exit::SpawnFailed { message: "no such file".into() }),
        Just(Exit::Lost),
    ]
}

pub fn any_dependencies() -> impl Strategy<Value = Dependencies> {
    prop_oneof![
        2 => Just(Dependencies::Ready),
        1 => Just(Dependencies::Waiting(vec![name("db")])),
        1 => Just(Dependencies::Failed(name("db"))),
    ]
}

/// Events that happen to a service without a request to run it.
pub fn unasked() -> impl Strategy<Value = Event> {
    let result = prop_oneof![Just(Ok(())), Just(Err("refused".to_owned()))];
    prop_oneof![
        Just(Event::Input(Input::Stop)),
        Just(Event::Input(Input::RetryNow)),
        Just(Event::Input(Input::TaskEnded)),
        any_dependencies().prop_map(|on| Event::Input(Input::Dependencies(on))),
        any_exit().prop_map(|exit| Event::Input(Input::Ended(exit))),
        result.prop_map(|result| Event::Input(Input::Probe(result))),
        Just(Event::Input(Input::Tick)),
        prop_oneof![0_u64..40_000, any::<u64>()].prop_map(Event::Later),
        (0_u64..40_000).prop_map(Event::Earlier),
        Just(Event::Wakes),
    ]
}

pub fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::Input(Input::Start)),
        1 => Just(Event::Input(Input::Restart)),
        8 => unasked(),
    ]
}
