//! Trees as archives, down and up.

use super::{
    super::{call::Call, error::CallResult, views::ok},
    backend,
    params::{self, unexpected},
    safe_headers, views,
};
use axum::response::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use protocol::files::{ArchiveFormat, FilesReply, FilesRequest};

pub async fn download(call: Call) -> CallResult {
    let (path, format) = (params::path(&call, "path"), params::format(&call));
    let mut name = safe_headers::base_name(&path).to_vec();
    let request = FilesRequest::Pack { path, format, select: params::selection(&call)? };
    let answer = backend::perform(&call, request).await?;
    let FilesReply::Archive = answer.reply else { return Err(unexpected()) };
    let (ending, kind) = match format {
        ArchiveFormat::Tar => (".tar", "application/x-tar"),
        ArchiveFormat::TarGz => (".tar.gz", "application/gzip"),
        ArchiveFormat::Zip => (".zip", "application/zip"),
    };
    name.extend_from_slice(ending.as_bytes());
    let mut response = Response::new(answer.data.into_body());
    let headers = response.headers_mut();
    safe_headers::add(headers, &name);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

pub async fn upload(mut call: Call) -> CallResult {
    let (path, format) = (params::path(&call, "path"), params::format(&call));
    let (body, _large) = call.take_upload();
    let answer = backend::perform_with(&call, FilesRequest::Unpack { path, format }, body).await?;
    let FilesReply::Unpacked(report) = answer.reply else { return Err(unexpected()) };
    Ok(ok(&views::unpacked(&report)))
}
