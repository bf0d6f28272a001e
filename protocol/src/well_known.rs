//! What hostd itself offers inside every sandbox, on its loopback.

/// The port. Below 1024: sandboxed code has no capability to take it before hostd does.
pub const HOSTD_PORT_IN_SANDBOX: u16 = 900;
/// The status page of the sandbox, and the name under which every job finds it.
pub const STATUS_URL: &str = "http://127.0.0.1:900/";
pub const STATUS_URL_VARIABLE: &str = "SLIPWAY_STATUS_URL";
/// Below this agents find their models: `<this>/<dialect>`, as in `…/model/anthropic/v1/messages`.
pub const MODEL_URL: &str = "http://127.0.0.1:900/model";
/// Where agents are that the host gives every sandbox, read-only, and what of it is on the path of every job.
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
