//! `slipway files put`.

use super::{mode, open};
use crate::{
    context::Context,
    failure::Failure,
    files::{SandboxPath, Transfer, WriteOptions, body_of_reader, open_regular, permissions},
    text::plain,
};
use clap::Args;
use std::{io, path::PathBuf, sync::Arc};

#[derive(Debug, Args)]
pub struct PutArgs {
    /// File to write; its directories are made
    #[arg(value_name = "SANDBOX:PATH", value_parser = super::sandbox_path())]
    path: SandboxPath,
    /// File of this machine; `-`, the default, is standard input
    #[arg(default_value = "-")]
    from: PathBuf,
    /// Permissions in octal; by default those of the source, or of the replaced file
    #[arg(long, value_parser = mode)]
    mode: Option<u32>,
    /// Append to the file
    #[arg(long, short, conflicts_with = "new")]
    append: bool,
    /// Fail where the file exists already
    #[arg(long)]
    new: bool,
}

pub async fn run(context: &Context, args: PutArgs) -> Result<(), Failure> {
    let api = open(context, &args.path).await?;
    let mut options =
        WriteOptions { mode: args.mode, append: args.append, create_only: args.new, if_match: None };
    let shown = args.path.path.to_string();
    let body = if args.from.as_os_str() == "-" {
        body_of_reader(Arc::new(Transfer::new(context.output, &shown, None)), io::stdin())
    } else {
        let cannot = |error| Failure::io(format!("read {}", args.from.display()), error);
        let (file, metadata) = open_regular(&args.from, true).map_err(cannot)?;
        if !args.append {
            options.mode = options.mode.or(Some(permissions(&metadata)));
        }
        body_of_reader(Arc::new(Transfer::new(context.output, &shown, Some(metadata.len()))), file)
    };
    let written = api.write(&args.path.path, &options, body).await?;
    if context.output.json {
        return context.output.json(&written);
    }
    context.output.line(&format!("{} ({} bytes)", plain(&written.path), written.size))
}
