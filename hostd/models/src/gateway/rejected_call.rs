//! Which refusals are recorded as failed calls of their task. Pure.

use super::{redact_key::redacted_line, refusal::GatewayRefusal};
use crate::{CallRefusal, RejectedCall};

impl GatewayRefusal {
    /// The record of a refused call whose key was valid. `count_only`: the call would generate nothing.
    pub fn rejected_call(&self, count_only: bool) -> Option<RejectedCall> {
        let (model, counts) = match self {
            Self::Models(CallRefusal::Model { model, .. }) => (redacted_line(model, None), true),
            Self::Request(_) | Self::BodyTooLarge | Self::Encoding => (String::new(), true),
            // The agent may have disconnected, so the task is not judged by it.
            Self::BodyTimeout | Self::MalformedBody => (String::new(), false),
            // A budget that is used up and the end of the task are recorded elsewhere.
            Self::Models(_) => return None,
            // The agent is told to retry, and the retry is the call.
            Self::TooMany => return None,
            // Either no call, or one whose end is recorded.
            Self::Route(_) | Self::Key | Self::Provider(_) | Self::ProviderTimeout(_) => return None,
        };
        let (status, message) = (self.status().as_u16(), redacted_line(&self.to_string(), None));
        Some(RejectedCall { model, status, message, counts: counts && !count_only })
    }
}
