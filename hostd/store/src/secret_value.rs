//! A credential in memory.

use std::fmt;
use zeroize::Zeroizing;

/// A credential. Neither `Debug` nor any other trait prints it, and its memory is cleared when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Zeroizing<String>);

impl SecretValue {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for SecretValue {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_does_not_print() {
        let value = SecretValue::from("hunter2".to_owned());
        assert_eq!(format!("{value:?} {:?}", Some(&value)), "SecretValue Some(SecretValue)");
    }
}
