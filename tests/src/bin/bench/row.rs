//! A row of the table, and the reduction of samples to one number.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

pub struct Row {
    pub what: Cow<'static, str>,
    pub ours: String,
    pub other: String,
    /// Ours divided by the other, or by a fixed bound.
    pub ratio: f64,
    pub goal: Goal,
}

#[derive(Clone, Copy)]
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// For orientation.
    Shown,
}

pub const HEAD: &str = "what                                    ours            against                                 ratio  goal";

impl Row {
    pub fn is_met(&self) -> bool {
        match self.goal {
            Goal::AtMost(bound) => self.ratio <= bound,
            Goal::AtLeast(bound) => self.ratio >= bound,
            Goal::Shown => true,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_met() { "met" } else { "MISSED" };
        let goal = match self.goal {
            Goal::AtMost(bound) => format!("≤ {bound:.3} {verdict}"),
            Goal::AtLeast(bound) => format!("≥ {bound:.3} {verdict}"),
            Goal::Shown => "shown".to_owned(),
        };
        write!(f, "{:<40}{:<16}{:<38}{:>7.3}  {goal}", self.what, self.ours, self.other, self.ratio)
    }
}

pub fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

pub fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

pub fn mb_per_s(bytes: u64, time: Duration) -> String {
    format!("{:.0} MB/s", bytes as f64 / time.as_secs_f64() / 1e6)
}

pub fn ratio(ours: Duration, other: Duration) -> f64 {
    ours.as_secs_f64() / other.as_secs_f64()
}
