//! Tools that read files.

use super::{
    args::{PathText, UlidText},
    registry::{Effect, ToolEntry, Words},
    result::{Outcome, ToolAnswer, ToolFailure, done, middle_cut, result},
};
use crate::{
    ApiClient, ApiFailure,
    mcp::{address::Address, call::Call, limits},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::{
    HeaderMap, Method,
    header::{CONTENT_RANGE, ETAG, HeaderValue, RANGE},
};
use protocol::api::{ApiErrorCode, FilePage, FileView, SandboxId, SearchView};
use rmcp::model::ContentBlock;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

pub fn tools() -> Vec<ToolEntry> {
    vec![
        ToolEntry::new(READ, Effect::Reads, read),
        ToolEntry::new(LIST, Effect::Reads, list),
        ToolEntry::new(SEARCH, Effect::Reads, search),
    ]
}

const READ: Words = Words {
    name: "read_file",
    title: "Read a file",
    description: "Reads a file of a sandbox: text as it is, pictures as pictures, other bytes as base64. Reads 64 KiB from \
        offset; the result says at which offset to go on where the file is longer. Works while the sandbox sleeps.",
};
const LIST: Words = Words {
    name: "list_files",
    title: "List files",
    description: "Lists a directory of a sandbox, or with recursive a tree; leaves out .git and what ignore files name, \
        unless all is set. Works while the sandbox sleeps.",
};
const SEARCH: Words = Words {
    name: "search_files",
    title: "Search files",
    description: "Finds files by name (a glob such as *.rs), lines by content (a regular expression), or lines of the files \
        with such a name. Returns path, line number and line. Leaves out .git and ignored files, unless all is set.",
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArgs {
    /// Id of the sandbox.
    #[schemars(with = "UlidText")]
    sandbox: SandboxId,
    /// Path relative to /home/sandbox (the app is in workspace/app), or absolute below it.
    #[schemars(with = "PathText")]
    path: String,
    /// Byte to begin with; default 0.
    #[serde(default)]
    offset: u64,
    /// How many bytes to read; default 65536.
    #[schemars(range(min = 1, max = 1_048_576))]
    max_bytes: Option<u64>,
}

async fn read(call: Call, args: ReadArgs) -> ToolAnswer {
    let most = args.max_bytes.unwrap_or(limits::READ_BYTES).clamp(1, limits::READ_MAX_BYTES);
    let (headers, mut content) = content(&call, &args.sandbox, &args.path, args.offset, most).await?;
    let size = total_size(&headers).unwrap_or(content.len() as u64);
    let kind = mime_guess::from_path(&args.path).first_or_octet_stream();
    let whole = args.offset == 0 && content.len() as u64 == size;
    if kind.type_() == "image" && kind.subtype() != "svg" && whole {
        let structure = json!({"path": args.path, "size": size, "mime_type": kind.essence_str()});
        let mut found = result(format!("{} ({size} bytes)", args.path), structure, false);
        found.content.push(ContentBlock::image(BASE64_STANDARD.encode(&content), kind.essence_str()));
        return Ok(Outcome::Done(Box::new(found)));
    }
    cut_to_character(&mut content);
    let next = args.offset.saturating_add(content.len() as u64);
    let (text, encoding) = match std::str::from_utf8(&content) {
        Ok(text) => (text.to_owned(), "utf-8"),
        Err(_) => (BASE64_STANDARD.encode(&content), "base64"),
    };
    let mut structure = json!({"path": args.path, "size": size, "offset": args.offset, "encoding": encoding,
        "content": text, "etag": headers.get(ETAG).and_then(|tag| tag.to_str().ok())});
    let mut shown = if encoding == "base64" { format!("[base64]\n{text}") } else { text };
    if next < size {
        structure["next_offset"] = json!(next);
        shown.push_str(&format!("\n[{} of {size} bytes; go on with offset {next}]", content.len()));
    }
    Ok(done(shown, structure))
}

/// Leaves out an unfinished character at the end, which the next part begins with.
fn cut_to_character(content: &mut Bytes) {
    if let Err(error) = std::str::from_utf8(content)
        && error.error_len().is_none()
        && error.valid_up_to() > 0
    {
        content.truncate(error.valid_up_to());
    }
}

/// Reads a part of a file, with the headers of the response.
pub async fn content(
    call: &Call,
    sandbox: &SandboxId,
    path: &str,
    offset: u64,
    max_bytes: u64,
) -> Result<(HeaderMap, Bytes), ApiFailure> {
    let address = Address::new(format!("/v1/sandboxes/{sandbox}/files/content")).query("path", path).build();
    let mut request = ApiClient::request(Method::GET, &address);
    let last = offset.saturating_add(max_bytes).saturating_sub(1).max(offset);
    let range = HeaderValue::try_from(format!("bytes={offset}-{last}")).expect("numbers are visible ASCII");
    request.headers_mut().insert(RANGE, range);
    let response = match call.api.send(request).await {
        Ok(response) => response,
        // No byte of an empty file is within a range.
        Err(failure) if failure.error.code == ApiErrorCode::RangeNotSatisfiable && offset == 0 => {
            call.api.send(ApiClient::request(Method::GET, &address)).await?
        }
        Err(failure) => return Err(failure),
    };
    let (parts, body) = response.into_parts();
    let limit = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let broken =
        |_| ApiFailure::new(ApiErrorCode::Internal, "the file was not read to its end; read it again");
    let whole = Limited::new(body, limit).collect().await.map_err(broken)?;
    Ok((parts.headers, whole.to_bytes()))
}

/// The size of the file, as a response with a part of it says.
pub fn total_size(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_RANGE)?.to_str().ok()?.rsplit_once('/')?.1.parse().ok()
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArgs {
    /// Id of the sandbox.
    #[schemars(with = "UlidText")]
    sandbox: SandboxId,
    /// Directory, relative to /home/sandbox; default: the app directory workspace/app.
    #[schemars(with = "Option<PathText>")]
    path: Option<String>,
    /// Whether to list all levels below it.
    #[serde(default)]
    recursive: bool,
    /// Whether to list .git and ignored files too.
    #[serde(default)]
    all: bool,
    /// How many entries to return; default 200.
    #[schemars(range(min = 1, max = 2_000))]
    limit: Option<u32>,
    /// `next` of the page before.
    #[schemars(length(min = 1, max = 4095))]
    after: Option<String>,
}

/// The directory where commands start.
const APP_DIR: &str = "workspace/app";

async fn list(call: Call, args: ListArgs) -> ToolAnswer {
    let address = Address::new(format!("/v1/sandboxes/{}/files", args.sandbox))
        .query("path", args.path.as_deref().unwrap_or(APP_DIR))
        .query("limit", &args.limit.unwrap_or(200).clamp(1, 2_000).to_string())
        .flag("recursive", args.recursive)
        .flag("ignore", !args.all)
        .query_if("after", args.after);
    let page: FilePage = call.api.get(&address.build()).await?;
    let mut lines: Vec<String> = page.items.iter().map(entry_line).collect();
    if lines.is_empty() {
        lines.push("nothing in this directory".to_owned());
    }
    if let Some(next) = &page.next {
        lines.push(format!("[more: call again with after = {next}]"));
    }
    let text = middle_cut(&lines.join("\n"), limits::TEXT_MAX_CHARS).0;
    Ok(done(text, serde_json::to_value(&page).unwrap_or_default()))
}

/// An entry as a line: directories end in a slash.
pub fn entry_line(file: &FileView) -> String {
    use protocol::files::FileType;
    match file.kind {
        FileType::Directory => format!("{}/", file.path),
        FileType::Symlink => format!("{} -> {}", file.path, file.target.as_deref().unwrap_or("?")),
        FileType::File | FileType::Fifo | FileType::Socket | FileType::Device => {
            format!("{} ({} bytes)", file.path, file.size)
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchArgs {
    /// Id of the sandbox.
    #[schemars(with = "UlidText")]
    sandbox: SandboxId,
    /// Directory to search in, relative to /home/sandbox; default: the app directory workspace/app.
    #[schemars(with = "Option<PathText>")]
    path: Option<String>,
    /// Glob of the file name, or of the path where it has a slash.
    #[schemars(length(min = 1, max = 1024))]
    name: Option<String>,
    /// Regular expression that a line matches.
    #[schemars(length(min = 1, max = 1024))]
    content: Option<String>,
    /// Whether upper and lower case match each other.
    #[serde(default)]
    ignore_case: bool,
    /// Whether to search hidden and ignored files too.
    #[serde(default)]
    all: bool,
    /// How many matches to return; default 100.
    #[schemars(range(min = 1, max = 1_000))]
    limit: Option<u32>,
}

async fn search(call: Call, args: SearchArgs) -> ToolAnswer {
    if args.name.is_none() && args.content.is_none() {
        return Err(ToolFailure::invalid("give name, content or both"));
    }
    let address = Address::new(format!("/v1/sandboxes/{}/files/search", args.sandbox))
        .query("path", args.path.as_deref().unwrap_or(APP_DIR))
        .query_if("name", args.name)
        .query_if("content", args.content)
        .query("limit", &args.limit.unwrap_or(100).clamp(1, 1_000).to_string())
        .flag("ignore_case", args.ignore_case)
        .flag("hidden", args.all)
        .flag("ignore", !args.all);
    let found: SearchView = call.api.get(&address.build()).await?;
    let mut lines: Vec<String> = found
        .items
        .iter()
        .map(|item| match (item.line, &item.text) {
            (Some(line), Some(text)) => format!("{}:{line}: {text}", item.path),
            _ => item.path.clone(),
        })
        .collect();
    if lines.is_empty() {
        lines.push("no matches".to_owned());
    }
    if found.truncated {
        lines.push(format!("[incomplete: {}]", found.reason.as_deref().unwrap_or("there may be more")));
    }
    let text = middle_cut(&lines.join("\n"), limits::TEXT_MAX_CHARS).0;
    Ok(done(text, serde_json::to_value(&found).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_ends_with_a_whole_character() {
        for (bytes, kept) in [
            (&b"abc"[..], 3),
            ("aé".as_bytes(), 3),
            (&"aé".as_bytes()[..2], 1),
            (&"€".as_bytes()[..2], 2),
            (b"a\xffb", 3),
            (b"", 0),
        ] {
            let mut content = Bytes::copy_from_slice(bytes);
            cut_to_character(&mut content);
            assert_eq!(content.len(), kept, "{bytes:?}");
        }
    }
}
