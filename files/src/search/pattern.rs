//! Compiles the regular expression of a search, within limits: no expression may take long, whatever is searched.

use crate::{
    FilesError,
    limits::{PATTERN_MAX_BYTES, PATTERN_POSITIONS_MAX, PATTERN_PROGRAM_MAX_BYTES, PATTERN_STATES_MAX_BYTES},
};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use regex_syntax::{
    ParserBuilder,
    hir::{Hir, HirKind},
};

/// Parentheses in each other.
const NESTED_MAX: u32 = 100;

pub fn compile(pattern: &str, ignore_case: bool) -> Result<RegexMatcher, FilesError> {
    let invalid = |reason: &dyn std::fmt::Display| FilesError::invalid(format!("content: {reason}"));
    if pattern.len() > PATTERN_MAX_BYTES {
        return Err(invalid(&format!("at most {PATTERN_MAX_BYTES} bytes")));
    }
    let parsed = ParserBuilder::new().nest_limit(NESTED_MAX).utf8(false).build().parse(pattern);
    if positions(&parsed.map_err(|error| invalid(&error))?) > PATTERN_POSITIONS_MAX {
        let reason = format!("at most {PATTERN_POSITIONS_MAX} characters, with repetitions written out");
        return Err(invalid(&reason));
    }
    RegexMatcherBuilder::new()
        .case_insensitive(ignore_case)
        .multi_line(true)
        .line_terminator(Some(b'\n'))
        .size_limit(PATTERN_PROGRAM_MAX_BYTES)
        .dfa_size_limit(PATTERN_STATES_MAX_BYTES)
        .nest_limit(NESTED_MAX)
        .build(pattern)
        .map_err(|error| invalid(&error))
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
            let parsed = ParserBuilder::new().build().parse(pattern).unwrap();
            assert_eq!(positions(&parsed), expected, "{pattern}");
        }
        for (pattern, allowed) in
            [("[ab]{999}c", true), ("[ab]{1000}c", false), (r"\w{30}", true), ("[[:^ascii:]]", true)]
        {
            assert_eq!(compile(pattern, false).is_ok(), allowed, "{pattern}");
        }
    }
}
