//! Requests that the edge refuses itself, whatever state the sandbox is in, and their error pages.

use hostd_core::{ErrorPage, Previews};
use protocol::api::{ApiErrorCode, QuotaScope};

const ASK_FOR_A_LINK: &str = "Ask the sender of this address for a new one.";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The host is not the name of a preview.
    NoPreview,
    /// No sandbox has this id, or the visitor may not know of it.
    UnknownSandbox,
    /// The request is malformed, for this reason.
    Malformed(&'static str),
    /// A token or a pass is in the path, where the app would see it.
    CredentialInPath,
    /// Too many connections at once.
    TooMany,
    /// The quota of the owner allows no more connections at once.
    QuotaExceeded(QuotaScope),
    /// The request only probes whether the app is back, and wakes no sandbox.
    Asleep,
}

impl Refusal {
    /// The error page. Only a trusted visitor, who is on this host, is told commands; others are told to ask
    /// for a link.
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
                ErrorPage::new(ApiErrorCode::InvalidRequest, "This request is malformed", reason)
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
                    "Too many requests at once",
                    "This preview has as many connections as it may have. Try again in a moment.",
                )
            },
            Self::QuotaExceeded(scope) => {
                let whose = match scope {
                    QuotaScope::Tenant => "The tenant of this preview has",
                    QuotaScope::Principal => "The owner of this preview has",
                };
                let text = format!(
                    "{whose} as many connections to previews open as its quota allows. Try again in a moment."
                );
                let page = ErrorPage::new(ApiErrorCode::QuotaExceeded, "Too many requests at once", text);
                let advice = "See what is used: `slipway quota show`";
                ErrorPage { retry_after_s: Some(1), ..if trusted { page.advise(advice) } else { page } }
            }
            Self::Asleep => {
                let text = "This request only checks whether the app is back, and does not wake the sandbox.";
                ErrorPage::new(ApiErrorCode::Waking, "The sandbox is asleep", text)
                    .advise("Reload the page to wake it")
            }
        }
    }
}
