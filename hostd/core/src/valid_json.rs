//! Checks that every parser accepts a JSON value. Skipping a value does not parse it: invalid UTF-8, half a
//! surrogate pair, a number out of range or endless nesting would all pass.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Any value, parsed to its end and not kept.
pub struct ValidJson;

impl<'de> Deserialize<'de> for ValidJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for ValidJson {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self, A::Error> {
        while values.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        while entries.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_accepts_what_a_parser_accepts_and_nothing_else() {
        let deep = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        let table: [Vec<u8>; 14] = [
            br#"{"a":[1,-1,1.5,true,null,"x\n\ud83d\ude00"],"":{}}"#.to_vec(),
            b"18446744073709551616".to_vec(),
            b"1e999".to_vec(),
            b"-1e999".to_vec(),
            b"\"\xff\"".to_vec(),
            b"\"\xed\xa0\x80\"".to_vec(),
            br#""\ud800""#.to_vec(),
            br#""\ude00\ud83d""#.to_vec(),
            br#"{"\ud800":1}"#.to_vec(),
            b"\"\n\"".to_vec(),
            b"NaN".to_vec(),
            b"{} {}".to_vec(),
            deep(100),
            deep(200),
        ];
        for text in table {
            let read = serde_json::from_slice::<serde_json::Value>(&text).is_ok();
            let valid = serde_json::from_slice::<ValidJson>(&text).is_ok();
            assert_eq!(valid, read, "{}", String::from_utf8_lossy(&text));
        }
    }
}
