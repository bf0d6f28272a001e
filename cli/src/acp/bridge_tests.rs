//! Tests of the bridge.

use super::*;

fn editor(bridge: &mut Bridge, message: &Value) -> Vec<Sent> {
    bridge.on_editor(message.to_string().as_bytes())
}

fn hostd(bridge: &mut Bridge, message: &Value) -> Vec<Sent> {
    bridge.on_hostd(&message.to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "callers give fresh documents")]
fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[expect(clippy::needless_pass_by_value, reason = "callers give fresh documents")]
fn response(id: impl Into<Value>, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": result})
}

fn update(seq: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "_meta": {"seq": seq}}})
}

#[track_caller]
fn to_hostd(sent: &[Sent]) -> Vec<Value> {
    let message = |sent: &Sent| match sent {
        Sent::ToHostd(message) => message.clone(),
        Sent::ToEditor(_) | Sent::Reconnect => panic!("not to hostd: {sent:?}"),
    };
    sent.iter().map(message).collect()
}

/// A bridge whose editor has initialized and opened a session.
fn opened() -> Bridge {
    let mut bridge = Bridge::new("b".to_owned());
    bridge.on_connected();
    editor(&mut bridge, &request(0, "initialize", json!({"protocolVersion": 1})));
    hostd(&mut bridge, &response(0, json!({})));
    editor(&mut bridge, &request(1, "session/new", json!({"cwd": "/x"})));
    hostd(&mut bridge, &response(1, json!({"sessionId": "s"})));
    bridge
}

#[test]
fn a_prompt_goes_on_after_a_cut() {
    let mut bridge = opened();
    let sent = to_hostd(&editor(&mut bridge, &request(2, "session/prompt", json!({"sessionId": "s"}))));
    let message_id = sent[0]["params"]["_meta"]["messageId"].clone();
    assert!(message_id.is_string(), "{sent:?}");
    assert_eq!(hostd(&mut bridge, &update(7)), [Sent::ToEditor(update(7))]);
    bridge.on_disconnected();
    let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}});
    assert_eq!(editor(&mut bridge, &cancel), [], "it waits");
    let other = json!({"jsonrpc": "2.0", "method": "_other", "params": {}});
    assert_eq!(editor(&mut bridge, &other), []);
    let own = to_hostd(&bridge.on_connected());
    assert_eq!(own[0]["method"], "initialize");
    let resumed = (&own[1]["method"], &own[1]["params"]["_meta"]["after"]);
    assert_eq!(resumed, (&json!("session/resume"), &json!(7)));
    assert_eq!(own.len(), 2, "the prompt waits until the session is resumed");
    assert_eq!(hostd(&mut bridge, &response(own[0]["id"].clone(), json!({}))), []);
    let rest = to_hostd(&hostd(&mut bridge, &response(own[1]["id"].clone(), json!({}))));
    assert_eq!(rest[0]["params"]["_meta"]["messageId"], message_id, "the same prompt");
    assert_eq!(rest[1..], [messages::cancel(&json!(2)), other], "a cancellation may have been lost");
    let end = response(2, json!({"stopReason": "cancelled"}));
    assert_eq!(hostd(&mut bridge, &end), [Sent::ToEditor(end.clone())]);
    assert_eq!(hostd(&mut bridge, &end), [], "once");
}

#[test]
fn an_editor_is_asked_once_and_its_answer_is_not_lost() {
    let mut bridge = opened();
    let asked = json!({"jsonrpc": "2.0", "id": "p1", "method": "session/request_permission", "params": {}});
    assert_eq!(hostd(&mut bridge, &asked), [Sent::ToEditor(asked.clone())]);
    bridge.on_disconnected();
    let own = to_hostd(&bridge.on_connected());
    for message in &own {
        hostd(&mut bridge, &response(message["id"].clone(), json!({})));
    }
    assert_eq!(hostd(&mut bridge, &asked), [], "the editor has it");
    bridge.on_disconnected();
    let answer = response("p1", json!({"outcome": {"outcome": "selected", "optionId": "yes"}}));
    assert_eq!(editor(&mut bridge, &answer), []);
    bridge.on_connected();
    assert_eq!(hostd(&mut bridge, &asked), [Sent::ToHostd(answer)]);
}

#[test]
fn a_load_that_was_cut_goes_on_and_a_closed_session_is_not_resumed() {
    let mut bridge = opened();
    editor(&mut bridge, &request(3, "session/load", json!({"sessionId": "s", "cwd": "/x"})));
    hostd(&mut bridge, &update(4));
    bridge.on_disconnected();
    let own = to_hostd(&bridge.on_connected());
    assert_eq!(own.len(), 1, "the load itself opens the session");
    let rest = to_hostd(&hostd(&mut bridge, &response(own[0]["id"].clone(), json!({}))));
    assert_eq!(rest[0]["params"]["_meta"]["after"], 4);
    hostd(&mut bridge, &response(3, json!({})));
    editor(&mut bridge, &request(4, "session/close", json!({"sessionId": "s"})));
    hostd(&mut bridge, &response(4, json!({})));
    bridge.on_disconnected();
    assert_eq!(to_hostd(&bridge.on_connected()).len(), 1, "only initialize");
}

#[test]
fn a_session_that_is_gone_is_let_go_and_one_that_cannot_be_resumed_is_tried_again() {
    let failed = |id: &Value, code: i64| json!({"jsonrpc": "2.0", "id": id, "error": {"code": code}});
    for (code, again) in [(RESOURCE_NOT_FOUND, 1), (INTERNAL_ERROR, 2)] {
        let mut bridge = opened();
        bridge.on_disconnected();
        let own = to_hostd(&bridge.on_connected());
        hostd(&mut bridge, &response(own[0]["id"].clone(), json!({})));
        let sent = hostd(&mut bridge, &failed(&own[1]["id"], code));
        assert_eq!(sent.contains(&Sent::Reconnect), again == 2, "{code}");
        assert_eq!(bridge.is_up(), again == 1, "{code}");
        bridge.on_disconnected();
        assert_eq!(bridge.on_connected().len(), again, "{code}");
    }
}

#[test]
fn garbage_is_answered() {
    let mut bridge = opened();
    let sent = bridge.on_editor(b"{");
    let [Sent::ToEditor(error)] = sent.as_slice() else { panic!("to hostd: {sent:?}") };
    assert_eq!((&error["id"], &error["error"]["code"]), (&Value::Null, &json!(PARSE_ERROR)));
    assert_eq!(bridge.on_hostd("{"), []);
}
