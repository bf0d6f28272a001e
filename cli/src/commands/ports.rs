//! `slipway ports`.

use crate::{client::Ask, context::Context, failure::Failure, table::Table};
use clap::Args;
use protocol::ListeningPort;

#[derive(Debug, Args)]
pub struct PortsArgs {
    /// Id, beginning of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
}

pub async fn run(context: &Context, args: PortsArgs) -> Result<(), Failure> {
    let id = context.sandbox(&args.sandbox).await?;
    let people = |ports: Vec<ListeningPort>| {
        let mut table = Table::new(["PORT", "ADDRESS", "PID", "PROCESS"]);
        for port in ports {
            let (pid, command) =
                port.process.map(|process| (process.pid.to_string(), process.command)).unwrap_or_default();
            table.row([port.port.to_string().into(), port.address.into(), pid.into(), command.into()]);
        }
        table.render(context.output)
    };
    context.show_list(Ask::get(format!("/v1/sandboxes/{id}/ports")), people).await
}
