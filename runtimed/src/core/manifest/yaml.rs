//! Parses YAML into a tree. Depth, size and growth by aliases are bounded while parsing, so any document
//! stays small.

use super::error::ManifestError;
use super::syntax::{one_line, segment};
use super::yaml_node::{Entry, Kind, Node};
use crate::limits::MANIFEST_MAX_BYTES;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{MergeKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Location, MessageFormatter, Options, Spanned, UserMessageFormatter};
use std::fmt;

/// Nesting of maps and lists; a manifest needs four levels.
const DEPTH_MAX_LEVELS: usize = 8;
/// Values in a document, and values repeated by aliases.
const NODES_MAX: usize = 20_000;
const REPLAYED_EVENTS_MAX: usize = 2_000;
const ALIASES_MAX: usize = 64;
/// Text copied for anchors.
const ANCHOR_TEXT_MAX_BYTES: usize = 64 << 10;
/// Length of the parser's message as shown, which may quote the document.
const PARSER_WORDS_MAX_CHARS: usize = 200;

pub(super) fn parse(source: &str) -> Result<Node, ManifestError> {
    serde_saphyr::from_str_with_options(source, options()).map_err(|error| explain(&error))
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX_LEVELS,
            flow_nesting_limit: DEPTH_MAX_LEVELS,
            max_nodes: NODES_MAX,
            max_events: NODES_MAX * 2,
            max_aliases: ALIASES_MAX,
            max_anchors: ALIASES_MAX,
            max_merge_keys: ALIASES_MAX,
            max_recorded_anchor_events: REPLAYED_EVENTS_MAX,
            max_recorded_anchor_bytes: ANCHOR_TEXT_MAX_BYTES,
            // Text counts each time an alias repeats it.
            max_total_scalar_bytes: MANIFEST_MAX_BYTES as usize,
            max_documents: 2,
            max_inclusion_depth: 0,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: REPLAYED_EVENTS_MAX,
            max_replay_stack_depth: DEPTH_MAX_LEVELS,
            max_alias_expansions_per_anchor: ALIASES_MAX,
        },
        merge_keys: MergeKeyPolicy::Merge,
        // `yes`, `no`, `on` and `off` are strings.
        strict_booleans: true,
        // A number is kept as it is written, also where it is too large.
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

fn explain(error: &Error) -> ManifestError {
    let line = error.location().map(|at| line(&at));
    let error = if let Error::AliasError { error, .. } = error { error.as_ref() } else { error };
    let duplicate = if let Error::DuplicateMappingKey { key, .. } = error { key.as_deref() } else { None };
    let field = duplicate.map(|key| segment(key).into_owned());
    ManifestError { line, field, message: message(error) }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "errors of the parser are many and have its own message")]
fn message(error: &Error) -> String {
    let too_deep = || format!("nothing in a manifest is nested deeper than {DEPTH_MAX_LEVELS} levels");
    match error {
        Error::DuplicateMappingKey { .. } => "this key is there twice".into(),
        Error::MultipleDocuments { .. } => "a manifest is one document, and --- starts another".into(),
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        // The scanner looks ahead and may see brackets before the budget does.
        Error::ExternalMessage { msg, .. } if msg == "recursion limit exceeded" => too_deep(),
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            "too much for a manifest, counting what each alias brings; write less".into()
        }
        other => format!("not valid YAML: {}", plain(&UserMessageFormatter.format_message(other))),
    }
}

/// The parser's message, with a hint for the most common mistake.
fn plain(text: &str) -> String {
    let colon = text.contains("mapping values are not allowed");
    let hint = if colon { "; text with a colon needs quotes" } else { "" };
    format!("{}{hint}", one_line(text, PARSER_WORDS_MAX_CHARS))
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value: kind, defined, .. } = Spanned::<Kind>::deserialize(deserializer)?;
        let span = defined.span();
        let bound = |offset: Option<u64>| offset.and_then(|offset| usize::try_from(offset).ok()).unwrap_or(0);
        let start = bound(span.byte_offset());
        let at = start..start.saturating_add(bound(span.byte_len()));
        Ok(Node { kind, line: line(&defined), at })
    }
}

/// The line on which a value was written, also where an alias repeated it elsewhere.
fn line(at: &Location) -> u32 {
    u32::try_from(at.line()).unwrap_or(u32::MAX)
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyKind)
    }
}

struct AnyKind;

impl<'de> Visitor<'de> for AnyKind {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Kind::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Kind::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Kind::Number(Some(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Kind::Number(u64::try_from(value).ok()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Kind::Number(None))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Kind::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Kind::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Kind::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((Spanned { value: key, defined, .. }, value)) = map.next_entry()? {
            entries.push(Entry { key, value, line: line(&defined) });
        }
        Ok(Kind::Map(entries))
    }
}
