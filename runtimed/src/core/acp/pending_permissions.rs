//! Permissions that an agent asks for: answered at once where a rule decides, kept open until a caller
//! decides otherwise. Every request of the agent gets exactly one response.

use super::input_effect::{Effect, PermissionChoice, PermissionDecision};
use super::limits::ASKED_MAX;
use super::permission_rules::{self, RuleInput, Subjects, choose, decision_of};
use super::rpc::{self, REQUEST_CANCELLED};
use protocol::{Decision, Permission, PermissionOption, PermissionState, Permissions, TaskFact, Tool};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct PendingPermissions {
    last: u64,
    open: BTreeMap<u64, PermissionRequest>,
}

/// One `session/request_permission` of the agent.
#[derive(Debug)]
pub struct PermissionRequest {
    /// The JSON-RPC id of the request, for the response.
    pub id: Value,
    pub about: Tool,
    pub subjects: Subjects,
    pub options: Vec<PermissionOption>,
}

impl PendingPermissions {
    pub fn receive(&mut self, request: PermissionRequest, permissions: &Permissions) -> Vec<Effect> {
        self.last += 1;
        let asked = RuleInput {
            kind: request.about.tool.as_deref(),
            title: request.about.title.as_deref(),
            subjects: &request.subjects,
        };
        match permission_rules::decide(permissions, asked) {
            (Decision::Allow, by) => answer_request(self.last, &request, choose(&request.options, true), by),
            (Decision::Deny, by) => answer_request(self.last, &request, choose(&request.options, false), by),
            (Decision::Ask, _) if self.open.len() >= ASKED_MAX => {
                answer_request(self.last, &request, choose(&request.options, false), "limit")
            }
            (Decision::Ask, _) => {
                let (permission, first) = (self.last, self.open.is_empty());
                let choice = |option: &PermissionOption| PermissionChoice {
                    id: option.id.clone(),
                    means: decision_of(option),
                };
                let options = request.options.iter().map(choice).collect();
                let mut effects = vec![
                    report(permission, &request, PermissionState::Asked, None, None),
                    Effect::PermissionAsked { permission, options },
                ];
                effects.extend(first.then_some(Effect::AwaitsDecision(true)));
                self.open.insert(permission, request);
                effects
            }
        }
    }

    /// Withdraws a request that arrives after the turn was told to stop: no decision will follow.
    pub fn reject_late(&mut self, request: &PermissionRequest) -> Vec<Effect> {
        self.last += 1;
        vec![report(self.last, request, PermissionState::Withdrawn, None, None), cancelled(&request.id)]
    }

    /// Applies a caller's decision; has no effect on a request that is no longer open. An option that
    /// contradicts the decision is not used.
    pub fn resolve(&mut self, permit: &PermissionDecision) -> Vec<Effect> {
        let Some(request) = self.open.remove(&permit.permission) else { return Vec::new() };
        let named = permit.option.as_ref().and_then(|id| {
            let mut agreeing =
                request.options.iter().filter(|option| decision_of(option) == Some(permit.decision));
            agreeing.find(|option| option.id == *id)
        });
        let option = named.or_else(|| choose(&request.options, permit.decision == Decision::Allow));
        let effects = answer_request(permit.permission, &request, option, "caller");
        effects.into_iter().chain(self.closing_effects(permit.permission)).collect()
    }

    /// Closes a request that the agent cancelled.
    pub fn withdraw(&mut self, id: &Value) -> Vec<Effect> {
        let Some(permission) = self.open.iter().find(|(_, request)| request.id == *id).map(|(key, _)| *key)
        else {
            return Vec::new();
        };
        let Some(request) = self.open.remove(&permission) else { return Vec::new() };
        let answer = rpc::error_response(&request.id, REQUEST_CANCELLED, "cancelled");
        let withdrawn = report(permission, &request, PermissionState::Withdrawn, None, None);
        [withdrawn, Effect::Send(answer)].into_iter().chain(self.closing_effects(permission)).collect()
    }

    /// Closes all open requests at the end of the turn.
    pub fn withdraw_all(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some((permission, request)) = self.open.pop_first() {
            effects.push(report(permission, &request, PermissionState::Withdrawn, None, None));
            effects.push(cancelled(&request.id));
            effects.extend(self.closing_effects(permission));
        }
        effects
    }

    fn closing_effects(&self, permission: u64) -> impl Iterator<Item = Effect> + use<> {
        let goes_on = self.open.is_empty().then_some(Effect::AwaitsDecision(false));
        [Effect::PermissionClosed { permission }].into_iter().chain(goes_on)
    }
}

/// Responds with the option that fits the decision, or with `cancelled` where the agent offered none.
fn answer_request(
    permission: u64,
    request: &PermissionRequest,
    option: Option<&PermissionOption>,
    by: &str,
) -> Vec<Effect> {
    let allowed = option.and_then(decision_of) == Some(Decision::Allow);
    let state = if allowed { PermissionState::Allowed } else { PermissionState::Denied };
    let answer = match option {
        Some(option) => {
            let outcome = json!({"outcome": {"outcome": "selected", "optionId": option.id}});
            Effect::Send(rpc::response(&request.id, &outcome))
        }
        None => cancelled(&request.id),
    };
    vec![report(permission, request, state, option, Some(by)), answer]
}

fn cancelled(id: &Value) -> Effect {
    Effect::Send(rpc::response(id, &json!({"outcome": {"outcome": "cancelled"}})))
}

fn report(
    permission: u64,
    request: &PermissionRequest,
    state: PermissionState,
    option: Option<&PermissionOption>,
    by: Option<&str>,
) -> Effect {
    Effect::Report(TaskFact::Permission(Box::new(Permission {
        id: format!("p{permission}"),
        state,
        about: request.about.clone(),
        // Options are only of use while there is still a choice.
        options: if state == PermissionState::Asked { request.options.clone() } else { Vec::new() },
        option: option.map(|option| option.id.clone()),
        by: by.map(str::to_owned),
    })))
}
