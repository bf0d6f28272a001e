//! Tools that write files.

use super::{
    args::{PathText, UlidText},
    files::{content, total_size},
    registry::{Effect, ToolEntry, Words},
    result::{ToolAnswer, ToolFailure, done},
};
use crate::{
    ApiClient,
    mcp::{address::Address, call::Call, limits, once::Unfinished},
};
use axum::body::Body;
use base64::{Engine, prelude::BASE64_STANDARD};
use hyper::{
    Method, Request,
    header::{ETAG, HeaderValue, IF_MATCH, IF_NONE_MATCH},
};
use protocol::api::{ApiErrorCode, FileView, SandboxId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

pub fn tools() -> Vec<ToolEntry> {
    vec![
        ToolEntry::new(WRITE, Effect::Changes, write).once(Unfinished::Again),
        ToolEntry::new(EDIT, Effect::Changes, edit).once(Unfinished::Fails),
    ]
}

const WRITE: Words = Words {
    name: "write_file",
    title: "Write a file",
    description: "Writes a whole file, and the directories above it. Replaces a file that is there, unless create_only is \
        set. For a change of a part of a file use edit_file. Works while the sandbox sleeps.",
};
const EDIT: Words = Words {
    name: "edit_file",
    title: "Edit a file",
    description: "Replaces exact text in a file. old_text must occur exactly once: give enough lines around the change; or \
        set replace_all. White space counts. Fails where the file was changed by something else in the same moment.",
};

#[derive(Debug, Default, Clone, Copy, Deserialize, JsonSchema)]
enum EncodingArg {
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    #[serde(rename = "base64")]
    Base64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteArgs {
    /// Id of the sandbox.
    #[schemars(with = "UlidText")]
    sandbox: SandboxId,
    /// Path relative to /home/sandbox (the app is in workspace/app), or absolute below it.
    #[schemars(with = "PathText")]
    path: String,
    /// The new content.
    #[schemars(length(max = 5_600_000))]
    content: String,
    /// How the content is given; base64 for bytes that are not text.
    #[serde(default)]
    encoding: EncodingArg,
    /// Permissions in octal, as in 755; default: those of the replaced file, else 644.
    #[schemars(extend("pattern" = "^0?[0-7]{3}$"))]
    mode: Option<String>,
    /// Whether to fail where the file exists.
    #[serde(default)]
    create_only: bool,
}

async fn write(call: Call, args: WriteArgs) -> ToolAnswer {
    let content = match args.encoding {
        EncodingArg::Utf8 => args.content.into_bytes(),
        EncodingArg::Base64 => BASE64_STANDARD
            .decode(args.content)
            .map_err(|error| ToolFailure::invalid(format!("content is not base64: {error}")))?,
    };
    check_size("content", content.len(), limits::WRITE_MAX_BYTES)?;
    let mut request = put(&args.sandbox, &args.path, args.mode.as_deref());
    if args.create_only {
        request.headers_mut().insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
    }
    *request.body_mut() = Body::from(content);
    let file: FileView = match call.api.send_json(request).await {
        Err(failure) if failure.error.code == ApiErrorCode::PreconditionFailed => {
            return Err(ToolFailure::invalid(format!(
                "{} exists already, and create_only is set",
                args.path
            )));
        }
        answer => answer?,
    };
    let text = format!("wrote {} ({} bytes)", file.path, file.size);
    Ok(done(text, serde_json::to_value(&file).unwrap_or_default()))
}

fn put(sandbox: &SandboxId, path: &str, mode: Option<&str>) -> Request<Body> {
    let address = Address::new(format!("/v1/sandboxes/{sandbox}/files/content")).query("path", path);
    ApiClient::request(Method::PUT, &address.query_if("mode", mode).build())
}

fn check_size(name: &str, bytes: usize, most: usize) -> Result<(), ToolFailure> {
    if bytes <= most {
        return Ok(());
    }
    Err(ToolFailure::invalid(format!("{name} has {bytes} bytes, and at most {most} are possible here")))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditArgs {
    /// Id of the sandbox.
    #[schemars(with = "UlidText")]
    sandbox: SandboxId,
    /// Path relative to /home/sandbox (the app is in workspace/app), or absolute below it.
    #[schemars(with = "PathText")]
    path: String,
    /// The text to replace, exactly as it is in the file.
    #[schemars(length(min = 1, max = 1_000_000))]
    old_text: String,
    /// The text to put in its place; empty to delete it.
    #[schemars(length(max = 1_000_000))]
    new_text: String,
    /// Whether to replace all occurrences.
    #[serde(default)]
    replace_all: bool,
}

async fn edit(call: Call, args: EditArgs) -> ToolAnswer {
    let most = limits::EDIT_MAX_BYTES;
    let (headers, old) = content(&call, &args.sandbox, &args.path, 0, most as u64).await?;
    let size = total_size(&headers).and_then(|size| usize::try_from(size).ok()).unwrap_or(old.len());
    check_size("the file", size, most)?;
    let old = std::str::from_utf8(&old)
        .map_err(|_| ToolFailure::invalid(format!("{} is not UTF-8 text", args.path)))?;
    let Edited { text, lines } = replace(old, &args)?;
    check_size("the file", text.len(), most)?;
    let mut request = put(&args.sandbox, &args.path, None);
    let etag = headers.get(ETAG).cloned();
    let etag = etag.ok_or_else(|| ToolFailure::invalid("the file has no version to compare with"))?;
    request.headers_mut().insert(IF_MATCH, etag);
    *request.body_mut() = Body::from(text);
    let file: FileView = match call.api.send_json(request).await {
        Err(failure) if failure.error.code == ApiErrorCode::PreconditionFailed => {
            let message = "the file was changed by something else meanwhile and is not edited; read it again";
            return Err(ToolFailure::invalid(message));
        }
        answer => answer?,
    };
    let shown: Vec<String> = lines.iter().take(20).map(usize::to_string).collect();
    let text = format!("edited {} at line {}", file.path, shown.join(", "));
    Ok(done(text, json!({"path": file.path, "replacements": lines.len(), "lines": lines, "etag": file.etag})))
}

struct Edited {
    text: String,
    /// Lines of the old text where something was replaced, from 1.
    lines: Vec<usize>,
}

fn replace(old: &str, args: &EditArgs) -> Result<Edited, ToolFailure> {
    if args.old_text.is_empty() {
        return Err(ToolFailure::invalid("old_text is empty; write_file writes a new file"));
    }
    if args.old_text == args.new_text {
        return Err(ToolFailure::invalid("old_text and new_text are the same"));
    }
    let mut lines = Vec::new();
    let (mut line, mut seen) = (1, 0);
    for (at, _) in old.match_indices(&args.old_text) {
        line += old[seen..at].matches('\n').count();
        seen = at;
        lines.push(line);
    }
    match lines.len() {
        0 => Err(ToolFailure::invalid(format!(
            "old_text does not occur in {}; read the file, white space counts",
            args.path
        ))),
        1 => Ok(Edited { text: old.replacen(&args.old_text, &args.new_text, 1), lines }),
        _ if args.replace_all => Ok(Edited { text: old.replace(&args.old_text, &args.new_text), lines }),
        times => {
            let shown: Vec<String> = lines.iter().take(20).map(usize::to_string).collect();
            Err(ToolFailure::invalid(format!(
                "old_text occurs {times} times in {}, at lines {}; add lines around it, or set replace_all",
                args.path,
                shown.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_text_is_replaced_once_or_everywhere() {
        let args = |old: &str, new: &str, replace_all| EditArgs {
            sandbox: "01jb9xyzabcdefghjkmnpqrstv".parse().unwrap(),
            path: "p".to_owned(),
            old_text: old.to_owned(),
            new_text: new.to_owned(),
            replace_all,
        };
        let file = "one\ntwo\none two\n";
        let table = [
            (args("two\none", "x", false), Ok(("one\nx two\n", vec![2]))),
            (args("one", "1", true), Ok(("1\ntwo\n1 two\n", vec![1, 3]))),
            (args("one", "1", false), Err("occurs 2 times")),
            (args("three", "3", false), Err("does not occur")),
            (args("one ", "", false), Ok(("one\ntwo\ntwo\n", vec![3]))),
            (args("", "x", true), Err("is empty")),
            (args("one", "one", true), Err("the same")),
        ];
        for (args, expected) in table {
            match (replace(file, &args), expected) {
                (Ok(edited), Ok((text, lines))) => {
                    assert_eq!((edited.text.as_str(), edited.lines), (text, lines));
                }
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, expected) => panic!("{:?} for {expected:?}", found.map(|edited| edited.text)),
            }
        }
    }
}
