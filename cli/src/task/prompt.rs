//! Reads the prompt of a task.

use crate::{failure::Failure, limits};
use std::io::{IsTerminal as _, Read};

/// Returns the prompt from the argument or standard input. `needed`: an empty prompt is an error.
pub fn prompt(given: Option<&str>, needed: bool) -> Result<String, Failure> {
    let stdin = std::io::stdin();
    let text = match source(given, stdin.is_terminal()) {
        Source::Given(text) => text.to_owned(),
        Source::Input => read(stdin.lock())?,
        Source::Nothing => String::new(),
    };
    if needed && text.trim().is_empty() {
        return Err(Failure::Usage("there is no prompt: give the agent its instructions".to_owned()));
    }
    Ok(text)
}

#[derive(Debug, PartialEq, Eq)]
enum Source<'a> {
    Given(&'a str),
    Input,
    Nothing,
}

/// Chooses the source. A terminal is read only for `-`.
fn source(given: Option<&str>, terminal: bool) -> Source<'_> {
    match given {
        Some("-") => Source::Input,
        Some(text) => Source::Given(text),
        None if terminal => Source::Nothing,
        None => Source::Input,
    }
}

fn read(input: impl Read) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    input
        .take(limits::PROMPT_MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::io("read the prompt from standard input", error))?;
    if bytes.len() as u64 > limits::PROMPT_MAX_BYTES {
        let most = limits::PROMPT_MAX_BYTES >> 10;
        return Err(Failure::Usage(format!(
            "the prompt on standard input is longer than {most} KiB: put it into a file in the sandbox"
        )));
    }
    let wrong = |_| Failure::Usage("the prompt on standard input is not UTF-8".to_owned());
    Ok(String::from_utf8(bytes).map_err(wrong)?.trim_end_matches(['\n', '\r']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_wins_and_a_pipe_is_read() {
        let table = [
            (Some("fix it"), true, Source::Given("fix it")),
            (Some("fix it"), false, Source::Given("fix it")),
            (Some("-"), true, Source::Input),
            (None, false, Source::Input),
            (None, true, Source::Nothing),
        ];
        for (given, terminal, expected) in table {
            assert_eq!(source(given, terminal), expected, "{given:?} {terminal}");
        }
    }

    #[test]
    fn input_has_a_bound_and_must_be_text() {
        assert_eq!(read(&b"a\nb\n\n"[..]).expect("text"), "a\nb");
        assert!(read(&b"\xff"[..]).is_err());
        assert!(read(std::io::repeat(b'x')).is_err());
    }
}
