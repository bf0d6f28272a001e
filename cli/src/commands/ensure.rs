//! `slipway ensure`: finds or creates the sandbox of a scope; repeatable.

use crate::{
    client::ApiRequest, context::Context, failure::Failure, limits, progress::Progress,
    sandbox_flags::SpecFlags, sandbox_wait,
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
    let (response, body) = ensure(context, &spec).await?;
    if context.output.json {
        context.output.document(&body)?;
    } else {
        context.output.line(response.sandbox.id.as_str())?;
    }
    sandbox_wait::fail_if_error(&response.sandbox)
}

/// Finds or creates the sandbox, waits until it has settled, and returns it with its JSON.
pub async fn ensure(context: &Context, spec: &SandboxSpec) -> Result<(EnsureAnswer, bytes::Bytes), Failure> {
    let progress = Progress::start(context.output, "creating");
    let request = ApiRequest::post("/v1/sandboxes/ensure")
        .query("wait", sandbox_wait::create_wait(spec))
        .json(spec)
        .timeout(limits::SETTLE_TIMEOUT);
    let first = context.client.send(request).await?;
    let created = first.parse::<EnsureAnswer>()?.created;
    let settled = sandbox_wait::until_settled(context, first, &progress).await?;
    let sandbox: SandboxView = settled.parse()?;
    let response = EnsureAnswer { sandbox, created };
    let body = serde_json::to_vec(&response).map_err(|error| Failure::Output(error.into()))?;
    Ok((response, body.into()))
}
