//! `slipway files mv`.

use super::open;
use crate::{
    context::Context,
    failure::Failure,
    files::{CopyPath, SandboxPath, WorkspacePath},
    text::plain,
};
use clap::Args;
use protocol::{
    api::{ApiErrorCode, FileView},
    files::FileType,
};
use std::{ffi::OsString, os::unix::ffi::OsStrExt as _};

#[derive(Debug, Args)]
pub struct MvArgs {
    /// What to move
    #[arg(value_name = "SANDBOX:PATH", value_parser = super::sandbox_path())]
    from: SandboxPath,
    /// New path, in the same sandbox; into it where it is a directory
    #[arg(value_name = "PATH")]
    to: OsString,
    /// Replace a file that has the new path
    #[arg(long, short)]
    force: bool,
}

pub async fn run(context: &Context, args: MvArgs) -> Result<(), Failure> {
    let api = open(context, &args.from).await?;
    let mut to = match CopyPath::parse(&args.to).map_err(Failure::Usage)? {
        CopyPath::InSandbox(to) if context.sandbox(&to.sandbox).await? == api.sandbox => to.path,
        CopyPath::InSandbox(_) => {
            let message = "a move stays within one sandbox; copy with `slipway cp`, then delete";
            return Err(Failure::Usage(message.to_owned()));
        }
        CopyPath::Local(_) | CopyPath::Stdio => {
            WorkspacePath::parse(args.to.as_bytes()).map_err(Failure::Usage)?
        }
    };
    let into = match api.stat(&to, true).await {
        Ok(found) => found.kind == FileType::Directory,
        Err(error) if error.is(ApiErrorCode::NotFound) => false,
        Err(error) => return Err(error.into()),
    };
    if let (true, Some(name)) = (into, args.from.path.name()) {
        to = to.join(name);
    }
    let response = api.relocate("move", &args.from.path, &to, args.force).await?;
    let line = |moved: FileView| Ok(format!("{}\n", plain(&moved.path)));
    context.show_response(&response, line)
}
