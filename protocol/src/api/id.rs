//! Ids that hostd generates: ULIDs in lower case, compared case-insensitively because they appear in hostnames.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Letters and digits of a ULID: Crockford's base 32, without i, l, o and u.
const ALPHABET: &[u8] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ID_BYTES: usize = 26;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadId;

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an id is {ID_BYTES} letters and digits, as in 01jb9xyzabcdefghjkmnpqrstv")
    }
}

impl std::error::Error for BadId {}

/// Defines the type of an id. A parsed id is safe in a path, a hostname and a log line.
macro_rules! ulid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        #[serde(try_from = "String", into = "String")]
        pub struct $name([u8; ID_BYTES]);

        impl $name {
            pub fn as_str(&self) -> &str {
                std::str::from_utf8(&self.0).expect("only letters and digits were let in")
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                parse(text).map(Self)
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadId;
            fn try_from(text: String) -> Result<Self, BadId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.as_str().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

ulid_id! {
    /// Id of a sandbox: a ULID in lower case.
    SandboxId
}

ulid_id! {
    /// Id of a snapshot: a ULID in lower case.
    SnapshotId
}

fn parse(text: &str) -> Result<[u8; ID_BYTES], BadId> {
    let lower = text.to_ascii_lowercase();
    let bytes: [u8; ID_BYTES] = lower.as_bytes().try_into().map_err(|_| BadId)?;
    // The first character of 128 bits in base 32 is at most 7.
    let fits = bytes[0] <= b'7';
    if fits && bytes.iter().all(|b| ALPHABET.contains(b)) { Ok(bytes) } else { Err(BadId) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_does_not_matter_and_everything_else_does() {
        let id: SandboxId = "01JB9XYZABCDEFGHJKMNPQRSTV".parse().expect("a good id");
        assert_eq!(id.to_string(), "01jb9xyzabcdefghjkmnpqrstv");
        for bad in [
            "",
            "01jb9",
            "81jb9xyzabcdefghjkmnpqrstv",
            "01jb9xyzabcdefghjkmnpqrst/",
            "../../../../../../../../..a",
        ] {
            assert_eq!(bad.parse::<SandboxId>(), Err(BadId), "{bad:?}");
        }
    }
}
