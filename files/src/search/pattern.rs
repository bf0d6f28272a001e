//! Compiles the regular expression of a search, within limits: no expression may take long, whatever is searched.
//!
//! It is one of bytes: `\w`, `\d` and case are those of ASCII. The tables of Unicode would be a part of every PID 1.

use crate::{
    FilesError,
    limits::{PATTERN_MAX_BYTES, PATTERN_POSITIONS_MAX, PATTERN_PROGRAM_MAX_BYTES, PATTERN_STATES_MAX_BYTES},
};
use grep_matcher::{Match, Matcher, NoCaptures, NoError};
use regex_automata::{Input, meta, util::syntax};
use regex_syntax::{
    ParserBuilder,
    hir::{Hir, HirKind},
};

/// Parentheses in each other.
const NESTED_MAX: u32 = 100;

/// Matches single lines.
pub struct LineMatcher {
    regex: meta::Regex,
}

impl Matcher for LineMatcher {
    type Captures = NoCaptures;
    type Error = NoError;

    fn find_at(&self, line: &[u8], at: usize) -> Result<Option<Match>, NoError> {
        let found = self.regex.find(Input::new(line).range(at..));
        Ok(found.map(|found| Match::new(found.start(), found.end())))
    }

    fn new_captures(&self) -> Result<NoCaptures, NoError> {
        Ok(NoCaptures::new())
    }
}

pub fn compile(pattern: &str, ignore_case: bool) -> Result<LineMatcher, FilesError> {
    let invalid = |reason: &dyn std::fmt::Display| FilesError::invalid(format!("content: {reason}"));
    if pattern.len() > PATTERN_MAX_BYTES {
        return Err(invalid(&format!("at most {PATTERN_MAX_BYTES} bytes")));
    }
    let parsed =
        ParserBuilder::new().nest_limit(NESTED_MAX).unicode(false).utf8(false).build().parse(pattern);
    let parsed = parsed.map_err(|error| invalid(&error))?;
    if names_line_break(&parsed) {
        return Err(invalid(&"lines are searched one by one: leave the line break out"));
    }
    if positions(&parsed) > PATTERN_POSITIONS_MAX {
        let reason = format!("at most {PATTERN_POSITIONS_MAX} characters, with repetitions written out");
        return Err(invalid(&reason));
    }
    let syntax =
        syntax::Config::new().case_insensitive(ignore_case).nest_limit(NESTED_MAX).unicode(false).utf8(false);
    let limits = meta::Config::new()
        .utf8_empty(false)
        .nfa_size_limit(Some(PATTERN_PROGRAM_MAX_BYTES))
        .hybrid_cache_capacity(PATTERN_STATES_MAX_BYTES);
    let regex = meta::Builder::new().syntax(syntax).configure(limits).build(pattern);
    Ok(LineMatcher { regex: regex.map_err(|error| invalid(&error))? })
}

/// Characters of an expression with its counted repetitions written out.
fn positions(hir: &Hir) -> u64 {
    let all = |parts: &[Hir]| parts.iter().map(positions).fold(0, u64::saturating_add);
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(_) => 1,
        HirKind::Capture(capture) => positions(&capture.sub),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            positions(&repetition.sub).saturating_mul(u64::from(times))
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => all(parts),
    }
}

/// Whether an expression asks for a line break, which no line has.
fn names_line_break(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) => false,
        HirKind::Literal(literal) => literal.0.contains(&b'\n'),
        HirKind::Capture(capture) => names_line_break(&capture.sub),
        HirKind::Repetition(repetition) => names_line_break(&repetition.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(names_line_break),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_count_as_often_as_they_say() {
        let table = [
            ("abc", 3),
            ("[a-z]+x?", 2),
            ("(ab|cd){10}", 40),
            ("a{3,}b{0,5}", 8),
            ("((a{1000}){1000}){1000}", 1_000_000_000),
            (r"\w{8}(-\w{4}){3}", 23),
        ];
        for (pattern, expected) in table {
            let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern).unwrap();
            assert_eq!(positions(&parsed), expected, "{pattern}");
        }
        for (pattern, allowed) in
            [("[ab]{999}c", true), ("[ab]{1000}c", false), (r"\w{30}", true), ("[[:^ascii:]]", true)]
        {
            assert_eq!(compile(pattern, false).is_ok(), allowed, "{pattern}");
        }
    }
}
