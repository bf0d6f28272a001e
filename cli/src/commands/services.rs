//! `slipway services`.

use crate::{
    client::ApiRequest,
    context::Context,
    failure::Failure,
    output::{Colour, Output},
    table::{Cell, Table},
};
use clap::Args;
use protocol::{ServiceState, ServiceView};

#[derive(Debug, Args)]
pub struct ServicesArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
}

pub async fn run(context: &Context, args: ServicesArgs) -> Result<(), Failure> {
    let id = context.sandbox(&args.sandbox).await?;
    let output = context.output;
    context
        .show_list(ApiRequest::get(format!("/v1/sandboxes/{id}/services")), |views| table(&views, output))
        .await
}

fn table(views: &[ServiceView], output: Output) -> String {
    let mut table = Table::new(["NAME", "STATE", "PORT", "PID", "RESTARTS", "COMMAND"]);
    for view in views {
        table.row([
            view.name.as_str().into(),
            state_cell(&view.state),
            view.port.map(|port| port.to_string()).unwrap_or_default().into(),
            view.pid.map(|pid| pid.to_string()).unwrap_or_default().into(),
            view.restarts.to_string().into(),
            view.command.clone().into(),
        ]);
    }
    table.render(output)
}

pub fn state_cell(state: &ServiceState) -> Cell {
    match state {
        ServiceState::Waiting { on } => {
            let names: Vec<&str> = on.iter().map(protocol::ServiceName::as_str).collect();
            Cell::painted(format!("waiting for {}", names.join(", ")), Colour::Yellow)
        }
        ServiceState::Starting => Cell::painted("starting", Colour::Yellow),
        ServiceState::Ready { .. } => Cell::painted("ready", Colour::Green),
        ServiceState::Unhealthy { reason, .. } => Cell::painted(format!("unhealthy: {reason}"), Colour::Red),
        ServiceState::Backoff { failures, .. } => {
            Cell::painted(format!("backoff, failed {failures} times"), Colour::Red)
        }
        ServiceState::Stopping => Cell::painted("stopping", Colour::Yellow),
        ServiceState::Stopped => Cell::painted("stopped", Colour::Dim),
        ServiceState::FailedDependency { on } => {
            Cell::painted(format!("needs {on}, which is stopped"), Colour::Red)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_says_why_it_is_not_ready() {
        let json = r#"[
            {"name":"web","source":"api","command":"npm run dev","port":3000,"state":"ready","since_ms":1,"pid":7,"restarts":0},
            {"name":"db","source":"manifest","command":"postgres","state":"backoff","next_try_ms":1,"failures":3,"restarts":3},
            {"name":"job","source":"manifest","command":"x","state":"waiting","on":["db"],"restarts":0}]"#;
        let views: Vec<ServiceView> = serde_json::from_str(json).expect("services");
        insta::assert_snapshot!(table(&views, Output { json: false, colour: false }), @r"
        NAME  STATE                    PORT  PID  RESTARTS  COMMAND
        web   ready                    3000  7    0         npm run dev
        db    backoff, failed 3 times  -     -    3         postgres
        job   waiting for db           -     -    0         x
        ");
    }
}
