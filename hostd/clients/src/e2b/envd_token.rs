//! The token of one sandbox, which clients send with every request to its processes and files. It stands for its holder,
//! and is the one of the generation in which the holder got it (`E2bRecord::generation_of`).

use crate::{ClientKey, e2b::record::E2bRecord, token_holder::TokenHolder};
use protocol::api::SandboxId;

pub const PURPOSE: &str = "e2b envd";

/// Returns the token of a holder.
pub fn mint(key: &ClientKey, sandbox: &SandboxId, record: &E2bRecord, holder: &TokenHolder) -> String {
    holder.mint(key, PURPOSE, &parts(sandbox, &record.generation_of(holder).to_be_bytes()))
}

/// Returns the holder of a token that is valid.
pub fn verified(
    key: &ClientKey,
    sandbox: &SandboxId,
    record: &E2bRecord,
    token: &str,
) -> Option<TokenHolder> {
    let generation = record.generation_of(&TokenHolder::claimed(token)?);
    TokenHolder::verified(key, PURPOSE, &parts(sandbox, &generation.to_be_bytes()), token)
}

fn parts<'a>(sandbox: &'a SandboxId, generation: &'a [u8; 8]) -> [&'a [u8]; 2] {
    [sandbox.as_str().as_bytes(), generation]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::e2b::record::HandedOut;

    #[test]
    fn a_connect_that_resumes_ends_the_tokens_of_all_others() {
        let key = ClientKey::new(&[7; 32]);
        let sandbox = |text: &str| text.parse::<SandboxId>().expect("an id");
        let (one, other) = (sandbox("01k7k0000000000000000000aa"), sandbox("01k7k0000000000000000000ab"));
        let owner = TokenHolder::Owner;
        let (ann, bob) = (TokenHolder::ApiToken("ann".to_owned()), TokenHolder::ApiToken("bob".to_owned()));
        let holders =
            [&owner, &ann, &bob].map(|holder| HandedOut { holder: holder.clone(), generation: 0 }).to_vec();
        let record = E2bRecord { holders, ..E2bRecord::default() };
        let tokens = [&owner, &ann, &bob].map(|holder| mint(&key, &one, &record, holder));
        for (token, holder) in tokens.iter().zip([&owner, &ann, &bob]) {
            assert_eq!(verified(&key, &one, &record, token).as_ref(), Some(holder));
            assert_eq!(verified(&key, &other, &record, token), None, "another sandbox");
        }
        let resumed = record.resumed_by(&ann).resumed_by(&ann);
        let [of_owner, of_ann, of_bob] = tokens;
        assert_eq!(verified(&key, &one, &resumed, &of_ann), Some(ann));
        for ended in [of_owner, of_bob] {
            assert_eq!(verified(&key, &one, &resumed, &ended), None);
        }
        let next = mint(&key, &one, &resumed, &bob);
        assert_eq!(verified(&key, &one, &resumed, &next), Some(bob));
    }
}
