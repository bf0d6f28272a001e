//! Searches a tree by the names of its entries, the content of its files, or both. What was found until a limit is
//! reached is the answer, with the limit.

mod content;
mod excerpt;
mod lines;
mod name;
mod pattern;

use crate::{
    Exchange, FilesError, Workspace,
    copy::open_visited,
    deadline::Deadline,
    exchange::gone,
    limits::{SEARCH_FILE_MAX_BYTES, SEARCH_MAX, SEARCH_MAX_MS, SEARCH_REPLY_MAX_BYTES},
    walk::{Visited, Walk, WalkOptions},
    workspace::{child_path, reopen},
};
use content::ContentSearch;
use name::NameMatcher;
use nix::fcntl::OFlag;
use protocol::files::{FileType, FilesReply, LineMatch, SearchMatch, SearchRequest, Selection};
use std::time::{Duration, Instant};

pub fn search(
    workspace: &Workspace,
    exchange: &mut dyn Exchange,
    request: &SearchRequest,
) -> Result<(), FilesError> {
    let found = find(workspace, exchange, request, Duration::from_millis(SEARCH_MAX_MS))?;
    exchange.reply(FilesReply::Found { items: found.items, truncated: found.truncated }).map_err(gone)
}

/// Matches, as far as the limits allow.
pub struct Found {
    pub items: Vec<SearchMatch>,
    /// The first reason why there may be more.
    pub truncated: Option<String>,
    limit: usize,
    /// Bytes of paths and text.
    bytes: usize,
}

pub fn find(
    workspace: &Workspace,
    exchange: &dyn Exchange,
    request: &SearchRequest,
    time: Duration,
) -> Result<Found, FilesError> {
    if request.name.is_none() && request.content.is_none() {
        return Err(FilesError::invalid("a search needs a name or content"));
    }
    let name = request.name.as_deref().map(|glob| NameMatcher::new(glob, request.ignore_case)).transpose()?;
    let mut content = match &request.content {
        Some(pattern) => Some(ContentSearch::new(pattern, request.ignore_case, Instant::now() + time)?),
        None => None,
    };
    let select = selection(request);
    let options = WalkOptions { depth: u32::MAX, select: &select, after: None, wanted: usize::MAX };
    let mut walk = Walk::new(workspace, &request.path, &options)?;
    walk.set_deadline(Deadline::within(time));
    let prefix = child_path(&request.path, b"").0.len();
    let mut found =
        Found { items: vec![], truncated: None, limit: request.limit.clamp(1, SEARCH_MAX), bytes: 0 };
    while let Some(visited) = next(&mut walk, exchange, &mut found)? {
        if name.as_ref().is_some_and(|name| !name.matches(&visited.entry.path.0[prefix..])) {
            continue;
        }
        let goes_on = match &mut content {
            None => found.add(&visited, None),
            Some(content) => search_file(content, &visited, exchange, &mut found)?,
        };
        if !goes_on {
            break;
        }
    }
    Ok(found)
}

/// Hidden names are excluded first, so that the caller's patterns have exceptions from it.
fn selection(request: &SearchRequest) -> Selection {
    let mut select = request.select.clone();
    if !request.hidden {
        select.exclude.insert(0, ".*".to_owned());
    }
    select
}

/// The next entry; `None` also where the time is over.
fn next<'w>(
    walk: &'w mut Walk<'_>,
    exchange: &dyn Exchange,
    found: &mut Found,
) -> Result<Option<Visited<'w>>, FilesError> {
    match walk.next(exchange) {
        Err(FilesError::TimedOut { message }) => {
            found.truncate(message);
            Ok(None)
        }
        other => other,
    }
}

/// Searches one entry, where it is a file that may be read. Returns whether the search goes on.
fn search_file(
    content: &mut ContentSearch,
    visited: &Visited<'_>,
    exchange: &dyn Exchange,
    found: &mut Found,
) -> Result<bool, FilesError> {
    let entry = &visited.entry;
    if entry.kind != FileType::File {
        return Ok(true);
    }
    if entry.size > SEARCH_FILE_MAX_BYTES {
        found.truncate(format!("files of more than {SEARCH_FILE_MAX_BYTES} bytes were not searched"));
        return Ok(true);
    }
    let opened = open_visited(visited)
        .and_then(|path| path.map(|path| reopen(&path, &entry.path, OFlag::O_RDONLY)).transpose());
    match opened {
        Ok(Some((file, _))) => content.search(file, visited, exchange, found),
        // Gone, became something else, or not the sandbox's to read.
        Ok(None)
        | Err(FilesError::Denied { .. } | FilesError::NotAFile { .. } | FilesError::NotFound { .. }) => {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

impl Found {
    /// Adds a match; returns whether there is room for it.
    fn add(&mut self, visited: &Visited<'_>, line: Option<LineMatch>) -> bool {
        if self.items.len() == self.limit {
            self.truncate(format!("there are more than {} matches", self.limit));
            return false;
        }
        let entry = &visited.entry;
        self.bytes += entry.path.0.len() + line.as_ref().map_or(0, |line| line.text.len());
        if self.bytes > SEARCH_REPLY_MAX_BYTES {
            self.truncate(format!("the matches have more than {SEARCH_REPLY_MAX_BYTES} bytes"));
            return false;
        }
        self.items.push(SearchMatch { path: entry.path.clone(), kind: entry.kind, size: entry.size, line });
        true
    }

    fn truncate(&mut self, reason: String) {
        self.truncated.get_or_insert(reason);
    }
}
