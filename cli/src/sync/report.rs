//! Tells what a synchronisation does, a line for each step.

use crate::{
    failure::{Failure, eprint_line},
    output::{Colour, Output},
    text::plain,
};
use std::collections::BTreeSet;

/// Prints steps, and each warning once.
pub struct Report {
    output: Output,
    warned: BTreeSet<String>,
    pub failed: usize,
}

/// What was done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Upload,
    Download,
    DeleteRemote,
    DeleteLocal,
    Conflict,
}

impl Act {
    fn word(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Download => "download",
            Self::DeleteRemote => "delete there",
            Self::DeleteLocal => "delete here",
            Self::Conflict => "conflict",
        }
    }

    fn wire(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Download => "download",
            Self::DeleteRemote => "delete_remote",
            Self::DeleteLocal => "delete_local",
            Self::Conflict => "conflict",
        }
    }

    fn colour(self) -> Colour {
        match self {
            Self::Upload | Self::Download => Colour::Green,
            Self::DeleteRemote | Self::DeleteLocal => Colour::Yellow,
            Self::Conflict => Colour::Red,
        }
    }
}

impl Report {
    pub fn new(output: Output) -> Self {
        Self { output, warned: BTreeSet::new(), failed: 0 }
    }

    /// `kept`: the name that the local file of a conflict has now.
    pub fn act(&self, act: Act, name: &[u8], kept: Option<&[u8]>) -> Result<(), Failure> {
        let text = |bytes: &[u8]| plain(&String::from_utf8_lossy(bytes));
        let kept = kept.map(text);
        if self.output.json {
            let mut line = serde_json::json!({ "step": act.wire(), "path": text(name) });
            if let Some(kept) = kept {
                line["kept"] = kept.into();
            }
            return self.output.json(&line);
        }
        let word = self.output.paint(act.colour(), &format!("{:<12}", act.word()));
        let kept = kept.map(|kept| format!(" (yours is now {kept})")).unwrap_or_default();
        self.output.line(&format!("{word}  {}{kept}", text(name)))
    }

    pub fn note(&self, text: &str) {
        if !self.output.json {
            eprint_line(&format!("slipway: {text}"));
        }
    }

    /// Warns once of a path that is not synchronised.
    pub fn left_out(&mut self, name: &[u8], why: &str) {
        let line = format!("slipway: {} is left out: {why}", plain(&String::from_utf8_lossy(name)));
        if self.warned.insert(line.clone()) {
            eprint_line(&line);
        }
    }
}
