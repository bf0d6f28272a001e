//! `slipway mcp`: a server of the Model Context Protocol for clients that start a command.

use crate::{client::Target, context::Context, failure::Failure, mcp};
use clap::Args;
use std::sync::Arc;

const AFTER_HELP: &str = "\
Speaks the protocol on standard input and output; not for people. In the configuration of a client:

  {\"mcpServers\": {\"slipway\": {\"command\": \"slipway\", \"args\": [\"mcp\"],
    \"env\": {\"SLIPWAY_URL\": \"https://slipway.example.com:9090\", \"SLIPWAY_TOKEN\": \"…\"}}}}

The scope of the token says what the model may do: `slipway token create --scope read` for looking only.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct McpArgs {
    /// Use the local socket, which gives the model all rights of the operator over all tenants
    #[arg(long)]
    operator: bool,
}

pub async fn run(context: &Context, args: McpArgs) -> Result<(), Failure> {
    match context.client.target() {
        Target::Socket(_) if !args.operator => Err(Failure::new(
            "`slipway mcp` on the local socket would give the model all rights of the operator".to_owned(),
        )
        .hint(
            "use a token: `slipway token create --principal NAME`, then SLIPWAY_URL and SLIPWAY_TOKEN or \
             `slipway context add`; or say --operator"
                .to_owned(),
        )),
        Target::Socket(_) | Target::Url { .. } => {
            mcp::serve(Arc::clone(&context.client), context.output).await
        }
    }
}
