//! The prompt of an editor as the text of a task. Pure.

use super::{limits, rpc::RpcError};
use serde_json::Value;

/// Joins the blocks of a prompt. Images and audio were not offered, so they are refused.
pub fn text(blocks: &Value) -> Result<String, RpcError> {
    let blocks = blocks.as_array().ok_or_else(|| RpcError::invalid("prompt", "must be a list of blocks"))?;
    if !(1..=limits::PROMPT_BLOCKS_MAX).contains(&blocks.len()) {
        let message = format!("must have 1 to {} blocks", limits::PROMPT_BLOCKS_MAX);
        return Err(RpcError::invalid("prompt", message));
    }
    let parts: Vec<String> = blocks.iter().map(block).collect::<Result<_, _>>()?;
    Ok(parts.join("\n\n"))
}

fn block(block: &Value) -> Result<String, RpcError> {
    let field = |value: &Value, name: &str| {
        let text = value.get(name).and_then(Value::as_str).map(str::to_owned);
        text.ok_or_else(|| RpcError::invalid("prompt", format!("a block has no {name}")))
    };
    match field(block, "type")?.as_str() {
        "text" => field(block, "text"),
        "resource_link" => {
            let uri = field(block, "uri")?;
            let name = block.get("name").and_then(Value::as_str).unwrap_or(&uri);
            Ok(format!("[@{name}]({uri})"))
        }
        "resource" => {
            let resource = block.get("resource").unwrap_or(&Value::Null);
            let (uri, text) = (field(resource, "uri")?, field(resource, "text")?);
            Ok(format!("<context uri=\"{uri}\">\n{text}\n</context>"))
        }
        other => Err(RpcError::invalid("prompt", format!("blocks of type {other} are not supported"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_links_and_embedded_files_are_joined() {
        let blocks = json!([
            {"type": "text", "text": "look at"},
            {"type": "resource_link", "name": "a.rs", "uri": "file:///a.rs"},
            {"type": "resource", "resource": {"uri": "file:///b.rs", "text": "fn b() {}"}},
        ]);
        let expected =
            "look at\n\n[@a.rs](file:///a.rs)\n\n<context uri=\"file:///b.rs\">\nfn b() {}\n</context>";
        assert_eq!(text(&blocks), Ok(expected.to_owned()));
    }

    #[test]
    fn what_was_not_offered_is_refused() {
        let many = json!(vec![json!({"type": "text", "text": "x"}); limits::PROMPT_BLOCKS_MAX + 1]);
        for bad in [
            json!(null),
            json!("text"),
            json!([]),
            many,
            json!(["text"]),
            json!([{"type": "text"}]),
            json!([{"type": "image", "data": "", "mimeType": "image/png"}]),
            json!([{"type": "resource", "resource": {"uri": "x", "blob": ""}}]),
        ] {
            assert!(text(&bad).is_err(), "{bad}");
        }
    }
}
