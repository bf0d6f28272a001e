//! Headers of content that a stranger wrote: a browser downloads it, guesses no type and runs nothing of it on the API's
//! origin.

use hyper::{
    HeaderMap,
    header::{
        CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue,
        X_CONTENT_TYPE_OPTIONS,
    },
};
use protocol::files::FilePath;

const POLICY: &str = "sandbox; default-src 'none'; frame-ancestors 'none'";
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Adds the headers; `name` is what the content is downloaded as.
pub fn add(headers: &mut HeaderMap, name: &[u8]) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    // Kept by the caller alone, and asked for again each time: the tag answers that.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    let encoded = FilePath(name.to_vec()).encoded().replace('/', "%2F");
    let disposition = format!("attachment; filename*=UTF-8''{encoded}");
    let value = HeaderValue::from_str(&disposition);
    headers.insert(CONTENT_DISPOSITION, value.unwrap_or(HeaderValue::from_static("attachment")));
}

/// The last name of a path.
pub fn base_name(path: &FilePath) -> &[u8] {
    let name = path.0.split(|byte| *byte == b'/').rfind(|name| !name.is_empty() && *name != b".");
    name.unwrap_or(b"workspace")
}
