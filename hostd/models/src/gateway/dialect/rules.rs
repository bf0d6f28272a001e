//! The questions that hostd asks of a dialect, and of each of its APIs.

use super::ResponseFacts;
use crate::{
    ActiveBudgets, Dialect,
    gateway::{
        model_request::{InvalidRequest, ModelRequest},
        route::{Endpoint, Operation, Route},
    },
};
use hostd_core::ListedModel;
use serde_json::Value;

/// The requests and responses of one API.
pub trait ApiRules: Sync {
    fn dialect(&self) -> Dialect;

    /// The path below the base URL of a provider, which includes the version.
    fn path(&self, operation: Operation, model: &str) -> String;

    /// Reads a request before it is forwarded. What a budget bounds must be visible in the request, so a
    /// request whose size or price cannot be known is refused.
    fn parse_request(
        &self,
        endpoint: &Endpoint,
        body: &[u8],
        bounded: ActiveBudgets,
    ) -> Result<ModelRequest, InvalidRequest>;

    /// Reads the data of one event of a streamed response.
    fn read_event(&self, facts: &mut ResponseFacts, data: &[u8]);

    /// Reads a response that came as one JSON document.
    fn read_json(&self, facts: &mut ResponseFacts, body: &[u8]);

    /// The events that end a stream which the gateway cuts off.
    fn final_error_event(&self, message: &str) -> String;
}

/// What all APIs of a dialect have in common.
pub trait DialectRules: Sync {
    /// The route of a path below `/model/` and the name of the dialect.
    fn route(&self, path: &str) -> Option<Route>;

    /// The base URL of the vendor.
    fn default_base_url(&self) -> &'static str;

    fn key_header(&self) -> KeyHeader;

    fn forwarded(&self) -> &'static Forwarded;

    /// The body of an error as clients parse it. `code` is as OpenAI names it.
    fn error_json(&self, status: u16, code: Option<&str>, message: &str) -> Value;

    /// The number of seconds until a retry, as the body of an error says it.
    fn retry_delay<'a>(&self, _error: &'a str) -> Option<&'a str> {
        None
    }

    fn model_list(&self) -> &'static ModelListFormat;

    /// Reads one entry of a provider's list of models.
    fn read_listed_model(&self, entry: &Value) -> Option<ListedModel>;

    /// Whether a provider's list of models goes on at another page.
    fn has_more_models(&self, list: &Value) -> bool {
        list["has_more"] == true
    }

    /// The list of a task's models, as agents read it.
    fn task_models(&self, names: &[String]) -> Value;

    /// The best of the vendor's own models by their names; none where there is none of these.
    fn preferred_model<'a>(&self, models: &'a [ListedModel]) -> Option<&'a ListedModel>;

    /// See [`super::compatible_variant`].
    fn compatible_variant(&self) -> Option<&'static str> {
        None
    }
}

/// The header that carries a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeader {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// A header of this name, with the key alone.
    Named(&'static str),
}

/// What is forwarded for this dialect, beyond what is forwarded for all. Since clients mix dialects, what
/// one of them names is forwarded whatever the provider speaks.
#[derive(Debug)]
pub struct Forwarded {
    pub request_headers: &'static [&'static str],
    pub response_headers: &'static [&'static str],
    pub response_header_prefixes: &'static [&'static str],
    /// Names of query parameters.
    pub parameters: &'static [&'static str],
    /// Query parameters of which one value only is forwarded, as `name=value`.
    pub parameter_values: &'static [&'static str],
}

/// How a provider is asked for its list of models.
#[derive(Debug)]
pub struct ModelListFormat {
    /// Asks for the largest page that the API allows.
    pub query: &'static str,
    /// Headers that the API requires.
    pub headers: &'static [(&'static str, &'static str)],
    /// The member that holds the entries.
    pub member: &'static str,
}
