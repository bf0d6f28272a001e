//! The methods of the protocol.

use super::{call::Call, event_id::Work, messages::ClientRequest, resources, revision::Revision, tools};
use rmcp::model::{
    CallToolRequestParams, ErrorCode, ErrorData, Implementation, InitializeResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ResourcesCapability, ServerCapabilities,
    ToolsCapability,
};
use serde::Serialize;
use serde_json::{Value, json};

const INSTRUCTIONS: &str = "\
Slipway runs sandboxes: isolated Linux machines with their own files, processes and previews. Begin with create_sandbox \
(or list_sandboxes) and pass its id to the other tools. Files live in /home/sandbox; the app directory, where commands \
start, is /home/sandbox/workspace/app. A sandbox that sleeps wakes by itself when it is used. exec runs shell commands, \
preview_url gives the address of a web server that listens inside, run_task hands a whole coding job to an agent in the \
sandbox. Take a snapshot before risky changes; destroy what is not needed any more.";

/// The answer to a request.
pub enum Answer {
    Result(Value),
    /// A stream that ends with the result, of what comes after a position.
    Follow(Work, u64),
}

/// The result of `initialize`.
pub fn server_info(revision: Revision) -> InitializeResult {
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools = Some(ToolsCapability::default());
    capabilities.resources = Some(ResourcesCapability::default());
    let server = Implementation::new("slipway", env!("CARGO_PKG_VERSION"));
    InitializeResult::new(capabilities)
        .with_protocol_version(revision.version())
        .with_server_info(server)
        .with_instructions(INSTRUCTIONS)
}

pub async fn call(call: &Call, mut request: ClientRequest) -> Result<Answer, ErrorData> {
    match request.method.as_str() {
        "ping" => result(&json!({})),
        "tools/list" => {
            let page: PaginatedRequestParams = request.params()?;
            no_cursor(&page)?;
            let mut list = ListToolsResult::with_all_items(tools::visible_to(call.caller.scope));
            list.result_type = None;
            result(&list)
        }
        "tools/call" => {
            let params: CallToolRequestParams = request.params()?;
            tools::call(call, &params.name, params.arguments.unwrap_or_default()).await
        }
        "resources/list" => {
            let page: PaginatedRequestParams = request.params()?;
            result(&resources::list(call, page.cursor.as_deref()).await?)
        }
        "resources/templates/list" => {
            let page: PaginatedRequestParams = request.params()?;
            no_cursor(&page)?;
            result(&resources::templates())
        }
        "resources/read" => {
            let params: ReadResourceRequestParams = request.params()?;
            result(&resources::read(call, &params.uri).await?)
        }
        other => {
            let message =
                format!("this server has no method {}", other.chars().take(100).collect::<String>());
            Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
        }
    }
}

/// These lists are one page.
fn no_cursor(page: &PaginatedRequestParams) -> Result<(), ErrorData> {
    let invalid = || ErrorData::invalid_params("no page of this list has this cursor", None);
    if page.cursor.is_some() { Err(invalid()) } else { Ok(()) }
}

fn result<T: Serialize>(value: &T) -> Result<Answer, ErrorData> {
    let value = serde_json::to_value(value);
    value.map(Answer::Result).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}
