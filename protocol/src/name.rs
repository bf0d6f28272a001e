//! Names that clients choose. Parsed once: a value of these types is safe as a file name, in a URL path and in a log
//! line.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest name, in bytes.
const NAME_MAX_BYTES: usize = 64;

/// The error of a name that does not parse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadName;

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a name is 1 to {NAME_MAX_BYTES} of A-Z a-z 0-9 . _ - and starts with a letter or digit")
    }
}

impl std::error::Error for BadName {}

fn check(text: &str) -> Result<(), BadName> {
    let bytes = text.as_bytes();
    let starts_well = bytes.first().is_some_and(u8::is_ascii_alphanumeric);
    let safe = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if starts_well && bytes.len() <= NAME_MAX_BYTES && bytes.iter().all(safe) { Ok(()) } else { Err(BadName) }
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            pub fn parse(text: &str) -> Result<Self, BadName> {
                check(text).map(|()| Self(text.to_owned()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $type {
            type Error = BadName;
            fn try_from(text: String) -> Result<Self, BadName> {
                check(&text).map(|()| Self(text))
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// Id of an exec, chosen by the client: 1 to 64 of A-Z a-z 0-9 . _ -, starting with a letter or digit. A request
    /// repeated with the same id runs the command once.
    ExecId
);
name!(
    /// Id of a task, chosen by the client: 1 to 64 of A-Z a-z 0-9 . _ -, starting with a letter or digit. A request
    /// repeated with the same id runs the task once.
    TaskId
);
name!(
    /// Name of a service: 1 to 64 of A-Z a-z 0-9 . _ -, starting with a letter or digit.
    ServiceName
);
name!(
    /// Name of an egress profile.
    ProfileName
);
name!(
    /// Name of a hold.
    HoldName
);
name!(
    /// Name of an agent that was started in advance.
    WarmName
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_safe_as_a_file_name() {
        for good in ["a", "web", "01jb9xyz", "A.b_c-d", &"x".repeat(64)] {
            assert!(ExecId::parse(good).is_ok(), "{good:?}");
        }
        for bad in ["", ".", "..", ".hidden", "-rf", "a/b", "a b", "a\0", "é", "a\n", &"x".repeat(65)] {
            assert_eq!(ExecId::parse(bad), Err(BadName), "{bad:?}");
        }
    }

    #[test]
    fn serde_checks_too() {
        assert!(serde_json::from_str::<ExecId>("\"../x\"").is_err());
        assert_eq!(serde_json::from_str::<ExecId>("\"ok\"").expect("a good name"), ExecId("ok".into()));
    }
}
