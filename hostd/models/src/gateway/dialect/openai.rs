//! What OpenAI's two APIs have in common.

use super::{DialectRules, Forwarded, KeyHeader, ModelApi, ModelListFormat};
use crate::{
    Dialect,
    gateway::route::{Endpoint, Operation, Route},
};
use hostd_core::{ListedModel, highest_model, model_version};
use serde_json::{Value, json};

pub struct Openai;

impl DialectRules for Openai {
    fn route(&self, path: &str) -> Option<Route> {
        let call = |api| Some(Route::Call(Endpoint::new(api, Operation::Generate)));
        match path {
            "v1/chat/completions" => call(ModelApi::Chat),
            "v1/responses" => call(ModelApi::Responses),
            "v1/models" => Some(Route::Models(Dialect::Openai)),
            _ => None,
        }
    }

    fn default_base_url(&self) -> &'static str {
        "https://api.openai.com/v1"
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::Bearer
    }

    fn forwarded(&self) -> &'static Forwarded {
        &Forwarded {
            request_headers: &["openai-beta"],
            response_headers: &["openai-version", "openai-processing-ms", "openai-model"],
            response_header_prefixes: &[],
            parameters: &["api-version"],
            parameter_values: &[],
        }
    }

    fn error_json(&self, status: u16, code: Option<&str>, message: &str) -> Value {
        let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
        json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
    }

    fn model_list(&self) -> &'static ModelListFormat {
        &ModelListFormat { query: "", headers: &[], member: "data" }
    }

    fn read_listed_model(&self, entry: &Value) -> Option<ListedModel> {
        Some(ListedModel { name: entry["id"].as_str()?.to_owned(), ..ListedModel::default() })
    }

    fn task_models(&self, names: &[String]) -> Value {
        let model = |name| json!({"id": name, "object": "model", "created": 0, "owned_by": "slipway"});
        json!({"object": "list", "data": names.iter().map(model).collect::<Vec<_>>()})
    }

    fn preferred_model<'a>(&self, models: &'a [ListedModel]) -> Option<&'a ListedModel> {
        highest_model(models, gpt)
    }

    /// OpenAI itself offers both APIs; other servers of its dialect mostly offer Chat Completions alone.
    fn compatible_variant(&self) -> Option<&'static str> {
        Some("openai_chat")
    }
}

/// Ranks `gpt-5`, `gpt-5.1`, `gpt-5.1-codex`: of one version the one made for code. Any other suffix means
/// smaller, dated, or for something else.
fn gpt(name: &str) -> Option<((u32, u32), bool)> {
    let rest = name.strip_prefix("gpt-")?;
    match rest.strip_suffix("-codex") {
        Some(number) => Some((model_version(number)?, true)),
        None => Some((model_version(rest)?, false)),
    }
}
