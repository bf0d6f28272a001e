//! OpenAI's Responses.

use super::completion::{Completion, Content, Input, event};
use super::conversation::{Conversation, Item, Offer, ParameterShape, list, name_of, text_of, user};
use serde_json::{Value, json};

pub fn read(body: &Value) -> Conversation {
    let mut items = Vec::new();
    if let Some(text) = body["input"].as_str() {
        items.extend(user(text));
    }
    for item in list(&body["input"]) {
        let kind = item["type"].as_str().unwrap_or("message");
        match (kind, item["role"].as_str().unwrap_or_default()) {
            ("message", "user") => items.extend(user(&text_of(&item["content"]))),
            ("message", "assistant") => items.push(Item::Assistant),
            ("message", _) => {}
            (kind, _) if kind.ends_with("_output") => items.push(Item::Result(text_of(&item["output"]))),
            (kind, _) if kind.ends_with("_call") || kind == "reasoning" => items.push(Item::Assistant),
            _ => {}
        }
    }
    let wants_json = body["text"]["format"]["type"].as_str().is_some_and(|kind| kind.starts_with("json"));
    let offers = list(&body["tools"]).iter().filter_map(offer).collect();
    Conversation { model: name_of(&body["model"]), items, offers, wants_json }
}

fn offer(tool: &Value) -> Option<Offer> {
    let takes = match tool["type"].as_str()? {
        "function" => ParameterShape::Object(tool["parameters"].clone()),
        "custom" => ParameterShape::Text,
        _ => return None,
    };
    Some(Offer { name: name_of(&tool["name"]), takes })
}

pub fn whole(answer: &Completion) -> Value {
    let output: Vec<Value> =
        answer.said.iter().enumerate().map(|(at, said)| item(answer, at, said)).collect();
    let mut whole = head(answer, "completed");
    whole["output"] = json!(output);
    whole["usage"] = usage(answer);
    whole
}

pub fn frames(answer: &Completion) -> Vec<String> {
    let mut writer = Writer { frames: Vec::new() };
    writer.tell("response.created", json!({"response": head(answer, "in_progress")}));
    for (at, said) in answer.said.iter().enumerate() {
        let whole = item(answer, at, said);
        let mut begun = whole.clone();
        begun["status"] = json!("in_progress");
        match said {
            Content::Text(_) => begun["content"] = json!([]),
            Content::Thought(_) => begun["summary"] = json!([]),
            Content::Call { input: Input::Object(_), .. } => begun["arguments"] = json!(""),
            Content::Call { input: Input::Text(_), .. } => begun["input"] = json!(""),
        }
        writer.tell("response.output_item.added", json!({"output_index": at, "item": begun}));
        writer.parts(at, whole["id"].as_str().unwrap_or_default(), said);
        writer.tell("response.output_item.done", json!({"output_index": at, "item": whole}));
    }
    writer.tell("response.completed", json!({"response": whole(answer)}));
    writer.frames
}

pub fn error(kind: &str, message: &str) -> Value {
    super::chat::error(kind, message)
}

struct Writer {
    frames: Vec<String>,
}

impl Writer {
    fn tell(&mut self, kind: &str, mut fact: Value) {
        fact["type"] = json!(kind);
        fact["sequence_number"] = json!(self.frames.len());
        self.frames.push(event(kind, &fact));
    }

    fn parts(&mut self, at: usize, id: &str, said: &Content) {
        let place = |more: Value| {
            let mut fact = json!({"item_id": id, "output_index": at});
            if let (Some(fact), Some(more)) = (fact.as_object_mut(), more.as_object()) {
                fact.extend(more.clone());
            }
            fact
        };
        match said {
            Content::Text(pieces) => {
                let empty = json!({"type": "output_text", "text": "", "annotations": []});
                self.tell("response.content_part.added", place(json!({"content_index": 0, "part": empty})));
                for delta in pieces {
                    let delta = place(json!({"content_index": 0, "delta": delta}));
                    self.tell("response.output_text.delta", delta);
                }
                let text = pieces.concat();
                self.tell("response.output_text.done", place(json!({"content_index": 0, "text": text})));
                let part = json!({"type": "output_text", "text": text, "annotations": []});
                self.tell("response.content_part.done", place(json!({"content_index": 0, "part": part})));
            }
            Content::Thought(text) => {
                let part =
                    |text: &str| json!({"summary_index": 0, "part": {"type": "summary_text", "text": text}});
                self.tell("response.reasoning_summary_part.added", place(part("")));
                let delta = place(json!({"summary_index": 0, "delta": text}));
                self.tell("response.reasoning_summary_text.delta", delta);
                let done = place(json!({"summary_index": 0, "text": text}));
                self.tell("response.reasoning_summary_text.done", done);
                self.tell("response.reasoning_summary_part.done", place(part(text)));
            }
            Content::Call { input: Input::Object(value), .. } => {
                let arguments = value.to_string();
                self.tell("response.function_call_arguments.delta", place(json!({"delta": arguments})));
                self.tell("response.function_call_arguments.done", place(json!({"arguments": arguments})));
            }
            Content::Call { input: Input::Text(text), .. } => {
                self.tell("response.custom_tool_call_input.delta", place(json!({"delta": text})));
                self.tell("response.custom_tool_call_input.done", place(json!({"input": text})));
            }
        }
    }
}

fn head(answer: &Completion, status: &str) -> Value {
    json!({
        "id": format!("resp_{}", answer.number), "object": "response", "created_at": 1, "status": status,
        "model": answer.model, "output": [], "error": null, "incomplete_details": null, "usage": null,
    })
}

fn item(answer: &Completion, at: usize, said: &Content) -> Value {
    let id = |kind: &str| format!("{kind}_{}_{at}", answer.number);
    match said {
        Content::Text(pieces) => json!({
            "type": "message", "id": id("msg"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": pieces.concat(), "annotations": []}],
        }),
        Content::Thought(text) => json!({
            "type": "reasoning", "id": id("rs"), "encrypted_content": "c2VhbGVk",
            "summary": [{"type": "summary_text", "text": text}],
        }),
        Content::Call { id: call, name, input: Input::Object(value) } => json!({
            "type": "function_call", "id": id("fc"), "call_id": call, "name": name, "status": "completed",
            "arguments": value.to_string(),
        }),
        Content::Call { id: call, name, input: Input::Text(text) } => json!({
            "type": "custom_tool_call", "id": id("ctc"), "call_id": call, "name": name, "status": "completed",
            "input": text,
        }),
    }
}

fn usage(answer: &Completion) -> Value {
    let usage = answer.usage;
    let input = usage.input_tokens + usage.cache_read_tokens;
    json!({
        "input_tokens": input, "output_tokens": usage.output_tokens,
        "total_tokens": input + usage.output_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    })
}
