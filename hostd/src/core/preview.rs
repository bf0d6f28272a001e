//! Where the app in a sandbox is seen from outside.

use protocol::api::SandboxId;
use std::collections::BTreeMap;

/// Where previews are served.
#[derive(Debug, Clone)]
pub struct Previews {
    pub domain: String,
    pub port: u16,
}

impl Previews {
    /// The address of each port, by the port.
    pub fn of(&self, id: &SandboxId, ports: &[u16]) -> BTreeMap<String, String> {
        ports.iter().map(|port| (port.to_string(), self.url(id, *port))).collect()
    }

    fn url(&self, id: &SandboxId, port: u16) -> String {
        let host = format!("http://s-{id}-{port}.preview.{}", self.domain);
        // Port 0 was picked by nobody yet.
        if matches!(self.port, 0 | 80) { host } else { format!("{host}:{}", self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previews_are_named_by_sandbox_and_port() {
        let id = "01jb9xyzabcdefghjkmnpqrstv".parse().unwrap();
        let url = |port| Previews { domain: "localhost".into(), port }.url(&id, 3000);
        assert_eq!(url(8080), "http://s-01jb9xyzabcdefghjkmnpqrstv-3000.preview.localhost:8080");
        assert_eq!(url(80), "http://s-01jb9xyzabcdefghjkmnpqrstv-3000.preview.localhost");
    }
}
