//! The facts that a response has reported of itself so far.

use crate::gateway::{limits::USAGE_MAX_TOKENS, provider_error::ProviderError};

/// Token counts as the provider reports them; `input` excludes tokens read from a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenCounts {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
}

impl TokenCounts {
    /// Clamps each count, so that sums over many calls cannot overflow whatever a provider reports.
    pub fn clamped(self) -> Self {
        let clamp = |count: u64| count.min(USAGE_MAX_TOKENS);
        Self {
            input: self.input.map(clamp),
            output: self.output.map(clamp),
            cache_read: clamp(self.cache_read),
            cache_write: clamp(self.cache_write),
            reasoning: clamp(self.reasoning),
        }
    }
}

#[derive(Debug, Default)]
pub struct ResponseFacts {
    pub counts: TokenCounts,
    /// Bytes of text that the model wrote.
    pub text_bytes: u64,
    /// The marker that ends a response of this dialect has come.
    pub complete: bool,
    pub error: Option<ProviderError>,
}

impl ResponseFacts {
    pub fn add_text(&mut self, bytes: u64) {
        self.text_bytes = self.text_bytes.saturating_add(bytes);
    }

    /// Keeps the first error, which is the cause of those that follow.
    pub fn record_error(&mut self, error: Option<ProviderError>) {
        if self.error.is_none() {
            self.error = Some(error.unwrap_or_else(ProviderError::without_message));
        }
    }
}
