//! The token of one sandbox for its processes and files. One token is valid at a time: the next generation of it is
//! another one.

use crate::ClientKey;
use protocol::api::SandboxId;
use std::fmt::Write;

/// What the signature is for.
const PURPOSE: &str = "envd";

pub fn mint(key: &ClientKey, sandbox: &SandboxId, generation: u64) -> String {
    let signature = key.sign(PURPOSE, &[sandbox.as_str().as_bytes(), &generation.to_be_bytes()]);
    signature.iter().fold(String::with_capacity(2 * signature.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
