//! The table of tools.

use super::{
    exec, files, files_write, logs, previews,
    result::{Outcome, ToolAnswer, ToolFailure, failed},
    sandboxes, schema, snapshots, tasks,
};
use crate::mcp::{
    call::Call,
    methods::Answer,
    once::{self, Unfinished},
};
use futures_util::future::BoxFuture;
use protocol::api::TokenScope;
use rmcp::model::{ErrorData, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::{Arc, LazyLock};

/// The effect of a tool on a sandbox and its files. Slipway's API decides who may call it; this is what lists and clients
/// show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Reads,
    /// Adds something, or repeats without harm.
    Adds,
    /// May overwrite or remove something.
    Changes,
}

type Run = Arc<dyn Fn(Call, JsonObject) -> BoxFuture<'static, ToolAnswer> + Send + Sync>;

pub struct ToolEntry {
    tool: Tool,
    effect: Effect,
    /// Set where a request that is sent again gets the result of the first one.
    once: Option<Unfinished>,
    run: Run,
}

/// Name, title and description of a tool.
#[derive(Clone, Copy)]
pub struct Words {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
}

impl ToolEntry {
    pub fn new<A, F>(words: Words, effect: Effect, act: fn(Call, A) -> F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Future<Output = ToolAnswer> + Send + 'static,
    {
        let mut tool = Tool::new(words.name, words.description, schema::of::<A>());
        tool.title = Some(words.title.to_owned());
        let annotations = ToolAnnotations::with_title(words.title).read_only(effect == Effect::Reads);
        tool.annotations = Some(match effect {
            Effect::Reads => annotations.open_world(false),
            Effect::Adds => annotations.destructive(false),
            Effect::Changes => annotations.destructive(true),
        });
        let run: Run = Arc::new(move |call, arguments| {
            Box::pin(async move {
                let arguments = serde_json::from_value(Value::Object(arguments))
                    .map_err(|error| ToolFailure::invalid(format!("wrong arguments: {error}")))?;
                act(call, arguments).await
            })
        });
        Self { tool, effect, once: None, run }
    }

    /// For a tool whose repetition would do harm, or fail.
    pub fn once(mut self, unfinished: Unfinished) -> Self {
        self.once = Some(unfinished);
        self
    }
}

static TOOLS: LazyLock<Vec<ToolEntry>> = LazyLock::new(|| {
    [
        sandboxes::tools(),
        exec::tools(),
        files::tools(),
        files_write::tools(),
        previews::tools(),
        logs::tools(),
        snapshots::tools(),
        tasks::tools(),
    ]
    .into_iter()
    .flatten()
    .collect()
});

/// Returns the tools that a token of this scope is shown.
pub fn visible_to(scope: TokenScope) -> Vec<Tool> {
    let shown = |entry: &&ToolEntry| match scope {
        TokenScope::Read => entry.effect == Effect::Reads,
        TokenScope::Run | TokenScope::Admin => true,
    };
    TOOLS.iter().filter(shown).map(|entry| entry.tool.clone()).collect()
}

/// Calls a tool, whether or not it is shown: the API refuses what the caller may not do.
pub async fn call(call: &Call, name: &str, arguments: JsonObject) -> Result<Answer, ErrorData> {
    let Some(entry) = TOOLS.iter().find(|entry| entry.tool.name == name) else {
        let name: String = name.chars().take(100).collect();
        return Err(ErrorData::invalid_params(format!("unknown tool: {name}"), None));
    };
    let answer = match entry.once {
        Some(unfinished) => {
            let act = (entry.run)(call.clone(), arguments.clone());
            once::run(call, (name, unfinished), &arguments, act).await
        }
        None => (entry.run)(call.clone(), arguments).await,
    };
    let result = match answer {
        Ok(Outcome::Follow(work, position)) => return Ok(Answer::Follow(work, position)),
        Ok(Outcome::Done(result)) => *result,
        Err(failure) => failed(failure),
    };
    let value = serde_json::to_value(result);
    value.map(Answer::Result).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_tools_is_as_reviewed() {
        insta::assert_json_snapshot!(visible_to(TokenScope::Run));
    }

    #[test]
    fn a_token_that_reads_sees_tools_that_read() {
        let names: Vec<_> = visible_to(TokenScope::Read).into_iter().map(|tool| tool.name).collect();
        insta::assert_json_snapshot!(names);
    }

    #[test]
    fn schemas_are_plain_and_closed() {
        for tool in visible_to(TokenScope::Admin) {
            let text = serde_json::to_string(&tool.input_schema).expect("JSON");
            for odd in ["$ref", "$defs", "\"null\"", "\"format\""] {
                assert!(!text.contains(odd), "{}: {odd} in {text}", tool.name);
            }
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            assert_eq!(tool.input_schema["additionalProperties"], false, "{}", tool.name);
            let properties = tool.input_schema["properties"].as_object().expect("properties");
            for (name, property) in properties {
                assert!(property.get("description").is_some(), "{} has no description of {name}", tool.name);
            }
        }
    }
}
