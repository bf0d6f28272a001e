//! Percent-encoding of paths: of the ones that clients send, and of the ones in calls of the API. Bytes, since names in a
//! sandbox need not be UTF-8.

use std::fmt::Write;

/// Encodes all but unreserved characters and the slash.
pub fn encode(bytes: &[u8]) -> String {
    let mut encoded = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(byte) {
            encoded.push(char::from(*byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a string takes everything");
        }
    }
    encoded
}

/// Decodes a path; `None` where a `%` has no two digits after it.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        decoded.push(u8::try_from(high * 16 + low).ok()?);
    }
    Some(decoded)
}

/// Decodes the value of a parameter of a query, where a plus is a space.
pub fn decode_value(text: &str) -> Option<Vec<u8>> {
    decode(&text.replace('+', "%20"))
}

/// Returns the parameters of a query with one of these names, in their order.
pub fn values<'a>(query: Option<&'a str>, name: &'a str) -> impl Iterator<Item = Option<Vec<u8>>> + 'a {
    let pairs = query.unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.filter(move |(given, _)| *given == name).map(|(_, value)| decode_value(value))
}

/// Returns the first parameter with this name, if it is UTF-8.
pub fn value(query: Option<&str>, name: &str) -> Option<String> {
    values(query, name).next().flatten().and_then(|bytes| String::from_utf8(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_decodes_to_the_same_bytes() {
        for (bytes, encoded) in [
            (&b"a/b-c_d.e~f"[..], "a/b-c_d.e~f"),
            (b"a b%c?d#e&f+g", "a%20b%25c%3Fd%23e%26f%2Bg"),
            ("ü".as_bytes(), "%C3%BC"),
            (b"\xff\n", "%FF%0A"),
        ] {
            assert_eq!(encode(bytes), encoded);
            assert_eq!(decode(encoded).as_deref(), Some(bytes));
        }
        for bad in ["%", "%4", "%zz", "a%f"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_query_has_values_by_name() {
        let query = Some("path=a%20b&path=c+d&other=e&flag");
        assert_eq!(value(query, "path").as_deref(), Some("a b"));
        assert_eq!(values(query, "path").count(), 2);
        assert_eq!(value(query, "flag").as_deref(), Some(""));
        assert_eq!(value(query, "pat"), None);
        assert_eq!(value(None, "path"), None);
    }
}
