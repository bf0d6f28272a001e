//! `slipway forward`: ports of a sandbox on this machine's loopback.

use crate::{
    client::ApiRequest,
    context::Context,
    failure::Failure,
    forward::{Forwarded, PortSpec, bind},
    signals::Signals,
};
use clap::Args;
use protocol::api::SandboxView;
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};
use tokio::task::JoinSet;

const AFTER_HELP: &str = "\
Every connection to the local address becomes a connection to the port inside, through the API: also from another
machine, see `slipway context`. A sleeping sandbox is woken by a connection, and kept awake by traffic as
with previews. A port that nothing listens on yet may be forwarded: each connection tries anew. Ctrl-C ends it.

  slipway forward web 3000             http://127.0.0.1:3000 is port 3000 of web
  slipway forward web 5432:15432 6379  psql -h 127.0.0.1 -p 15432; redis on its own port
  slipway forward web 3000:0           a free local port, printed";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ForwardArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// Port of the sandbox, and the local port if that is another; 0 picks a free one
    #[arg(value_name = "PORT[:LOCAL]", required = true)]
    ports: Vec<PortSpec>,
    /// Local address to listen on; anyone who reaches it reaches the port
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
}

pub async fn run(context: &Context, args: ForwardArgs) -> Result<u8, Failure> {
    let id = context.sandbox(&args.sandbox).await?;
    // Fails now, and not at the first connection, where the sandbox is not ours or gone.
    let _: SandboxView =
        context.client.send(ApiRequest::get(format!("/v1/sandboxes/{id}"))).await?.parse()?;
    let mut signals = Signals::listen(false).map_err(|error| Failure::io("handle signals", error))?;
    let mut forwarded = Vec::new();
    for spec in args.ports {
        let listener = bind(args.bind, spec).await?;
        forwarded.push((spec, Forwarded::new(listener, Arc::clone(&context.client), id, spec.port.get())));
    }
    let mut serving = JoinSet::new();
    for (spec, forwarded) in forwarded {
        let local =
            forwarded.local_address().map_err(|error| Failure::io("read the local address", error))?;
        if context.output.json {
            let line = serde_json::json!({ "local": local, "sandbox": id, "port": spec.port });
            context.output.json(&line)?;
        } else {
            context.output.line(&format!("forwarding {local} -> {id}:{}", spec.port))?;
        }
        serving.spawn(forwarded.serve());
    }
    // Dropping the set ends all connections.
    Ok(signals.exit_code().await)
}
