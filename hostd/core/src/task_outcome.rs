//! The outcome of a task. The result that runtimed reports is a claim of the agent; the model calls that the
//! gateway saw are not. Where the two differ, this decides.

use protocol::{FailureReason, TaskResult, TaskStatus, Usage, api::Label};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Why a task cannot succeed any more: its model failed, or its budget is used up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailure {
    /// `ModelFailed` or `BudgetExceeded`.
    pub reason: FailureReason,
    /// The explanation for users.
    pub message: String,
}

/// The model calls of one task, as the gateway saw them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelActivity {
    /// Absent while the task has made no call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The number of the newest call that ended by itself.
    pub last_call: u64,
    /// Why a call failed, unless a later one succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// The highest number of a call.
    pub numbered: u64,
    /// The models that it called, as `provider/name`, in the order of their first call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Every call up to this number has ended.
    pub ended_through: u64,
    /// Calls beyond it that have ended too.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub ended_beyond: BTreeSet<u64>,
}

/// The provider of a call that failed for good.
#[derive(Debug, Clone, Copy)]
pub struct FailedProvider<'a> {
    pub name: &'a str,
    pub has_key: bool,
    /// The tenant that the provider belongs to, if it is not shared.
    pub tenant: Option<&'a Label>,
}

/// Explains the failure of a task by that of its provider, and what to do about a key. Without a status there
/// was no response, and `message` is a complete message of the gateway.
pub fn explain_provider_failure(provider: FailedProvider<'_>, status: Option<u16>, message: &str) -> String {
    let FailedProvider { name, has_key, tenant } = provider;
    let tenant = tenant.map(|tenant| format!(" --tenant {tenant}")).unwrap_or_default();
    let add = format!("`slipway model add {name}{tenant}`");
    match (status, has_key) {
        (None, _) => message.to_owned(),
        (Some(401), true) => {
            format!("the model provider {name} refused its key (401): {message}; {add} replaces the key")
        }
        (Some(401), false) => {
            format!("the model provider {name} wants a key (401): {message}; {add} gives it one")
        }
        // Some providers report a wrong key with 400.
        (Some(status @ (400 | 403)), _) => format!(
            "the model provider {name} refused ({status}): {message}; if its key is the reason, {add} replaces it"
        ),
        (Some(status @ (408 | 409 | 425 | 500..)), _) => {
            format!("the model provider {name} failed ({status}): {message}")
        }
        (Some(status), _) => format!("the model provider {name} refused ({status}): {message}"),
    }
}

/// More than the concurrent calls of a task. A call without an end by then is taken to have none.
const ENDED_BEYOND_MAX: usize = 128;
/// Models of one task that are listed.
const MODELS_MAX: usize = 16;

impl ModelActivity {
    pub fn has_ended(&self, call: u64) -> bool {
        call <= self.ended_through || self.ended_beyond.contains(&call)
    }

    /// Records the model of a call that reached its provider, or was meant to.
    pub fn record_model(&mut self, provider: &str, model: &str) {
        let name = format!("{provider}/{model}");
        // A call that was refused before it was sent has no provider.
        if !provider.is_empty() && self.models.len() < MODELS_MAX && !self.models.contains(&name) {
            self.models.push(name);
        }
    }

    pub fn record_end(&mut self, call: u64) {
        self.numbered = self.numbered.max(call);
        if self.has_ended(call) {
            return;
        }
        self.ended_beyond.insert(call);
        while let Some(first) = self.ended_beyond.first().copied()
            && (first == self.ended_through + 1 || self.ended_beyond.len() > ENDED_BEYOND_MAX)
        {
            self.ended_beyond.pop_first();
            self.ended_through = first;
        }
    }
}

/// The result that is recorded: what the gateway saw overrides the claim.
pub fn final_result(
    claimed: TaskResult,
    activity: &ModelActivity,
    failure: Option<&ModelFailure>,
) -> TaskResult {
    let result = TaskResult { usage: activity.usage, models: activity.models.clone(), ..claimed };
    if let Some(ModelFailure { reason, message }) = failure {
        // The task was cancelled for this failure, so its claimed end says nothing.
        return failed(result, *reason, message.clone());
    }
    match (&activity.last_failure, result.status, result.failure_reason) {
        (Some(message), TaskStatus::Succeeded, _)
        | (Some(message), _, Some(FailureReason::AgentFailed | FailureReason::BuildFailed)) => {
            failed(result, FailureReason::ModelFailed, message.clone())
        }
        _ => result,
    }
}

fn failed(result: TaskResult, reason: FailureReason, message: String) -> TaskResult {
    TaskResult { status: TaskStatus::Failed, failure_reason: Some(reason), message: Some(message), ..result }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TaskEnding;

    fn claim(status: TaskStatus, failure_reason: Option<FailureReason>) -> TaskResult {
        let claimed_usage = Some(Usage { input_tokens: 7, ..Usage::default() });
        let message = Some("as the agent has it".to_owned());
        TaskResult { status, failure_reason, usage: claimed_usage, message, ..TaskEnding::Lost.result(true) }
    }

    #[test]
    fn a_call_has_one_end_and_gaps_are_remembered() {
        let mut activity = ModelActivity::default();
        [2, 4, 5].into_iter().for_each(|call| activity.record_end(call));
        assert!(activity.has_ended(4) && !activity.has_ended(1) && !activity.has_ended(3));
        activity.record_end(1);
        assert_eq!((activity.ended_through, activity.ended_beyond.len(), activity.numbered), (2, 2, 5));
        activity.record_end(3);
        assert_eq!((activity.ended_through, activity.ended_beyond.len()), (5, 0));
        // A call whose end is never recorded does not block the others for ever.
        (7..7 + 2 * ENDED_BEYOND_MAX as u64).for_each(|call| activity.record_end(call));
        assert!(activity.has_ended(6) && activity.ended_beyond.is_empty());
    }

    #[test]
    fn what_the_gateway_saw_overrides_the_claim() {
        use FailureReason::{
            AgentFailed, BudgetExceeded, BuildFailed, Cancelled, IdleTimedOut, Lost, ModelFailed, TimedOut,
        };
        use TaskStatus::{Cancelled as Ended, Failed, Succeeded};
        let failure = |reason| ModelFailure { reason, message: "no".to_owned() };
        let table = [
            // The claim of the agent; whether its last call failed; the failure; the outcome.
            ((Succeeded, None), false, None, (Succeeded, None)),
            ((Succeeded, None), true, None, (Failed, Some(ModelFailed))),
            ((Succeeded, None), false, Some(ModelFailed), (Failed, Some(ModelFailed))),
            ((Succeeded, None), false, Some(BudgetExceeded), (Failed, Some(BudgetExceeded))),
            ((Failed, Some(AgentFailed)), false, None, (Failed, Some(AgentFailed))),
            ((Failed, Some(AgentFailed)), true, None, (Failed, Some(ModelFailed))),
            ((Failed, Some(BuildFailed)), true, None, (Failed, Some(ModelFailed))),
            ((Failed, Some(TimedOut)), true, None, (Failed, Some(TimedOut))),
            ((Failed, Some(IdleTimedOut)), true, None, (Failed, Some(IdleTimedOut))),
            ((Failed, Some(Lost)), true, None, (Failed, Some(Lost))),
            // Cancelled by a user, or because of the failure.
            ((Ended, Some(Cancelled)), true, None, (Ended, Some(Cancelled))),
            ((Ended, Some(Cancelled)), true, Some(BudgetExceeded), (Failed, Some(BudgetExceeded))),
            ((Failed, Some(Lost)), true, Some(ModelFailed), (Failed, Some(ModelFailed))),
        ];
        for ((status, reason), last_failed, given, expected) in table {
            let usage = Usage { calls: 3, ..Usage::default() };
            let last_failure = last_failed.then(|| "no answer".to_owned());
            let activity = ModelActivity { usage: Some(usage), last_failure, ..ModelActivity::default() };
            let result = final_result(claim(status, reason), &activity, given.map(failure).as_ref());
            assert_eq!(
                (result.status, result.failure_reason),
                expected,
                "{status:?} {last_failed} {given:?}"
            );
            assert_eq!(result.usage, Some(usage), "never the usage that an agent claims");
        }
    }

    #[test]
    fn a_failed_provider_is_explained_with_what_to_do_about_its_key() {
        let acme = Label::parse("acme").expect("a label");
        let table = [
            (
                true,
                None,
                None,
                "the provider p is unreachable: refused",
                "the provider p is unreachable: refused",
            ),
            (
                true,
                None,
                Some(401),
                "no",
                "the model provider p refused its key (401): no; `slipway model add p` replaces the key",
            ),
            (
                true,
                Some(&acme),
                Some(401),
                "no",
                "the model provider p refused its key (401): no; `slipway model add p --tenant acme` replaces the key",
            ),
            (
                false,
                None,
                Some(401),
                "no",
                "the model provider p wants a key (401): no; `slipway model add p` gives it one",
            ),
            (
                true,
                None,
                Some(403),
                "no",
                "the model provider p refused (403): no; if its key is the reason, `slipway model add p` replaces it",
            ),
            (true, None, Some(404), "no", "the model provider p refused (404): no"),
            (true, None, Some(429), "no", "the model provider p refused (429): no"),
            (true, None, Some(503), "no", "the model provider p failed (503): no"),
        ];
        for (has_key, tenant, status, message, expected) in table {
            let provider = FailedProvider { name: "p", has_key, tenant };
            assert_eq!(explain_provider_failure(provider, status, message), expected);
        }
    }

    #[test]
    fn the_models_of_a_task_are_those_that_the_gateway_saw() {
        let mut activity = ModelActivity::default();
        for (provider, model) in [("p", "large"), ("p", "small"), ("p", "large"), ("", "none")] {
            activity.record_model(provider, model);
        }
        (0..2 * MODELS_MAX).for_each(|n| activity.record_model("p", &n.to_string()));
        let result = final_result(claim(TaskStatus::Succeeded, None), &activity, None);
        assert_eq!(
            (&result.models[..3], result.models.len()),
            (&["p/large", "p/small", "p/0"].map(str::to_owned)[..], MODELS_MAX)
        );
    }

    #[test]
    fn a_task_without_calls_is_as_it_says_and_used_nothing() {
        let result = final_result(claim(TaskStatus::Succeeded, None), &ModelActivity::default(), None);
        assert_eq!((result.status, result.usage), (TaskStatus::Succeeded, None));
        assert_eq!(result.message.as_deref(), Some("as the agent has it"));
    }
}
