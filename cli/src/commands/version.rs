//! `slipway version`.

use crate::{client::ApiRequest, context::Context, failure::Failure};
use protocol::api::{ApiErrorCode, HostView};

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A hostd that does not answer is no failure here.
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
        // Only the administrator of the host is told more.
        Err(error) if error.is(ApiErrorCode::Forbidden) => context.output.line("hostd   answers"),
        Err(error) => context.output.line(&format!("hostd   -: {error}")),
    }
}
