//! packaging/slipway.toml, the configuration file that is installed: every key of the table, commented out, with its
//! default.

use super::{
    Config,
    keys::{self, ConfigKey, DefaultValue, Source},
};
use std::fmt::Write;

const HEAD: &str = "# Configuration of hostd: every key, with its default. docs/configuration.md and `man hostd` say more about each.
# hostd reads this file when it starts: systemctl restart slipway (sandboxes keep running).
# The key idle_seconds is also the variable SLIPWAY_IDLE_SECONDS, which takes precedence; an empty text is the default.
";

/// What a key holds, as the parser says when it is something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    List,
    Number,
    Table,
}

fn kind(key: &ConfigKey) -> Kind {
    let error =
        Config::parse(Some(&format!("{} = true", key.name)), |_| None).expect_err("no key is a switch");
    let error = error.to_string();
    let said = [
        ("must be a text,", Kind::Text),
        ("must be a list of texts,", Kind::List),
        ("must be a number,", Kind::Number),
        ("must be a table,", Kind::Table),
    ];
    let found = said.into_iter().find(|(words, _)| error.contains(words));
    found.unwrap_or_else(|| panic!("{error}")).1
}

/// The line of a key, without the `#` before it.
fn line(key: &ConfigKey) -> String {
    let name = key.name;
    match (kind(key), &key.default) {
        (Kind::Text, DefaultValue::Text(text)) => format!("{name} = {text:?}"),
        (Kind::Number, DefaultValue::Text(text)) => format!("{name} = {text}"),
        (Kind::Text, DefaultValue::Described(_)) => format!("{name} = \"\""),
        (Kind::List, _) => format!("{name} = []"),
        // Its default is no number that could stand here.
        (Kind::Number, DefaultValue::Described(_)) => format!("{name} ="),
        (Kind::Table, _) => format!("[{name}.NAME]"),
    }
}

fn file() -> String {
    let mut file = HEAD.to_owned();
    // What follows the head of a table belongs to it, so tables are last.
    let (tables, values): (Vec<_>, Vec<_>) =
        keys::KEYS.iter().partition(|key| key.source == Source::FileOnly);
    for key in values.into_iter().chain(tables) {
        let default = match &key.default {
            DefaultValue::Text(_) => String::new(),
            DefaultValue::Described(words) => format!(" (default: {})", words.replace('`', "")),
        };
        // Of the environment; here it is a list.
        let summary = key.summary.replace(", separated by commas", "");
        let _ = write!(file, "\n# {summary}{default}\n#{}\n", line(key));
    }
    file
}

#[test]
fn the_installed_file_has_every_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/slipway.toml");
    let installed = std::fs::read_to_string(path).expect("packaging/slipway.toml");
    let expected = file();
    assert!(installed == expected, "packaging/slipway.toml must be:\n{expected}");
}

#[test]
fn every_line_of_it_is_the_default() {
    let defaults = Config::parse(None, |_| None).expect("defaults");
    // Without the text itself, which backups have.
    let parsed = |text: &str| {
        let parsed = Config::parse(Some(text), |_| None).expect("the defaults, written");
        Config { written: defaults.written.clone(), ..parsed }
    };
    assert_eq!(parsed(&file()), defaults);
    let lines = keys::KEYS.iter().map(line).filter(|line| !line.ends_with('=') && !line.starts_with('['));
    let text: Vec<String> = lines.collect();
    assert_eq!(parsed(&text.join("\n")), defaults);
}
