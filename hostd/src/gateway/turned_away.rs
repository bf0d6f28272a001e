//! Which refusals count as calls of their task, and with which words. Pure.

use super::{refusal::Refusal, scrub::words};
use crate::models::{CallRefusal, RejectedCall};

impl Refusal {
    /// Of a call whose key was good. `only_counts` is one that makes nothing.
    pub fn turned_away(&self, count_only: bool) -> Option<RejectedCall> {
        let (model, is_whole) = match self {
            Self::Models(CallRefusal::Model { model, .. }) => (words(model, None), true),
            Self::Ask(_) | Self::TooLarge | Self::Encoding => (String::new(), true),
            // The agent may have gone away.
            Self::NoBody | Self::BadBody => (String::new(), false),
            // Of a budget and of an end the task knows.
            Self::Models(_) => return None,
            // Told to wait, and then it is a call.
            Self::TooMany => return None,
            // No call, or one that was told.
            Self::Route(_) | Self::Key | Self::Provider(_) | Self::ProviderSlow(_) => return None,
        };
        let (status, message) = (self.status().as_u16(), words(&self.to_string(), None));
        Some(RejectedCall { model, status, message, counts: is_whole && !count_only })
    }
}
