//! Addresses of Slipway's own API: paths with queries.

use std::fmt::Write as _;

/// Builds the address of a call. Parts that are not text of ours are checked types, or values of the query.
pub struct Address {
    text: String,
}

impl Address {
    pub fn new(path: impl Into<String>) -> Self {
        Self { text: path.into() }
    }

    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.text.push(if self.text.contains('?') { '&' } else { '?' });
        self.text.push_str(name);
        self.text.push('=');
        self.text.push_str(&percent_encode(value.as_bytes()));
        self
    }

    pub fn query_if(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.query(name, &value.to_string()),
            None => self,
        }
    }

    /// A flag that is sent where it is set.
    pub fn flag(self, name: &str, set: bool) -> Self {
        if set { self.query(name, "true") } else { self }
    }

    pub fn build(self) -> String {
        self.text
    }
}

pub fn percent_encode(bytes: &[u8]) -> String {
    let mut encoded = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/') {
            encoded.push(char::from(*byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a String takes everything");
        }
    }
    encoded
}

/// Returns the bytes of percent-encoded text; `None` where it is malformed.
pub fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                let digits = std::str::from_utf8(&digits).ok().filter(|digits| !digits.starts_with('+'))?;
                u8::from_str_radix(digits, 16).ok()?
            }
            plain => plain,
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_and_read_back() {
        let address =
            Address::new("/v1/x").query("path", "a b&c=é/#?").query_if("limit", Some(3)).flag("all", true);
        assert_eq!(address.build(), "/v1/x?path=a%20b%26c%3D%C3%A9/%23%3F&limit=3&all=true");
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(percent_decode(&percent_encode(&all)), Some(all));
        for bad in ["%", "%4", "%zz", "%+1"] {
            assert_eq!(percent_decode(bad), None, "{bad}");
        }
    }
}
