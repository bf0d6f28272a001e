//! Copies between sandboxes, or within one: through this command, except within one.

use super::{target::CopyTarget, upload::report_skipped};
use crate::{
    client::RequestBody,
    context::Context,
    failure::Failure,
    files::{FileApi, SandboxPath, Transfer, WorkspacePath, WriteOptions},
};
use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use hyper::body::Incoming;
use protocol::files::FileType;
use std::{io, sync::Arc};

pub async fn copy(
    context: &Context,
    (source, from): (&FileApi, &SandboxPath),
    (api, path): (&FileApi, &WorkspacePath),
    to: &CopyTarget,
) -> Result<(), Failure> {
    let found = source.stat(&from.path, true).await?;
    let is_directory = found.kind == FileType::Directory;
    let content_only = is_directory && (from.names_content || from.path.is_top());
    let name = from.path.name().filter(|_| to.into && !content_only);
    let path = name.map_or_else(|| path.clone(), |name| path.join(name));
    if source.sandbox == api.sandbox && !content_only {
        api.relocate("copy", &from.path, &path, true).await?;
        return Ok(());
    }
    let total = (!is_directory).then_some(found.size);
    let transfer = Arc::new(Transfer::new(context.output, &from.path.to_string(), total));
    if is_directory {
        if !path.is_top() {
            api.mkdir(&path, None).await?;
        }
        let archive = source.read_archive(&from.path).await?;
        report_skipped(&api.write_archive(&path, forwarded(transfer, archive.into_body())).await?);
        return Ok(());
    }
    let response = source.read(&from.path).await?;
    let mode = u32::from_str_radix(&found.mode, 8).ok();
    let options = WriteOptions { mode, ..WriteOptions::default() };
    api.write(&path, &options, forwarded(transfer, response.into_body())).await?;
    Ok(())
}

/// The body of a response as the body of a request; one that breaks off breaks off the other.
fn forwarded(transfer: Arc<Transfer>, body: Incoming) -> RequestBody {
    let frames = BodyStream::new(body).map(move |frame| {
        let frame = frame.map_err(io::Error::other)?;
        transfer.add(frame.data_ref().map_or(0, bytes::Bytes::len));
        Ok(frame)
    });
    StreamBody::new(frames).boxed_unsync()
}
