//! Reads members of a JSON object in place, without building the rest of it. Pure.

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Value, value::RawValue};
use std::{borrow::Cow, fmt, ops::Range};

use super::limits::JSON_MEMBER_MAX_BYTES;

/// The longest spelling of a number that is parsed.
const NUMBER_MAX_BYTES: usize = 32;

/// The members with these names. Of duplicates the last one counts, as for most parsers.
pub fn members<'a, const N: usize>(
    json: &'a [u8],
    names: [&'static str; N],
) -> Result<[Option<&'a RawValue>; N], serde_json::Error> {
    read(json, Members { names, strict: false, found: [None; N] })
}

/// As `members`, but refuses what parsers read differently: duplicate names, and names that differ in case
/// only.
pub fn strict_members<'a, const N: usize>(
    json: &'a [u8],
    names: [&'static str; N],
) -> Result<[Option<&'a RawValue>; N], serde_json::Error> {
    read(json, Members { names, strict: true, found: [None; N] })
}

/// The range of a member in the text that it was read from.
pub fn span(of: &[u8], member: &RawValue) -> Range<usize> {
    let start = (member.get().as_ptr() as usize).saturating_sub(of.as_ptr() as usize);
    start..start + member.get().len()
}

pub fn is(member: Option<&RawValue>, text: &str) -> bool {
    let inner = member.and_then(|member| member.get().strip_prefix('"')?.strip_suffix('"'));
    inner == Some(text)
}

pub fn text(member: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(member?.get()).ok()
}

pub fn number(member: Option<&RawValue>) -> Option<u64> {
    // The error about a long string would repeat all of it.
    let member = member.filter(|member| member.get().len() <= NUMBER_MAX_BYTES)?;
    serde_json::from_str(member.get()).ok()
}

/// Whether a predicate holds for some element of a list, which is not kept in memory. Absent and `null` are
/// an empty list.
pub fn any_element(
    list: Option<&RawValue>,
    mut predicate: impl FnMut(&RawValue) -> Result<bool, serde_json::Error>,
) -> Result<bool, serde_json::Error> {
    struct Any<'a>(&'a mut dyn FnMut(&RawValue) -> Result<bool, serde_json::Error>);
    impl<'de> Visitor<'de> for Any<'_> {
        type Value = bool;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<bool, A::Error> {
            let mut any = false;
            while let Some(one) = list.next_element::<&RawValue>()? {
                any |= (self.0)(one).map_err(A::Error::custom)?;
            }
            Ok(any)
        }
    }
    let Some(list) = list.filter(|list| list.get() != "null") else { return Ok(false) };
    if !list.get().starts_with('[') {
        return Err(Error::custom("not a list"));
    }
    serde_json::Deserializer::from_str(list.get()).deserialize_seq(Any(&mut predicate))
}

/// A member as a value, unless it is large.
pub fn parse_small(member: Option<&RawValue>) -> Option<Value> {
    let member = member.filter(|member| member.get().len() <= JSON_MEMBER_MAX_BYTES)?;
    serde_json::from_str(member.get()).ok()
}

pub fn is_null(member: Option<&RawValue>) -> bool {
    member.is_none_or(|member| member.get() == "null")
}

/// Bytes of text in a value, without identifiers and signatures.
pub fn text_bytes(member: Option<&RawValue>) -> u64 {
    let length = |member: &RawValue| serde_json::from_str::<Length>(member.get()).ok();
    member.and_then(length).map_or(0, |length| length.0)
}

fn read<'a, const N: usize>(
    json: &'a [u8],
    members: Members<'a, N>,
) -> Result<[Option<&'a RawValue>; N], serde_json::Error> {
    // The error of serde would repeat the value, however long it is.
    if !json.trim_ascii_start().starts_with(b"{") {
        return Err(Error::custom("not an object"));
    }
    let mut from = serde_json::Deserializer::from_slice(json);
    let found = from.deserialize_map(members)?;
    from.end()?;
    Ok(found)
}

struct Members<'a, const N: usize> {
    names: [&'static str; N],
    strict: bool,
    found: [Option<&'a RawValue>; N],
}

impl<'de, const N: usize> Visitor<'de> for Members<'de, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        while let Some(Name(name)) = map.next_key()? {
            let Some(at) = self.names.iter().position(|known| name.eq_ignore_ascii_case(known)) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if self.names[at] != name {
                if self.strict {
                    return Err(A::Error::custom(format!(
                        "member {name:?} must be written {:?}",
                        self.names[at]
                    )));
                }
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value()?;
            if self.found[at].replace(value).is_some() && self.strict {
                return Err(A::Error::custom(format!("duplicate member {name:?}")));
            }
        }
        Ok(self.found)
    }
}

/// The name of a member, borrowed where it is written without escapes.
pub struct Name<'a>(pub Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct DnsResolver;
        impl<'de> Visitor<'de> for DnsResolver {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        from.deserialize_str(DnsResolver)
    }
}

/// Members that hold no text of a model.
const NO_TEXT: [&str; 14] = [
    "type",
    "id",
    "call_id",
    "item_id",
    "role",
    "object",
    "status",
    "finish_reason",
    "finishReason",
    "signature",
    "thoughtSignature",
    "encrypted_content",
    "obfuscation",
    "mimeType",
];

struct Length(u64);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Lengths)
    }
}

struct Lengths;

impl<'de> Visitor<'de> for Lengths {
    type Value = Length;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Length, E> {
        Ok(Length(text.len() as u64))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Length, E> {
        Ok(Length(0))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Length, E> {
        Ok(Length(0))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Length, E> {
        Ok(Length(0))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Length, E> {
        Ok(Length(0))
    }

    fn visit_unit<E: Error>(self) -> Result<Length, E> {
        Ok(Length(0))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Length, A::Error> {
        let mut sum = 0_u64;
        while let Some(Length(length)) = list.next_element()? {
            sum = sum.saturating_add(length);
        }
        Ok(Length(sum))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Length, A::Error> {
        let mut sum = 0_u64;
        while let Some(Name(name)) = map.next_key()? {
            if NO_TEXT.contains(&name.as_ref()) {
                map.next_value::<IgnoredAny>()?;
            } else {
                let Length(length) = map.next_value()?;
                sum = sum.saturating_add(length);
            }
        }
        Ok(Length(sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_in_place() {
        let json = br#" { "a" : 1, "mod\u0065l": "x y" , "n": {"model": 2}, "stream": true } "#;
        let [model, stream, none] = members(json, ["model", "stream", "none"]).expect("an object");
        assert_eq!(text(model).as_deref(), Some("x y"));
        assert!(is(model, "x y") && !is(model, "x") && !is(none, ""));
        assert_eq!(stream.expect("there").get(), "true");
        assert!(none.is_none() && is_null(none) && !is_null(stream));
        assert_eq!(&json[span(json, model.expect("there"))], br#""x y""#);
    }

    #[test]
    fn json_that_parsers_read_differently_is_refused() {
        for bad in [
            r#"{"model":"a","model":"b"}"#,
            r#"{"model":"a","Model":"b"}"#,
            r#"{"MODEL":"b"}"#,
            r#"{"model":"a","mod\u0065l":"b"}"#,
            r#"{"model":"a"} {}"#,
            r#"["model"]"#,
            r#"{"model":}"#,
            "",
        ] {
            assert!(strict_members(bad.as_bytes(), ["model"]).is_err(), "{bad}");
        }
        assert!(strict_members(b"{\"model\":\"\xff\"}", ["model"]).is_err());
        let [model] = members(br#"{"model":"a","Model":"c","model":"b"}"#, ["model"]).expect("an object");
        assert_eq!(text(model).as_deref(), Some("b"), "the last one");
    }

    #[test]
    fn errors_do_not_repeat_the_value() {
        let long = format!("\"{}\"", "\u{7f}".repeat(1 << 20));
        let raw: &RawValue = serde_json::from_str(&long).expect("text");
        let object = strict_members(long.as_bytes(), ["model"]).expect_err("no object").to_string();
        let list = any_element(Some(raw), |_| Ok(false)).expect_err("no list").to_string();
        assert!(object.len() < 200 && list.len() < 200, "{} {}", object.len(), list.len());
        assert_eq!(number(Some(raw)), None);
    }

    #[test]
    fn a_list_is_searched_one_by_one() {
        let has_two = |list: &str| {
            let list: &RawValue = serde_json::from_str(list).expect(list);
            any_element(Some(list), |one| Ok(one.get() == "2")).ok()
        };
        let table = [("[1,2,3]", Some(true)), ("[]", Some(false)), ("null", Some(false)), ("{}", None)];
        for (list, expected) in table {
            assert_eq!(has_two(list), expected, "{list}");
        }
        assert!(matches!(any_element(None, |_| Ok(true)), Ok(false)));
    }

    #[test]
    fn only_text_is_counted() {
        let table = [
            (r#""words""#, 5),
            (r#"{"type":"text_delta","text":"abc"}"#, 3),
            (r#"[{"parts":[{"text":"ab"},{"functionCall":{"name":"f","args":{"x":"yz"}}}]}]"#, 5),
            (r#"{"a":null,"b":1,"c":-1,"d":1.5,"e":true}"#, 0),
            (r#"{"signature":"aaaaaaaa","thinking":"b"}"#, 1),
        ];
        for (json, expected) in table {
            let value: &RawValue = serde_json::from_str(json).expect(json);
            assert_eq!(text_bytes(Some(value)), expected, "{json}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let value: &RawValue = serde_json::from_str(&deep).expect("deep");
        assert_eq!(text_bytes(Some(value)), 0, "too deep to look");
    }
}
