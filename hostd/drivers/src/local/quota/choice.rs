//! Chooses the means by which workspaces are limited. Pure: what works is asked of the caller.

use std::{fmt, str::FromStr};

/// How the disk limit of a workspace is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaMeans {
    Project,
    Loop,
    Measured,
}

/// The means that the operator configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QuotaChoice {
    /// The best that works.
    #[default]
    Auto,
    Only(QuotaMeans),
}

/// From the best to the one that always works.
const BEST_FIRST: [QuotaMeans; 3] = [QuotaMeans::Project, QuotaMeans::Loop, QuotaMeans::Measured];

impl QuotaMeans {
    pub fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Loop => "loop",
            Self::Measured => "measured",
        }
    }
}

impl fmt::Display for QuotaMeans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for QuotaChoice {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => BEST_FIRST.into_iter().find(|means| means.name() == text).map(Self::Only).ok_or(()),
        }
    }
}

/// The chosen means, and why better ones, or the configured one, were not.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    pub means: Option<QuotaMeans>,
    pub rejected: Vec<(QuotaMeans, String)>,
}

/// Tries the means in order until one works.
pub fn choose(choice: QuotaChoice, mut works: impl FnMut(QuotaMeans) -> Result<(), String>) -> Chosen {
    let mut chosen = Chosen::default();
    for means in BEST_FIRST {
        if matches!(choice, QuotaChoice::Only(only) if only != means) {
            continue;
        }
        match works(means) {
            Ok(()) => {
                chosen.means = Some(means);
                break;
            }
            Err(why) => chosen.rejected.push((means, why)),
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use QuotaMeans::{Loop, Measured, Project};

    #[test]
    fn the_best_means_that_works_is_chosen_and_a_configured_one_is_never_replaced() {
        let (auto, only) = (QuotaChoice::Auto, QuotaChoice::Only);
        type Row = (QuotaChoice, &'static [QuotaMeans], Option<QuotaMeans>, &'static [QuotaMeans]);
        let table: [Row; 8] = [
            (auto, &[Project, Loop, Measured], Some(Project), &[]),
            (auto, &[Loop, Measured], Some(Loop), &[Project]),
            (auto, &[Measured], Some(Measured), &[Project, Loop]),
            (only(Project), &[Project, Loop], Some(Project), &[]),
            (only(Project), &[Loop, Measured], None, &[Project]),
            (only(Loop), &[Project, Loop], Some(Loop), &[]),
            (only(Loop), &[Project, Measured], None, &[Loop]),
            (only(Measured), &[Project, Loop, Measured], Some(Measured), &[]),
        ];
        for (choice, works, means, rejected) in table {
            let chosen = choose(choice, |means| works.contains(&means).then_some(()).ok_or("no".to_owned()));
            assert_eq!(chosen.means, means, "{choice:?} {works:?}");
            let names: Vec<_> = chosen.rejected.iter().map(|(means, _)| *means).collect();
            assert_eq!(names, rejected, "{choice:?} {works:?}");
        }
    }

    #[test]
    fn a_choice_is_read_by_its_name() {
        for means in BEST_FIRST {
            assert_eq!(means.name().parse(), Ok(QuotaChoice::Only(means)));
        }
        assert_eq!("auto".parse(), Ok(QuotaChoice::Auto));
        assert_eq!("Loop".parse::<QuotaChoice>(), Err(()));
    }
}
