//! What the edge refuses by itself, before it looks into any sandbox.

use crate::core::{ErrorPage, Previews};
use protocol::api::ApiErrorCode;

const ASK_FOR_A_LINK: &str = "Ask whoever gave you this address for a new one.";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The host is not the name of a preview.
    NoPreview,
    /// There is no such sandbox here.
    UnknownSandbox,
    /// The request makes no sense, for this reason.
    Malformed(&'static str),
    /// A token or a pass stands in the path, where the app would see it.
    CredentialInPath,
    /// Too many connections at once.
    TooMany,
    /// The request only probes whether the app is back, and wakes no sandbox.
    Asleep,
}

impl Refusal {
    /// Commands are for a visitor who can only be at this host: `trusted`. Others ask the one who can run them.
    pub fn error_page(self, previews: &Previews, trusted: bool) -> ErrorPage {
        let advice = |command: &'static str| if trusted { command } else { ASK_FOR_A_LINK };
        match self {
            Self::NoPreview => {
                let text = format!("The address of a preview looks like `{}`.", previews.example());
                ErrorPage::new(ApiErrorCode::NotFound, "There is no preview at this address", text)
                    .advise(advice("See the addresses of a sandbox: `slipway get NAME`"))
            }
            Self::UnknownSandbox => {
                let text = "It may have been removed, or the address may have been mistyped.";
                ErrorPage::new(ApiErrorCode::NotFound, "There is no such sandbox here", text)
                    .advise(advice("See which there are: `slipway ls`"))
            }
            Self::Malformed(reason) => {
                ErrorPage::new(ApiErrorCode::InvalidRequest, "This request makes no sense", reason)
            }
            Self::CredentialInPath => {
                let text = "The path has a token or a pass in it, which apps must not see.";
                ErrorPage::new(ApiErrorCode::InvalidRequest, "This address carries a secret", text)
                    .advise("Send it as `X-Slipway-Token`.")
            }
            Self::TooMany => ErrorPage {
                status: 503,
                retry_after_s: Some(1),
                ..ErrorPage::new(
                    ApiErrorCode::TooMany,
                    "Too much is asked at once",
                    "This preview has as many connections as it may have. Try again in a moment.",
                )
            },
            Self::Asleep => {
                let text = "What was asked only looks whether the app is back, and wakes nobody.";
                ErrorPage::new(ApiErrorCode::Waking, "The sandbox is asleep", text)
                    .advise("Reload the page to wake it")
            }
        }
    }
}
