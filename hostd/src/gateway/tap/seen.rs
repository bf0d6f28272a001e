//! What was seen of an answer so far.

use crate::gateway::limits::TOLD_MAX_TOKENS;

/// An error that stands in an answer that began well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// As they came.
    pub words: String,
    /// As the provider calls it; may be empty.
    pub kind: String,
}

/// As told, with what was read from a cache not in `input`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
}

impl Counts {
    /// Nothing that a provider tells is too large to be added.
    pub fn bounded(self) -> Self {
        let most = |told: u64| told.min(TOLD_MAX_TOKENS);
        Self {
            input: self.input.map(most),
            output: self.output.map(most),
            cache_read: most(self.cache_read),
            cache_write: most(self.cache_write),
            reasoning: most(self.reasoning),
        }
    }
}

#[derive(Debug, Default)]
pub struct Seen {
    pub counts: Counts,
    /// Text of the model.
    pub said_bytes: u64,
    pub complete: bool,
    pub trouble: Option<Trouble>,
}

impl Seen {
    pub fn said(&mut self, bytes: u64) {
        self.said_bytes = self.said_bytes.saturating_add(bytes);
    }

    /// The first one is the cause.
    pub fn trouble(&mut self, told: Option<(String, String)>) {
        if self.trouble.is_none() {
            let (words, kind) =
                told.unwrap_or_else(|| ("an error without a message".to_owned(), String::new()));
            self.trouble = Some(Trouble { words, kind });
        }
    }
}
