//! Hostile documents: none of them panics, takes long or takes much memory.

use super::tests::FULL;
use super::{Document, log_pattern, parse, validate_all};
use crate::limits::MANIFEST_MAX_BYTES;
use proptest::prelude::*;
use protocol::HealthCheck;

const TOO_MUCH: &str = "too much for a manifest, counting what each alias brings; write less";
const TOO_DEEP: &str = "nothing in a manifest is nested deeper than 8 levels";

/// Ten anchors, each a list of nine times the one before.
fn billion_laughs() -> String {
    let mut document = "a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for (before, own) in "abcdefgh".chars().zip("bcdefghi".chars()) {
        let list = vec![format!("*{before}"); 9].join(", ");
        document += &format!("{own}: &{own} [{list}]\n");
    }
    document
}

/// A long text that every service gets many times.
fn long_text_laughs(text: &str) -> String {
    let variables: String = (0..20).map(|number| format!("      V{number}: *long\n")).collect();
    let services: String =
        (0..30).map(|number| format!("  s{number}: {{ command: x, env: *env }}\n")).collect();
    format!("services:\n  a:\n    command: &long {text}\n    env: &env\n{variables}{services}")
}

#[test]
fn bombs_are_refused() {
    let size = MANIFEST_MAX_BYTES as usize;
    let many_keys: String = (0..20_000).map(|number| format!("k{number}: 1\n")).collect();
    let many_anchors: String = (0..9_000).map(|number| format!("- &a{number} x\n")).collect();
    let table = [
        ("laughs", billion_laughs(), TOO_MUCH),
        ("plain text", long_text_laughs(&"x".repeat(100_000)), TOO_MUCH),
        ("quoted text", long_text_laughs(&format!("\"{}\"", "\\t".repeat(100_000))), TOO_MUCH),
        ("keys", many_keys, TOO_MUCH),
        ("anchors", many_anchors, TOO_MUCH),
        ("flow", "[".repeat(size), TOO_DEEP),
        ("maps", "{a: ".repeat(size / 4), TOO_DEEP),
        ("items", "- ".repeat(size / 2), TOO_DEEP),
        ("explicit keys", "? ".repeat(size / 2), TOO_DEEP),
        ("a circle", "a: &a [*a]".to_owned(), "not valid YAML: Recursive reference not allowed here"),
    ];
    for (what, document, message) in table {
        let error = parse(document.as_bytes()).expect_err(what);
        assert_eq!(error.message, message, "{what}");
        assert!(error.line.is_some(), "{what}");
    }
}

/// Checks that an error has a one-line message, and that accepted specs are valid.
fn assert_consistent(document: &[u8]) {
    match parse(document) {
        Ok(Document { services: specs, .. }) => {
            validate_all(&specs).expect("parsed specs are valid");
            for check in specs.iter().filter_map(|spec| spec.health.as_ref()).map(|health| &health.check) {
                if let HealthCheck::Log(pattern) = check {
                    log_pattern(pattern).expect("a checked pattern compiles");
                }
            }
        }
        Err(error) => {
            assert!(!error.message.is_empty());
            assert!(!error.to_string().contains(char::is_control), "{error:?}");
            assert!(error.line != Some(0), "{error:?}");
        }
    }
}

/// Fragments with a meaning in YAML or in a manifest.
fn piece() -> impl Strategy<Value = String> {
    let pieces = [
        "services:",
        "web:",
        "command:",
        "env:",
        "health:",
        "depends_on:",
        "watch:",
        "version:",
        "port:",
        "<<:",
        "*a",
        "&a ",
        "{",
        "}",
        "[",
        "]",
        ", ",
        ": ",
        "- ",
        "? ",
        "|\n",
        ">-\n",
        "'",
        "\"",
        "#",
        "---\n",
        "...\n",
        "%YAML 1.2\n",
        "!!int ",
        "!!binary ",
        "!x ",
        "\n",
        "\n  ",
        "\n    ",
        "\t",
        "\r\n",
        "\0",
        "\u{feff}",
        "\u{2028}",
        "é",
        "\\",
        "1",
        "1e999",
        "0x1F",
        ".nan",
        "~",
        "true",
        "10s",
        "/a",
        "..",
        "web",
        "\u{85}",
    ];
    prop::sample::select(pieces.map(str::to_owned).to_vec())
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_consistent(&bytes);
    }

    #[test]
    fn any_text_of_yaml_pieces_is_answered(pieces in prop::collection::vec(piece(), 0..40)) {
        assert_consistent(pieces.concat().as_bytes());
    }

    #[test]
    fn a_good_document_with_a_change_is_answered(
        from in any::<prop::sample::Index>(),
        removed in 0_usize..12,
        put in prop::collection::vec(piece(), 0..3),
    ) {
        let mut bytes = FULL.as_bytes().to_vec();
        let from = from.index(bytes.len());
        let to = (from + removed).min(bytes.len());
        bytes.splice(from..to, put.concat().into_bytes());
        assert_consistent(&bytes);
    }
}
