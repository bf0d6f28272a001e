//! Example scripts: inputs, and the expected effects and phase.

use super::fixture::name;
use super::{AfterStop, Dependencies, Effect, Input, Machine, Phase, Policy, view_state};
use crate::core::service_graph::Readiness;
use crate::limits::{BACKOFF_MAX_MS, BACKOFF_MIN_MS};
use protocol::{Exit, RestartPolicy, ServiceState};

const CHECKED: Policy = Policy {
    restart: RestartPolicy::Always,
    restart_after_task: false,
    probe_interval_ms: Some(10_000),
    checked: true,
};
const PLAIN: Policy = Policy { probe_interval_ms: None, checked: false, ..CHECKED };
const EAGER: Policy = Policy { probe_interval_ms: Some(0), ..CHECKED };
const LOGGED: Policy = Policy { probe_interval_ms: None, ..CHECKED };
const ON_FAILURE: Policy = Policy { restart: RestartPolicy::OnFailure, ..PLAIN };
const NEVER: Policy = Policy { restart: RestartPolicy::Never, ..PLAIN };
const AFTER_TASK: Policy = Policy { restart_after_task: true, ..PLAIN };

/// Runs a script from time 0 and returns the effects and the final phase. `+5` advances the clock by five
/// milliseconds.
fn run(policy: &Policy, script: &str) -> (Machine, u64, String) {
    let (mut machine, mut now, mut seen) = (Machine::new(), 0, Vec::new());
    for word in script.split_whitespace() {
        if let Some(ms) = word.strip_prefix('+') {
            now += ms.parse::<u64>().expect("a number of milliseconds");
            continue;
        }
        seen.extend(machine.step(input(word), now, policy));
    }
    let effects: Vec<_> = seen.iter().map(|effect| format!("{effect:?}").to_lowercase()).collect();
    let text = format!("{} | {}", effects.join(" "), show(&machine.phase));
    (machine, now, text)
}

fn input(word: &str) -> Input {
    match word {
        "start" => Input::Start,
        "stop" => Input::Stop,
        "restart" => Input::Restart,
        "nudge" => Input::RetryNow,
        "task" => Input::TaskEnded,
        "ready" => Input::Dependencies(Dependencies::Ready),
        "wait" => Input::Dependencies(Dependencies::Waiting(vec![name("db")])),
        "fail" => Input::Dependencies(Dependencies::Failed(name("db"))),
        "exit0" => Input::Ended(Exit::Exited { code: 0 }),
        "exit1" => Input::Ended(Exit::Exited { code: 1 }),
        "nospawn" => Input::Ended(Exit::SpawnFailed { message: "no such file".into() }),
        "ok" => Input::Probe(Ok(())),
        "bad" => Input::Probe(Err("refused".into())),
        "tick" => Input::Tick,
        other => panic!("no such word: {other}"),
    }
}

fn show(phase: &Phase) -> String {
    let at = |next: &Option<u64>| next.map_or(String::new(), |at| format!(", check at {at}"));
    match phase {
        Phase::Stopped => "stopped".into(),
        Phase::Waiting { on } => format!("waiting for {}", on[0]),
        Phase::FailedDependency { on } => format!("without {on}"),
        Phase::Starting { since, next_probe } => format!("starting since {since}{}", at(next_probe)),
        Phase::Ready { since, next_probe } => format!("ready since {since}{}", at(next_probe)),
        Phase::Unhealthy { since, reason, next_probe } => {
            format!("unhealthy since {since}: {reason}{}", at(next_probe))
        }
        Phase::Backoff { until, failures } => format!("backoff until {until} after {failures}"),
        Phase::Stopping { then: AfterStop::Stay } => "stopping".into(),
        Phase::Stopping { then: AfterStop::Start } => "restarting".into(),
    }
}

fn check(table: &[(&Policy, &str, &str)]) {
    for (policy, script, expected) in table {
        assert_eq!(run(policy, script).2, *expected, "{script}");
    }
}

#[test]
fn a_service_starts_and_is_judged_by_its_check() {
    check(&[
        (&CHECKED, "", " | stopped"),
        (&PLAIN, "+7 start", "spawn | ready since 7"),
        (&PLAIN, "start start", "spawn | ready since 0"),
        (&CHECKED, "start", "spawn probe | starting since 0"),
        (&CHECKED, "start tick", "spawn probe | starting since 0"),
        (&CHECKED, "start +5 bad", "spawn probe | starting since 0, check at 205"),
        (&CHECKED, "start bad +199 tick", "spawn probe | starting since 0, check at 200"),
        (&CHECKED, "start bad +200 tick tick", "spawn probe probe | starting since 0"),
        (&CHECKED, "start +5 ok", "spawn probe | ready since 5, check at 10005"),
        (&CHECKED, "start ok +10000 tick ok", "spawn probe probe | ready since 0, check at 20000"),
        (
            &CHECKED,
            "start ok +10000 tick bad",
            "spawn probe probe | unhealthy since 10000: refused, check at 20000",
        ),
        (
            &CHECKED,
            "start ok +10000 tick bad +10000 tick bad",
            "spawn probe probe probe | unhealthy since 10000: refused, check at 30000",
        ),
        (
            &CHECKED,
            "start ok +10000 tick bad +10000 tick ok",
            "spawn probe probe probe | ready since 20000, check at 30000",
        ),
        (&EAGER, "start ok", "spawn probe | ready since 0, check at 500"),
        (&LOGGED, "start +5 ok", "spawn probe | ready since 5"),
        (&LOGGED, "start +5 ok bad", "spawn probe | ready since 5"),
        (&CHECKED, "ok bad", " | stopped"),
        (&CHECKED, "start exit1 ok", "spawn probe | backoff until 1000 after 1"),
        (&CHECKED, "start stop ok", "spawn probe stop | stopping"),
    ]);
}

#[test]
fn what_ended_is_tried_again_as_the_policy_says() {
    check(&[
        (&PLAIN, "start exit0", "spawn | backoff until 1000 after 1"),
        (&PLAIN, "start nospawn", "spawn | backoff until 1000 after 1"),
        (&PLAIN, "start exit1 +999 tick", "spawn | backoff until 1000 after 1"),
        (&PLAIN, "start exit1 +1000 tick", "spawn spawn | ready since 1000"),
        (&PLAIN, "start exit1 +1000 tick exit1", "spawn spawn | backoff until 3000 after 2"),
        (
            &PLAIN,
            "start exit1 nudge exit1 nudge +10000 exit1",
            "spawn spawn spawn | backoff until 11000 after 1",
        ),
        (
            &PLAIN,
            "start exit1 nudge exit1 nudge +9999 exit1",
            "spawn spawn spawn | backoff until 13999 after 3",
        ),
        (&PLAIN, "start exit1 start exit1", "spawn spawn | backoff until 1000 after 1"),
        (&PLAIN, "start exit1 restart", "spawn spawn | ready since 0"),
        (&PLAIN, "start exit1 task", "spawn spawn | ready since 0"),
        (&PLAIN, "start exit1 stop", "spawn | stopped"),
        (&PLAIN, "start exit1 stop nudge task tick ready", "spawn | stopped"),
        (&ON_FAILURE, "start exit1", "spawn | backoff until 1000 after 1"),
        (&ON_FAILURE, "start exit0 nudge task tick", "spawn | stopped"),
        (&ON_FAILURE, "start exit0 start", "spawn spawn | ready since 0"),
        (&ON_FAILURE, "start exit0 restart", "spawn spawn | ready since 0"),
        (&NEVER, "start exit1 nudge tick", "spawn | stopped"),
        (&NEVER, "start exit1 start", "spawn spawn | ready since 0"),
        (&NEVER, "exit1", " | stopped"),
    ]);
}

#[test]
fn stop_start_and_restart_may_come_at_any_time() {
    check(&[
        (&PLAIN, "stop", " | stopped"),
        (&PLAIN, "start stop stop", "spawn stop | stopping"),
        (&PLAIN, "start stop exit0", "spawn stop | stopped"),
        (&PLAIN, "start restart", "spawn stop | restarting"),
        (&PLAIN, "start restart restart +3 exit0", "spawn stop spawn | ready since 3"),
        (
            &PLAIN,
            "start exit1 nudge restart exit1 exit1",
            "spawn spawn stop spawn | backoff until 1000 after 1",
        ),
        (&PLAIN, "start restart stop exit0", "spawn stop | stopped"),
        (&PLAIN, "start stop start exit0", "spawn stop spawn | ready since 0"),
        (&PLAIN, "start stop restart exit0", "spawn stop spawn | ready since 0"),
        (&PLAIN, "start stop task nudge exit0", "spawn stop | stopped"),
        (&PLAIN, "restart", "spawn | ready since 0"),
        (&PLAIN, "start task nudge", "spawn | ready since 0"),
        (&AFTER_TASK, "start task", "spawn stop | restarting"),
        (&AFTER_TASK, "task", " | stopped"),
        (&AFTER_TASK, "start stop exit0 task", "spawn stop | stopped"),
        (&Policy { restart_after_task: true, ..NEVER }, "start exit0 task", "spawn spawn | ready since 0"),
    ]);
}

#[test]
fn dependencies_hold_up_a_start_and_never_a_run() {
    check(&[
        (&PLAIN, "wait", " | stopped"),
        (&PLAIN, "wait start tick nudge", " | waiting for db"),
        (&PLAIN, "wait start +4 ready", "spawn | ready since 4"),
        (&PLAIN, "wait start fail", " | without db"),
        (&PLAIN, "fail start ready", "spawn | ready since 0"),
        (&PLAIN, "fail start wait stop ready", " | stopped"),
        (&PLAIN, "start wait", "spawn | ready since 0"),
        (&PLAIN, "start fail", "spawn | ready since 0"),
        (&PLAIN, "start wait exit1", "spawn | backoff until 1000 after 1"),
        (&PLAIN, "start wait exit1 +1000 tick", "spawn | waiting for db"),
        (&PLAIN, "start wait exit1 nudge ready", "spawn spawn | ready since 0"),
        (&PLAIN, "start wait restart exit0", "spawn stop | waiting for db"),
    ]);
}

#[test]
fn the_pause_doubles_up_to_the_longest() {
    let (mut machine, mut now, mut pauses) = (Machine::new(), 0, Vec::new());
    machine.step(Input::Start, now, &PLAIN);
    for _ in 0..100 {
        machine.step(Input::Ended(Exit::Lost), now, &PLAIN);
        let wake = machine.next_wake().expect("a backoff ends");
        pauses.push(wake - now);
        now = wake;
        assert_eq!(machine.step(Input::Tick, now, &PLAIN), [Effect::Spawn]);
    }
    assert_eq!(pauses[..7], [BACKOFF_MIN_MS, 2_000, 4_000, 8_000, 16_000, BACKOFF_MAX_MS, BACKOFF_MAX_MS]);
    assert!(pauses[6..].iter().all(|pause| *pause == BACKOFF_MAX_MS));
}

#[test]
fn dependents_see_the_readiness_of_a_service() {
    let table = [
        (&PLAIN, "", Readiness::Failed),
        (&CHECKED, "start", Readiness::Pending),
        (&CHECKED, "start ok", Readiness::Ready),
        (&CHECKED, "start ok bad", Readiness::Pending),
        (&CHECKED, "start exit1", Readiness::Pending),
        (&CHECKED, "start restart", Readiness::Pending),
        (&CHECKED, "start stop", Readiness::Failed),
        (&CHECKED, "wait start", Readiness::Pending),
        (&CHECKED, "fail start", Readiness::Failed),
        (&ON_FAILURE, "start exit0", Readiness::Ready),
        (&ON_FAILURE, "start exit0 stop", Readiness::Failed),
        (&NEVER, "start exit0", Readiness::Ready),
        (&NEVER, "start exit1", Readiness::Failed),
        (&NEVER, "start exit0 wait start", Readiness::Pending),
    ];
    for (policy, script, expected) in table {
        assert_eq!(run(policy, script).0.readiness(), expected, "{script}");
    }
}

#[test]
fn callers_see_the_phase_with_wall_clock_times() {
    let wall = 1_000_000;
    let table = [
        (&PLAIN, "", ServiceState::Stopped),
        (&CHECKED, "start +5", ServiceState::Starting),
        (&PLAIN, "start +5", ServiceState::Ready { since_ms: wall - 5 }),
        (
            &CHECKED,
            "start ok +10 bad +7",
            ServiceState::Unhealthy { since_ms: wall - 7, reason: "refused".into() },
        ),
        (&PLAIN, "start exit1 +300", ServiceState::Backoff { next_try_ms: wall + 700, failures: 1 }),
        (&PLAIN, "start stop", ServiceState::Stopping),
        (&PLAIN, "wait start", ServiceState::Waiting { on: vec![name("db")] }),
        (&PLAIN, "fail start", ServiceState::FailedDependency { on: name("db") }),
    ];
    for (policy, script, expected) in table {
        let (machine, now, _) = run(policy, script);
        assert_eq!(view_state(&machine.phase, now, wall), expected, "{script}");
    }
}
