//! What the edge refuses by itself, before it looks into any sandbox.

use crate::core::{Explanation, Previews};
use protocol::api::ApiErrorCode;

const ASK_OWNER: &str = "Ask whoever gave you this address for a new one.";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The host is not the name of a preview.
    NoPreview,
    /// There is no such sandbox here.
    Unknown,
    /// The request makes no sense, for this reason.
    Malformed(&'static str),
    /// A token or a pass stands in the path, where the app would see it.
    CredentialInPath,
    /// Too much is asked at once.
    TooMany,
}

impl Refusal {
    /// Commands are for a visitor who can only be at this host: `known`. Others ask the one who can run them.
    pub fn explanation(self, previews: &Previews, known: bool) -> Explanation {
        let advice = |command: &'static str| if known { command } else { ASK_OWNER };
        match self {
            Self::NoPreview => {
                let text = format!("The address of a preview looks like `{}`.", previews.example());
                Explanation::new(ApiErrorCode::NotFound, "There is no preview at this address", text)
                    .advise(advice("See the addresses of a sandbox: `slipway get NAME`"))
            }
            Self::Unknown => {
                let text = "It may have been removed, or the address may have been mistyped.";
                Explanation::new(ApiErrorCode::NotFound, "There is no such sandbox here", text)
                    .advise(advice("See which there are: `slipway ls`"))
            }
            Self::Malformed(reason) => {
                Explanation::new(ApiErrorCode::InvalidRequest, "This request makes no sense", reason)
            }
            Self::CredentialInPath => {
                let text = "The path has a token or a pass in it, which apps must not see.";
                Explanation::new(ApiErrorCode::InvalidRequest, "This address carries a secret", text)
                    .advise("Send it as `X-Slipway-Token`.")
            }
            Self::TooMany => Explanation {
                status: 503,
                retry_after_s: Some(1),
                ..Explanation::new(
                    ApiErrorCode::TooMany,
                    "Too much is asked at once",
                    "This preview has as many connections as it may have. Try again in a moment.",
                )
            },
        }
    }
}
