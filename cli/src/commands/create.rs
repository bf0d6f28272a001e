//! `slipway create`: prints the id, so that scripts can keep it.

use crate::{
    client::Ask, context::Context, failure::Failure, limits, progress::Progress, settle, spec::SpecFlags,
};
use clap::Args;
use protocol::api::SandboxView;

#[derive(Debug, Args)]
pub struct CreateArgs {
    #[command(flatten)]
    pub spec: SpecFlags,
    /// Print the id at once, without waiting until it runs
    #[arg(long)]
    pub no_wait: bool,
}

pub async fn run(context: &Context, args: CreateArgs) -> Result<(), Failure> {
    let spec = args.spec.spec()?;
    let progress = Progress::start(context.output, "creating");
    let wait = if args.no_wait { "0".to_owned() } else { format!("{}s", limits::CREATE_WAIT_S) };
    let ask = Ask::post("/v1/sandboxes").query("wait", wait).json(&spec).timeout(limits::SETTLE_TIMEOUT);
    let mut answer = context.client.send(ask).await?;
    if !args.no_wait {
        answer = settle::settled(context, answer, &progress).await?;
    }
    drop(progress);
    let view: SandboxView = answer.parse()?;
    context.show_answer(&answer, |view: SandboxView| Ok(format!("{}\n", view.id)))?;
    settle::must_be_well(&view)
}
