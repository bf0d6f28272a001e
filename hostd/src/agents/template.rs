//! Text with `{placeholders}`. Only a known name between braces is a placeholder: other braces, as of JSON,
//! stay. Pure.

use std::borrow::Cow;

/// A placeholder that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no {{{name}}}; there are: {}", .there_are.iter().map(|name| format!("{{{name}}}")).collect::<Vec<_>>().join(", "))]
pub struct UnknownPlaceholder {
    pub name: String,
    pub there_are: Vec<&'static str>,
}

/// Checks that every placeholder of a text is one of `names`.
pub fn check(text: &str, names: &[&'static str]) -> Result<(), UnknownPlaceholder> {
    let mut unknown = None;
    fill(text, |name| {
        if !names.contains(&name) && unknown.is_none() {
            unknown = Some(name.to_owned());
        }
        None
    });
    match unknown {
        Some(name) => Err(UnknownPlaceholder { name, there_are: names.to_vec() }),
        None => Ok(()),
    }
}

/// Fills in the placeholders. A placeholder without a value stays.
pub fn fill<'a>(text: &str, mut value: impl FnMut(&str) -> Option<Cow<'a, str>>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        let put = name_at(rest).and_then(|name| Some((name.len() + 2, value(name)?)));
        match put {
            Some((length, value)) => {
                filled.push_str(&value);
                rest = &rest[length..];
            }
            None => {
                filled.push('{');
                rest = &rest[1..];
            }
        }
    }
    filled + rest
}

/// Returns the name of a `{name}` at the beginning of a text.
fn name_at(text: &str) -> Option<&str> {
    let name = text.strip_prefix('{')?.split_once('}')?.0;
    let plain = |b: u8| b.is_ascii_lowercase() || b == b'_';
    (!name.is_empty() && name.bytes().all(plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_and_other_braces_stay() {
        let table = [
            ("{a}", "1"),
            ("x{a}{b}y", "x12y"),
            (r#"{"m":{"{a}":{}}}"#, r#"{"m":{"1":{}}}"#),
            ("{other} {env:NAME} {A} {} { a } {a", "{other} {env:NAME} {A} {} { a } {a"),
            ("{{a}}", "{1}"),
            ("é{a}é", "é1é"),
            // Values are not searched for placeholders.
            ("{c}", "{a}"),
        ];
        for (text, expected) in table {
            let value = |name: &str| match name {
                "a" => Some("1".into()),
                "b" => Some("2".into()),
                "c" => Some("{a}".into()),
                _ => None,
            };
            assert_eq!(fill(text, value), expected, "{text}");
        }
    }

    #[test]
    fn an_unknown_name_is_told_with_those_there_are() {
        assert_eq!(check(r#"{"a":"{key}"}"#, &["key"]), Ok(()));
        let error = check("{kee}", &["key", "model"]).expect_err("unknown");
        assert_eq!(error.to_string(), "there is no {kee}; there are: {key}, {model}");
    }
}
