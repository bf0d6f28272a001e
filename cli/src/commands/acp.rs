//! `slipway acp`: an agent in a sandbox, for editors that start a command.

use crate::{acp::Link, client::ApiRequest, context::Context, failure::Failure, signals::Signals};
use clap::Args;
use std::sync::Arc;

const AFTER_HELP: &str = "\
For the settings of an editor that speaks the Agent Client Protocol (ACP), as the command of an agent. A session works in
a sandbox of its own, which sleeps when it is idle and is destroyed a week after its last prompt; with --sandbox, in one
that exists. A prompt goes on while hostd restarts or the editor is away.

On the host's own socket every caller is the operator, so that whoever controls the editor controls the host: give the
editor a token (`slipway token create`, SLIPWAY_URL and SLIPWAY_TOKEN, or a context), or --operator.

  slipway acp                              a new sandbox for each session, with the default agent
  slipway acp --sandbox web --agent claude an agent in the sandbox `web`";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct AcpArgs {
    /// Work in this sandbox: id, prefix of an id, or name
    #[arg(long, value_name = "SANDBOX")]
    sandbox: Option<String>,
    /// Agent of new sessions; see `slipway agents`
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Model of new sessions; see `slipway models`
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Ask in the editor before the agent acts, where it can ask
    #[arg(long)]
    ask: bool,
    /// Allow the socket of this machine, on which every caller is the operator
    #[arg(long)]
    operator: bool,
}

pub async fn run(context: &Context, args: AcpArgs) -> Result<u8, Failure> {
    if context.remote().is_none() && !args.operator {
        let why = "an editor on the socket of this machine would be the operator of the host";
        return Err(Failure::new(why).hint(
            "create a token with `slipway token create` and set SLIPWAY_URL and SLIPWAY_TOKEN, or give --operator",
        ));
    }
    let sandbox = match &args.sandbox {
        Some(named) => Some(context.sandbox(named).await?),
        None => None,
    };
    let request = ApiRequest::get("/acp")
        .query_if("sandbox", sandbox)
        .query_if("agent", args.agent)
        .query_if("model", args.model)
        .query_if("mode", args.ask.then_some("ask"));
    let mut signals = Signals::listen(false).map_err(|error| Failure::io("handle signals", error))?;
    tokio::select! {
        // Cancelling it loses nothing: sessions and prompts are kept by hostd.
        served = Link::new(Arc::clone(&context.client), request, context.output).run() => served.map(|()| 0),
        code = signals.exit_code() => Ok(code),
    }
}
