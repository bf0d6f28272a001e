//! Reads one resource: text as text, other bytes as base64, up to a size.

use super::{
    list::error,
    uri::{ResourceUri, Target},
};
use crate::{
    ApiClient, ApiFailure,
    mcp::{
        address::{Address, percent_encode},
        call::Call,
        limits,
        tools::{entry_line, read_log},
    },
};
use base64::{Engine, prelude::BASE64_STANDARD};
use http_body_util::{BodyExt, Limited};
use hyper::Method;
use protocol::api::{ApiErrorCode, FilePage, SandboxId};
use rmcp::model::{ErrorData, ReadResourceResult, ResourceContents};
use serde_json::json;

/// Entries of a directory in its list.
const DIRECTORY_ENTRIES: &str = "1000";

pub async fn read(call: &Call, text: &str) -> Result<ReadResourceResult, ErrorData> {
    let uri = ResourceUri::parse(text).ok_or_else(|| not_found(text, "no resource has this address"))?;
    let top = format!("/v1/sandboxes/{}", uri.sandbox);
    let contents = match &uri.target {
        Target::File(path) => file(call, &uri.sandbox, path, text).await,
        Target::Service(name) => log(call, format!("{top}/services/{name}/logs"), text).await,
        Target::Exec(id) => log(call, format!("{top}/execs/{id}/output"), text).await,
        Target::Task(id) => log(call, format!("{top}/tasks/{id}/log"), text).await,
    };
    let contents = contents.map_err(|failure| match failure.error.code {
        ApiErrorCode::NotFound | ApiErrorCode::Gone => not_found(text, &failure.error.message),
        _ => error(failure),
    })?;
    let mut result = ReadResourceResult::new(vec![contents]);
    result.result_type = None;
    Ok(result)
}

fn not_found(uri: &str, message: &str) -> ErrorData {
    let uri: String = uri.chars().take(1_000).collect();
    ErrorData::resource_not_found(message.to_owned(), Some(json!({"uri": uri})))
}

async fn file(
    call: &Call,
    sandbox: &SandboxId,
    path: &[u8],
    uri: &str,
) -> Result<ResourceContents, ApiFailure> {
    // The path of a list is that of a directory; `NotAFile` says so where the address does not.
    if path.is_empty() || path.ends_with(b"/") {
        return directory(call, sandbox, path, uri).await;
    }
    let address = format!("/v1/sandboxes/{sandbox}/files/content?path={}", percent_encode(path));
    let response = match call.api.send(ApiClient::request(Method::GET, &address)).await {
        Err(failure) if failure.error.code == ApiErrorCode::NotAFile => {
            return directory(call, sandbox, path, uri).await;
        }
        answer => answer?,
    };
    let too_large = |_| {
        let message = format!(
            "the file is larger than {} bytes, or was not read to its end; the tool read_file reads parts",
            limits::RESOURCE_MAX_BYTES
        );
        ApiFailure::new(ApiErrorCode::TooLarge, message)
    };
    let whole =
        Limited::new(response.into_body(), limits::RESOURCE_MAX_BYTES).collect().await.map_err(too_large)?;
    let whole = whole.to_bytes();
    let name = String::from_utf8_lossy(path);
    let kind = mime_guess::from_path(&*name).first_raw();
    Ok(match std::str::from_utf8(&whole) {
        Ok(text) => ResourceContents::text(text, uri).with_mime_type(kind.unwrap_or("text/plain")),
        Err(_) => {
            let kind = kind.unwrap_or("application/octet-stream");
            ResourceContents::blob(BASE64_STANDARD.encode(&whole), uri).with_mime_type(kind)
        }
    })
}

async fn directory(
    call: &Call,
    sandbox: &SandboxId,
    path: &[u8],
    uri: &str,
) -> Result<ResourceContents, ApiFailure> {
    // The home directory itself is the path `.`.
    let trimmed = path.strip_suffix(b"/").unwrap_or(path);
    let shown = if trimmed.is_empty() { &b"."[..] } else { trimmed };
    let address =
        format!("/v1/sandboxes/{sandbox}/files?path={}&limit={DIRECTORY_ENTRIES}", percent_encode(shown));
    let page: FilePage = call.api.get(&address).await?;
    let mut lines: Vec<String> = page.items.iter().map(entry_line).collect();
    if page.next.is_some() {
        lines.push("[more; the tool list_files lists all]".to_owned());
    }
    Ok(ResourceContents::text(lines.join("\n"), uri))
}

/// The end of a log.
async fn log(call: &Call, path: String, uri: &str) -> Result<ResourceContents, ApiFailure> {
    let address = Address::new(path).query("last", &limits::LOG_MAX_BYTES.to_string());
    let part = read_log(call, address, limits::RESOURCE_MAX_BYTES).await?;
    Ok(ResourceContents::text(part.text, uri))
}
