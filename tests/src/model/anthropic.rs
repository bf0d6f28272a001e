//! Anthropic's Messages.

use super::completion::{Completion, Content, Input, event};
use super::conversation::{Conversation, Item, Offer, ParameterShape, list, name_of, text_of, user};
use serde_json::{Value, json};

pub fn read(body: &Value) -> Conversation {
    let mut items = Vec::new();
    for message in list(&body["messages"]) {
        if message["role"] == "assistant" {
            items.push(Item::Assistant);
            continue;
        }
        for part in list(&message["content"]).iter().filter(|part| part["type"] == "tool_result") {
            items.push(Item::Result(text_of(&part["content"])));
        }
        items.extend(user(&text_of(&message["content"])));
    }
    let offers = list(&body["tools"]).iter().filter(|tool| tool["input_schema"].is_object());
    let offers = offers.map(|tool| Offer {
        name: name_of(&tool["name"]),
        takes: ParameterShape::Object(tool["input_schema"].clone()),
    });
    let wants_json = body["output_config"]["format"].is_object() || body["output_format"].is_object();
    Conversation { model: name_of(&body["model"]), items, offers: offers.collect(), wants_json }
}

pub fn whole(answer: &Completion) -> Value {
    let content: Vec<Value> = answer.said.iter().map(block).collect();
    let mut message = head(answer);
    message["content"] = json!(content);
    message["stop_reason"] = json!(stop_reason(answer));
    message["usage"]["output_tokens"] = json!(answer.usage.output_tokens);
    message
}

pub fn frames(answer: &Completion) -> Vec<String> {
    let mut frames = vec![event("message_start", &json!({"type": "message_start", "message": head(answer)}))];
    for (index, said) in answer.said.iter().enumerate() {
        let start =
            json!({"type": "content_block_start", "index": index, "content_block": empty_block(said)});
        frames.push(event("content_block_start", &start));
        for delta in deltas(said) {
            let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
            frames.push(event("content_block_delta", &delta));
        }
        frames.push(event("content_block_stop", &json!({"type": "content_block_stop", "index": index})));
    }
    let end = json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(answer), "stop_sequence": null},
        "usage": {"output_tokens": answer.usage.output_tokens},
    });
    frames.push(event("message_delta", &end));
    frames.push(event("message_stop", &json!({"type": "message_stop"})));
    frames
}

pub fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

fn head(answer: &Completion) -> Value {
    let usage = answer.usage;
    json!({
        "id": format!("msg_{}", answer.number), "type": "message", "role": "assistant",
        "model": answer.model, "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": usage.input_tokens,
            "cache_creation_input_tokens": usage.cache_write_tokens,
            "cache_read_input_tokens": usage.cache_read_tokens,
            "output_tokens": 1,
        },
    })
}

fn stop_reason(answer: &Completion) -> &'static str {
    if answer.calls() { "tool_use" } else { "end_turn" }
}

fn block(said: &Content) -> Value {
    match said {
        Content::Text(pieces) => json!({"type": "text", "text": pieces.concat()}),
        Content::Thought(text) => json!({"type": "thinking", "thinking": text, "signature": "c2lnbmVk"}),
        Content::Call { id, name, input } => {
            json!({"type": "tool_use", "id": id, "name": name, "input": object(input)})
        }
    }
}

fn empty_block(said: &Content) -> Value {
    match said {
        Content::Text(_) => json!({"type": "text", "text": ""}),
        Content::Thought(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
        Content::Call { id, name, .. } => json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
    }
}

fn deltas(said: &Content) -> Vec<Value> {
    match said {
        Content::Text(pieces) => {
            pieces.iter().map(|text| json!({"type": "text_delta", "text": text})).collect()
        }
        Content::Thought(text) => vec![
            json!({"type": "thinking_delta", "thinking": text}),
            json!({"type": "signature_delta", "signature": "c2lnbmVk"}),
        ],
        Content::Call { input, .. } => {
            vec![json!({"type": "input_json_delta", "partial_json": object(input).to_string()})]
        }
    }
}

fn object(input: &Input) -> Value {
    match input {
        Input::Object(value) => value.clone(),
        Input::Text(text) => json!({"input": text}),
    }
}
