//! `slipway files rm`.

use super::open;
use crate::{context::Context, failure::Failure, files::SandboxPath};
use clap::Args;
use protocol::api::ApiErrorCode;

#[derive(Debug, Args)]
pub struct RmArgs {
    /// Files to delete; of a link the link itself
    #[arg(value_name = "SANDBOX:PATH", required = true, value_parser = super::sandbox_path())]
    paths: Vec<SandboxPath>,
    /// Directories with their content too
    #[arg(long, short)]
    recursive: bool,
    /// Nothing to delete is no failure
    #[arg(long, short)]
    force: bool,
}

pub async fn run(context: &Context, args: RmArgs) -> Result<(), Failure> {
    for path in &args.paths {
        let api = open(context, path).await?;
        match api.delete(&path.path, args.recursive, None).await {
            Err(error) if args.force && is_missing_file(&error) => {}
            deleted => deleted?,
        }
    }
    Ok(())
}

/// Whether the file is missing, and not its sandbox.
fn is_missing_file(error: &crate::client::ClientError) -> bool {
    error.is(ApiErrorCode::NotFound) && error.api().is_some_and(|error| error.detail.missing.is_none())
}
