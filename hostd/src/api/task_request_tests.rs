use super::*;
use crate::api::task_agent::choose;
use hostd_models::Dialect;
use protocol::{Decision, PermissionRule, Permissions, api::ApiErrorCode};

fn command() -> TaskCreate {
    let command = Some(vec!["cat".to_owned()]);
    TaskCreate { prompt: "do it".to_owned(), command, ..TaskCreate::default() }
}

fn agent(name: &str) -> TaskCreate {
    TaskCreate { prompt: "do it".to_owned(), agent: Some(name.to_owned()), ..TaskCreate::default() }
}

fn connection() -> ModelAccess {
    ModelAccess {
        dialect: Dialect::Anthropic,
        provider: "anthropic".to_owned(),
        model: "m".to_owned(),
        key: "slw-k".to_owned(),
    }
}

fn request_of(create: &TaskCreate, sandbox_env: &EnvMap) -> Result<TaskRequest, CallError> {
    let (agents, connection) = (Agents::default(), connection());
    let choice = choose(create, agents.table())?;
    let connection = Some(&connection).filter(|_| !choice.entry.dialects.is_empty());
    let context = TaskContext {
        choice,
        connection,
        agents: &agents,
        briefing: BriefingContext::default(),
        sandbox_env,
    };
    request(create, TaskId::parse("t").expect("a name"), &context)
}

#[test]
fn unsupported_requests_are_refused_by_field() {
    use ApiErrorCode::{InvalidRequest, TooLarge, Unsupported};
    type Change = fn(&mut TaskCreate);
    let ask = || Some(Permissions { default: Decision::Ask, rules: vec![] });
    let long = PermissionRule { tool: Some("x".repeat(2000)), about: None, then: Decision::Deny };
    let restricted = TaskCreate { permissions: ask(), ..agent("claude-cli") };
    let codex_asks = TaskCreate { permissions: ask(), ..agent("codex") };
    let command_asks = TaskCreate { permissions: ask(), ..command() };
    let long_rule = Permissions { default: Decision::Allow, rules: vec![long] };
    let long_rule = TaskCreate { permissions: Some(long_rule), ..agent("opencode") };
    let table: [(TaskCreate, ApiErrorCode, &str, Change); 25] = [
        (command(), Unsupported, "agent", |create| create.agent = Some("mine".to_owned())),
        (command(), InvalidRequest, "command", |create| create.agent = Some("opencode".to_owned())),
        (agent("command"), InvalidRequest, "command", |_| {}),
        (command(), InvalidRequest, "command", |create| create.command = Some(vec![])),
        (command(), InvalidRequest, "command", |create| create.command = Some(vec!["a\0".to_owned()])),
        (command(), InvalidRequest, "model", |create| create.model = Some("m".to_owned())),
        (agent("opencode"), InvalidRequest, "model", |create| create.model = Some("a\"b".to_owned())),
        (command(), InvalidRequest, "continue", |create| create.continues = Some(true)),
        (agent("opencode"), InvalidRequest, "session", |create| create.session = Some("s".to_owned())),
        (agent("opencode"), InvalidRequest, "session", |create| {
            create.continues = Some(true);
            create.session = Some("--option".to_owned());
        }),
        (command(), InvalidRequest, "briefing", |create| create.briefing = Some("x".to_owned())),
        (agent("opencode"), TooLarge, "briefing", |create| create.briefing = Some("x".repeat(100_000))),
        (restricted, InvalidRequest, "permissions", |_| {}),
        (codex_asks, InvalidRequest, "permissions", |_| {}),
        (command_asks, InvalidRequest, "permissions", |_| {}),
        (long_rule, InvalidRequest, "permissions.rules", |_| {}),
        (agent("opencode"), InvalidRequest, "prompt", |create| create.prompt = String::new()),
        (command(), InvalidRequest, "timeout_s", |create| create.timeout_s = Some(f64::NAN)),
        (command(), InvalidRequest, "idle_timeout_s", |create| create.idle_timeout_s = Some(-1.0)),
        (command(), TooLarge, "command", |create| create.command = Some(vec!["x".repeat(200_000)])),
        (command(), TooLarge, "command", |create| create.command = Some(vec!["x".repeat(100_000); 11])),
        (command(), TooLarge, "command", |create| create.command = Some(vec!["x".to_owned(); 5000])),
        (command(), InvalidRequest, "cwd", |create| create.cwd = Some(String::new())),
        (command(), TooLarge, "prompt", |create| create.prompt = "x".repeat(limits::PROMPT_MAX_BYTES + 1)),
        (agent("opencode"), InvalidRequest, "env.", |create| {
            create.env.insert(String::new(), String::new());
        }),
    ];
    for (mut create, code, field, change) in table {
        change(&mut create);
        let error = request_of(&create, &EnvMap::new()).expect_err("refused").error;
        assert_eq!((error.code, error.detail.field.as_deref()), (code, Some(field)), "{}", error.message);
    }
    let unknown = request_of(&agent("mine"), &EnvMap::new()).expect_err("refused");
    assert!(unknown.error.detail.supported.contains(&"opencode".to_owned()));
}

#[test]
fn the_environment_of_the_task_overrides_that_of_the_sandbox() {
    let sandbox = EnvMap::from([("A".to_owned(), "1".to_owned()), ("B".to_owned(), "1".to_owned())]);
    let create = TaskCreate { env: EnvMap::from([("B".to_owned(), "2".to_owned())]), ..command() };
    let request = request_of(&create, &sandbox).expect("good");
    assert_eq!((request.env["A"].as_str(), request.env["B"].as_str()), ("1", "2"));
    assert_eq!(request.agent, Agent::Command { argv: vec!["cat".to_owned()] });
}

#[test]
fn model_variables_override_all_others() {
    let own = |name: &str| EnvMap::from([(name.to_owned(), "mine".to_owned())]);
    let create = TaskCreate { env: own("ANTHROPIC_API_KEY"), ..agent("claude") };
    let firm = request_of(&create, &own("ANTHROPIC_BASE_URL")).expect("good");
    assert_eq!(firm.env["ANTHROPIC_API_KEY"], "slw-k");
    assert_eq!(firm.env["ANTHROPIC_BASE_URL"], "http://127.0.0.1:900/model/anthropic");
    let create = TaskCreate { env: own("CLAUDE_CODE_MAX_RETRIES"), ..agent("claude") };
    assert_eq!(request_of(&create, &EnvMap::new()).expect("good").env["CLAUDE_CODE_MAX_RETRIES"], "mine");
}

#[test]
fn a_task_without_an_agent_gets_the_default_agent_and_its_briefing() {
    let create = TaskCreate { prompt: "do it".to_owned(), ..TaskCreate::default() };
    let briefing = |create: &TaskCreate| {
        let Agent::Acp(agent) = request_of(create, &EnvMap::new()).expect("good").agent else {
            panic!("it speaks ACP")
        };
        assert_eq!((agent.name.as_str(), agent.argv[0].as_str()), ("opencode", "opencode"));
        agent.briefing
    };
    assert!(briefing(&create).expect("the usual").contains("sandbox.yaml"));
    let own = TaskCreate { briefing: Some("Be brief.".to_owned()), ..create.clone() };
    assert_eq!(briefing(&own).as_deref(), Some("Be brief."));
    assert_eq!(briefing(&TaskCreate { briefing: Some(String::new()), ..create }), None);
}
