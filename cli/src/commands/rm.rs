//! `slipway rm`: destroys sandboxes.

use crate::{client::ApiRequest, context::Context, failure::Failure, progress::Progress, sandbox_wait};
use clap::Args;
use protocol::api::ApiErrorCode;

#[derive(Debug, Args)]
pub struct RmArgs {
    /// Ids, prefixes of ids, or names
    #[arg(value_name = "SANDBOX", required = true)]
    sandboxes: Vec<String>,
    /// Keep the files
    #[arg(long)]
    keep_workspace: bool,
}

/// Destroys each sandbox; a failure does not stop the others.
pub async fn run(context: &Context, args: RmArgs) -> Result<(), Failure> {
    let mut failed = false;
    for sandbox in &args.sandboxes {
        if let Err(failure) = one(context, sandbox, args.keep_workspace).await {
            if failure.is_broken_pipe() {
                return Err(failure);
            }
            failure.report(context.output.json);
            failed = true;
        }
    }
    if failed { Err(Failure::Reported) } else { Ok(()) }
}

async fn one(context: &Context, sandbox: &str, keep: bool) -> Result<(), Failure> {
    let id = context.sandbox(sandbox).await?;
    let progress = Progress::start(context.output, "destroying");
    let workspace = if keep { "keep" } else { "remove" };
    let request = ApiRequest::delete(format!("/v1/sandboxes/{id}")).query("workspace", workspace);
    let response = match sandbox_wait::send_and_wait(context, id, request, &progress).await {
        // Already destroyed.
        Err(Failure::Client(error)) if error.is(ApiErrorCode::Gone) => None,
        response => Some(response?),
    };
    drop(progress);
    match response {
        Some(response) if context.output.json => context.output.document(&response.body),
        _ => context.output.line(&format!("{id} destroyed")),
    }
}
