//! How a task really ended. What runtimed tells of its agent is a claim; what the gateway saw of its models is
//! not. Where the two differ, this decides.

use protocol::{FailureReason, TaskResult, TaskStatus, Usage, api::Label};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Why a task cannot succeed any more, as the gateway saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailure {
    /// `ModelFailed` or `BudgetExceeded`.
    pub reason: FailureReason,
    /// For people.
    pub message: String,
}

/// All that the gateway saw of one task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelActivity {
    /// Absent when it made no call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The newest call that has ended by itself, by its number.
    pub last_call: u64,
    /// Why a call failed, if none that ended later succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// The highest number that a call had.
    pub numbered: u64,
    /// Which models it called, as `provider/name`, the first one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Every call up to this one has an end,
    pub ended_through: u64,
    /// and so have these.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub ended_beyond: BTreeSet<u64>,
}

/// The provider of a call that failed for good.
#[derive(Debug, Clone, Copy)]
pub struct FailedProvider<'a> {
    pub name: &'a str,
    pub has_key: bool,
    /// It is only this tenant's.
    pub tenant: Option<&'a Label>,
}

/// Says why a task failed whose provider did, and what to do about a key. Without a status there was no answer, and
/// `words`, which are the gateway's own then, say all.
pub fn explain_provider_failure(provider: FailedProvider<'_>, status: Option<u16>, words: &str) -> String {
    let FailedProvider { name, has_key, tenant } = provider;
    let tenant = tenant.map(|tenant| format!(" --tenant {tenant}")).unwrap_or_default();
    let add = format!("`slipway model add {name}{tenant}`");
    match (status, has_key) {
        (None, _) => words.to_owned(),
        (Some(401), true) => {
            format!("the model provider {name} refused its key (401): {words}; {add} replaces the key")
        }
        (Some(401), false) => {
            format!("the model provider {name} wants a key (401): {words}; {add} gives it one")
        }
        // Some say with 400 that a key is wrong.
        (Some(status @ (400 | 403)), _) => format!(
            "the model provider {name} refused ({status}): {words}; if its key is the reason, {add} replaces it"
        ),
        (Some(status @ (408 | 409 | 425 | 500..)), _) => {
            format!("the model provider {name} failed ({status}): {words}")
        }
        (Some(status), _) => format!("the model provider {name} refused ({status}): {words}"),
    }
}

/// More than are under way at once: whoever has no end by then gets none.
const ENDED_BEYOND_MAX: usize = 128;
/// Models of one task that are told.
const MODELS_MAX: usize = 16;

impl ModelActivity {
    pub fn has_ended(&self, call: u64) -> bool {
        call <= self.ended_through || self.ended_beyond.contains(&call)
    }

    /// A call of this model reached its provider, or was meant to.
    pub fn record_model(&mut self, provider: &str, model: &str) {
        let name = format!("{provider}/{model}");
        // Where nobody was asked there is no provider.
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

/// The result as it goes down: what the gateway saw has the last word.
pub fn final_result(
    claimed: TaskResult,
    activity: &ModelActivity,
    failure: Option<&ModelFailure>,
) -> TaskResult {
    let result = TaskResult { usage: activity.usage, models: activity.models.clone(), ..claimed };
    if let Some(ModelFailure { reason, message }) = failure {
        // It was ended for this, so its own end says nothing.
        return failed(result, *reason, message.clone());
    }
    match (&activity.last_failure, result.status, result.failure_reason) {
        (Some(words), TaskStatus::Succeeded, _)
        | (Some(words), _, Some(FailureReason::AgentFailed | FailureReason::BuildFailed)) => {
            failed(result, FailureReason::ModelFailed, words.clone())
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
    use crate::core::TaskEnding;

    fn claim(status: TaskStatus, failure_reason: Option<FailureReason>) -> TaskResult {
        let said = Some(Usage { input_tokens: 7, ..Usage::default() });
        let message = Some("as the agent has it".to_owned());
        TaskResult { status, failure_reason, usage: said, message, ..TaskEnding::Lost.result(true) }
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
        // One whose end is never told holds nobody up for ever.
        (7..7 + 2 * ENDED_BEYOND_MAX as u64).for_each(|call| activity.record_end(call));
        assert!(activity.has_ended(6) && activity.ended_beyond.is_empty());
    }

    #[test]
    fn what_the_gateway_saw_has_the_last_word() {
        use FailureReason::{
            AgentFailed, BudgetExceeded, BuildFailed, Cancelled, IdleTimedOut, Lost, ModelFailed, TimedOut,
        };
        use TaskStatus::{Cancelled as Ended, Failed, Succeeded};
        let failure = |reason| ModelFailure { reason, message: "no".to_owned() };
        let table = [
            // What the agent claims; whether its last call failed; the failure; what comes of it.
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
            // Cancelled by a person, or because of the failure.
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
            assert_eq!(result.usage, Some(usage), "never what an agent says");
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
        for (has_key, tenant, status, words, expected) in table {
            let provider = FailedProvider { name: "p", has_key, tenant };
            assert_eq!(explain_provider_failure(provider, status, words), expected);
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
