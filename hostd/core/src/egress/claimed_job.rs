//! The job that sent a request, by the user name in its proxy URL: `http://task.<id>:x@127.0.0.1:900`. A
//! claim from inside the sandbox: it labels events, and nothing is decided by it.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::header::HeaderValue;
use protocol::{ExecId, ServiceName, TaskId, WarmName};
use serde::Serialize;

const CLAIM_MAX_BYTES: usize = 256;

/// A job of the sandbox. Serialized as `{"task": id}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimedJob {
    Task(TaskId),
    Exec(ExecId),
    Service(ServiceName),
    /// An agent that was started before its task, also while it runs one.
    Warm(WarmName),
}

impl ClaimedJob {
    /// Parses `Proxy-Authorization`.
    pub fn parse(header: &HeaderValue) -> Option<Self> {
        let text = header.to_str().ok().filter(|text| text.len() <= CLAIM_MAX_BYTES)?;
        let (scheme, rest) = text.split_once(' ')?;
        let bytes = STANDARD.decode(rest.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
        let user = std::str::from_utf8(&bytes).ok()?.split(':').next()?;
        let (kind, name) = user.split_once('.')?;
        match kind {
            "task" => TaskId::parse(name).ok().map(Self::Task),
            "exec" => ExecId::parse(name).ok().map(Self::Exec),
            "service" => ServiceName::parse(name).ok().map(Self::Service),
            "warm" => WarmName::parse(name).ok().map(Self::Warm),
            _ => None,
        }
    }

    pub fn task(&self) -> Option<&TaskId> {
        match self {
            Self::Task(task) => Some(task),
            Self::Exec(_) | Self::Service(_) | Self::Warm(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_known_by_the_user_name_of_its_proxy() {
        let header = |text: &str| HeaderValue::from_str(text).expect("a header");
        let basic = |user: &str| header(&format!("Basic {}", STANDARD.encode(user)));
        let parsed = |value: &HeaderValue| {
            ClaimedJob::parse(value).map(|by| serde_json::to_string(&by).expect("JSON"))
        };
        assert_eq!(parsed(&basic("task.t-1.a:x")).as_deref(), Some(r#"{"task":"t-1.a"}"#));
        assert_eq!(parsed(&basic("exec.e1:x")).as_deref(), Some(r#"{"exec":"e1"}"#));
        assert_eq!(parsed(&basic("service.web:")).as_deref(), Some(r#"{"service":"web"}"#));
        assert_eq!(parsed(&basic("warm.w1:x")).as_deref(), Some(r#"{"warm":"w1"}"#));
        for bad in ["root.x:x", "task:x", "task.:x", "task.a/b:x", "task.a\nb:x"] {
            assert_eq!(parsed(&basic(bad)), None, "{bad}");
        }
        for bad in ["Bearer eA==", "Basic ???", "Basic", &format!("Basic {}", "A".repeat(300))] {
            assert_eq!(parsed(&header(bad)), None, "{bad}");
        }
    }
}
