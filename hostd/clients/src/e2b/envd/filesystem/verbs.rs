//! Verbs on paths.

use super::{
    entry::entry,
    messages::{
        Empty, EntriesResponse, EntryInfo, EntryResponse, EntryType, ListDirRequest, MoveRequest, PathRequest,
    },
    place::{on_path, read_json, send},
};
use crate::{
    ApiFailure,
    e2b::{
        connect::{Code, ConnectError},
        envd::{
            limits::{LIST_DEPTH_MAX, LIST_PAGE, LISTED_ENTRIES_MAX},
            paths::{ClientPath, encoded},
            sandbox_api::SandboxApi,
        },
    },
};
use hyper::{Method, StatusCode};
use protocol::api::{ApiErrorCode, FilePage, FileView};

/// Paths are those of the whole sandbox.
const ANYWHERE: &str = "&anywhere=1";

pub fn parse(path: &str) -> Result<ClientPath, ConnectError> {
    ClientPath::parse(path).map_err(|error| ConnectError::invalid(error.to_string()))
}

pub async fn stat(api: &SandboxApi, request: PathRequest) -> Result<EntryResponse, ConnectError> {
    let path = parse(&request.path)?;
    Ok(EntryResponse { entry: look_at(api, &path).await? })
}

/// The entry at a path; a link itself.
pub async fn look_at(api: &SandboxApi, path: &ClientPath) -> Result<EntryInfo, ConnectError> {
    let found =
        on_path(path, |query| async move { api.get::<FileView>(&format!("/files/stat?{query}")).await });
    let found = found.await.map_err(|failure| about(path, failure))?;
    Ok(entry(api, path, &found).await)
}

/// An error names the path as the client wrote it.
fn about(path: &ClientPath, failure: ApiFailure) -> ConnectError {
    match failure.error.code {
        ApiErrorCode::NotFound if failure.error.detail.missing.is_none() => {
            ConnectError::new(Code::NotFound, format!("path not found: {}", path.as_str()))
        }
        ApiErrorCode::NotADirectory => {
            ConnectError::invalid(format!("path is not a directory: {}", path.as_str()))
        }
        _ => failure.into(),
    }
}

pub async fn make_dir(api: &SandboxApi, request: PathRequest) -> Result<EntryResponse, ConnectError> {
    let path = parse(&request.path)?;
    let made =
        on_path(
            &path,
            |query| async move { send(api, Method::POST, &format!("/files/mkdir?{query}")).await },
        );
    let response = match made.await {
        Err(failure) if failure.error.code == ApiErrorCode::FileExists => {
            let message = format!("path already exists but it is not a directory: {}", path.as_str());
            return Err(ConnectError::invalid(message));
        }
        made => made.map_err(|failure| about(&path, failure))?,
    };
    if response.status() != StatusCode::CREATED {
        let message = format!("directory already exists: {}", path.as_str());
        return Err(ConnectError::new(Code::AlreadyExists, message));
    }
    let made: FileView = read_json(response).await?;
    Ok(EntryResponse { entry: entry(api, &path, &made).await })
}

pub async fn rename(api: &SandboxApi, request: MoveRequest) -> Result<EntryResponse, ConnectError> {
    let (from, to) = (parse(&request.source)?, parse(&request.destination)?);
    let within = match (from.in_workspace(), to.in_workspace()) {
        (Some(from), Some(to)) => format!("from={}&to={}", encoded(from), encoded(to)),
        (Some(_) | None, Some(_) | None) => anywhere(&from, &to),
    };
    let moved = move_to(api, &from, &within).await;
    let moved = match moved {
        Err(failure) if failure.error.code == ApiErrorCode::OutsideWorkspace => {
            move_to(api, &from, &anywhere(&from, &to)).await
        }
        moved => moved,
    };
    moved.map_err(|failure| about(&from, failure))?;
    Ok(EntryResponse { entry: look_at(api, &to).await? })
}

fn anywhere(from: &ClientPath, to: &ClientPath) -> String {
    format!("from={}&to={}{ANYWHERE}", encoded(&from.inside()), encoded(&to.inside()))
}

/// Moves; to another file system, copies and deletes.
async fn move_to(api: &SandboxApi, from: &ClientPath, query: &str) -> Result<(), ApiFailure> {
    match send(api, Method::POST, &format!("/files/move?{query}&overwrite=1")).await {
        // In the whole sandbox nothing is outside but another file system.
        Err(failure) if failure.error.code == ApiErrorCode::OutsideWorkspace && query.ends_with(ANYWHERE) => {
            send(api, Method::POST, &format!("/files/copy?{query}&overwrite=1")).await?;
            api.delete(&format!("/files/content?{}&recursive=1", from.query_anywhere("path"))).await
        }
        moved => moved.map(drop),
    }
}

/// A path without an entry is removed already.
pub async fn remove(api: &SandboxApi, request: PathRequest) -> Result<Empty, ConnectError> {
    let path = parse(&request.path)?;
    let removed =
        on_path(
            &path,
            |query| async move { api.delete(&format!("/files/content?{query}&recursive=1")).await },
        )
        .await;
    match removed {
        Ok(()) => Ok(Empty {}),
        Err(failure) => match about(&path, failure) {
            ConnectError { code: Code::NotFound, .. } => Ok(Empty {}),
            error => Err(error),
        },
    }
}

pub async fn list_dir(api: &SandboxApi, request: ListDirRequest) -> Result<EntriesResponse, ConnectError> {
    let path = parse(&request.path)?;
    let depth = request.depth.0.clamp(1, LIST_DEPTH_MAX);
    let listed =
        on_path(&path, |query| async move { pages(api, &format!("{query}&depth={depth}")).await }).await;
    let listed = listed.map_err(|failure| about(&path, failure))?;
    let mut entries = Vec::with_capacity(listed.len());
    for found in &listed {
        entries.push(entry(api, &path.of_entry(found), found).await);
    }
    Ok(EntriesResponse { entries })
}

/// All pages of a listing.
async fn pages(api: &SandboxApi, query: &str) -> Result<Vec<FileView>, ApiFailure> {
    let mut listed = Vec::new();
    let mut after = String::new();
    loop {
        let page: FilePage = api.get(&format!("/files?{query}&limit={LIST_PAGE}{after}")).await?;
        listed.extend(page.items);
        match page.next {
            Some(next) if listed.len() < LISTED_ENTRIES_MAX => after = format!("&after={next}"),
            Some(_) => {
                let message =
                    format!("the directory has more than {LISTED_ENTRIES_MAX} entries at this depth");
                return Err(ApiFailure::new(ApiErrorCode::TooMany, message));
            }
            None => return Ok(listed),
        }
    }
}

/// Checks that there is a directory, links followed.
pub async fn check_directory(api: &SandboxApi, path: &ClientPath) -> Result<(), ConnectError> {
    match look_at(api, path).await?.kind {
        EntryType::Directory => Ok(()),
        EntryType::File | EntryType::Symlink | EntryType::Unspecified => {
            Err(ConnectError::invalid(format!("path is not a directory: {}", path.as_str())))
        }
    }
}
