//! `GET /v1/sandboxes/{id}/activity`: why a sandbox is awake, and when it will sleep. Never wakes it.

use super::{call::Call, error::CallResult, views::ok};
use hostd_core::{IdleTimes, IdleWindow, SleepDecision, idle_inside_ms, rfc3339};
use protocol::{
    Activity, Reason,
    api::{ActivityView, IdlePolicy, SleepsTo},
};

/// A browser counts as active for this long after its last byte.
const BROWSING_MS: u64 = 5_000;

pub async fn activity(call: Call) -> CallResult {
    let record = call.sandbox().await?;
    let fleet = &call.api.fleet;
    // A sandbox that is paused, or between two states, is not asked.
    let inside = match fleet.control(&record.id).await {
        Ok((_, control)) => Some(control.activity().await?),
        Err(_) => None,
    };
    let quiet = fleet.traffic(&record.id).map(|traffic| traffic.quiet());
    let idle_policy = record.blueprint.idle_policy;
    match quiet.filter(|_| inside.is_some() || record.state.dozes()) {
        Some(quiet) => {
            let (now_ms, window) = (call.api.now_ms(), fleet.timing().window());
            Ok(ok(&ObservedActivity { inside, quiet, window, idle_policy }.view(now_ms)))
        }
        None => Ok(ok(&asleep(record.updated_ms, idle_policy))),
    }
}

/// The view of a sandbox that sleeps or is between two states.
fn asleep(since_ms: u64, idle_policy: IdlePolicy) -> ActivityView {
    let (busy, dozing, since, reasons) = (false, false, rfc3339(since_ms), Vec::new());
    ActivityView { busy, since, reasons, idle_policy, dozing, sleeps_at: None, sleeps_to: None }
}

/// The inputs of the view for a sandbox that runs or dozes.
struct ObservedActivity {
    /// runtimed's report; absent while the sandbox dozes.
    inside: Option<Activity>,
    quiet: IdleTimes,
    window: IdleWindow,
    idle_policy: IdlePolicy,
}

impl ObservedActivity {
    fn view(self, now_ms: u64) -> ActivityView {
        let Self { inside, mut quiet, window, idle_policy } = self;
        if let Some(inside) = &inside {
            // Observed just now, so newer than the last observation of the sandbox's actor.
            quiet.inside_ms = idle_inside_ms(inside, now_ms);
        }
        let dozing = inside.is_none();
        let browsing = quiet.silent_ms < BROWSING_MS.min(window.idle_ms);
        let working_since_ms = inside.as_ref().filter(|inside| inside.busy).map(|inside| inside.since_ms);
        let busy = !dozing && (working_since_ms.is_some() || browsing);
        let since_ms = working_since_ms.unwrap_or_else(|| now_ms.saturating_sub(quiet.idle_ms()));
        let mut reasons = inside.map(|inside| inside.reasons).unwrap_or_default();
        if quiet.streams > 0 || browsing {
            let streams = u64::try_from(quiet.streams).unwrap_or(u64::MAX);
            reasons.push(Reason::Preview { streams, silent_ms: quiet.silent_ms });
        }
        let sleep = if dozing { window.when_dozing(&quiet) } else { window.when_running(&quiet) };
        let stops = dozing || quiet.streams == 0 || sleep == SleepDecision::Stop;
        let sleeps = !busy && idle_policy == IdlePolicy::Sleep;
        ActivityView {
            busy,
            since: rfc3339(since_ms),
            reasons,
            idle_policy,
            dozing,
            sleeps_at: sleeps.then(|| rfc3339(now_ms.saturating_add(sleep.check_after_ms()))),
            sleeps_to: sleeps.then_some(if stops { SleepsTo::Stopped } else { SleepsTo::Paused }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_000_000_000;
    const MINUTE_MS: u64 = 60_000;

    fn inside(busy: bool, for_ms: u64) -> Option<Activity> {
        let reasons = if busy { vec![Reason::Cpu { percent: 40 }] } else { vec![] };
        Some(Activity { busy, since_ms: NOW_MS - for_ms, for_ms: Some(for_ms), reasons })
    }

    fn quiet(streams: usize, silent_ms: u64) -> IdleTimes {
        IdleTimes { streams, silent_ms, still_ms: silent_ms, alone_ms: 0, inside_ms: 40 * MINUTE_MS }
    }

    fn shown(inside: Option<Activity>, quiet: IdleTimes, idle_policy: IdlePolicy) -> String {
        let window = IdleWindow { idle_ms: 35 * MINUTE_MS, doze_after_ms: 3_000 };
        let view = ObservedActivity { inside, quiet, window, idle_policy }.view(NOW_MS);
        serde_json::to_string(&view).expect("a view is JSON")
    }

    #[test]
    fn the_view_says_what_keeps_a_sandbox_awake_and_what_follows() {
        let table = [
            shown(inside(true, 5_000), quiet(0, u64::MAX), IdlePolicy::Sleep),
            shown(inside(false, 5 * MINUTE_MS), quiet(0, u64::MAX), IdlePolicy::Sleep),
            shown(inside(false, 5 * MINUTE_MS), quiet(2, 100), IdlePolicy::Sleep),
            shown(inside(false, 5 * MINUTE_MS), quiet(2, MINUTE_MS), IdlePolicy::Sleep),
            shown(None, quiet(1, 40 * MINUTE_MS), IdlePolicy::Sleep),
            shown(None, quiet(0, 40 * MINUTE_MS), IdlePolicy::Sleep),
            shown(inside(false, 5 * MINUTE_MS), quiet(2, MINUTE_MS), IdlePolicy::AlwaysOn),
        ];
        insta::assert_snapshot!(table.join("\n"), @r#"
        {"busy":true,"since":"1970-01-12T13:46:35.000Z","reasons":[{"kind":"cpu","percent":40}],"idle_policy":"sleep"}
        {"busy":false,"since":"1970-01-12T13:41:40.000Z","reasons":[],"idle_policy":"sleep","sleeps_at":"1970-01-12T14:16:40.000Z","sleeps_to":"stopped"}
        {"busy":true,"since":"1970-01-12T13:46:39.900Z","reasons":[{"kind":"preview","streams":2,"silent_ms":100}],"idle_policy":"sleep"}
        {"busy":false,"since":"1970-01-12T13:45:40.000Z","reasons":[{"kind":"preview","streams":2,"silent_ms":60000}],"idle_policy":"sleep","sleeps_at":"1970-01-12T14:20:40.000Z","sleeps_to":"paused"}
        {"busy":false,"since":"1970-01-12T13:06:40.000Z","reasons":[{"kind":"preview","streams":1,"silent_ms":2400000}],"idle_policy":"sleep","dozing":true,"sleeps_at":"1970-01-12T17:46:40.000Z","sleeps_to":"stopped"}
        {"busy":false,"since":"1970-01-12T13:06:40.000Z","reasons":[],"idle_policy":"sleep","dozing":true,"sleeps_at":"1970-01-12T14:21:40.000Z","sleeps_to":"stopped"}
        {"busy":false,"since":"1970-01-12T13:45:40.000Z","reasons":[{"kind":"preview","streams":2,"silent_ms":60000}],"idle_policy":"always_on"}
        "#);
    }
}
