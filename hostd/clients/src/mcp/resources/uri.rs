//! Addresses of resources:
//!
//! ```text
//!  slipway://SANDBOX/files/PATH               a file, or a directory as a list; percent-encoded
//!  slipway://SANDBOX/services/NAME/logs       the end of the log of a service
//!  slipway://SANDBOX/execs/ID/output          the end of the output of a command
//!  slipway://SANDBOX/tasks/ID/log             the end of what the agent of a task printed
//! ```

use crate::mcp::address::{percent_decode, percent_encode};
use protocol::{ExecId, ServiceName, TaskId, api::SandboxId};

const SCHEME: &str = "slipway://";
/// The longest address that is looked at: a path of which each byte is encoded.
const URI_MAX_BYTES: usize = 16_384;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceUri {
    pub sandbox: SandboxId,
    pub target: Target,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Bytes of a path; empty for the home directory.
    File(Vec<u8>),
    Service(ServiceName),
    Exec(ExecId),
    Task(TaskId),
}

impl ResourceUri {
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > URI_MAX_BYTES {
            return None;
        }
        let (sandbox, rest) = text.strip_prefix(SCHEME)?.split_once('/')?;
        let sandbox = sandbox.parse().ok()?;
        let (kind, rest) = rest.split_once('/')?;
        let name = |end: &str| rest.strip_suffix(end);
        let target = match kind {
            "files" => Target::File(percent_decode(rest)?),
            "services" => Target::Service(ServiceName::parse(name("/logs")?).ok()?),
            "execs" => Target::Exec(ExecId::parse(name("/output")?).ok()?),
            "tasks" => Target::Task(TaskId::parse(name("/log")?).ok()?),
            _ => return None,
        };
        Some(Self { sandbox, target })
    }

    pub fn text(&self) -> String {
        let Self { sandbox, target } = self;
        match target {
            Target::File(path) => format!("{SCHEME}{sandbox}/files/{}", percent_encode(path)),
            Target::Service(name) => format!("{SCHEME}{sandbox}/services/{name}/logs"),
            Target::Exec(id) => format!("{SCHEME}{sandbox}/execs/{id}/output"),
            Target::Task(id) => format!("{SCHEME}{sandbox}/tasks/{id}/log"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SANDBOX: &str = "01jb9xyzabcdefghjkmnpqrstv";

    #[test]
    fn an_address_reads_back() {
        for rest in [
            "files/",
            "files/workspace/app/a%20b.txt",
            "files/%FF%00",
            "services/web/logs",
            "execs/mcp-1_x/output",
            "tasks/t.1/log",
        ] {
            let text = format!("slipway://{SANDBOX}/{rest}");
            assert_eq!(ResourceUri::parse(&text).expect(rest).text(), text);
        }
    }

    #[test]
    fn other_addresses_are_none() {
        for text in [
            "",
            "file:///etc/passwd",
            "slipway://",
            "slipway://x/files/a",
            &format!("slipway://{SANDBOX}"),
            &format!("slipway://{SANDBOX}/files"),
            &format!("slipway://{SANDBOX}/files/%4"),
            &format!("slipway://{SANDBOX}/services/../logs"),
            &format!("slipway://{SANDBOX}/execs/a/b/output"),
            &format!("slipway://{SANDBOX}/execs//output"),
            &format!("slipway://{SANDBOX}/hosts/a"),
            &format!("slipway://{SANDBOX}/files/{}", "a".repeat(URI_MAX_BYTES)),
        ] {
            assert_eq!(ResourceUri::parse(text), None, "{}", &text[..text.len().min(80)]);
        }
    }
}
