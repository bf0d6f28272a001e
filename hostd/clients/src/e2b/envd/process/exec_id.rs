//! Ids of execs that clients of E2B start. The tag that a client gave is in the id: nothing else keeps it.

use crate::e2b::{connect::ConnectError, envd::limits::TAG_MAX_BYTES};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use protocol::ExecId;

const PREFIX: &str = "e2b-";
/// Characters of the number after it.
const NUMBER_CHARS: usize = 26;

/// A new id.
pub fn generate(tag: Option<&str>) -> Result<ExecId, ConnectError> {
    let number = ulid::Ulid::generate().to_string().to_ascii_lowercase();
    let text = match tag {
        None => format!("{PREFIX}{number}"),
        Some(tag) if tag.len() <= TAG_MAX_BYTES => {
            format!("{PREFIX}{number}-{}", BASE64_URL_SAFE_NO_PAD.encode(tag))
        }
        Some(_) => {
            return Err(ConnectError::invalid(format!("a tag has at most {TAG_MAX_BYTES} bytes")));
        }
    };
    Ok(ExecId::parse(&text).expect("letters, digits and dashes, at most 63"))
}

/// The tag of an exec, if a client gave it one.
pub fn tag(id: &ExecId) -> Option<String> {
    let encoded = id.as_str().strip_prefix(PREFIX)?.get(NUMBER_CHARS..)?.strip_prefix('-')?;
    String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_in_the_id() {
        for text in ["", "dev", "a b/ü", &"x".repeat(TAG_MAX_BYTES)] {
            assert_eq!(tag(&generate(Some(text)).expect("short")).as_deref(), Some(text));
        }
        assert_eq!(tag(&generate(None).expect("an id")), None);
        assert!(generate(Some(&"x".repeat(TAG_MAX_BYTES + 1))).is_err());
        assert_eq!(tag(&ExecId::parse("build-ZGV2").expect("a name")), None, "an exec of another client");
    }
}
