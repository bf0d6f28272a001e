//! Well-known addresses and paths inside every sandbox: what hostd serves on its loopback, and where agents are
//! mounted.

/// Port of hostd on the sandbox's loopback. Below 1024: sandboxed code lacks the capability to bind it before hostd.
pub const HOSTD_PORT_IN_SANDBOX: u16 = 900;
/// URL of the status page of the sandbox, and the environment variable that gives it to every job.
pub const STATUS_URL: &str = "http://127.0.0.1:900/";
pub const STATUS_URL_VARIABLE: &str = "SLIPWAY_STATUS_URL";
/// The variable of PID 1 with the variables of the image, for jobs: a JSON object.
pub const IMAGE_ENV_VARIABLE: &str = "RUNTIMED_IMAGE_ENV";
/// Base URL of the model gateway: `<MODEL_URL>/<dialect>`, as in `…/model/anthropic/v1/messages`.
pub const MODEL_URL: &str = "http://127.0.0.1:900/model";
/// Read-only mount of the host's agents in every sandbox, and its directory on the `PATH` of every job.
pub const AGENTS_DIR: &str = "/opt/slipway/agents";
pub const AGENTS_BIN: &str = "/opt/slipway/agents/bin";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_has_the_port() {
        assert_eq!(STATUS_URL, format!("http://127.0.0.1:{HOSTD_PORT_IN_SANDBOX}/"));
        assert_eq!(MODEL_URL, format!("{STATUS_URL}model"));
    }
}
