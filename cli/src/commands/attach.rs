//! `slipway attach`: attaches to a running or ended exec, from its first byte; to a terminal at its current screen.

use crate::{
    client::ApiRequest,
    context::Context,
    exec_session::ExecSession,
    failure::Failure,
    printer::RawFlag,
    viewer::{StartAt, Viewer},
};
use clap::Args;
use protocol::{ExecId, api::ExecAnswer};
use std::{
    io::{IsTerminal as _, stdin},
    sync::Arc,
};

#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// Id of the exec, as `slipway exec --detach` and `slipway ps` print it
    exec: String,
    /// Pass input on, where the exec keeps its input open; on a terminal it always is
    #[arg(long, short)]
    interactive: bool,
    #[command(flatten)]
    raw: RawFlag,
}

pub async fn run(context: &Context, args: AttachArgs) -> Result<u8, Failure> {
    let sandbox = context.sandbox(&args.sandbox).await?;
    let id =
        ExecId::parse(&args.exec).map_err(|error| Failure::Usage(format!("{:?}: {error}", args.exec)))?;
    let sandbox_path = format!("/v1/sandboxes/{sandbox}");
    let path = format!("{sandbox_path}/execs/{id}");
    let (client, output) = (Arc::clone(&context.client), context.output);
    let exec: ExecAnswer = client.send(ApiRequest::get(&path)).await?.parse()?;
    if exec.tty && !output.json {
        let types = args.interactive || stdin().is_terminal();
        let (exec, sandbox_name, start_at) = (id.to_string(), args.sandbox, StartAt::Recent);
        return Viewer { client, output, sandbox_path, exec, sandbox_name, start_at, types }.run().await;
    }
    ExecSession { client, output, path, send_stdin: args.interactive, raw: args.raw }.run().await
}
