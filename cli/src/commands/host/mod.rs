//! `slipway host`: the capacity of the host, and what destroyed sandboxes left on it.

mod overview;
mod reap;

use crate::{context::Context, failure::Failure};
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct HostArgs {
    #[command(subcommand)]
    command: Option<HostCommand>,
}

#[derive(Debug, Subcommand)]
enum HostCommand {
    /// List what destroyed sandboxes left, as after a crash; --apply removes it
    ///
    /// Only what a record proves to be of a destroyed sandbox, and trash older than an hour. What `slipway stale` lists is
    /// never touched. Exits 1 when something could not be removed.
    Reap(reap::ReapArgs),
}

/// Runs the command and returns its exit code.
pub async fn run(context: &Context, args: HostArgs) -> Result<u8, Failure> {
    match args.command {
        None => overview::run(context).await.map(|()| 0),
        Some(HostCommand::Reap(args)) => reap::run(context, &args).await,
    }
}
