//! Decisions of the edge about requests and responses. Pure.

mod aimd_window;
mod dangerous_headers;
mod expected_listener;
mod request;
mod rewrite;
mod strip_credentials;

pub use aimd_window::{AimdWindow, INITIAL as WINDOW_INITIAL};
pub use dangerous_headers::strip_dangerous_headers;
pub use expected_listener::expects_listener;
pub use request::{MalformedRequest, RequestKind, RequestTraits, authority};
pub use rewrite::{HeaderRewrite, strip_hop_by_hop};
