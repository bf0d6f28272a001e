//! Gemini's generateContent.

use super::completion::{Completion, Content, Input, data};
use super::conversation::{Conversation, Item, Offer, ParameterShape, list, name_of, user};
use serde_json::{Value, json};

pub fn read(path: &str, body: &Value) -> Conversation {
    let mut items = Vec::new();
    for content in list(&body["contents"]) {
        if content["role"] == "model" {
            items.push(Item::Assistant);
            continue;
        }
        let mut texts = Vec::new();
        for part in list(&content["parts"]) {
            if let Some(text) = part["text"].as_str() {
                texts.push(text);
            } else if part["functionResponse"].is_object() {
                items.push(Item::Result(part["functionResponse"]["response"].to_string()));
            }
        }
        items.extend(user(&texts.join("\n")));
    }
    let tools = list(&body["tools"]).iter().flat_map(|tool| list(&tool["functionDeclarations"]));
    let offers = tools.map(|tool| {
        let schema =
            if tool["parametersJsonSchema"].is_object() { "parametersJsonSchema" } else { "parameters" };
        Offer { name: name_of(&tool["name"]), takes: ParameterShape::Object(tool[schema].clone()) }
    });
    let wants_json = body["generationConfig"]["responseMimeType"] == "application/json";
    Conversation { model: model_of(path), items, offers: offers.collect(), wants_json }
}

/// The model stands in the path: `…/models/<model>:generateContent`.
fn model_of(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or_default();
    last.split(':').next().unwrap_or_default().to_owned()
}

pub fn whole(answer: &Completion) -> Value {
    let parts: Vec<Value> = answer.said.iter().flat_map(|said| parts(said, true)).collect();
    let mut whole = chunk(answer, &json!(parts));
    finish(answer, &mut whole);
    whole
}

pub fn frames(answer: &Completion) -> Vec<String> {
    let all: Vec<Value> = answer.said.iter().flat_map(|said| parts(said, false)).collect();
    let last = all.len().saturating_sub(1);
    let chunks = all.into_iter().enumerate().map(|(at, part)| {
        let mut chunk = chunk(answer, &json!([part]));
        if at == last {
            finish(answer, &mut chunk);
        }
        data(&chunk)
    });
    chunks.collect()
}

pub fn error(code: u16, kind: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": message, "status": kind.to_uppercase()}})
}

fn parts(said: &Content, joined: bool) -> Vec<Value> {
    match said {
        Content::Text(pieces) if joined => vec![json!({"text": pieces.concat()})],
        Content::Text(pieces) => pieces.iter().map(|text| json!({"text": text})).collect(),
        Content::Thought(text) => vec![json!({"text": text, "thought": true})],
        Content::Call { id, name, input } => {
            let args = match input {
                Input::Object(value) => value.clone(),
                Input::Text(text) => json!({"input": text}),
            };
            vec![json!({"functionCall": {"id": id, "name": name, "args": args}})]
        }
    }
}

fn chunk(answer: &Completion, parts: &Value) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
        "modelVersion": answer.model, "responseId": format!("r{}", answer.number),
    })
}

fn finish(answer: &Completion, chunk: &mut Value) {
    let usage = answer.usage;
    let prompt = usage.input_tokens + usage.cache_read_tokens;
    chunk["candidates"][0]["finishReason"] = json!("STOP");
    chunk["usageMetadata"] = json!({
        "promptTokenCount": prompt,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": prompt + usage.output_tokens,
    });
}
