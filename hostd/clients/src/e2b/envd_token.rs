//! The token of one sandbox, which clients send with every request to its processes and files. It stands for its holder,
//! and changes with the generation of the sandbox.

use crate::{ClientKey, token_holder::TokenHolder};
use protocol::api::SandboxId;

pub const PURPOSE: &str = "e2b envd";

/// Returns the token of a holder in this generation.
pub fn mint(key: &ClientKey, sandbox: &SandboxId, generation: u64, holder: &TokenHolder) -> String {
    holder.mint(key, PURPOSE, &parts(sandbox, &generation.to_be_bytes()))
}

/// Returns the holder of a token of this generation.
pub fn verified(key: &ClientKey, sandbox: &SandboxId, generation: u64, token: &str) -> Option<TokenHolder> {
    TokenHolder::verified(key, PURPOSE, &parts(sandbox, &generation.to_be_bytes()), token)
}

fn parts<'a>(sandbox: &'a SandboxId, generation: &'a [u8; 8]) -> [&'a [u8]; 2] {
    [sandbox.as_str().as_bytes(), generation]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_one_sandbox_and_one_generation() {
        let key = ClientKey::new(&[7; 32]);
        let sandbox = |text: &str| text.parse::<SandboxId>().expect("an id");
        let (one, other) = (sandbox("01k7k0000000000000000000aa"), sandbox("01k7k0000000000000000000ab"));
        for holder in [TokenHolder::Owner, TokenHolder::ApiToken("token-1".to_owned())] {
            let token = mint(&key, &one, 3, &holder);
            assert_eq!(verified(&key, &one, 3, &token), Some(holder));
            assert_eq!(verified(&key, &other, 3, &token), None, "another sandbox");
            assert_eq!(verified(&key, &one, 4, &token), None, "a later generation");
        }
    }
}
