//! Decisions on what an agent asks for, and requests that stay undecided.

use super::{AcpFixture, agent};
use crate::core::acp::{Effect, Input, PermissionChoice, PermissionDecision};
use protocol::{Decision, PermissionState, TaskFact};
use serde_json::{Value, json};

pub(super) fn permission(number: u64) -> Value {
    let call =
        json!({"toolCallId": "c", "title": "make", "kind": "execute", "rawInput": {"command": "make"}});
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]);
    json!({"id": format!("r{number}"), "method": "session/request_permission",
        "params": {"sessionId": "s", "toolCall": call, "options": options}})
}

#[test]
fn an_option_that_says_otherwise_than_the_decision_is_not_taken() {
    for (decision, named, taken) in [
        (Decision::Deny, "y", "n"),
        (Decision::Allow, "n", "y"),
        (Decision::Deny, "n", "n"),
        (Decision::Allow, "y", "y"),
    ] {
        let mut fixture = AcpFixture::working(agent(json!({"permissions": {"default": "ask"}})));
        fixture.line(&permission(1));
        fixture.input(Input::Permission(PermissionDecision {
            permission: 1,
            decision,
            option: Some(named.to_owned()),
        }));
        assert_eq!(fixture.sent()[0]["result"]["outcome"]["optionId"], taken, "{decision:?} {named}");
    }
}

#[test]
fn an_agent_waits_until_a_caller_decides() {
    let mut fixture = AcpFixture::working(agent(json!({"permissions": {"default": "ask"}})));
    fixture.line(&permission(1));
    fixture.line(&permission(2));
    assert_eq!(fixture.sent(), [] as [Value; 0]);
    let choice = |id: &str, means| PermissionChoice { id: id.to_owned(), means: Some(means) };
    let options = vec![choice("y", Decision::Allow), choice("n", Decision::Deny)];
    assert!(fixture.effects.contains(&Effect::PermissionAsked { permission: 1, options }));
    assert_eq!(fixture.effects.iter().filter(|effect| **effect == Effect::AwaitsDecision(true)).count(), 1);
    let permit = |permission| PermissionDecision { permission, decision: Decision::Deny, option: None };
    fixture.input(Input::Permission(permit(2)));
    fixture.input(Input::Permission(permit(2)));
    fixture.input(Input::Permission(permit(7)));
    assert_eq!(
        fixture.sent(),
        [
            json!({"jsonrpc": "2.0", "id": "r2", "result": {"outcome": {"outcome": "selected", "optionId": "n"}}})
        ]
    );
    assert!(!fixture.effects.contains(&Effect::AwaitsDecision(false)));
    fixture.line(&json!({"method": "$/cancel_request", "params": {"requestId": "r1"}}));
    assert_eq!(fixture.sent()[1]["error"]["code"], -32800);
    assert!(fixture.effects.contains(&Effect::AwaitsDecision(false)));
    let states: Vec<PermissionState> = fixture
        .reported()
        .iter()
        .filter_map(|fact| if let TaskFact::Permission(asked) = fact { Some(asked.state) } else { None })
        .collect();
    use PermissionState::{Asked, Denied, Withdrawn};
    assert_eq!(states, [Asked, Asked, Denied, Withdrawn]);
}

#[test]
fn permissions_of_an_agent_that_is_gone_are_withdrawn() {
    let mut fixture = AcpFixture::working(agent(json!({"permissions": {"default": "ask"}})));
    fixture.line(&permission(1));
    fixture.line(&permission(2));
    fixture.effects.clear();
    fixture.effects.extend(fixture.machine.flush());
    let told = fixture.reported();
    let withdrawn = |id: &str| {
        told.iter().any(|fact| {
            matches!(fact, TaskFact::Permission(permission)
                if permission.id == id && permission.state == PermissionState::Withdrawn)
        })
    };
    assert!(withdrawn("p1") && withdrawn("p2") && told.len() == 2, "{told:?}");
    for number in [1, 2] {
        assert!(fixture.effects.contains(&Effect::PermissionClosed { permission: number }));
    }
    assert!(fixture.effects.contains(&Effect::AwaitsDecision(false)));
    assert_eq!(fixture.sent(), [] as [Value; 0], "a request has no reader any more");
    assert_eq!(fixture.machine.flush(), []);
}
