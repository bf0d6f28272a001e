//! A request as far as the gateway must know it, and the few edits it makes. Pure. Everything that is not
//! edited stays byte for byte as it came. `dialect` parses requests into this.

use super::{
    estimate_tokens::{estimate_tokens, request_text_bytes},
    external_refs::reject_price_change,
    json::{any_element, number, span, strict_members, text},
    limits::MODEL_MAX_BYTES,
};
use crate::{ActiveBudgets, CallParams};
use bytes::Bytes;
use serde_json::value::RawValue;
use std::ops::Range;

/// The most bytes that one byte of a string takes in JSON, and the quotes around the string.
const ESCAPED_BYTES: usize = 6;
const QUOTES_BYTES: usize = 2;
/// The longest name of a tool kind that is compared.
const TOOL_KIND_MAX_BYTES: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    #[error("the body is not a JSON object that all parsers read alike: {0}")]
    Json(String),
    #[error("the body names no model")]
    NoModel,
    #[error("the name of the model is too long")]
    ModelTooLong,
    #[error("background responses are not forwarded: their usage could not be counted")]
    Background,
    #[error("{0:?} must be 1: several answers to one request are not forwarded")]
    MultipleAnswers(&'static str),
    #[error("generationConfig and generation_config mean the same: give one of them")]
    DuplicateConfig,
    #[error(
        "{0:?} is not forwarded where a budget bounds tokens or cost: the size of that content is unknown here; send it in the request itself"
    )]
    ExternalRef(&'static str),
    #[error(
        "this {0:?} is not forwarded where a budget bounds cost: it may cost more than the known price; leave it out"
    )]
    PriceChange(&'static str),
    #[error("tools of remote servers (MCP) are not forwarded: the provider would connect to them for you")]
    RemoteTools,
}

#[derive(Debug)]
pub struct ModelRequest {
    pub model: String,
    pub params: CallParams,
    /// Where the body names the model.
    model_at: Option<Range<usize>>,
    /// Members that limit the output, each with its value.
    limits: Vec<(Range<usize>, Option<u64>)>,
    /// Where a limit of the output can be inserted.
    pub(super) insert_limit: Option<InsertPoint>,
    /// Edits that are made in any case.
    pub(super) edits: Vec<(Range<usize>, String)>,
}

/// A place in the body where a member can be inserted, with the text around its value.
#[derive(Debug)]
pub(super) struct InsertPoint {
    at: usize,
    before: &'static str,
    after: &'static str,
}

impl ModelRequest {
    pub(super) fn of(model: String, body: &[u8]) -> Self {
        let input_tokens = estimate_tokens(request_text_bytes(body));
        let params = CallParams { input_tokens, ..CallParams::default() };
        Self { model, params, model_at: None, limits: Vec::new(), insert_limit: None, edits: Vec::new() }
    }

    pub(super) fn named(body: &[u8], model: Option<&RawValue>) -> Result<Self, InvalidRequest> {
        // Checked before the name is copied: the longest spelling of the longest name.
        if model.is_some_and(|model| model.get().len() > MODEL_MAX_BYTES * ESCAPED_BYTES + QUOTES_BYTES) {
            return Err(InvalidRequest::ModelTooLong);
        }
        let name = text(model).filter(|name| !name.is_empty()).ok_or(InvalidRequest::NoModel)?;
        if name.len() > MODEL_MAX_BYTES {
            return Err(InvalidRequest::ModelTooLong);
        }
        Ok(Self { model_at: model.map(|model| span(body, model)), ..Self::of(name, body) })
    }

    pub(super) fn streaming(mut self, stream: Option<&RawValue>) -> Self {
        self.params.streams = stream.is_some_and(|stream| stream.get() == "true");
        self
    }

    /// The response has no output tokens, so no budget is reserved for them.
    pub(super) fn counting(mut self) -> Self {
        self.params.max_output_tokens = Some(0);
        self.params.count_only = true;
        self
    }

    /// Reads the members that limit the output. `name` is how such a member is written where there is none.
    pub(super) fn limited(
        mut self,
        body: &[u8],
        limits: &[Option<&RawValue>],
        name: &'static str,
    ) -> Result<Self, InvalidRequest> {
        // Some providers read 0 as no limit.
        let value = |limit: &RawValue| number(Some(limit)).filter(|value| *value > 0);
        self.limits = limits.iter().flatten().map(|limit| (span(body, limit), value(limit))).collect();
        self.params.max_output_tokens = self.limits.iter().filter_map(|(_, value)| *value).min();
        self.insert_limit = insert_point(body, 0, name, "");
        Ok(self)
    }

    /// The body that is sent: for this model, with at most so many output tokens.
    pub fn rewrite(&self, body: Bytes, model: &str, max_output_tokens: Option<u64>) -> Bytes {
        let mut edits = self.edits.clone();
        if let Some(at) = self.model_at.clone().filter(|_| model != self.model) {
            edits.push((at, serde_json::Value::from(model).to_string()));
        }
        if let Some(max) = max_output_tokens {
            let over = self.limits.iter().filter(|(_, value)| value.is_none_or(|value| value > max));
            edits.extend(over.map(|(at, _)| (at.clone(), max.to_string())));
            if let Some(point) = self.insert_limit.as_ref().filter(|_| self.limits.is_empty()) {
                edits.push(point.with(&max.to_string()));
            }
        }
        if edits.is_empty() {
            return body;
        }
        edits.sort_by_key(|(at, _)| at.start);
        let mut edited = Vec::with_capacity(body.len() + 128);
        let mut from = 0;
        for (at, text) in edits {
            edited.extend_from_slice(&body[from..at.start]);
            edited.extend_from_slice(text.as_bytes());
            from = at.end;
        }
        edited.extend_from_slice(&body[from..]);
        edited.into()
    }
}

impl InsertPoint {
    pub(super) fn with(&self, value: &str) -> (Range<usize>, String) {
        (self.at..self.at, format!("{}{value}{}", self.before, self.after))
    }
}

/// Refuses several answers to one request: they would use more than is reserved.
pub(super) fn reject_multiple_answers(
    count: Option<&RawValue>,
    name: &'static str,
) -> Result<(), InvalidRequest> {
    match count.map(RawValue::get) {
        None | Some("1" | "null") => Ok(()),
        Some(_) => Err(InvalidRequest::MultipleAnswers(name)),
    }
}

/// Refuses tools on servers that the agent names: the provider would connect to them, past the rules of
/// egress.
pub(super) fn reject_remote_tools(tools: Option<&RawValue>) -> Result<(), InvalidRequest> {
    let is_server = |tool: &RawValue| {
        if !tool.get().starts_with('{') {
            return Ok(false);
        }
        let [kind] = strict_members(tool.get().as_bytes(), ["type"])?;
        let kind = kind.filter(|kind| kind.get().len() <= TOOL_KIND_MAX_BYTES);
        let kind = text(kind).unwrap_or_default();
        Ok(["mcp", "mcp_toolset"].iter().any(|server| kind.eq_ignore_ascii_case(server)))
    };
    match any_element(tools, is_server) {
        Ok(true) => Err(InvalidRequest::RemoteTools),
        Ok(false) => Ok(()),
        Err(error) => Err(InvalidRequest::Json(error.to_string())),
    }
}

/// Refuses every service tier of OpenAI and Gemini whose price is not the configured one.
pub(super) fn reject_service_tier(
    tier: Option<&RawValue>,
    bounded: ActiveBudgets,
) -> Result<(), InvalidRequest> {
    if bounded.cost {
        reject_price_change("service_tier", tier, &["auto", "default", "standard"])
    } else {
        Ok(())
    }
}

/// Members of an object that every parser reads alike.
pub(super) fn object<'a, const N: usize>(
    body: &'a [u8],
    names: [&'static str; N],
) -> Result<[Option<&'a RawValue>; N], InvalidRequest> {
    strict_members(body, names).map_err(|error| InvalidRequest::Json(error.to_string()))
}

/// The place right behind the brace of the first object at or after `from`.
pub(super) fn insert_point(
    body: &[u8],
    from: usize,
    before: &'static str,
    close: &'static str,
) -> Option<InsertPoint> {
    let at = from + memchr::memchr(b'{', &body[from..])? + 1;
    let is_empty = body[at..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'}');
    let after = match (close, is_empty) {
        ("", true) => "",
        ("", false) => ",",
        (_, true) => "}",
        (_, false) => "},",
    };
    Some(InsertPoint { at, before, after })
}

#[cfg(test)]
mod tests;
