//! Permissions that an agent asked for: decided by rule, or kept until somebody decides. Every request is answered
//! once.

use super::limits::ASKED_MAX;
use super::permit::{self, Asked, Subjects, choose, meaning};
use super::rpc::{self, REQUEST_CANCELLED};
use super::words::{Choice, Effect, Permit};
use protocol::{Decision, Permission, PermissionOption, PermissionState, Permissions, TaskFact, Tool};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Desk {
    last: u64,
    open: BTreeMap<u64, Request>,
}

/// One request of the agent.
#[derive(Debug)]
pub struct Request {
    /// To answer by.
    pub id: Value,
    pub about: Tool,
    pub subjects: Subjects,
    pub options: Vec<PermissionOption>,
}

impl Desk {
    pub fn take(&mut self, request: Request, permissions: &Permissions) -> Vec<Effect> {
        self.last += 1;
        let asked = Asked {
            kind: request.about.tool.as_deref(),
            title: request.about.title.as_deref(),
            subjects: &request.subjects,
        };
        match permit::decide(permissions, asked) {
            (Decision::Allow, by) => settle(self.last, &request, choose(&request.options, true), by),
            (Decision::Deny, by) => settle(self.last, &request, choose(&request.options, false), by),
            (Decision::Ask, _) if self.open.len() >= ASKED_MAX => {
                settle(self.last, &request, choose(&request.options, false), "limit")
            }
            (Decision::Ask, _) => {
                let (permission, first) = (self.last, self.open.is_empty());
                let choice =
                    |option: &PermissionOption| Choice { id: option.id.clone(), means: meaning(option) };
                let options = request.options.iter().map(choice).collect();
                let mut effects = vec![
                    tell(permission, &request, PermissionState::Asked, None, None),
                    Effect::Asked { permission, options },
                ];
                effects.extend(first.then_some(Effect::Waits(true)));
                self.open.insert(permission, request);
                effects
            }
        }
    }

    /// One that comes when nobody will decide any more.
    pub fn turn_away(&mut self, request: &Request) -> Vec<Effect> {
        self.last += 1;
        vec![tell(self.last, request, PermissionState::Withdrawn, None, None), cancelled(&request.id)]
    }

    /// Somebody decided; about one that is not open any more that means nothing. An option that says otherwise than
    /// the decision is not taken.
    pub fn permit(&mut self, permit: &Permit) -> Vec<Effect> {
        let Some(request) = self.open.remove(&permit.permission) else { return Vec::new() };
        let named = permit.option.as_ref().and_then(|id| {
            let mut agreeing =
                request.options.iter().filter(|option| meaning(option) == Some(permit.decision));
            agreeing.find(|option| option.id == *id)
        });
        let option = named.or_else(|| choose(&request.options, permit.decision == Decision::Allow));
        let effects = settle(permit.permission, &request, option, "caller");
        effects.into_iter().chain(self.closed(permit.permission)).collect()
    }

    /// The agent does not want it any more.
    pub fn withdraw(&mut self, id: &Value) -> Vec<Effect> {
        let Some(permission) = self.open.iter().find(|(_, request)| request.id == *id).map(|(key, _)| *key)
        else {
            return Vec::new();
        };
        let Some(request) = self.open.remove(&permission) else { return Vec::new() };
        let answer = rpc::refusal(&request.id, REQUEST_CANCELLED, "cancelled");
        let withdrawn = tell(permission, &request, PermissionState::Withdrawn, None, None);
        [withdrawn, Effect::Send(answer)].into_iter().chain(self.closed(permission)).collect()
    }

    /// The turn is over.
    pub fn withdraw_all(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some((permission, request)) = self.open.pop_first() {
            effects.push(tell(permission, &request, PermissionState::Withdrawn, None, None));
            effects.push(cancelled(&request.id));
            effects.extend(self.closed(permission));
        }
        effects
    }

    fn closed(&self, permission: u64) -> impl Iterator<Item = Effect> + use<> {
        let goes_on = self.open.is_empty().then_some(Effect::Waits(false));
        [Effect::Settled { permission }].into_iter().chain(goes_on)
    }
}

/// Answers with an option, or that there is none for what was decided.
fn settle(permission: u64, request: &Request, option: Option<&PermissionOption>, by: &str) -> Vec<Effect> {
    let allowed = option.and_then(meaning) == Some(Decision::Allow);
    let state = if allowed { PermissionState::Allowed } else { PermissionState::Denied };
    let answer = match option {
        Some(option) => {
            let outcome = json!({"outcome": {"outcome": "selected", "optionId": option.id}});
            Effect::Send(rpc::answer(&request.id, &outcome))
        }
        None => cancelled(&request.id),
    };
    vec![tell(permission, request, state, option, Some(by)), answer]
}

fn cancelled(id: &Value) -> Effect {
    Effect::Send(rpc::answer(id, &json!({"outcome": {"outcome": "cancelled"}})))
}

fn tell(
    permission: u64,
    request: &Request,
    state: PermissionState,
    option: Option<&PermissionOption>,
    by: Option<&str>,
) -> Effect {
    Effect::Tell(TaskFact::Permission(Box::new(Permission {
        id: format!("p{permission}"),
        state,
        about: request.about.clone(),
        // What there is to choose from is worth knowing as long as there is a choice.
        options: if state == PermissionState::Asked { request.options.clone() } else { Vec::new() },
        option: option.map(|option| option.id.clone()),
        by: by.map(str::to_owned),
    })))
}
