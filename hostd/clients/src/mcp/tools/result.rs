//! Results of tools: text for models, and the same as a structure for programs. Failures are results too, so that the
//! model reads them.

use crate::{
    ApiFailure,
    mcp::{event_id::Work, limits},
};
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Value, json};

pub enum Outcome {
    Done(Box<CallToolResult>),
    /// The result comes when this is done. It is followed from this position.
    Follow(Work, u64),
}

pub type ToolAnswer = Result<Outcome, ToolFailure>;

/// Why a tool did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ToolFailure {
    #[error("{0}")]
    Api(#[from] ApiFailure),
    /// The arguments, or the file that they name, do not allow it.
    #[error("{0}")]
    Invalid(String),
}

impl ToolFailure {
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }
}

/// A result with its own text.
pub fn done(text: impl Into<String>, structure: Value) -> Outcome {
    Outcome::Done(Box::new(result(text, structure, false)))
}

/// A result whose text is its structure.
pub fn document<T: Serialize>(value: &T) -> ToolAnswer {
    let structure = serde_json::to_value(value).map_err(|error| ToolFailure::invalid(error.to_string()))?;
    let text = serde_json::to_string_pretty(&structure).unwrap_or_default();
    Ok(done(middle_cut(&text, limits::TEXT_MAX_CHARS).0, structure))
}

pub fn result(text: impl Into<String>, structure: Value, is_error: bool) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    // A field of later revisions.
    result.result_type = None;
    result.is_error = Some(is_error);
    result.structured_content = Some(structure);
    result
}

/// The result of a call that failed.
pub fn failed(failure: ToolFailure) -> CallToolResult {
    match failure {
        ToolFailure::Api(failure) => {
            let error = json!({"error": *failure.error});
            let code = error["error"]["code"].as_str().unwrap_or("error").to_owned();
            result(format!("{code}: {}", failure.error.message), error, true)
        }
        ToolFailure::Invalid(message) => {
            let error = json!({"error": {"code": "invalid_request", "message": message, "retryable": false}});
            result(message, error, true)
        }
    }
}

/// Returns the text, without its middle where it is too long, and whether it was.
pub fn middle_cut(text: &str, max_chars: usize) -> (String, bool) {
    let chars = text.chars().count();
    if chars <= max_chars {
        return (text.to_owned(), false);
    }
    let (head, tail) = (max_chars / 3, max_chars - max_chars / 3);
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let (begin, end) = (&text[..at(head)], &text[at(chars - tail)..]);
    (format!("{begin}\n[… {} characters left out …]\n{end}", chars - max_chars), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_long_text_is_left_out() {
        assert_eq!(middle_cut("äöü", 3), ("äöü".to_owned(), false));
        let (cut, short) = middle_cut("äbcdefghöü", 6);
        assert_eq!((cut.as_str(), short), ("äb\n[… 4 characters left out …]\nghöü", true));
    }
}
