//! `slipway files mkdir`.

use super::{mode, open};
use crate::{context::Context, failure::Failure, files::SandboxPath};
use clap::Args;

#[derive(Debug, Args)]
pub struct MkdirArgs {
    /// Directories to make; those that exist are fine
    #[arg(value_name = "SANDBOX:PATH", required = true, value_parser = super::sandbox_path())]
    paths: Vec<SandboxPath>,
    /// Permissions in octal
    #[arg(long, value_parser = mode)]
    mode: Option<u32>,
}

pub async fn run(context: &Context, args: MkdirArgs) -> Result<(), Failure> {
    for path in &args.paths {
        let made = open(context, path).await?.mkdir(&path.path, args.mode).await?;
        if context.output.json {
            context.output.json(&made)?;
        }
    }
    Ok(())
}
