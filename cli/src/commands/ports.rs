//! `slipway ports`.

use crate::{client::ApiRequest, context::Context, failure::Failure, table::Table};
use clap::Args;
use protocol::api::PortView;

#[derive(Debug, Args)]
pub struct PortsArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
}

pub async fn run(context: &Context, args: PortsArgs) -> Result<(), Failure> {
    let id = context.sandbox(&args.sandbox).await?;
    let format = |ports: Vec<PortView>| {
        let mut table = Table::new(["PORT", "ADDRESS", "PID", "PROCESS", "PREVIEW"]);
        for PortView { listening, preview } in ports {
            let process = listening.process.map(|process| (process.pid.to_string(), process.command));
            let (pid, command) = process.unwrap_or_default();
            table.row([
                listening.port.to_string().into(),
                listening.address.into(),
                pid.into(),
                command.into(),
                preview.unwrap_or_default().into(),
            ]);
        }
        table.render(context.output)
    };
    context.show_list(ApiRequest::get(format!("/v1/sandboxes/{id}/ports")), format).await
}
