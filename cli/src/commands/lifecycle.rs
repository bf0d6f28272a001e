//! `slipway start`, `stop`, `pause`, `resume` and `recreate`: one request for each sandbox.

use crate::{
    client::ApiRequest, context::Context, failure::Failure, progress::Progress, sandbox_wait, text::wire_name,
};
use clap::Args;
use protocol::api::SandboxView;

#[derive(Debug, Args)]
pub struct LifecycleArgs {
    /// Ids, prefixes of ids, or names
    #[arg(value_name = "SANDBOX", required = true)]
    sandboxes: Vec<String>,
    /// Do not wait until it is done
    #[arg(long)]
    no_wait: bool,
}

#[derive(Debug, Clone, Copy)]
pub enum Verb {
    Start,
    Stop,
    Pause,
    Resume,
    Recreate,
}

impl Verb {
    fn path(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Recreate => "recreate",
        }
    }
}

/// Runs the operation for each sandbox; a failure does not stop the others.
pub async fn run(context: &Context, verb: Verb, args: LifecycleArgs) -> Result<(), Failure> {
    let mut failed = false;
    for sandbox in &args.sandboxes {
        if let Err(failure) = one(context, verb, sandbox, args.no_wait).await {
            if failure.is_broken_pipe() {
                return Err(failure);
            }
            failure.report(context.output.json);
            failed = true;
        }
    }
    if failed { Err(Failure::Reported) } else { Ok(()) }
}

async fn one(context: &Context, verb: Verb, sandbox: &str, no_wait: bool) -> Result<(), Failure> {
    let id = context.sandbox(sandbox).await?;
    let request = ApiRequest::post(format!("/v1/sandboxes/{id}/{}", verb.path()));
    let response = if no_wait {
        context.client.send(request.query("wait", 0)).await?
    } else {
        let progress = Progress::start(context.output, verb.path());
        sandbox_wait::send_and_wait(context, id, request, &progress).await?
    };
    let view: SandboxView = response.parse()?;
    context.show_response(&response, |view: SandboxView| {
        Ok(format!("{} {}\n", view.id, wire_name(&view.status)))
    })?;
    sandbox_wait::fail_if_error(&view)
}
