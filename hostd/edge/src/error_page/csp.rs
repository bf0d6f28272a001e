//! The Content-Security-Policy of error pages: their one script, their one style, and requests to their own
//! host.

use base64::{Engine, prelude::BASE64_STANDARD};
use hyper::header::HeaderValue;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

pub const STYLE: &str = include_str!("page.css");
pub const SCRIPT: &str = include_str!("wait.js");

/// Frames are allowed: a preview is often shown in one.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    HeaderValue::from_str(&policy).expect("hashes and words are ASCII")
});

pub fn header() -> HeaderValue {
    POLICY.clone()
}

fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}
