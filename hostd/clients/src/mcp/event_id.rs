//! Ids of events in streams. An id names the work behind a call and how far its events were sent, so that the stream can
//! be resumed by any hostd with the same key: the work and its log are Slipway's own.

use super::{limits, session::Session};
use crate::ClientKey;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use protocol::{ExecId, TaskId, api::SandboxId};
use rmcp::model::{ProgressToken, RequestId};
use serde::{Deserialize, Serialize};

const PURPOSE: &str = "mcp event";
const SIGNATURE_BYTES: usize = 32;

/// The work that a call waits for. It is durable, and goes on without the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// A command, to its end. Positions are those of its output.
    #[serde(rename = "e")]
    Exec(SandboxId, ExecId),
    /// A task, to its end. Positions are numbers of events.
    #[serde(rename = "t")]
    Task(SandboxId, TaskId),
    /// A sandbox, until it is settled. Positions are numbers of events.
    #[serde(rename = "s")]
    Sandbox(SandboxId),
}

/// A position in the stream of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventId {
    #[serde(rename = "w")]
    pub work: Work,
    /// Everything up to here was sent.
    #[serde(rename = "p")]
    pub position: u64,
    /// The id of the request that the stream answers.
    #[serde(rename = "r")]
    pub request: RequestId,
    /// Where the client wants progress.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressToken>,
}

impl EventId {
    pub fn encode(&self, key: &ClientKey, session: &Session) -> String {
        let body = serde_json::to_vec(self).expect("its keys are text");
        let mut whole = key.sign(PURPOSE, &[session.nonce(), &body]).to_vec();
        whole.extend(body);
        BASE64.encode(whole)
    }

    /// Returns the position of an id that this session was given.
    pub fn decode(key: &ClientKey, session: &Session, text: &str) -> Option<Self> {
        if text.len() > limits::SIGNED_ID_MAX_BYTES {
            return None;
        }
        let whole = BASE64.decode(text).ok()?;
        let (signature, body) = whole.split_at_checked(SIGNATURE_BYTES)?;
        let signed = key.verify(PURPOSE, &[session.nonce(), body], signature);
        signed.then(|| serde_json::from_slice(body).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::revision::Revision, *};
    use rmcp::model::NumberOrString;

    const SANDBOX: &str = "01jb9xyzabcdefghjkmnpqrstv";

    fn ids() -> Vec<EventId> {
        let sandbox: SandboxId = SANDBOX.parse().unwrap();
        let long = "é".repeat(limits::REQUEST_ID_MAX_BYTES / 2);
        let text = |text: &str| NumberOrString::String(text.into());
        vec![
            EventId {
                work: Work::Exec(sandbox, ExecId::parse(&"e".repeat(64)).unwrap()),
                position: u64::MAX,
                request: text(&long),
                progress: Some(ProgressToken(text(&long))),
            },
            EventId {
                work: Work::Task(sandbox, TaskId::parse("t").unwrap()),
                position: 0,
                request: NumberOrString::Number(-7),
                progress: Some(ProgressToken(NumberOrString::Number(i64::MAX))),
            },
            EventId { work: Work::Sandbox(sandbox), position: 12, request: text(""), progress: None },
        ]
    }

    #[test]
    fn an_id_reads_back_in_its_session_only() {
        let key = ClientKey::new(&[1; 32]);
        let (session, other) = (Session::new(Revision::LATEST, 1), Session::new(Revision::LATEST, 1));
        for id in ids() {
            let text = id.encode(&key, &session);
            assert!(text.len() <= limits::SIGNED_ID_MAX_BYTES, "{} bytes", text.len());
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
            assert_eq!(EventId::decode(&key, &session, &text), Some(id));
            assert_eq!(EventId::decode(&key, &other, &text), None, "another session");
            assert_eq!(EventId::decode(&ClientKey::new(&[2; 32]), &session, &text), None);
            for at in [0, 30, 60, text.len() - 2] {
                let mut changed = text.clone().into_bytes();
                changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
                let changed = String::from_utf8(changed).unwrap();
                assert_eq!(EventId::decode(&key, &session, &changed), None, "{changed}");
            }
        }
        for odd in ["", "12", "not base64 !", &"A".repeat(2_000)] {
            assert_eq!(EventId::decode(&key, &session, odd), None, "{odd}");
        }
    }
}
