//! `slipway attach`: an exec that was started before, from its first byte on.

use crate::{context::Context, failure::Failure, session::Session};
use clap::Args;
use protocol::ExecId;
use std::sync::Arc;

#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Id, beginning of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// Id of the exec, as `slipway exec --detach` and `slipway ps` print it
    exec: String,
    /// Pass input on, where the exec keeps its input open
    #[arg(long, short)]
    interactive: bool,
    /// It runs on a terminal: make ours raw and as large; implies -i
    #[arg(long, short)]
    tty: bool,
}

pub async fn run(context: &Context, args: AttachArgs) -> Result<u8, Failure> {
    let sandbox = context.sandbox(&args.sandbox).await?;
    let id =
        ExecId::parse(&args.exec).map_err(|error| Failure::Usage(format!("{:?}: {error}", args.exec)))?;
    let session = Session {
        client: Arc::clone(&context.client),
        output: context.output,
        path: format!("/v1/sandboxes/{sandbox}/execs/{id}"),
        send_stdin: args.interactive || args.tty,
        terminal: args.tty,
    };
    session.run().await
}
