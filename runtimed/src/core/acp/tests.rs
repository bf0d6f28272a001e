//! Conversations as tables, and properties of any conversation.

mod permissions;

use super::*;
use permissions::permission;
use proptest::prelude::*;
use protocol::{AcpAgent, Decision, Permissions, TaskFact, ToolStatus};
use serde_json::{Value, json};

fn agent(fields: Value) -> AcpAgent {
    let mut agent = json!({"name": "fake", "argv": ["fake"]});
    if let (Some(agent), Value::Object(fields)) = (agent.as_object_mut(), fields) {
        agent.extend(fields);
    }
    serde_json::from_value(agent).expect("an agent")
}

/// A machine and all effects so far.
struct AcpFixture {
    machine: Machine,
    now: u64,
    effects: Vec<Effect>,
}

impl AcpFixture {
    fn new(agent: AcpAgent, session: Option<&str>) -> Self {
        let machine = Machine::new(agent, "/app".to_owned(), session.map(str::to_owned));
        let mut fixture = Self { machine, now: 0, effects: Vec::new() };
        fixture.input(Input::Tick);
        fixture
    }

    /// An agent that has its prompt.
    fn working(agent: AcpAgent) -> Self {
        let mut fixture = Self::new(agent, None);
        fixture.begin("do it");
        fixture.answer(&json!({"result": {}}));
        fixture.answer(&json!({"result": {"sessionId": "s"}}));
        assert_eq!(fixture.last_request().0, "session/prompt");
        fixture.effects.clear();
        fixture
    }

    fn input(&mut self, input: Input<'_>) {
        self.effects.extend(self.machine.step(input, self.now));
    }

    fn begin(&mut self, prompt: &str) {
        let permissions = self.machine.permissions.clone();
        let turn =
            PromptTurn { prompt: prompt.to_owned(), briefing: Some("briefed".to_owned()), permissions };
        self.input(Input::Begin(Box::new(turn)));
    }

    fn line(&mut self, message: &Value) {
        self.input(Input::Line(message.to_string().as_bytes()));
    }

    /// Responds to the last request of the machine.
    fn answer(&mut self, result: &Value) {
        let mut answer = result.clone();
        answer["id"] =
            self.sent().iter().rfind(|sent| sent.get("method").is_some()).expect("asked")["id"].clone();
        self.line(&answer);
    }

    fn update(&mut self, update: &Value) {
        self.line(&json!({"method": "session/update", "params": {"sessionId": "s", "update": update}}));
    }

    fn sent(&self) -> Vec<Value> {
        let sent = self.effects.iter().filter_map(|effect| {
            let Effect::Send(line) = effect else { return None };
            Some(serde_json::from_slice(line).expect("JSON"))
        });
        sent.collect()
    }

    /// The last request of the machine.
    fn last_request(&self) -> (String, Value) {
        let asked = self.sent().into_iter().rfind(|sent| sent.get("method").is_some()).expect("asked");
        (asked["method"].as_str().expect("a method").to_owned(), asked["params"].clone())
    }

    fn reported(&self) -> Vec<&TaskFact> {
        let told = self
            .effects
            .iter()
            .filter_map(|effect| if let Effect::Report(fact) = effect { Some(fact) } else { None });
        told.collect()
    }

    fn logs(&self) -> String {
        let log = |fact: &TaskFact| {
            let TaskFact::Log { text, .. } = fact else { return None };
            Some(text.text.clone())
        };
        self.reported().into_iter().filter_map(log).collect::<Vec<_>>().join("\n")
    }

    fn closes(&self) -> usize {
        self.effects.iter().filter(|effect| **effect == Effect::Close).count()
    }

    fn outcome(&self) -> Option<(bool, &str)> {
        let outcome = self.machine.outcome()?;
        Some((outcome.good, outcome.message.as_deref().unwrap_or_default()))
    }
}

#[test]
fn a_session_is_opened_in_the_preferred_way() {
    let can = |resume: bool, load: bool| {
        let resume = if resume { json!({"resume": {}}) } else { json!({}) };
        json!({"result": {"agentCapabilities": {"loadSession": load, "sessionCapabilities": resume}}})
    };
    for (before, capabilities, expected) in [
        (None, can(true, true), "session/new"),
        (Some("old"), can(true, true), "session/resume"),
        (Some("old"), can(false, true), "session/load"),
        (Some("old"), can(false, false), "session/new"),
        (Some("old"), json!({"result": null}), "session/new"),
    ] {
        let mut fixture = AcpFixture::new(agent(json!({})), before);
        assert_eq!(fixture.last_request().0, "initialize");
        fixture.answer(&capabilities);
        let (method, params) = fixture.last_request();
        assert_eq!((method.as_str(), params["cwd"].as_str()), (expected, Some("/app")), "{capabilities}");
        assert_eq!(
            params.get("sessionId").and_then(Value::as_str),
            before.filter(|_| method != "session/new")
        );
        assert_eq!(fixture.logs().contains("this one is new"), before.is_some() && method == "session/new");
    }
}

#[test]
fn every_way_to_continue_a_session_is_tried_in_order() {
    let mut fixture = AcpFixture::new(agent(json!({})), Some("old"));
    fixture.begin("do it");
    fixture.answer(&json!({"result": {"agentCapabilities": {"loadSession": true, "sessionCapabilities": {"resume": {}}}}}));
    for method in ["session/resume", "session/load", "session/new"] {
        assert_eq!(fixture.last_request().0, method);
        // Updates while an old session is loaded are history.
        fixture.line(&json!({"method": "session/update", "params": {"sessionId": "old", "update": {
            "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "history\n"}}}}));
        if method != "session/new" {
            fixture.answer(&json!({"error": {"message": "gone"}}));
        }
    }
    fixture.answer(&json!({"result": {"sessionId": "fresh"}}));
    assert_eq!(fixture.last_request().1["prompt"].as_array().map(Vec::len), Some(2), "a new one is briefed");
    assert!(fixture.effects.contains(&Effect::Session("fresh".to_owned())));
    let mut same = AcpFixture::new(agent(json!({})), Some("old"));
    same.begin("do it");
    same.answer(&json!({"result": {"agentCapabilities": {"sessionCapabilities": {"resume": {}}}}}));
    same.answer(&json!({"result": {}}));
    assert_eq!(
        same.last_request().1,
        json!({"sessionId": "old", "prompt": [{"type": "text", "text": "do it"}]})
    );
}

#[test]
fn an_agent_started_in_advance_waits_for_its_prompt() {
    let mut fixture = AcpFixture::new(agent(json!({})), None);
    fixture.answer(&json!({"result": {}}));
    fixture.answer(&json!({"result": {"sessionId": "s"}}));
    assert!(fixture.effects.contains(&Effect::Ready));
    assert_eq!(fixture.last_request().0, "session/new");
    fixture.begin("do it");
    assert_eq!(fixture.last_request().0, "session/prompt");
    fixture.begin("do it again");
    assert_eq!(fixture.sent().iter().filter(|sent| sent["method"] == "session/prompt").count(), 1);
}

#[test]
fn authentication_is_asked_for_where_it_is_offered() {
    let offered = json!({"result": {"authMethods": [{"id": "key"}]}});
    for (method, answer, expected) in [
        ("key", offered.clone(), "authenticate"),
        ("other", offered, "session/new"),
        ("key", json!({"result": {}}), "authenticate"),
    ] {
        let mut fixture = AcpFixture::new(agent(json!({"authenticate": method})), None);
        fixture.answer(&answer);
        assert_eq!(fixture.last_request().0, expected, "{method}");
        if expected == "authenticate" {
            fixture.answer(&json!({"error": {"message": "no such key"}}));
            assert!(fixture.logs().contains("no such key"));
            assert_eq!(fixture.last_request().0, "session/new");
        }
    }
}

#[test]
fn the_end_of_a_turn_is_a_claim() {
    for (answer, good, words) in [
        (json!({"result": {"stopReason": "end_turn"}}), true, ""),
        (
            json!({"result": {"stopReason": "max_tokens"}}),
            false,
            "the agent stopped: its model reached the limit of tokens",
        ),
        (json!({"result": {"stopReason": "refusal"}}), false, "the agent refused to go on"),
        (json!({"result": {"stopReason": "cancelled"}}), false, "the turn was cancelled"),
        (json!({"result": {"stopReason": "tired"}}), false, "the agent stopped: tired"),
        (json!({"result": {}}), false, "the agent ended its turn without a reason"),
        (json!({"error": {"code": 401, "message": "no key"}}), false, "no key"),
    ] {
        let mut fixture = AcpFixture::working(agent(json!({})));
        let number = json!(fixture.machine.request_id);
        let mut answer = answer;
        answer["id"] = number;
        fixture.line(&answer);
        fixture.line(&answer);
        assert_eq!(fixture.outcome(), Some((good, words)), "{answer}");
        assert_eq!(fixture.closes(), 1);
    }
}

#[test]
fn an_agent_that_does_not_begin_fails() {
    let mut refuses = AcpFixture::new(agent(json!({})), None);
    refuses.answer(&json!({"error": {"message": "too old"}}));
    assert_eq!(refuses.outcome(), Some((false, "the agent did not begin: too old")));
    let mut homeless = AcpFixture::new(agent(json!({})), None);
    homeless.answer(&json!({"result": {}}));
    homeless.answer(&json!({"error": {"message": "Authentication required"}}));
    assert_eq!(
        homeless.outcome(),
        Some((false, "the agent did not open a session: Authentication required"))
    );
    let mut nameless = AcpFixture::new(agent(json!({})), None);
    nameless.answer(&json!({"result": {}}));
    nameless.answer(&json!({"result": {}}));
    assert_eq!(nameless.outcome(), Some((false, "the agent opened a session without an id")));
}

#[test]
fn applied_settings_are_reported_and_impossible_ones_are_skipped() {
    let mut fixture =
        AcpFixture::new(agent(json!({"mode": "yolo", "options": {"effort": "high", "model": "two"}})), None);
    fixture.begin("do it");
    fixture.answer(&json!({"result": {}}));
    let model = |current: &str| {
        json!([{"id": "model", "name": "Model", "type": "select", "currentValue": current,
        "options": [{"value": "one", "name": "1"}, {"value": "two", "name": "2"}]}])
    };
    fixture.answer(&json!({"result": {"sessionId": "s", "configOptions": model("one"),
        "modes": {"currentModeId": "ask", "availableModes": [{"id": "yolo", "name": "All"}]}}}));
    assert_eq!(fixture.last_request().0, "session/set_mode");
    fixture.answer(&json!({"error": {"message": "not today"}}));
    assert_eq!(fixture.last_request().0, "session/set_config_option");
    fixture.answer(&json!({"result": {"configOptions": model("two")}}));
    assert_eq!(fixture.last_request().0, "session/prompt");
    let logs = fixture.logs();
    assert!(logs.contains("mode \"yolo\" could not be set: not today"), "{logs}");
    assert!(logs.contains("effort \"high\" is not offered by the agent: left out"), "{logs}");
    let models = |fixture: &AcpFixture| {
        format!("{:?}", fixture.reported().iter().filter(|fact| fact.kind() == "model").collect::<Vec<_>>())
    };
    assert_eq!(models(&fixture), r#"[Model(Claimed { name: "two" })]"#);
    fixture.update(&json!({"sessionUpdate": "config_option_update", "configOptions": model("two")}));
    assert_eq!(models(&fixture), r#"[Model(Claimed { name: "two" })]"#, "told once");
}

#[test]
fn a_stopped_agent_gets_a_cancel_first_and_then_its_stdin_is_closed() {
    let mut fixture = AcpFixture::working(agent(json!({})));
    fixture.input(Input::Stop);
    assert_eq!(
        fixture.sent(),
        [json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}})]
    );
    fixture.now = fixture.machine.next_wake().expect("it has so much time");
    fixture.input(Input::Tick);
    assert_eq!((fixture.closes(), fixture.outcome().map(|(good, _)| good)), (1, Some(false)));
    let mut early = AcpFixture::new(agent(json!({})), None);
    early.input(Input::Stop);
    assert_eq!(early.closes(), 1);
}

#[test]
fn a_tool_that_runs_during_a_cancel_is_reported_as_cancelled() {
    let mut fixture = AcpFixture::working(agent(json!({})));
    let tool = |status: &str| json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "sleep 60", "status": status});
    fixture.update(&tool("in_progress"));
    fixture.input(Input::Stop);
    fixture.update(&tool("completed"));
    let told = fixture
        .reported()
        .iter()
        .filter_map(|fact| if let TaskFact::Tool(tool) = fact { Some(tool.status) } else { None })
        .collect::<Vec<_>>();
    assert_eq!(told, [ToolStatus::Running, ToolStatus::Cancelled]);
}

#[test]
fn messages_that_are_not_about_the_task_are_no_events() {
    let trouble =
        json!({"sessionUpdate": "session_info_update", "_meta": {"codex": {"error": {"message": "again"}}}});
    for update in [
        json!({"sessionUpdate": "something_new"}),
        json!({"sessionUpdate": "current_mode_update", "currentModeId": "m"}),
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "image"}}),
        trouble,
        json!({"sessionUpdate": "session_info_update", "title": "t", "_meta": {"codex": {"status": 1}}}),
        json!({"sessionUpdate": "available_commands_update", "availableCommands": []}),
        json!({"sessionUpdate": "usage_update", "used": 1}),
        json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "do it"}}),
    ] {
        let mut fixture = AcpFixture::working(agent(json!({})));
        fixture.update(&update);
        assert_eq!(fixture.effects, [], "{update}");
    }
    let mut fixture = AcpFixture::working(agent(json!({})));
    fixture.line(&json!({"method": "session/update", "params": {"sessionId": "another",
        "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}}}));
    fixture.line(&json!({"method": "_auth/status_update", "params": {}}));
    assert_eq!(fixture.effects, []);
}

#[test]
fn a_method_that_was_not_offered_is_not_found_and_no_event() {
    let mut fixture = AcpFixture::working(agent(json!({})));
    let params = json!({"sessionId": "s", "path": "/a", "content": "x"});
    fixture.line(&json!({"id": 4, "method": "fs/write_text_file", "params": params}));
    let refused =
        json!({"jsonrpc": "2.0", "id": 4, "error": {"code": -32601, "message": "method not found"}});
    assert_eq!((fixture.sent(), fixture.reported().len()), (vec![refused], 0));
}

#[test]
fn text_before_the_prompt_is_no_reply_to_it() {
    let mut fixture = AcpFixture::new(agent(json!({})), None);
    fixture.answer(&json!({"result": {}}));
    fixture.answer(&json!({"result": {"sessionId": "s"}}));
    fixture.update(
        &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "mode: yolo"}}),
    );
    assert!(fixture.effects.contains(&Effect::OtherOutput(b"mode: yolo".to_vec())));
    assert_eq!((fixture.reported().len(), fixture.machine.final_message()), (0, None));
}

#[test]
fn the_last_line_is_reported_with_the_end() {
    let mut fixture = AcpFixture::working(agent(json!({})));
    fixture.update(
        &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "done"}}),
    );
    fixture.line(&json!({"id": fixture.machine.request_id, "result": {"stopReason": "end_turn"}}));
    assert!(
        matches!(fixture.reported()[..], [TaskFact::Message(text)] if text.text == "done" && !text.partial)
    );
    assert_eq!(fixture.machine.final_message().as_deref(), Some("done"));
}

#[derive(Debug, Clone)]
enum Step {
    Answer(usize),
    Line(usize),
    Ask(bool),
    Permit(u64, bool),
    Begin,
    Stop,
    InputNotRead,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0usize..8).prop_map(Step::Answer),
        4 => (0usize..7).prop_map(Step::Line),
        3 => any::<bool>().prop_map(Step::Ask),
        2 => (0u64..6, any::<bool>()).prop_map(|(permission, allow)| Step::Permit(permission, allow)),
        2 => Just(Step::Begin),
        1 => Just(Step::Stop),
        1 => Just(Step::InputNotRead),
        2 => (0u64..3_000).prop_map(Step::Wait),
    ]
}

fn result(which: usize) -> Value {
    match which {
        0..4 => json!({"result": {"sessionId": "s", "stopReason": "end_turn"}}),
        4 => {
            json!({"result": {"agentCapabilities": {"loadSession": true, "sessionCapabilities": {"resume": {}}}}})
        }
        5 => json!({"result": {"sessionId": "s", "modes": {"availableModes": [{"id": "m"}]}}}),
        6 => json!({"result": null}),
        _ => json!({"error": {"message": "no"}}),
    }
}

fn printed(which: usize) -> String {
    match which {
        0 => "garbage".to_owned(),
        1 => "{\"id\": 1, \"result\": {}}".to_owned(),
        2 => json!({"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a\nb"}}}}).to_string(),
        3 => json!({"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "tool_call", "toolCallId": "t", "status": "in_progress", "rawOutput": "x"}}}).to_string(),
        4 => json!({"method": "session/update"}).to_string(),
        5 => json!({"method": "$/cancel_request", "params": {"requestId": "r1"}}).to_string(),
        _ => json!({"method": 5, "id": []}).to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn any_conversation_ends_once_and_every_request_is_answered_once(
        continues: bool, asks: bool, steps in prop::collection::vec(step(), 0..60),
    ) {
        let default = if asks { Decision::Ask } else { Decision::Allow };
        let permissions = Permissions { default, rules: Vec::new() };
        let agent = AcpAgent { permissions, ..agent(json!({"mode": "m", "authenticate": "key"})) };
        let mut fixture = AcpFixture::new(agent, continues.then_some("old"));
        let mut requests = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            let open = fixture.closes() == 0;
            match step {
                Step::Answer(which) => fixture.answer(&result(which)),
                Step::Line(which) => fixture.input(Input::Line(printed(which).as_bytes())),
                Step::Ask(known) => {
                    let mut request = permission(number as u64);
                    if !known {
                        request["method"] = json!("fs/read_text_file");
                    }
                    requests.extend(open.then(|| request["id"].clone()));
                    fixture.line(&request);
                }
                Step::Permit(permission, allow) => {
                    let decision = if allow { Decision::Allow } else { Decision::Deny };
                    fixture.input(Input::Permission(PermissionDecision { permission, decision, option: None }));
                }
                Step::Begin => fixture.begin("do it"),
                Step::Stop => fixture.input(Input::Stop),
                Step::InputNotRead => fixture.input(Input::InputNotRead),
                Step::Wait(ms) => {
                    fixture.now += ms;
                    fixture.input(Input::Tick);
                }
            }
        }
        fixture.input(Input::Stop);
        fixture.now += 10_000;
        fixture.input(Input::Tick);
        fixture.effects.extend(fixture.machine.flush());
        prop_assert_eq!(fixture.closes(), 1);
        prop_assert!(fixture.machine.outcome().is_some());
        prop_assert!(fixture.machine.next_wake().is_none());
        let answers: Vec<Value> =
            fixture.sent().into_iter().filter(|sent| sent.get("method").is_none()).map(|sent| sent["id"].clone()).collect();
        for request in &requests {
            prop_assert_eq!(answers.iter().filter(|answer| *answer == request).count(), 1, "{}", request);
        }
        prop_assert_eq!(answers.len(), requests.len());
        let close = fixture.effects.iter().position(|effect| *effect == Effect::Close);
        let last_sent = fixture.effects.iter().rposition(|effect| matches!(effect, Effect::Send(_)));
        prop_assert!(last_sent < close, "nothing is sent after the end");
        let waits = fixture.effects.iter().rfind(|effect| matches!(effect, Effect::AwaitsDecision(_)));
        prop_assert_ne!(waits, Some(&Effect::AwaitsDecision(true)));
    }
}
