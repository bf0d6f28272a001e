//! Lists and searches trees.

use super::{
    super::{call::Call, error::CallResult, views::ok},
    backend,
    params::{self, unexpected},
    views,
};
use protocol::files::{FilesReply, FilesRequest, ListRequest, SearchRequest};

const LIST_DEFAULT: usize = 1_000;
const SEARCH_DEFAULT: usize = 200;

pub async fn list(call: Call) -> CallResult {
    let deepest = if call.query.flag("recursive", false)? { u32::MAX } else { 1 };
    let depth = call.query.number("depth")?.and_then(|depth| u32::try_from(depth).ok()).unwrap_or(deepest);
    let request = ListRequest {
        path: params::path(&call, "path"),
        depth,
        limit: params::number(&call, "limit", LIST_DEFAULT)?,
        after: call.query.path("after").cloned(),
        select: params::selection(&call)?,
    };
    let answer = backend::perform(&call, FilesRequest::List(request)).await?;
    let FilesReply::Page { items, more } = answer.reply else { return Err(unexpected()) };
    Ok(ok(&views::page(&items, more)))
}

pub async fn search(call: Call) -> CallResult {
    let text = |name| call.query.text(name).filter(|text| !text.is_empty()).map(str::to_owned);
    let request = SearchRequest {
        path: params::path(&call, "path"),
        name: text("name"),
        content: text("content"),
        ignore_case: call.query.flag("ignore_case", false)?,
        hidden: call.query.flag("hidden", false)?,
        limit: params::number(&call, "limit", SEARCH_DEFAULT)?,
        select: params::selection(&call)?,
    };
    let answer = backend::perform(&call, FilesRequest::Search(request)).await?;
    let FilesReply::Found { items, truncated } = answer.reply else { return Err(unexpected()) };
    Ok(ok(&views::found(&items, truncated)))
}
