//! What a request says before it is passed on, and the few words in it that may be changed. Pure. Whatever is
//! not changed stays byte for byte as it came.

use super::{
    elsewhere::{refuse_dearer, refuse_pointers, refuse_stored},
    json::{any_in, is_null, number, span, strict_members, text},
    limits::MODEL_MAX_BYTES,
    reckon::{reckoned_tokens, text_bytes},
    route::{Inference, Verb},
};
use crate::models::{ActiveBudgets, CallParams};
use bytes::Bytes;
use serde_json::value::RawValue;
use std::ops::Range;

/// What one byte of a text may take in JSON, and what is around it.
const ESCAPED_BYTES: usize = 6;
const QUOTES_BYTES: usize = 2;
/// A word for a kind of tool that is looked at.
const KIND_MAX_BYTES: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAsk {
    #[error("the body is not a JSON object that everybody reads alike: {0}")]
    Json(String),
    #[error("the body names no model")]
    NoModel,
    #[error("the name of the model is too long")]
    LongModel,
    #[error("answers in the background are not passed on: nobody would see what they use")]
    Background,
    #[error("{0:?} must be 1: several answers at once are not passed on")]
    Several(&'static str),
    #[error("generationConfig and generation_config are the same: give one of them")]
    Configured,
    #[error(
        "{0:?} is not passed on where a budget bounds tokens or cost: nobody here can tell how long that is; send it in the request itself"
    )]
    Elsewhere(&'static str),
    #[error(
        "this {0:?} is not passed on where a budget bounds cost: it may cost more than the price that is known; leave it out"
    )]
    Dearer(&'static str),
    #[error("tools of other servers (MCP) are not passed on: the provider would reach them for you")]
    Servers,
}

#[derive(Debug)]
pub struct Asked {
    pub model: String,
    pub ask: CallParams,
    /// The model in the body.
    model_at: Option<Range<usize>>,
    /// Members that say how much may be answered, and what they say.
    limits: Vec<(Range<usize>, Option<u64>)>,
    /// Where such a member can be put, and how it is written there.
    room: Option<Room>,
    /// What is changed in any case.
    edits: Vec<(Range<usize>, String)>,
}

#[derive(Debug)]
struct Room {
    at: usize,
    before: &'static str,
    /// Something follows in the same object.
    after: &'static str,
}

impl Asked {
    /// What is bounded must be seen here, so what cannot be is refused.
    pub fn read(call: &Inference, body: &[u8], bounded: ActiveBudgets) -> Result<Self, BadAsk> {
        match call {
            Inference::Messages => Self::messages(body, bounded),
            Inference::CountTokens => {
                let [model] = object(body, ["model"])?;
                Ok(Self::named(body, model)?.counting())
            }
            Inference::Chat => Self::chat(body, bounded),
            Inference::Responses => Self::responses(body, bounded),
            Inference::Generate { model, verb } => Self::generate(body, model, *verb, bounded),
        }
    }

    fn messages(body: &[u8], bounded: ActiveBudgets) -> Result<Self, BadAsk> {
        let [model, stream, max, servers, tools] =
            object(body, ["model", "stream", "max_tokens", "mcp_servers", "tools"])?;
        if servers.is_some_and(|servers| !matches!(servers.get(), "null" | "[]")) {
            return Err(BadAsk::Servers);
        }
        refuse_servers(tools)?;
        if bounded.tokens {
            let names = ["messages", "container", "service_tier", "speed", "inference_geo"];
            let [messages, container, tier, speed, place] = object(body, names)?;
            refuse_stored(&[("container", container)])?;
            refuse_pointers(messages)?;
            if bounded.cost {
                refuse_dearer("service_tier", tier, &["auto", "standard_only"])?;
                refuse_dearer("speed", speed, &["standard"])?;
                refuse_dearer("inference_geo", place, &["global"])?;
            }
        }
        Self::named(body, model)?.streaming(stream).limited(body, &[max], "\"max_tokens\":")
    }

    fn chat(body: &[u8], bounded: ActiveBudgets) -> Result<Self, BadAsk> {
        let names = ["model", "stream", "max_tokens", "max_completion_tokens", "n", "stream_options"];
        let [model, stream, old, max, n, options] = object(body, names)?;
        one_answer(n, "n")?;
        if bounded.tokens {
            let [messages, tier] = object(body, ["messages", "service_tier"])?;
            refuse_pointers(messages)?;
            refuse_tier(tier, bounded)?;
        }
        let name = "\"max_completion_tokens\":";
        let asked = Self::named(body, model)?.streaming(stream);
        asked.told_usage(body, options)?.limited(body, &[max, old], name)
    }

    fn responses(body: &[u8], bounded: ActiveBudgets) -> Result<Self, BadAsk> {
        let [model, stream, max, background, tools] =
            object(body, ["model", "stream", "max_output_tokens", "background", "tools"])?;
        refuse_servers(tools)?;
        if background.is_some_and(|value| !matches!(value.get(), "false" | "null")) {
            return Err(BadAsk::Background);
        }
        if bounded.tokens {
            let names = ["input", "previous_response_id", "conversation", "prompt", "service_tier"];
            let [input, previous, conversation, prompt, tier] = object(body, names)?;
            let stored =
                [("previous_response_id", previous), ("conversation", conversation), ("prompt", prompt)];
            refuse_stored(&stored)?;
            refuse_pointers(input)?;
            refuse_tier(tier, bounded)?;
        }
        Self::named(body, model)?.streaming(stream).limited(body, &[max], "\"max_output_tokens\":")
    }

    fn generate(body: &[u8], model: &str, verb: Verb, bounded: ActiveBudgets) -> Result<Self, BadAsk> {
        let [camel, snake] = object(body, ["generationConfig", "generation_config"])?;
        if camel.is_some() && snake.is_some() {
            return Err(BadAsk::Configured);
        }
        let mut asked = Self::of(model.to_owned(), body);
        asked.ask.streams = verb == Verb::Stream;
        if verb == Verb::Count {
            return Ok(asked.counting());
        }
        if bounded.tokens {
            let names =
                ["contents", "systemInstruction", "system_instruction", "cachedContent", "cached_content"];
            let [contents, system, system_too, cached, cached_too] = object(body, names)?;
            let [tier, tier_too] = object(body, ["serviceTier", "service_tier"])?;
            refuse_stored(&[("cachedContent", cached), ("cached_content", cached_too)])?;
            [contents, system, system_too].into_iter().try_for_each(refuse_pointers)?;
            refuse_tier(tier, bounded)?;
            refuse_tier(tier_too, bounded)?;
        }
        asked.configured(body, camel.or(snake))
    }

    fn of(model: String, body: &[u8]) -> Self {
        let input_tokens = reckoned_tokens(text_bytes(body));
        let ask = CallParams { input_tokens, ..CallParams::default() };
        Self { model, ask, model_at: None, limits: Vec::new(), room: None, edits: Vec::new() }
    }

    fn named(body: &[u8], model: Option<&RawValue>) -> Result<Self, BadAsk> {
        // As long as it can be written, before it is copied.
        if model.is_some_and(|model| model.get().len() > MODEL_MAX_BYTES * ESCAPED_BYTES + QUOTES_BYTES) {
            return Err(BadAsk::LongModel);
        }
        let name = text(model).filter(|name| !name.is_empty()).ok_or(BadAsk::NoModel)?;
        if name.len() > MODEL_MAX_BYTES {
            return Err(BadAsk::LongModel);
        }
        Ok(Self { model_at: model.map(|model| span(body, model)), ..Self::of(name, body) })
    }

    fn streaming(mut self, stream: Option<&RawValue>) -> Self {
        self.ask.streams = stream.is_some_and(|stream| stream.get() == "true");
        self
    }

    /// Nothing is answered, so nothing is set aside for it.
    fn counting(mut self) -> Self {
        self.ask.max_output_tokens = Some(0);
        self.ask.count_only = true;
        self
    }

    /// A Chat Completions stream tells what it used only to who asks for it: we do.
    fn told_usage(mut self, body: &[u8], options: Option<&RawValue>) -> Result<Self, BadAsk> {
        if !self.ask.streams {
            return Ok(self);
        }
        let Some(options) = options else {
            let room = within(body, 0, "\"stream_options\":{\"include_usage\":", "}");
            self.edits.extend(room.map(|room| room.with("true")));
            return Ok(self);
        };
        if is_null(Some(options)) {
            self.edits.push((span(body, options), "{\"include_usage\":true}".to_owned()));
            return Ok(self);
        }
        let [usage] = object(options.get().as_bytes(), ["include_usage"])?;
        match usage {
            Some(usage) if usage.get() == "true" => {}
            Some(usage) => self.edits.push((span(body, usage), "true".to_owned())),
            None => {
                let room = within(body, span(body, options).start, "\"include_usage\":", "");
                self.edits.extend(room.map(|room| room.with("true")));
            }
        }
        Ok(self)
    }

    fn limited(
        mut self,
        body: &[u8],
        limits: &[Option<&RawValue>],
        name: &'static str,
    ) -> Result<Self, BadAsk> {
        // None at all is read as no limit by some.
        let said = |limit: &RawValue| number(Some(limit)).filter(|said| *said > 0);
        self.limits = limits.iter().flatten().map(|limit| (span(body, limit), said(limit))).collect();
        self.ask.max_output_tokens = self.limits.iter().filter_map(|(_, said)| *said).min();
        self.room = within(body, 0, name, "");
        Ok(self)
    }

    /// Of Gemini: one level further down.
    fn configured(self, body: &[u8], config: Option<&RawValue>) -> Result<Self, BadAsk> {
        let Some(config) = config.filter(|config| !is_null(Some(config))) else {
            let mut asked = self.limited(body, &[], "")?;
            asked.room = within(body, 0, "\"generationConfig\":{\"maxOutputTokens\":", "}");
            return Ok(asked);
        };
        let inner = config.get().as_bytes();
        let names = ["maxOutputTokens", "max_output_tokens", "candidateCount", "candidate_count"];
        let [camel, snake, count, counts] = object(inner, names)?;
        one_answer(count, "candidateCount")?;
        one_answer(counts, "candidate_count")?;
        let mut asked = self.limited(body, &[camel, snake], "")?;
        asked.room = within(body, span(body, config).start, "\"maxOutputTokens\":", "");
        Ok(asked)
    }

    /// The body for this model, with an answer of at most so many tokens.
    pub fn body(&self, body: Bytes, model: &str, max_output_tokens: Option<u64>) -> Bytes {
        let mut edits = self.edits.clone();
        if let Some(at) = self.model_at.clone().filter(|_| model != self.model) {
            edits.push((at, serde_json::Value::from(model).to_string()));
        }
        if let Some(max) = max_output_tokens {
            let over = self.limits.iter().filter(|(_, said)| said.is_none_or(|said| said > max));
            edits.extend(over.map(|(at, _)| (at.clone(), max.to_string())));
            if let Some(room) = self.room.as_ref().filter(|_| self.limits.is_empty()) {
                edits.push(room.with(&max.to_string()));
            }
        }
        if edits.is_empty() {
            return body;
        }
        edits.sort_by_key(|(at, _)| at.start);
        let mut edited = Vec::with_capacity(body.len() + 128);
        let mut from = 0;
        for (at, words) in edits {
            edited.extend_from_slice(&body[from..at.start]);
            edited.extend_from_slice(words.as_bytes());
            from = at.end;
        }
        edited.extend_from_slice(&body[from..]);
        edited.into()
    }
}

impl Room {
    fn with(&self, value: &str) -> (Range<usize>, String) {
        (self.at..self.at, format!("{}{value}{}", self.before, self.after))
    }
}

/// More of them would be more than was set aside.
fn one_answer(count: Option<&RawValue>, name: &'static str) -> Result<(), BadAsk> {
    match count.map(RawValue::get) {
        None | Some("1" | "null") => Ok(()),
        Some(_) => Err(BadAsk::Several(name)),
    }
}

/// Tools that the provider would call at servers which the agent names.
fn refuse_servers(tools: Option<&RawValue>) -> Result<(), BadAsk> {
    let is_server = |tool: &RawValue| {
        if !tool.get().starts_with('{') {
            return Ok(false);
        }
        let [kind] = strict_members(tool.get().as_bytes(), ["type"])?;
        let kind = kind.filter(|kind| kind.get().len() <= KIND_MAX_BYTES);
        let kind = text(kind).unwrap_or_default();
        Ok(["mcp", "mcp_toolset"].iter().any(|server| kind.eq_ignore_ascii_case(server)))
    };
    match any_in(tools, is_server) {
        Ok(true) => Err(BadAsk::Servers),
        Ok(false) => Ok(()),
        Err(error) => Err(BadAsk::Json(error.to_string())),
    }
}

/// As OpenAI and Gemini call what costs as much as is known.
fn refuse_tier(tier: Option<&RawValue>, bounded: ActiveBudgets) -> Result<(), BadAsk> {
    if bounded.cost { refuse_dearer("service_tier", tier, &["auto", "default", "standard"]) } else { Ok(()) }
}

fn object<'a, const N: usize>(
    body: &'a [u8],
    names: [&'static str; N],
) -> Result<[Option<&'a RawValue>; N], BadAsk> {
    strict_members(body, names).map_err(|error| BadAsk::Json(error.to_string()))
}

/// Right behind the brace of the object that begins here or later.
fn within(body: &[u8], from: usize, before: &'static str, close: &'static str) -> Option<Room> {
    let at = from + memchr::memchr(b'{', &body[from..])? + 1;
    let is_empty = body[at..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'}');
    let after = match (close, is_empty) {
        ("", true) => "",
        ("", false) => ",",
        (_, true) => "}",
        (_, false) => "},",
    };
    Some(Room { at, before, after })
}

#[cfg(test)]
mod tests;
