use super::*;

fn table(text: &str) -> Result<AgentTable, String> {
    let config: toml::Table = toml::from_str(text).expect("TOML");
    let given = config.get("agents").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    AgentTable::new(&given).map_err(|error| error.to_string())
}

#[test]
fn the_built_in_table_is_good() {
    let table = table("").expect("good");
    let names: Vec<&str> = table.names().collect();
    let expected =
        ["claude", "claude-cli", "codex", "codex-cli", "command", "gemini", "goose", "opencode", "qwen"];
    assert_eq!(names, expected);
    assert_eq!(table.default_name(), "opencode");
    for (name, definition) in table.iter().filter(|(name, _)| *name != COMMAND) {
        let install = definition.install.as_ref().unwrap_or_else(|| panic!("{name} can be installed"));
        assert!(definition.version.is_some() && !definition.title.is_empty(), "{name}");
        // The program that is started is among those that are installed.
        assert!(install.links.contains_key(&definition.find[0]), "{name}");
        assert!(install.packages.iter().all(|package| package.rfind('@').is_some_and(|at| at > 0)), "{name}");
    }
}

#[test]
fn a_few_lines_add_an_agent_or_change_one() {
    let table = table(
        r#"
        [agents.mine]
        speaks = "acp"
        find = ["my-agent"]
        args = ["--acp"]
        [agents.opencode]
        version = "9"
        [agents.opencode.env]
        EXTRA = "{home}/x"
        "#,
    )
    .expect("good");
    let mine = table.get("mine").expect("it is there");
    assert_eq!((mine.speaks, mine.args.as_slice()), (AgentProtocol::Acp, &["--acp".to_owned()][..]));
    let opencode = table.get("opencode").expect("it is there");
    assert_eq!(
        (opencode.version.as_deref(), opencode.find.as_slice()),
        (Some("9"), &["opencode".to_owned()][..])
    );
    assert!(opencode.env.contains_key("EXTRA") && opencode.env.contains_key("OPENCODE_PURE"));
    assert_eq!(table.with_default("mine").expect("it is there").default_name(), "mine");
}

#[test]
fn what_is_wrong_is_named() {
    let acp = "[agents.a]\nspeaks = \"acp\"\nfind = [\"a\"]\n";
    let table_of = [
        ("[agents.A]\nspeaks = \"acp\"".to_owned(), "agents.A: a name must be 1 to 32 of a-z, 0-9 and -"),
        (
            "[agents.a]\nspeaks = \"http\"".to_owned(),
            "agents.a: must be acp, stream-json:claude, stream-json:codex or command, not \"http\"",
        ),
        (
            "[agents.a]\nfind = [\"a\"]".to_owned(),
            "agents.a.speaks: must be acp, stream-json:claude, stream-json:codex or command",
        ),
        (
            "[agents.a]\nspeaks = \"acp\"".to_owned(),
            "agents.a.find: must be names of programs or absolute paths, at least one",
        ),
        (
            "[agents.a]\nspeaks = \"acp\"\nfind = [\"./a\"]".to_owned(),
            "agents.a.find: must be names of programs or absolute paths, at least one",
        ),
        (
            format!("{acp}env = {{ X = \"{{key}}\" }}"),
            "agents.a.env: there is no {key}; there are: {home}, {app}",
        ),
        (
            format!("{acp}dialects = [\"openai\"]"),
            "agents.a.env_for: must have openai: that is one of its dialects",
        ),
        (
            format!("{acp}env_for.gemini_chat = {{}}"),
            "agents.a: there is no dialect \"gemini_chat\"; there are: anthropic, openai, openai_chat, gemini",
        ),
        (
            format!("{acp}args = [\"{{session}}\"]"),
            "agents.a.args: there is no {session}; there are: {home}, {app}",
        ),
        (
            format!("{acp}files = {{ \"../x\" = \"\" }}"),
            "agents.a.files: must be paths below the home, without ..",
        ),
        (
            "[agents.command]\nspeaks = \"command\"".to_owned(),
            "agents.command: is what runs a command that is given: choose another name",
        ),
        ("[agents]\na = 3".to_owned(), "agents.a: must be a table"),
    ];
    for (text, expected) in table_of {
        assert_eq!(table(&text).expect_err("refused"), expected, "{text}");
    }
    let unknown = table(&format!("{acp}fnid = 3")).expect_err("refused");
    assert!(unknown.starts_with("agents.a: unknown field `fnid`"), "{unknown}");
    let unknown = table("").expect("good").with_default("unknown").expect_err("refused");
    assert!(
        unknown.to_string().starts_with("agent: there is no agent \"unknown\"; there are: claude, "),
        "{unknown}"
    );
}
