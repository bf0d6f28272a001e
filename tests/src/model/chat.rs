//! OpenAI's Chat Completions.

use super::completion::{Completion, Content, data};
use super::conversation::{Conversation, Item, Offer, ParameterShape, list, name_of, text_of, user};
use protocol::Usage;
use serde_json::{Value, json};

pub fn read(body: &Value) -> Conversation {
    let mut items = Vec::new();
    for message in list(&body["messages"]) {
        let text = text_of(&message["content"]);
        match message["role"].as_str().unwrap_or_default() {
            "assistant" => items.push(Item::Assistant),
            "tool" => items.push(Item::Result(text)),
            "user" => items.extend(user(&text)),
            _ => {}
        }
    }
    let offers = list(&body["tools"]).iter().filter(|tool| tool["type"] == "function").map(|tool| {
        let function = &tool["function"];
        Offer {
            name: name_of(&function["name"]),
            takes: ParameterShape::Object(function["parameters"].clone()),
        }
    });
    let wants_json = body["response_format"]["type"].as_str().is_some_and(|kind| kind.starts_with("json"));
    Conversation { model: name_of(&body["model"]), items, offers: offers.collect(), wants_json }
}

pub fn whole(answer: &Completion) -> Value {
    let mut message = json!({"role": "assistant", "content": null});
    let mut calls = Vec::new();
    for said in &answer.said {
        match said {
            Content::Text(pieces) => message["content"] = json!(pieces.concat()),
            Content::Thought(text) => message["reasoning_content"] = json!(text),
            Content::Call { .. } => calls.push(call(said, calls.len())),
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": finish(answer)});
    let mut whole = chunk(answer, &json!([choice]));
    whole["object"] = json!("chat.completion");
    whole["usage"] = usage(answer.usage);
    whole
}

/// Usage comes only to those who ask for it, as with the original.
pub fn frames(answer: &Completion, body: &Value) -> Vec<String> {
    let delta =
        |delta: Value| data(&chunk(answer, &json!([{"index": 0, "delta": delta, "finish_reason": null}])));
    let mut frames = vec![delta(json!({"role": "assistant", "content": ""}))];
    let mut calls = 0;
    for said in &answer.said {
        match said {
            Content::Text(pieces) => {
                frames.extend(pieces.iter().map(|text| delta(json!({"content": text}))));
            }
            Content::Thought(text) => frames.push(delta(json!({"reasoning_content": text}))),
            Content::Call { .. } => {
                frames.push(delta(json!({"tool_calls": [call(said, calls)]})));
                calls += 1;
            }
        }
    }
    let end = json!([{"index": 0, "delta": {}, "finish_reason": finish(answer)}]);
    frames.push(data(&chunk(answer, &end)));
    if body["stream_options"]["include_usage"] == true {
        let mut last = chunk(answer, &json!([]));
        last["usage"] = usage(answer.usage);
        frames.push(data(&last));
    }
    frames.push("data: [DONE]\n\n".to_owned());
    frames
}

pub fn error(kind: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": kind}})
}

fn chunk(answer: &Completion, choices: &Value) -> Value {
    let id = format!("chatcmpl-{}", answer.number);
    let kind = "chat.completion.chunk";
    json!({"id": id, "object": kind, "created": 1, "model": answer.model, "choices": choices})
}

fn call(said: &Content, index: usize) -> Value {
    let Content::Call { id, name, input } = said else { return Value::Null };
    let function = json!({"name": name, "arguments": input.text()});
    json!({"index": index, "id": id, "type": "function", "function": function})
}

fn finish(answer: &Completion) -> &'static str {
    if answer.calls() { "tool_calls" } else { "stop" }
}

fn usage(usage: Usage) -> Value {
    let prompt = usage.input_tokens + usage.cache_read_tokens;
    json!({
        "prompt_tokens": prompt, "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    })
}
