//! Copies between this machine and sandboxes, for `slipway cp`. Everything is streamed.
//!
//! ```text
//!  file ──▶ PUT content      directory ──▶ tar ──▶ PUT archive
//!  file ◀── GET content      directory ◀── tar ◀── GET archive
//! ```

mod between;
mod download;
mod target;
mod upload;

pub use target::CopyTarget;

use crate::{
    context::Context,
    failure::Failure,
    files::{CopyPath, FileApi, SandboxPath},
};
use std::sync::Arc;
use target::Place;

/// Copies one source to its destination.
pub async fn copy(context: &Context, from: &CopyPath, to: &CopyTarget) -> Result<(), Failure> {
    match (from, &to.place) {
        (CopyPath::InSandbox(from), Place::InSandbox(api, path)) => {
            let (source, from) = (file_api(context, from).await?, from);
            between::copy(context, (&source, from), (api, path), to).await
        }
        (CopyPath::InSandbox(from), Place::Local(path)) => {
            download::to_local(context, &file_api(context, from).await?, from, (path, to)).await
        }
        (CopyPath::InSandbox(from), Place::Stdout) => {
            download::to_stdout(context, &file_api(context, from).await?, &from.path).await
        }
        (CopyPath::Local(from), Place::InSandbox(api, path)) => {
            upload::local(context, from, (api, path), to).await
        }
        (CopyPath::Stdio, Place::InSandbox(api, path)) => upload::stdin(context, (api, path), to).await,
        (CopyPath::Local(_) | CopyPath::Stdio, Place::Local(_) | Place::Stdout) => {
            Err(Failure::Usage("one side must be in a sandbox, as in web:notes.md".to_owned()))
        }
    }
}

pub async fn file_api(context: &Context, path: &SandboxPath) -> Result<FileApi, Failure> {
    let sandbox = context.sandbox(&path.sandbox).await?;
    Ok(FileApi { client: Arc::clone(&context.client), sandbox })
}
