//! Holds what runtimed writes and reads of the Agent Client Protocol to the published types of it. They are not
//! used to do it: with them PID 1, which is the same program as the shim that speaks, would be larger by a fifth and
//! need more memory than it may; and a message with one field that they do not foresee would be lost whole.

use agent_client_protocol_schema::v1 as acp;
use protocol::{AcpAgent, TaskFact, ToolStatus};
use runtimed::core::acp::{Effect, Input, Machine, PromptTurn, stopped};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn is<T: DeserializeOwned>(params: &Value) {
    let parsed = serde_json::from_value::<T>(params.clone());
    assert!(parsed.is_ok(), "{params}: {:?}", parsed.err());
}

fn sent(effects: &[Effect]) -> Vec<Value> {
    let line = |effect: &Effect| match effect {
        Effect::Send(line) => Some(serde_json::from_slice(line).expect("JSON")),
        _ => None,
    };
    effects.iter().filter_map(line).collect()
}

#[test]
fn what_is_sent_is_what_the_protocol_says() {
    let agent: AcpAgent = serde_json::from_value(json!({
        "name": "a", "argv": ["a"], "authenticate": "key", "mode": "m", "options": {"o": "v", "b": "true"},
    }))
    .expect("an agent");
    let mut machine = Machine::new(agent, "/app".to_owned(), Some("old".to_owned()));
    let turn =
        PromptTurn { prompt: "do".to_owned(), briefing: Some("so".to_owned()), ..PromptTurn::default() };
    let mut all = machine.step(Input::Begin(Box::new(turn)), 0);
    let options = json!([
        {"id": "o", "name": "O", "type": "select", "currentValue": "w", "options": [{"value": "v", "name": "V"}]},
        {"id": "b", "name": "B", "type": "boolean", "currentValue": false},
    ]);
    is::<Vec<acp::SessionConfigOption>>(&options);
    let modes = json!({"currentModeId": "n", "availableModes": [{"id": "m", "name": "M"}]});
    let capabilities = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
    let hello = json!({"protocolVersion": 1, "agentCapabilities": capabilities});
    let opened = json!({"sessionId": "s", "modes": modes, "configOptions": options});
    is::<acp::InitializeResponse>(&hello);
    is::<acp::NewSessionResponse>(&opened);
    let no = json!({"error": {"code": -32603, "message": "no"}});
    let yes = |result: &Value| json!({"result": result});
    let none = json!({});
    for answer in [yes(&hello), yes(&none), no.clone(), no, yes(&opened), yes(&none), yes(&none), yes(&none)]
    {
        let mut answer = answer;
        answer["id"] = sent(&all).last().expect("asked")["id"].clone();
        all.extend(machine.step(Input::Line(answer.to_string().as_bytes()), 0));
    }
    let permission = json!({"id": 1, "method": "session/request_permission", "params": {"sessionId": "s",
        "toolCall": {"toolCallId": "t"}, "options": [{"optionId": "y", "name": "Y", "kind": "allow_once"}]}});
    is::<acp::RequestPermissionRequest>(&permission["params"]);
    all.extend(machine.step(Input::Line(permission.to_string().as_bytes()), 0));
    all.extend(machine.step(Input::Stop, 0));
    let mut seen = Vec::new();
    for message in sent(&all) {
        let params = &message["params"];
        let method = message["method"].as_str().unwrap_or("answer").to_owned();
        match method.as_str() {
            "initialize" => is::<acp::InitializeRequest>(params),
            "authenticate" => is::<acp::AuthenticateRequest>(params),
            "session/resume" => is::<acp::ResumeSessionRequest>(params),
            "session/load" => is::<acp::LoadSessionRequest>(params),
            "session/new" => is::<acp::NewSessionRequest>(params),
            "session/set_mode" => is::<acp::SetSessionModeRequest>(params),
            "session/set_config_option" => is::<acp::SetSessionConfigOptionRequest>(params),
            "session/prompt" => is::<acp::PromptRequest>(params),
            "session/cancel" => is::<acp::CancelNotification>(params),
            "answer" => is::<acp::RequestPermissionResponse>(&message["result"]),
            other => panic!("{other}"),
        }
        seen.push(method);
    }
    let expected = "initialize authenticate session/resume session/load session/new session/set_mode \
        session/set_config_option session/set_config_option session/prompt answer session/cancel";
    assert_eq!(seen.join(" "), expected);
}

/// Returns the events of a machine in the middle of a turn for one update.
fn told(update: impl Into<acp::SessionUpdate>) -> Vec<TaskFact> {
    let agent: AcpAgent = serde_json::from_value(json!({"name": "a", "argv": ["a"]})).expect("an agent");
    let mut machine = Machine::new(agent, "/app".to_owned(), None);
    machine.step(Input::Begin(Box::default()), 0);
    machine.step(Input::Line(br#"{"id":1,"result":{}}"#), 0);
    machine.step(Input::Line(br#"{"id":3,"result":{"sessionId":"s"}}"#), 0);
    let params = acp::SessionNotification::new("s", update.into());
    let message = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
    let effects = machine.step(Input::Line(message.to_string().as_bytes()), 0);
    let rest = machine.flush();
    let fact = |effect: Effect| match effect {
        Effect::Report(fact) => Some(fact),
        _ => None,
    };
    effects.into_iter().chain(rest).filter_map(fact).collect()
}

#[test]
fn updates_that_the_protocol_makes_are_understood() {
    let text = acp::ContentBlock::Text(acp::TextContent::new("hello"));
    let said = told(acp::SessionUpdate::AgentMessageChunk(acp::ContentChunk::new(text.clone())));
    assert!(matches!(&said[..], [TaskFact::Message(said)] if said.text == "hello"), "{said:?}");
    let thought = told(acp::SessionUpdate::AgentThoughtChunk(acp::ContentChunk::new(text.clone())));
    assert!(matches!(&thought[..], [TaskFact::Thought(said)] if said.text == "hello"), "{thought:?}");
    let call = acp::ToolCall::new("t", "make")
        .kind(acp::ToolKind::Execute)
        .status(acp::ToolCallStatus::InProgress)
        .content(vec![
            acp::ToolCallContent::Content(acp::Content::new(text)),
            acp::ToolCallContent::Diff(acp::Diff::new("/a", "new").old_text("old".to_owned())),
        ])
        .locations(vec![acp::ToolCallLocation::new("/a")])
        .raw_input(json!({"command": "make"}));
    let tools = told(acp::SessionUpdate::ToolCall(call));
    let [TaskFact::Tool(tool)] = &tools[..] else { panic!("{tools:?}") };
    assert_eq!(
        (tool.id.as_str(), tool.title.as_deref(), tool.tool.as_deref()),
        ("t", Some("make"), Some("execute"))
    );
    assert_eq!((tool.status, tool.output.as_deref()), (ToolStatus::Running, Some("hello")));
    assert_eq!((tool.paths.len(), tool.diffs.len(), tool.diffs[0].old.as_deref()), (1, 1, Some("old")));
    let entry = acp::PlanEntry::new("do", acp::PlanEntryPriority::High, acp::PlanEntryStatus::InProgress);
    let plan = told(acp::SessionUpdate::Plan(acp::Plan::new(vec![entry])));
    assert!(
        matches!(&plan[..], [TaskFact::Plan { entries }] if entries[0].status == "in_progress"),
        "{plan:?}"
    );
}

#[test]
fn every_reason_to_stop_of_the_protocol_is_known() {
    use acp::StopReason::{Cancelled, EndTurn, MaxTokens, MaxTurnRequests, Refusal};
    for reason in [EndTurn, MaxTokens, MaxTurnRequests, Refusal, Cancelled] {
        let name = serde_json::to_value(reason).expect("JSON");
        let known = stopped(name.as_str());
        let unknown = format!("the agent stopped: {}", name.as_str().unwrap_or_default());
        assert_ne!(known.err(), Some(unknown), "{name}");
    }
}
