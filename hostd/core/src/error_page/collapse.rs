//! Counts repetitions in log lines instead of showing them: a service that keeps failing prints the same each
//! time. Works from the end, where groups of lines are complete.

/// Shows every run of equal lines, or of equal groups of lines, once and with `×` how often.
pub fn collapse_repeats(lines: &[String]) -> Vec<String> {
    let mut shown = Vec::new();
    let mut rest = lines;
    while !rest.is_empty() {
        let (length, times) = repetition(rest);
        // Collected from the last line to the first, and reversed below.
        shown.extend(once(&rest[rest.len() - length..], times).into_iter().rev());
        rest = &rest[..rest.len() - length * times];
    }
    shown.reverse();
    shown
}

/// The length of the group of lines that repeats at the end, and how often.
fn repetition(lines: &[String]) -> (usize, usize) {
    let times = |length: usize| {
        let last = &lines[lines.len() - length..];
        lines.rchunks(length).take_while(|group| *group == last).count()
    };
    let repeats = (1..=lines.len() / 2).map(|length| (length, times(length)));
    repeats.into_iter().find(|(_, times)| *times > 1).unwrap_or((1, 1))
}

fn once(group: &[String], times: usize) -> Vec<String> {
    match group {
        [line] if times > 1 && !line.trim().is_empty() => vec![format!("{line} ×{times}")],
        [_, _, ..] if times > 1 => {
            let mut shown = group.to_vec();
            shown.push(format!("(these {} lines ×{times})", group.len()));
            shown
        }
        _ => group.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_repeats_is_shown_once_and_counted() {
        let table = [
            ("", ""),
            ("a", "a"),
            ("a|b|c", "a|b|c"),
            ("a|a|a|a|a|a|a|a|a|a", "a ×10"),
            ("a|b|b|c|c|c|d", "a|b ×2|c ×3|d"),
            // A group whose first occurrence is cut off by the start of the excerpt.
            ("b|c|a|b|c|a|b|c", "b|c|a|b|c|(these 3 lines ×2)"),
            ("x|a|b|a|b|y|y", "x|a|b|(these 2 lines ×2)|y ×2"),
            ("a|||b", "a||b"),
            ("a|b|a", "a|b|a"),
        ];
        for (given, expected) in table {
            let lines: Vec<String> =
                given.split('|').filter(|_| !given.is_empty()).map(str::to_owned).collect();
            assert_eq!(collapse_repeats(&lines).join("|"), expected, "{given}");
        }
    }

    proptest! {
        #[test]
        fn every_line_is_shown_and_none_is_added(lines in prop::collection::vec("[ab]", 0..20)) {
            let shown = collapse_repeats(&lines);
            prop_assert!(shown.len() <= lines.len() + lines.len() / 4);
            let counted: usize = shown.iter().filter(|line| !line.starts_with('(')).count();
            prop_assert!(counted <= lines.len());
            for line in lines {
                prop_assert!(shown.iter().any(|shown| shown.starts_with(&line)));
            }
        }
    }
}
