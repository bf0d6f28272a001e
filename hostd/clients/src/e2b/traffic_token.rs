//! The token that opens the private previews of one sandbox, and its code interpreter, as long as the sandbox exists.

use crate::ClientKey;
use hyper::{HeaderMap, header::HeaderName};
use protocol::api::SandboxId;

pub const HEADER: HeaderName = HeaderName::from_static("e2b-traffic-access-token");
const PURPOSE: &str = "e2b traffic";

pub fn mint(key: &ClientKey, sandbox: &SandboxId) -> String {
    key.mint(PURPOSE, &[sandbox.as_str().as_bytes()])
}

/// Whether the headers have the token of this sandbox, once.
pub fn opens(key: &ClientKey, sandbox: &SandboxId, headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(HEADER).iter();
    let token = values.next().and_then(|value| value.to_str().ok());
    values.next().is_none()
        && token.is_some_and(|token| key.accepts(PURPOSE, &[sandbox.as_str().as_bytes()], token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_opens_its_own_sandbox_only() {
        let key = ClientKey::new(&[7; 32]);
        let sandbox = |text: &str| text.parse::<SandboxId>().expect("an id");
        let (one, other) = (sandbox("01k7k0000000000000000000aa"), sandbox("01k7k0000000000000000000ab"));
        let mut headers = HeaderMap::new();
        assert!(!opens(&key, &one, &headers), "no header");
        headers.insert(HEADER, mint(&key, &one).parse().expect("a header"));
        assert!(opens(&key, &one, &headers));
        assert!(!opens(&key, &other, &headers));
        assert!(!opens(&ClientKey::new(&[8; 32]), &one, &headers));
        headers.append(HEADER, mint(&key, &one).parse().expect("a header"));
        assert!(!opens(&key, &one, &headers), "twice");
    }
}
