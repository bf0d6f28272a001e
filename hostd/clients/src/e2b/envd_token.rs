//! The token of one sandbox, which clients send with every request to its processes and files: a signature, so that none is
//! stored. It changes with the generation of the sandbox.

use crate::ClientKey;
use protocol::api::SandboxId;

const PURPOSE: &str = "e2b envd";

/// Returns the token of this generation.
pub fn mint(key: &ClientKey, sandbox: &SandboxId, generation: u64) -> String {
    key.mint(PURPOSE, &parts(sandbox, &generation.to_be_bytes()))
}

/// Whether the text is the token of this generation, in constant time.
pub fn verify(key: &ClientKey, sandbox: &SandboxId, generation: u64, token: &str) -> bool {
    key.accepts(PURPOSE, &parts(sandbox, &generation.to_be_bytes()), token)
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
        let token = mint(&key, &one, 3);
        assert!(verify(&key, &one, 3, &token));
        assert!(!verify(&key, &other, 3, &token), "another sandbox");
        assert!(!verify(&key, &one, 4, &token), "a later generation");
        assert!(!verify(&ClientKey::new(&[8; 32]), &one, 3, &token), "another instance");
        for wrong in ["", "x", &token[1..], &format!("{token}A"), &token.to_ascii_uppercase()] {
            assert!(!verify(&key, &one, 3, wrong), "{wrong:?}");
        }
    }
}
