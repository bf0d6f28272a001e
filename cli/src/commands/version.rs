//! `slipway version`: versions of slipway and hostd.

use crate::{client::ApiRequest, context::Context, failure::Failure};
use protocol::api::{ApiErrorCode, HostView};

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Prints the versions; an unreachable hostd is not a failure.
pub async fn run(context: &Context) -> Result<(), Failure> {
    let host: Result<HostView, _> = match context.client.send(ApiRequest::get("/v1/host")).await {
        Ok(response) => response.parse(),
        Err(error) => Err(error),
    };
    if context.output.json {
        let hostd = host.ok().map(|host| host.version);
        return context.output.json(&serde_json::json!({ "slipway": VERSION, "hostd": hostd }));
    }
    context.output.line(&format!("slipway {VERSION}"))?;
    match host {
        Ok(host) => context.output.line(&format!("hostd   {} ({})", host.version, host.default_driver)),
        // Details are for the administrator of the host only.
        Err(error) if error.is(ApiErrorCode::Forbidden) => context.output.line("hostd   answers"),
        Err(error) => context.output.line(&format!("hostd   -: {error}")),
    }
}
