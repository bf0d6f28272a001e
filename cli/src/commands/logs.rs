//! `slipway logs`.

use crate::{commands::service, context::Context, failure::Failure, follow::Follow, session};
use clap::Args;
use protocol::ServiceName;
use std::sync::Arc;

#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Id, beginning of an id, or name of the sandbox
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// Name of the service
    #[arg(value_parser = service::name)]
    service: ServiceName,
    /// Go on until Ctrl-C; reconnects when hostd restarts
    #[arg(long, short)]
    follow: bool,
    /// Begin this many lines before the end; everything that is kept when not given
    #[arg(long, short = 'n', value_name = "LINES")]
    tail: Option<u64>,
}

pub async fn run(context: &Context, args: LogsArgs) -> Result<(), Failure> {
    let id = context.sandbox(&args.sandbox).await?;
    let path = format!("/v1/sandboxes/{id}/services/{}/logs", args.service);
    print(context, Follow::new(Arc::clone(&context.client), &path, args.follow, args.tail)).await
}

/// Prints a log to its end, or until it is interrupted.
pub async fn print(context: &Context, follow: Follow) -> Result<(), Failure> {
    // On a task, because printing blocks the thread it is on.
    match tokio::spawn(session::print(follow, context.output)).await {
        Ok(printed) => printed,
        Err(error) => Err(Failure::refused(format!("a part of slipway broke: {error}"))),
    }
}
