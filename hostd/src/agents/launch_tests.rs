use super::*;
use crate::agents::Table;
use protocol::PermissionRule;

fn table() -> Table {
    Table::new(&toml::Table::new()).expect("the built-in table is good")
}

fn connection(dialect: Dialect, provider: &str) -> Connection {
    Connection { dialect, provider: provider.to_owned(), model: "m-1".to_owned(), key: "slw-k".to_owned() }
}

fn launched(name: &str, connection: &Connection, permissions: Permissions) -> Launch {
    let table = table();
    let entry = table.get(name).expect("it is there");
    let wish = Wish {
        program: "/bin/it",
        connection: Some(connection),
        permissions,
        continues: true,
        ..Wish::default()
    };
    launch(name, entry, wish)
}

#[test]
fn every_agent_gets_the_way_to_its_model_in_every_dialect_it_speaks() {
    let table = table();
    for (name, entry) in table.iter() {
        for dialect in &entry.dialects {
            for provider in ["openai", "mine"] {
                let launch = launched(name, &connection(*dialect, provider), Permissions::default());
                let told = format!("{:?} {:?} {:?}", launch.agent, launch.env, launch.firm_env);
                for needed in ["slw-k", "m-1", &format!("{MODEL_URL}/{}", dialect.as_str())] {
                    assert!(told.contains(needed), "{name} {dialect:?} lacks {needed}: {told}");
                }
                for left in ["{key}", "{model}", "{base_url}", "{home}", "{app}"] {
                    assert!(!told.contains(left), "{name} {dialect:?} still has {left}: {told}");
                }
            }
        }
    }
}

#[test]
fn texts_that_are_json_or_toml_stay_so() {
    let table = table();
    for (name, entry) in table.iter() {
        for dialect in &entry.dialects {
            for provider in ["openai", "mine"] {
                let launch = launched(name, &connection(*dialect, provider), Permissions::default());
                let files = match &launch.agent {
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
                for (variable, text) in launch.firm_env.iter().filter(|(_, text)| text.starts_with('{')) {
                    serde_json::from_str::<serde_json::Value>(text)
                        .unwrap_or_else(|error| panic!("{name} {variable}: {error}"));
                }
            }
        }
    }
}

#[test]
fn opencode_speaks_chat_to_whoever_is_not_openai() {
    let content = |provider| {
        let launch = launched("opencode", &connection(Dialect::Openai, provider), Permissions::default());
        launch.firm_env["OPENCODE_CONFIG_CONTENT"].clone()
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
        let launch = launched("claude", &connection(Dialect::Anthropic, "anthropic"), permissions.clone());
        let Agent::Acp(agent) = launch.agent else { panic!("it speaks ACP") };
        assert_eq!(agent.mode.as_deref(), Some(expected), "{permissions:?}");
        assert_eq!(agent.permissions, permissions);
    }
}

#[test]
fn the_name_of_a_session_is_left_to_whoever_knows_it() {
    let launch = launched("claude-cli", &connection(Dialect::Anthropic, "anthropic"), Permissions::default());
    let Agent::StreamJson(agent) = launch.agent else { panic!("it prints JSON") };
    assert_eq!(agent.argv.first().map(String::as_str), Some("/bin/it"));
    assert_eq!(agent.argv_to_continue.last().map(String::as_str), Some("{session}"));
    assert!(!agent.argv.iter().any(|argument| argument.contains('{')), "{:?}", agent.argv);
}

#[test]
fn models_are_names_that_mean_themselves_everywhere() {
    for good in ["claude-x", "org/model:free", "a.b_c@2026"] {
        assert!(model_is_plain(good), "{good}");
    }
    for wrong in ["", "a b", "a\"b", "--dangerous", "a\\b", "a\nb", "{key}", &"x".repeat(201)] {
        assert!(!model_is_plain(wrong), "{wrong}");
    }
}
