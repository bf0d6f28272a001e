//! `slipway ensure`: the same sandbox, however often it is asked for.

use crate::{
    client::Ask, context::Context, failure::Failure, limits, progress::Progress, settle, spec::SpecFlags,
};
use clap::Args;
use protocol::api::{EnsureAnswer, SandboxSpec, SandboxView};

#[derive(Debug, Args)]
pub struct EnsureArgs {
    #[command(flatten)]
    pub spec: SpecFlags,
}

pub async fn run(context: &Context, args: EnsureArgs) -> Result<(), Failure> {
    let spec = args.spec.spec()?;
    let (answer, body) = ensure(context, &spec).await?;
    if context.output.json {
        context.output.document(&body)?;
    } else {
        context.output.line(answer.sandbox.id.as_str())?;
    }
    settle::must_be_well(&answer.sandbox)
}

/// Asks, waits until it has settled, and gives the answer and its JSON.
pub async fn ensure(context: &Context, spec: &SandboxSpec) -> Result<(EnsureAnswer, bytes::Bytes), Failure> {
    let progress = Progress::start(context.output, "creating");
    let ask = Ask::post("/v1/sandboxes/ensure")
        .query("wait", format!("{}s", limits::CREATE_WAIT_S))
        .json(spec)
        .timeout(limits::SETTLE_TIMEOUT);
    let first = context.client.send(ask).await?;
    let created = first.parse::<EnsureAnswer>()?.created;
    let settled = settle::settled(context, first, &progress).await?;
    let sandbox: SandboxView = settled.parse()?;
    let answer = EnsureAnswer { sandbox, created };
    let body = serde_json::to_vec(&answer).map_err(|error| Failure::Output(error.into()))?;
    Ok((answer, body.into()))
}
