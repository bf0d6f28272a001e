//! `slipway unshare`: ends shares of a sandbox.

use super::share::Grantees;
use crate::{client::ApiRequest, context::Context, failure::Failure};
use clap::{ArgGroup, Args};

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("ended").args(["with", "with_tenant", "all"]).required(true).multiple(true)))]
pub struct UnshareArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    #[command(flatten)]
    grantees: Grantees,
    /// End all its shares
    #[arg(long, conflicts_with_all = ["with", "with_tenant"])]
    all: bool,
}

pub async fn run(context: &Context, args: UnshareArgs) -> Result<(), Failure> {
    let sandbox = context.sandbox(&args.sandbox).await?;
    let paths = match args.all {
        true => vec![format!("/v1/sandboxes/{sandbox}/shares")],
        false => args.grantees.paths(&sandbox),
    };
    for path in paths {
        context.client.send(ApiRequest::delete(path)).await?;
    }
    if context.output.json { Ok(()) } else { context.output.line(&format!("{sandbox} unshared")) }
}
