//! What a request only points to: what its provider has stored, or would fetch. Nobody here can tell how long that
//! is, so a budget could not bound it. Pure.

use super::{
    ask::BadAsk,
    json::{Name, is, is_null},
};
use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{cell::Cell, fmt};

/// Members that point somewhere, whatever they are in.
const POINTERS: [&str; 4] = ["file_id", "file_url", "file_uri", "fileUri"];
/// An address, or an object that has one.
const ADDRESSES: [&str; 2] = ["image_url", "video_url"];
/// What tools are called with, what they are and what they answer is theirs, and so are its names; what is said
/// about the origin of words fetches nothing.
const OPAQUE: [&str; 9] = [
    "input",
    "args",
    "arguments",
    "response",
    "parameters",
    "input_schema",
    "annotations",
    "citations",
    "results",
];

/// Members of the request itself that have it go on with something stored.
pub fn refuse_stored(members: &[(&'static str, Option<&RawValue>)]) -> Result<(), BadAsk> {
    match members.iter().find(|(_, member)| !is_null(*member)) {
        Some((name, _)) => Err(BadAsk::Elsewhere(name)),
        None => Ok(()),
    }
}

/// Members that change the price, unless they say one of these words.
pub fn refuse_dearer(
    name: &'static str,
    member: Option<&RawValue>,
    usual: &[&'static str],
) -> Result<(), BadAsk> {
    let dearer = !is_null(member) && !usual.iter().any(|word| is(member, word));
    if dearer { Err(BadAsk::Dearer(name)) } else { Ok(()) }
}

/// Parts of what is said that are files by their names, or addresses to fetch from.
pub fn refuse_pointers(content: Option<&RawValue>) -> Result<(), BadAsk> {
    let Some(content) = content else { return Ok(()) };
    let found = Cell::new(None);
    let mut from = serde_json::Deserializer::from_str(content.get());
    match (Scan { found: &found, under: Under::Anything }).deserialize(&mut from) {
        Ok(()) => Ok(()),
        Err(error) => Err(found.get().map_or_else(|| BadAsk::Json(error.to_string()), BadAsk::Elsewhere)),
    }
}

/// What the value that is looked at belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Under {
    Anything,
    /// What kind of thing it is.
    Type,
    /// An object that may have an address.
    Source,
    /// An address, or such an object.
    Address,
}

/// Looks through a value and keeps nothing of it. What is found ends it, as an error.
#[derive(Clone, Copy)]
struct Scan<'a> {
    found: &'a Cell<Option<&'static str>>,
    under: Under,
}

impl Scan<'_> {
    fn under(self, under: Under) -> Self {
        Self { under, ..self }
    }

    fn finds<E: Error>(self, what: &'static str) -> Result<(), E> {
        self.found.set(Some(what));
        Err(E::custom(what))
    }
}

impl<'de> DeserializeSeed<'de> for Scan<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scan<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let inline = |text: &str| text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("data:"));
        match self.under {
            Under::Type if text == "item_reference" => self.finds("item_reference"),
            Under::Address if !inline(text) => self.finds("url"),
            Under::Anything | Under::Type | Under::Source | Under::Address => Ok(()),
        }
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let has_address = matches!(self.under, Under::Source | Under::Address);
        while let Some(Name(name)) = map.next_key()? {
            let called = |known: &&&str| name.eq_ignore_ascii_case(known);
            if let Some(pointer) = POINTERS.iter().find(called) {
                if map.next_value::<Option<IgnoredAny>>()?.is_some() {
                    return self.finds(pointer);
                }
            } else if OPAQUE.iter().any(|known| called(&known)) {
                map.next_value::<IgnoredAny>()?;
            } else {
                let under = match name.to_ascii_lowercase().as_str() {
                    "type" => Under::Type,
                    "source" => Under::Source,
                    "url" if has_address => Under::Address,
                    name if ADDRESSES.contains(&name) => Under::Address,
                    _ => Under::Anything,
                };
                map.next_value_seed(self.under(under))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(content: &str) -> Option<BadAsk> {
        let content: &RawValue = serde_json::from_str(content).expect(content);
        refuse_pointers(Some(content)).err()
    }

    #[test]
    fn what_is_not_in_a_request_is_found_in_what_it_says() {
        let table = [
            (r#"[{"content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}]"#, "file_id"),
            (r#"[{"content":[{"type":"document","source":{"type":"url","url":"https://a/b.pdf"}}]}]"#, "url"),
            (r#"[{"content":[{"type":"tool_result","content":[{"source":{"url":"http://a"}}]}]}]"#, "url"),
            (r#"[{"content":[{"type":"container_upload","file_\u0069d":"f"}]}]"#, "file_id"),
            (r#"[{"content":[{"type":"file","file":{"file_id":"f"}}]}]"#, "file_id"),
            (r#"[{"content":[{"type":"image_url","image_url":{"url":"https://a"}}]}]"#, "url"),
            (r#"[{"content":[{"type":"input_image","image_url":"https://a"}]}]"#, "url"),
            (r#"[{"content":[{"type":"input_file","file_url":"https://a"}]}]"#, "file_url"),
            (r#"[{"type":"item_reference","id":"rs_1"}]"#, "item_reference"),
            (
                r#"[{"type":"function_call_output","output":[{"type":"input_file","file_id":"f"}]}]"#,
                "file_id",
            ),
            (r#"[{"parts":[{"fileData":{"fileUri":"https://a"}}]}]"#, "fileUri"),
            (r#"[{"parts":[{"functionResponse":{"parts":[{"file_data":{"file_uri":"a"}}]}}]}]"#, "file_uri"),
            (r#"[{"file_id":null,"file_id":"f"}]"#, "file_id"),
        ];
        for (content, what) in table {
            assert_eq!(found(content), Some(BadAsk::Elsewhere(what)), "{content}");
        }
    }

    #[test]
    fn what_agents_say_every_day_is_let_through() {
        let table = [
            r#""words""#,
            r#"[{"role":"user","content":"look at https://a/b and file_id"}]"#,
            r#"[{"content":[{"type":"image","source":{"type":"base64","data":"AAAA"}}]}]"#,
            r#"[{"content":[{"type":"tool_use","name":"t","input":{"file_id":"f","image_url":"http://a"}}]}]"#,
            r#"[{"content":[{"type":"search_result","source":"https://a","content":[]}]}]"#,
            r#"[{"content":[{"type":"web_search_result","url":"https://a","citations":[{"file_id":"f"}]}]}]"#,
            r#"[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]"#,
            r#"[{"type":"input_image","image_url":"DATA:image/png;base64,AAAA","file_id":null}]"#,
            r#"[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AAAA"}]"#,
            r#"[{"type":"function_call","arguments":"{\"file_id\":1}","call_id":"c"}]"#,
            r#"[{"content":[{"type":"output_text","annotations":[{"type":"url_citation","url":"https://a"}]}]}]"#,
            r#"[{"parts":[{"functionCall":{"name":"f","args":{"file_uri":"a"}}},{"inlineData":{"data":"A"}}]}]"#,
            r#"[{"parts":[{"functionResponse":{"response":{"fileUri":"a"}}}]}]"#,
            "[1,-1,1.5,true,null]",
        ];
        for content in table {
            assert_eq!(found(content), None, "{content}");
        }
    }

    #[test]
    fn what_is_too_deep_to_look_at_is_refused() {
        let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
        assert!(matches!(found(&deep), Some(BadAsk::Json(_))));
    }
}
