//! The token that opens the private previews of one sandbox, and the contexts of its code interpreter. It stands for its
//! holder.

use crate::{ClientKey, token_holder::TokenHolder};
use hyper::{HeaderMap, header::HeaderName};
use protocol::api::SandboxId;

pub const HEADER: HeaderName = HeaderName::from_static("e2b-traffic-access-token");
pub const PURPOSE: &str = "e2b traffic";

pub fn mint(key: &ClientKey, sandbox: &SandboxId, holder: &TokenHolder) -> String {
    holder.mint(key, PURPOSE, &[sandbox.as_str().as_bytes()])
}

/// Returns the holder of the token of this sandbox, if the headers have it, once.
pub fn holder(key: &ClientKey, sandbox: &SandboxId, headers: &HeaderMap) -> Option<TokenHolder> {
    let mut values = headers.get_all(HEADER).iter();
    let token = values.next()?.to_str().ok()?;
    match values.next() {
        None => TokenHolder::verified(key, PURPOSE, &[sandbox.as_str().as_bytes()], token),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_opens_its_own_sandbox_only() {
        let key = ClientKey::new(&[7; 32]);
        let sandbox = |text: &str| text.parse::<SandboxId>().expect("an id");
        let (one, other) = (sandbox("01k7k0000000000000000000aa"), sandbox("01k7k0000000000000000000ab"));
        let token = TokenHolder::ApiToken("token-1".to_owned());
        let mut headers = HeaderMap::new();
        assert_eq!(holder(&key, &one, &headers), None, "no header");
        headers.insert(HEADER, mint(&key, &one, &token).parse().expect("a header"));
        assert_eq!(holder(&key, &one, &headers), Some(token.clone()));
        assert_eq!(holder(&key, &other, &headers), None);
        assert_eq!(holder(&ClientKey::new(&[8; 32]), &one, &headers), None);
        headers.append(HEADER, mint(&key, &one, &token).parse().expect("a header"));
        assert_eq!(holder(&key, &one, &headers), None, "twice");
    }
}
