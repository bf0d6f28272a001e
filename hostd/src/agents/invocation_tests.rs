use super::*;
use crate::agents::AgentTable;
use protocol::PermissionRule;

fn table() -> AgentTable {
    AgentTable::new(&toml::Table::new()).expect("the built-in table is good")
}

fn connection(dialect: Dialect, provider: &str) -> ModelAccess {
    ModelAccess { dialect, provider: provider.to_owned(), model: "m-1".to_owned(), key: "slw-k".to_owned() }
}

fn invoked(name: &str, connection: &ModelAccess, permissions: Permissions) -> Invocation {
    let table = table();
    let definition = table.get(name).expect("it is there");
    let request = InvocationRequest {
        program: "/bin/it",
        connection: Some(connection),
        permissions,
        continues: true,
        ..InvocationRequest::default()
    };
    invocation(name, definition, request)
}

#[test]
fn every_agent_gets_access_to_its_model_in_every_dialect_it_speaks() {
    let table = table();
    for (name, definition) in table.iter() {
        for dialect in &definition.dialects {
            for provider in ["openai", "mine"] {
                let invocation = invoked(name, &connection(*dialect, provider), Permissions::default());
                let text =
                    format!("{:?} {:?} {:?}", invocation.agent, invocation.env, invocation.enforced_env);
                for needed in ["slw-k", "m-1", &format!("{MODEL_URL}/{}", dialect.as_str())] {
                    assert!(text.contains(needed), "{name} {dialect:?} lacks {needed}: {text}");
                }
                for left in ["{key}", "{model}", "{base_url}", "{home}", "{app}"] {
                    assert!(!text.contains(left), "{name} {dialect:?} still has {left}: {text}");
                }
            }
        }
    }
}

#[test]
fn texts_that_are_json_or_toml_stay_so() {
    let table = table();
    for (name, definition) in table.iter() {
        for dialect in &definition.dialects {
            for provider in ["openai", "mine"] {
                let invocation = invoked(name, &connection(*dialect, provider), Permissions::default());
                let files = match &invocation.agent {
                    Agent::Acp(agent) => agent.files.clone(),
                    Agent::StreamJson(agent) => agent.files.clone(),
                    Agent::Command { .. } => BTreeMap::new(),
                };
                for (path, text) in &files {
                    if path.ends_with(".toml") {
                        toml::from_str::<toml::Table>(text)
                            .unwrap_or_else(|error| panic!("{name} {path}: {error}"));
                    } else {
                        serde_json::from_str::<serde_json::Value>(text)
                            .unwrap_or_else(|error| panic!("{name} {path}: {error}"));
                    }
                }
                for (variable, text) in
                    invocation.enforced_env.iter().filter(|(_, text)| text.starts_with('{'))
                {
                    serde_json::from_str::<serde_json::Value>(text)
                        .unwrap_or_else(|error| panic!("{name} {variable}: {error}"));
                }
            }
        }
    }
}

#[test]
fn opencode_speaks_chat_to_servers_other_than_openai() {
    let content = |provider| {
        let invocation = invoked("opencode", &connection(Dialect::Openai, provider), Permissions::default());
        invocation.enforced_env["OPENCODE_CONFIG_CONTENT"].clone()
    };
    assert!(content("openai").contains(r#""model":"openai/m-1""#));
    assert!(content("local").contains("@ai-sdk/openai-compatible"));
}

#[test]
fn an_agent_asks_only_where_something_may_be_refused() {
    let rule = PermissionRule { tool: None, about: Some("rm *".to_owned()), then: Decision::Deny };
    let table = [
        (Permissions::default(), "bypassPermissions"),
        (Permissions { default: Decision::Ask, rules: vec![] }, "default"),
        (Permissions { default: Decision::Allow, rules: vec![rule] }, "default"),
    ];
    for (permissions, expected) in table {
        let invocation = invoked("claude", &connection(Dialect::Anthropic, "anthropic"), permissions.clone());
        let Agent::Acp(agent) = invocation.agent else { panic!("it speaks ACP") };
        assert_eq!(agent.mode.as_deref(), Some(expected), "{permissions:?}");
        assert_eq!(agent.permissions, permissions);
    }
}

#[test]
fn the_session_placeholder_is_left_to_runtimed() {
    let invocation =
        invoked("claude-cli", &connection(Dialect::Anthropic, "anthropic"), Permissions::default());
    let Agent::StreamJson(agent) = invocation.agent else { panic!("it prints JSON") };
    assert_eq!(agent.argv.first().map(String::as_str), Some("/bin/it"));
    assert_eq!(agent.argv_to_continue.last().map(String::as_str), Some("{session}"));
    assert!(!agent.argv.iter().any(|argument| argument.contains('{')), "{:?}", agent.argv);
}

#[test]
fn model_names_need_no_quoting() {
    for good in ["claude-x", "org/model:free", "a.b_c@2026"] {
        assert!(model_is_plain(good), "{good}");
    }
    for wrong in ["", "a b", "a\"b", "--dangerous", "a\\b", "a\nb", "{key}", &"x".repeat(201)] {
        assert!(!model_is_plain(wrong), "{wrong}");
    }
}
