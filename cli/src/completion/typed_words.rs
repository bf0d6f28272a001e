//! The words typed before the one that is completed.

use crate::{args::Args, connection::ConnectionFlags};
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use std::ffi::OsString;

/// Environment variable with the index of the completed word; fish does not set it, because it is the last word.
const INDEX: &str = "_CLAP_COMPLETE_INDEX";

#[derive(Debug)]
pub struct TypedWords {
    before: Vec<OsString>,
}

impl TypedWords {
    pub fn new(mut words: Vec<OsString>, index: usize) -> Self {
        words.truncate(index);
        Self { before: words }
    }

    /// Reads the words that the script passed after the first `--`.
    pub fn of_this_process() -> Self {
        let words: Vec<OsString> = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
        let index = std::env::var(INDEX).ok().and_then(|index| index.parse().ok());
        let last = words.len().saturating_sub(1);
        Self::new(words, index.unwrap_or(last))
    }

    /// Returns the sandbox argument among the typed words.
    pub fn sandbox(&self) -> Option<String> {
        let matches = self.matches()?;
        let mut innermost = &matches;
        while let Some((_, inner)) = innermost.subcommand() {
            innermost = inner;
        }
        innermost.try_get_one::<String>("sandbox").ok()?.cloned()
    }

    /// Returns the typed flags that choose hostd.
    pub fn connection(&self) -> ConnectionFlags {
        let flags = self.matches().and_then(|matches| ConnectionFlags::from_arg_matches(&matches).ok());
        flags.unwrap_or_default()
    }

    fn matches(&self) -> Option<ArgMatches> {
        Args::command().ignore_errors(true).try_get_matches_from(&self.before).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_choose_hostd_are_found_wherever_they_stand() {
        for (line, expected) in [
            ("slipway --context prod get", Some("prod")),
            ("slipway get --context prod", Some("prod")),
            ("slipway task get --context=prod web", Some("prod")),
            ("slipway get", None),
        ] {
            let words: Vec<OsString> = line.split(' ').chain(["x"]).map(OsString::from).collect();
            let index = words.len() - 1;
            assert_eq!(TypedWords::new(words, index).connection().context.as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn the_sandbox_is_found_wherever_it_stands() {
        let table = [
            ("slipway task get web", Some("web")),
            ("slipway task show web", Some("web")),
            ("slipway --json task follow --since 7 web", Some("web")),
            ("slipway logs -f web", Some("web")),
            ("slipway logs -n 10 web", Some("web")),
            ("slipway service web", Some("web")),
            ("slipway attach -i web", Some("web")),
            ("slipway task get", None),
            ("slipway ls", None),
            ("slipway", None),
            ("slipway frob web", None),
        ];
        for (line, expected) in table {
            let words: Vec<OsString> = line.split(' ').chain(["x"]).map(OsString::from).collect();
            let index = words.len() - 1;
            assert_eq!(TypedWords::new(words, index).sandbox().as_deref(), expected, "{line}");
        }
    }
}
