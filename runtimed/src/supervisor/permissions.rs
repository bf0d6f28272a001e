//! Permissions of a task that are open. The shim knows what they are about.

use super::execs::Refusal;
use super::jobs::OrderError;
use super::main_loop::Supervisor;
use super::task::State;
use super::tasks::refuse;
use crate::core::acp::{PermissionChoice, PermissionDecision};
use crate::core::agent_validation::check_permission;
use crate::core::task::Stage;
use crate::shim::messages::Order;
use protocol::{ErrorBody, ErrorCode, PermissionAnswer, TaskId};
use std::collections::BTreeMap;

/// Permissions that the agent asked for, by number.
#[derive(Debug, Default)]
pub struct OpenPermissions {
    last: u64,
    /// Options of the permissions that are still open.
    open: BTreeMap<u64, Vec<PermissionChoice>>,
}

impl OpenPermissions {
    pub fn add(&mut self, permission: u64, options: Vec<PermissionChoice>) {
        self.last = self.last.max(permission);
        self.open.insert(permission, options);
    }

    pub fn settle(&mut self, permission: u64) {
        self.open.remove(&permission);
    }

    /// Passes a decision on. The permission stays open if that fails.
    fn answer(
        &mut self,
        name: &str,
        answer: PermissionAnswer,
        pass_on: impl FnOnce(PermissionDecision) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let missing = || refuse(ErrorCode::NotFound, format!("there is no permission {name:?}"));
        let number = name.strip_prefix('p').and_then(|number| number.parse().ok());
        let permission = number.filter(|number| *number <= self.last).ok_or_else(missing)?;
        let PermissionAnswer { decision, option } = answer;
        let Some(options) = self.open.get(&permission) else {
            return Err(refuse(ErrorCode::NotRunning, format!("permission {name} was decided already")));
        };
        // An option that contradicts the decision, or has no known meaning, would be reported as something
        // else.
        let fitting = |choice: &&PermissionChoice| choice.means == Some(decision);
        if option.as_ref().is_some_and(|id| !options.iter().filter(fitting).any(|choice| choice.id == *id)) {
            let ids: Vec<&str> = options.iter().filter(fitting).map(|choice| choice.id.as_str()).collect();
            let message = match ids.is_empty() {
                true => "none of its options is for this decision: leave it out".to_owned(),
                false => format!("must be one of those for this decision: {}", ids.join(", ")),
            };
            return Err(Box::new(ErrorBody::invalid("option", message)));
        }
        pass_on(PermissionDecision { permission, decision, option })?;
        self.settle(permission);
        Ok(())
    }
}

impl Supervisor {
    pub(super) fn answer_permission(
        &mut self,
        id: &TaskId,
        name: &str,
        answer: PermissionAnswer,
    ) -> Result<(), Refusal> {
        check_permission(&answer)?;
        self.tasks.get(id)?;
        let over = || refuse(ErrorCode::NotRunning, format!("task {id} does not run"));
        let task = self.tasks.get_mut(id).ok_or_else(over)?;
        let State::Live(live) = &mut task.state else { return Err(over()) };
        let jobs = &mut self.context.jobs;
        let agent = live.job.filter(|(_, stage)| *stage == Stage::Agent).map(|(job, _)| job);
        live.permissions.answer(name, answer, |permit| {
            let gone = || refuse(ErrorCode::NotRunning, format!("the agent of task {id} does not run"));
            let ordered = jobs.try_order(agent.ok_or_else(gone)?, &Order::Permit(permit));
            ordered.map_err(|error| match error {
                OrderError::Gone => gone(),
                OrderError::Unsent(_) => {
                    let message = format!("the agent of task {id} cannot be told now: try again");
                    refuse(ErrorCode::TooMany, message)
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Decision;

    #[test]
    fn a_permission_is_answered_once_and_with_one_of_its_options() {
        use Decision::{Allow, Deny};
        let answer =
            |decision, option: Option<&str>| PermissionAnswer { decision, option: option.map(str::to_owned) };
        let choice = |id: &str, means| PermissionChoice { id: id.to_owned(), means };
        let mut open = OpenPermissions::default();
        open.add(2, vec![choice("always", Some(Allow)), choice("no", Some(Deny)), choice("odd", None)]);
        open.add(4, Vec::new());
        open.settle(4);
        for (name, decision, option, expected) in [
            ("p5", Allow, None, Err(ErrorCode::NotFound)),
            ("2", Allow, None, Err(ErrorCode::NotFound)),
            ("p-1", Allow, None, Err(ErrorCode::NotFound)),
            ("p1", Allow, None, Err(ErrorCode::NotRunning)),
            ("p4", Allow, None, Err(ErrorCode::NotRunning)),
            ("p2", Allow, Some("never"), Err(ErrorCode::InvalidRequest)),
            // The decision and the option must agree.
            ("p2", Deny, Some("always"), Err(ErrorCode::InvalidRequest)),
            ("p2", Allow, Some("no"), Err(ErrorCode::InvalidRequest)),
            ("p2", Allow, Some("odd"), Err(ErrorCode::InvalidRequest)),
            ("p2", Deny, Some("odd"), Err(ErrorCode::InvalidRequest)),
            ("p2", Allow, Some("always"), Ok(2)),
            ("p2", Allow, Some("always"), Err(ErrorCode::NotRunning)),
        ] {
            let mut passed = None;
            let got = open.answer(name, answer(decision, option), |permit| {
                passed = Some(permit.permission);
                Ok(())
            });
            let got = got.map(|()| passed).map_err(|error| error.error.code);
            assert_eq!(got, expected.map(Some), "{name} {decision:?} {option:?}");
        }
    }

    #[test]
    fn an_answer_that_did_not_get_through_can_be_given_again() {
        let answer = || PermissionAnswer { decision: Decision::Deny, option: None };
        let mut open = OpenPermissions::default();
        open.add(1, Vec::new());
        let busy = open.answer("p1", answer(), |_| Err(refuse(ErrorCode::TooMany, "busy".to_owned())));
        assert!(busy.is_err_and(|error| error.error.code == ErrorCode::TooMany && error.error.retryable));
        open.answer("p1", answer(), |_| Ok(())).expect("still open");
        let again = open.answer("p1", answer(), |_| Ok(()));
        assert!(again.is_err_and(|error| error.error.code == ErrorCode::NotRunning));
    }
}
