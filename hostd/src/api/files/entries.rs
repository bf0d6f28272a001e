//! Verbs on single paths: stat, delete, mkdir, move, copy; and many files in one call.

use super::{
    super::{
        call::Call,
        error::{CallError, CallResult},
        views::{self as json, ok},
    },
    backend::{self, FilesAnswer},
    conditions,
    params::{self, below_home, unexpected},
    views,
};
use axum::{body::Body, response::Response};
use base64::{Engine, prelude::BASE64_STANDARD};
use hyper::StatusCode;
use protocol::{
    api::{ContentEncoding, FilesWritten, WriteFile, WriteFiles},
    files::{FilePath, FilesReply, FilesRequest, ManyFile},
};

pub async fn stat(call: Call) -> CallResult {
    let (path, follow) = (params::path(&call, "path"), call.query.flag("follow", false)?);
    entry_response(&backend::perform(&call, FilesRequest::Stat { path, follow }).await?)
}

pub async fn delete(call: Call) -> CallResult {
    let request = FilesRequest::Delete {
        path: params::required_path(&call, "path").await?,
        recursive: call.query.flag("recursive", false)?,
        if_match: conditions::if_match(&call.headers)?,
    };
    let FilesReply::Done = backend::perform(&call, request).await?.reply else { return Err(unexpected()) };
    Ok(json::no_content())
}

pub async fn mkdir(call: Call) -> CallResult {
    let (path, mode) = (params::required_path(&call, "path").await?, params::mode(call.query.text("mode"))?);
    entry_response(&backend::perform(&call, FilesRequest::Mkdir { path, mode }).await?)
}

pub async fn rename(call: Call) -> CallResult {
    let (from, to, overwrite) = from_to(&call).await?;
    entry_response(&backend::perform(&call, FilesRequest::Move { from, to, overwrite }).await?)
}

pub async fn copy(call: Call) -> CallResult {
    let (from, to, overwrite) = from_to(&call).await?;
    entry_response(&backend::perform(&call, FilesRequest::Copy { from, to, overwrite }).await?)
}

async fn from_to(call: &Call) -> Result<(FilePath, FilePath, bool), CallError> {
    let overwrite = call.query.flag("overwrite", false)?;
    Ok((params::required_path(call, "from").await?, params::required_path(call, "to").await?, overwrite))
}

/// 201 where the path is new.
pub fn entry_response(answer: &FilesAnswer) -> Result<Response, CallError> {
    let FilesReply::Entry { entry, created } = &answer.reply else { return Err(unexpected()) };
    let status = if *created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(json::json(status, &views::file(entry)))
}

pub async fn write_many(call: Call) -> CallResult {
    call.sandbox().await?;
    let WriteFiles { files } = call.json()?;
    let files = files.iter().enumerate().map(|(at, file)| many_file(at, file));
    let files = files.collect::<Result<Vec<ManyFile>, CallError>>()?;
    let body = serde_json::to_vec(&files).map_err(|error| CallError::internal(&error))?;
    let answer = backend::perform_with(&call, FilesRequest::WriteMany, Body::from(body)).await?;
    let FilesReply::Written { files } = answer.reply else { return Err(unexpected()) };
    Ok(ok(&FilesWritten { updated: files }))
}

fn many_file(at: usize, file: &WriteFile) -> Result<ManyFile, CallError> {
    let content = match file.encoding {
        ContentEncoding::Utf8 => BASE64_STANDARD.encode(&file.content),
        ContentEncoding::Base64 => {
            let invalid = |error| CallError::invalid(format!("files[{at}].content"), format!("{error}"));
            BASE64_STANDARD.decode(&file.content).map_err(invalid)?;
            file.content.clone()
        }
    };
    let path = below_home(&file.path.as_str().into());
    Ok(ManyFile { path, content, mode: params::mode(file.mode.as_deref())? })
}
