//! Refuses requests that refer to content outside of themselves: stored at the provider, or fetched by it.
//! Its size is unknown here, so no budget could bound it. Pure.

use super::{
    json::{Name, is, is_null},
    model_request::InvalidRequest,
};
use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{cell::Cell, fmt};

/// Members that name a file, in whatever object they are.
const FILE_REFS: [&str; 4] = ["file_id", "file_url", "file_uri", "fileUri"];
/// Members whose value is a URL, or an object with one.
const URL_MEMBERS: [&str; 2] = ["image_url", "video_url"];
/// Members that are not searched: arguments, schemas and results of tools have names of their own, and
/// citations fetch nothing.
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

/// Refuses members of the request that continue something stored at the provider.
pub fn reject_stored(members: &[(&'static str, Option<&RawValue>)]) -> Result<(), InvalidRequest> {
    match members.iter().find(|(_, member)| !is_null(*member)) {
        Some((name, _)) => Err(InvalidRequest::ExternalRef(name)),
        None => Ok(()),
    }
}

/// Refuses a member that changes the price, unless its value is one of the `usual` ones.
pub fn reject_price_change(
    name: &'static str,
    member: Option<&RawValue>,
    usual: &[&'static str],
) -> Result<(), InvalidRequest> {
    let changes_price = !is_null(member) && !usual.iter().any(|word| is(member, word));
    if changes_price { Err(InvalidRequest::PriceChange(name)) } else { Ok(()) }
}

/// Refuses content that names files, or URLs to fetch.
pub fn reject_external_refs(content: Option<&RawValue>) -> Result<(), InvalidRequest> {
    let Some(content) = content else { return Ok(()) };
    let found = Cell::new(None);
    let mut from = serde_json::Deserializer::from_str(content.get());
    match (Scan { found: &found, parent: Parent::Other }).deserialize(&mut from) {
        Ok(()) => Ok(()),
        Err(error) => Err(found
            .get()
            .map_or_else(|| InvalidRequest::Json(error.to_string()), InvalidRequest::ExternalRef)),
    }
}

/// The member whose value is scanned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parent {
    Other,
    /// The kind of its object.
    Type,
    /// An object that may have a URL.
    Source,
    /// A URL, or an object with one.
    Url,
}

/// Searches a value without keeping any of it. A finding ends the search, as an error.
#[derive(Clone, Copy)]
struct Scan<'a> {
    found: &'a Cell<Option<&'static str>>,
    parent: Parent,
}

impl Scan<'_> {
    fn within(self, parent: Parent) -> Self {
        Self { parent, ..self }
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
        let is_data_url = |text: &str| text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("data:"));
        match self.parent {
            Parent::Type if text == "item_reference" => self.finds("item_reference"),
            Parent::Url if !is_data_url(text) => self.finds("url"),
            Parent::Other | Parent::Type | Parent::Source | Parent::Url => Ok(()),
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
        let may_have_url = matches!(self.parent, Parent::Source | Parent::Url);
        while let Some(Name(name)) = map.next_key()? {
            let called = |known: &&&str| name.eq_ignore_ascii_case(known);
            if let Some(file_ref) = FILE_REFS.iter().find(called) {
                if map.next_value::<Option<IgnoredAny>>()?.is_some() {
                    return self.finds(file_ref);
                }
            } else if OPAQUE.iter().any(|known| called(&known)) {
                map.next_value::<IgnoredAny>()?;
            } else {
                let parent = match name.to_ascii_lowercase().as_str() {
                    "type" => Parent::Type,
                    "source" => Parent::Source,
                    "url" if may_have_url => Parent::Url,
                    name if URL_MEMBERS.contains(&name) => Parent::Url,
                    _ => Parent::Other,
                };
                map.next_value_seed(self.within(parent))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(content: &str) -> Option<InvalidRequest> {
        let content: &RawValue = serde_json::from_str(content).expect(content);
        reject_external_refs(Some(content)).err()
    }

    #[test]
    fn content_outside_of_the_request_is_found() {
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
            assert_eq!(found(content), Some(InvalidRequest::ExternalRef(what)), "{content}");
        }
    }

    #[test]
    fn everyday_content_is_let_through() {
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
    fn content_nested_too_deep_to_search_is_refused() {
        let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
        assert!(matches!(found(&deep), Some(InvalidRequest::Json(_))));
    }
}
