//! Values of JSON messages as Protocol Buffers write them: bytes in base64, numbers also as text.

use base64::{
    Engine, alphabet,
    engine::DecodePaddingMode,
    engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig},
};
use serde::{Deserialize, Deserializer, de::Error};

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Bytes, in either alphabet, with or without padding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WireBytes(pub Vec<u8>);

impl<'de> Deserialize<'de> for WireBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let decoded = STANDARD.decode(&text).or_else(|_| URL_SAFE.decode(&text));
        decoded.map(Self).map_err(|_| D::Error::custom("bytes that are not base64"))
    }
}

/// An unsigned number of 32 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WireU32(pub u32);

impl<'de> Deserialize<'de> for WireU32 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u32),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self(number)),
            Written::Text(text) => text.parse().map(Self).map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_each_way_that_they_are_written() {
        for text in [r#""_-8=""#, r#""_-8""#, r#""/+8=""#, r#""/+8""#] {
            assert_eq!(serde_json::from_str::<WireBytes>(text).expect(text).0, [0xff, 0xef], "{text}");
        }
        assert!(serde_json::from_str::<WireBytes>(r#""a b""#).is_err());
        for text in ["7", r#""7""#] {
            assert_eq!(serde_json::from_str::<WireU32>(text).expect(text).0, 7, "{text}");
        }
        for wrong in ["-1", r#""x""#, "4294967296", "null"] {
            assert!(serde_json::from_str::<WireU32>(wrong).is_err(), "{wrong}");
        }
    }
}
