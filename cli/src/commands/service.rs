//! `slipway service SANDBOX NAME start|stop|restart`.

use crate::{client::ApiRequest, context::Context, failure::Failure, limits};
use clap::{Args, ValueEnum};
use protocol::ServiceName;

#[derive(Debug, Args)]
pub struct ServiceArgs {
    /// Id, prefix of an id, or name of the sandbox
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// Name of the service
    #[arg(value_parser = name)]
    service: ServiceName,
    /// Operation
    verb: ServiceVerb,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ServiceVerb {
    Start,
    Stop,
    Restart,
}

/// Parses the name of a service.
pub fn name(text: &str) -> Result<ServiceName, String> {
    ServiceName::parse(text).map_err(|error| error.to_string())
}

pub async fn run(context: &Context, args: ServiceArgs) -> Result<(), Failure> {
    let id = context.sandbox(&args.sandbox).await?;
    let (verb, done) = match args.verb {
        ServiceVerb::Start => ("start", "started"),
        ServiceVerb::Stop => ("stop", "stopped"),
        ServiceVerb::Restart => ("restart", "restarted"),
    };
    let request = ApiRequest::post(format!("/v1/sandboxes/{id}/services/{}/{verb}", args.service));
    let response = context.client.send(request.timeout(limits::SETTLE_TIMEOUT)).await?;
    if context.output.json {
        return context.output.document(&response.body);
    }
    context.output.line(&format!("{} {done}", args.service))
}
