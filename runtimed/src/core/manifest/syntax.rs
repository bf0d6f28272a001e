//! Small grammars of the manifest: durations, shell quoting, misspelt keys, keys in a path.

use std::borrow::Cow;

/// Length of a key as shown in a path.
const SEGMENT_MAX_CHARS: usize = 64;
/// Edit distance up to which a key counts as misspelt.
const MISSPELT_MAX_LETTERS: usize = 2;

/// Parses `500ms`, `10s` or `2m` into milliseconds.
pub(super) fn duration_ms(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit_ms)
}

/// Formats a duration as `duration_ms` reads it.
pub(super) fn show_ms(ms: u64) -> String {
    if ms.is_multiple_of(1_000) { format!("{}s", ms / 1_000) } else { format!("{ms}ms") }
}

/// Quotes arguments into one line that a shell splits into the same arguments.
pub(super) fn shell_line(arguments: &[String]) -> String {
    arguments.iter().map(|argument| quoted(argument)).collect::<Vec<_>>().join(" ")
}

/// Shell keywords, which are quoted.
const RESERVED: [&str; 17] = [
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select",
    "then", "time", "until", "while",
];

fn quoted(argument: &str) -> Cow<'_, str> {
    // No `=` and no `%`: `A=b` would be an assignment and `%1` a job.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:,@+".contains(&byte);
    if !argument.is_empty() && argument.bytes().all(plain) && !RESERVED.contains(&argument) {
        return Cow::Borrowed(argument);
    }
    Cow::Owned(format!("'{}'", argument.replace('\'', r"'\''")))
}

/// The known key that was probably meant.
pub(super) fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let close = known.iter().filter_map(|candidate| {
        let near = candidate.len().abs_diff(key.len()) <= MISSPELT_MAX_LETTERS;
        let wrong = near.then(|| letters_wrong(key, candidate))?;
        (wrong <= MISSPELT_MAX_LETTERS).then_some((wrong, *candidate))
    });
    close.min_by_key(|(wrong, _)| *wrong).map(|(_, candidate)| candidate)
}

/// Levenshtein distance, row by row.
fn letters_wrong(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (above, a) in one.chars().enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (left, b) in other.chars().enumerate() {
            let change = diagonal + usize::from(a != b);
            diagonal = row[left + 1];
            row[left + 1] = change.min(diagonal + 1).min(row[left] + 1);
        }
    }
    row[other.chars().count()]
}

/// A key as part of a path.
pub(super) fn segment(key: &str) -> Cow<'_, str> {
    one_line(key, SEGMENT_MAX_CHARS)
}

/// Escapes and shortens text so that it is printed on one line.
pub(super) fn one_line(text: &str, max_chars: usize) -> Cow<'_, str> {
    let cut = text.char_indices().nth(max_chars).map(|(at, _)| &text[..at]);
    if cut.is_none() && !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let dots = if cut.is_some() { "…" } else { "" };
    Cow::Owned(format!("{}{dots}", cut.unwrap_or(text).escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        let good = [("500ms", 500), ("10s", 10_000), ("2m", 120_000), ("0s", 0), ("007s", 7_000)];
        for (text, ms) in good {
            assert_eq!(duration_ms(text), Some(ms), "{text}");
        }
        for text in
            ["", "s", "10", "1.5s", "-1s", "1h", "1 s", "99999999999999999999s", "18446744073709551615m"]
        {
            assert_eq!(duration_ms(text), None, "{text}");
        }
    }

    #[test]
    fn arguments_are_quoted_only_where_a_shell_would_change_them() {
        let table: [(&[&str], &str); 7] = [
            (&["npm", "run", "dev"], "npm run dev"),
            (&["python3", "-m", "http.server", "8000"], "python3 -m http.server 8000"),
            (&["echo", "a b", "$HOME", ""], "echo 'a b' '$HOME' ''"),
            (&["echo", "it's; rm -rf *"], r"echo 'it'\''s; rm -rf *'"),
            (&["A=b", "c"], "'A=b' c"),
            (&["if", "~", "é"], "'if' '~' 'é'"),
            (&["a\nb"], "'a\nb'"),
        ];
        for (arguments, expected) in table {
            let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(shell_line(&arguments), expected);
        }
    }

    #[test]
    fn a_misspelt_key_finds_the_one_that_was_meant() {
        let known = ["command", "port", "env", "health", "restart", "restart_after_task"];
        let table = [
            ("prot", Some("port")),
            ("comand", Some("command")),
            ("enviroment", None),
            ("helth", Some("health")),
            ("restarts", Some("restart")),
            ("", None),
            ("portés", None),
        ];
        for (key, expected) in table {
            assert_eq!(nearest(key, &known), expected, "{key}");
        }
    }

    #[test]
    fn what_is_shown_is_one_short_line() {
        let long = "x".repeat(65);
        let table = [
            ("web", "web".to_owned()),
            ("é b", "é b".to_owned()),
            ("a\nb\0", "a\\nb\\0".to_owned()),
            (&long, format!("{}…", "x".repeat(64))),
        ];
        for (key, expected) in table {
            assert_eq!(segment(key), expected);
        }
    }

    /// Splits a line as a shell does, for the quoting used here.
    fn split(line: &str) -> Vec<String> {
        let (mut words, mut word, mut in_word, mut quoted) = (vec![], String::new(), false, false);
        let mut letters = line.chars();
        while let Some(letter) = letters.next() {
            in_word |= quoted || letter != ' ';
            match letter {
                '\'' => quoted = !quoted,
                '\\' if !quoted => word.extend(letters.next()),
                ' ' if !quoted => {
                    words.push(std::mem::take(&mut word));
                    in_word = false;
                }
                other => word.push(other),
            }
        }
        if in_word {
            words.push(word);
        }
        words
    }

    proptest! {
        #[test]
        fn a_shell_finds_the_same_arguments(arguments in prop::collection::vec("[ -~\n\u{e9}]{0,8}", 0..6)) {
            prop_assert_eq!(split(&shell_line(&arguments)), arguments);
        }

        #[test]
        fn the_distance_is_symmetric_and_zero_only_for_the_same(one in ".{0,6}", other in ".{0,6}") {
            prop_assert_eq!(letters_wrong(&one, &other), letters_wrong(&other, &one));
            prop_assert_eq!(letters_wrong(&one, &other) == 0, one == other);
        }
    }
}
