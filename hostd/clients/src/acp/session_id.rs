//! Names that carry what they belong to, so that hostd needs no table of them: a session names its sandbox, a task its
//! session, and a permission request its task. Pure.

use super::limits;
use protocol::{TaskId, api::SandboxId};
use sha2::{Digest, Sha256};
use std::fmt;

/// Prefix of the tasks of sessions, and of the metadata of their sandboxes.
const TASK_PREFIX: &str = "acp-";
const METADATA_PREFIX: &str = "acp.";
/// Hexadecimal digits of a session within its sandbox, and of a prompt within its session.
const SESSION_DIGITS: usize = 20;
const PROMPT_DIGITS: usize = 24;
/// Length of the id of a permission request.
const PERMISSION_MAX_BYTES: usize = 128;

/// A session of an editor: `<sandbox>.<number>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionId {
    pub sandbox: SandboxId,
    number: String,
}

/// A permission request of an agent, as the id of our request to the editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRef {
    pub session: SessionId,
    pub task: TaskId,
    pub permission: String,
}

/// The number of a session before its sandbox is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionNumber(String);

impl SessionNumber {
    /// Derives it from the words that make a request the same when it is repeated.
    pub fn derive(key: &str) -> Self {
        Self(digits("session", key, SESSION_DIGITS))
    }

    pub fn in_sandbox(&self, sandbox: SandboxId) -> SessionId {
        SessionId { sandbox, number: self.0.clone() }
    }

    pub fn metadata_key(&self) -> String {
        format!("{METADATA_PREFIX}{}", self.0)
    }

    /// A few digits, to tell sandboxes with the same name apart.
    pub fn short(&self) -> &str {
        &self.0[..6]
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SessionId {
    pub fn parse(text: &str) -> Option<Self> {
        let (sandbox, number) = text.split_once('.')?;
        let well_formed = number.len() == SESSION_DIGITS && number.bytes().all(is_digit);
        Some(Self { sandbox: sandbox.parse().ok()?, number: well_formed.then(|| number.to_owned())? })
    }

    /// Returns the session of an entry of a sandbox's metadata.
    pub fn of_metadata(sandbox: SandboxId, key: &str) -> Option<Self> {
        Self::parse(&format!("{sandbox}.{}", key.strip_prefix(METADATA_PREFIX)?))
    }

    pub fn metadata_key(&self) -> String {
        format!("{METADATA_PREFIX}{}", self.number)
    }

    /// The task of a prompt: the same for the same key.
    pub fn task(&self, key: &str) -> TaskId {
        let name = format!("{}{}", self.task_prefix(), digits("prompt", key, PROMPT_DIGITS));
        TaskId::parse(&name).expect("letters, digits and dashes, shorter than 64")
    }

    pub fn has_task(&self, task: &TaskId) -> bool {
        task.as_str().starts_with(&self.task_prefix())
    }

    fn task_prefix(&self) -> String {
        format!("{TASK_PREFIX}{}-", self.number)
    }

    /// Path of the tasks of its sandbox.
    pub fn tasks_path(&self) -> String {
        format!("/v1/sandboxes/{}/tasks", self.sandbox)
    }

    pub fn task_path(&self, task: &TaskId) -> String {
        format!("{}/{task}", self.tasks_path())
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.sandbox, self.number)
    }
}

impl PermissionRef {
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > limits::REQUEST_ID_MAX_BYTES {
            return None;
        }
        let mut parts = text.split('/');
        let (session, task, permission) = (parts.next()?, parts.next()?, parts.next()?);
        let session = SessionId::parse(session)?;
        let task = TaskId::parse(task).ok().filter(|task| session.has_task(task))?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let named = (1..=PERMISSION_MAX_BYTES).contains(&permission.len()) && permission.bytes().all(plain);
        (named && parts.next().is_none()).then(|| Self { session, task, permission: permission.to_owned() })
    }
}

impl fmt::Display for PermissionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.session, self.task, self.permission)
    }
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// The first digits of a hash.
fn digits(purpose: &str, key: &str, count: usize) -> String {
    let mut hash = Sha256::new();
    hash.update(purpose.as_bytes());
    hash.update([0]);
    hash.update(key.as_bytes());
    let text: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    text[..count].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SANDBOX: &str = "01jb9xyzabcdefghjkmnpqrstv";

    fn session() -> SessionId {
        SessionNumber::derive("key").in_sandbox(SANDBOX.parse().expect("an id"))
    }

    #[test]
    fn names_are_read_back_and_the_same_key_gives_the_same_name() {
        let session = session();
        assert_eq!(SessionId::parse(&session.to_string()), Some(session.clone()));
        assert_eq!(SessionId::of_metadata(session.sandbox, &session.metadata_key()), Some(session.clone()));
        let task = session.task("message 1");
        assert_eq!(task, session.task("message 1"));
        assert_ne!(task, session.task("message 2"));
        assert!(session.has_task(&task));
        let other = SessionNumber::derive("other").in_sandbox(session.sandbox);
        assert!(!other.has_task(&task));
        let asked = PermissionRef { session, task, permission: "p1".to_owned() };
        assert_eq!(PermissionRef::parse(&asked.to_string()), Some(asked));
    }

    #[test]
    fn other_texts_name_nothing() {
        let session = session();
        for bad in ["", ".", SANDBOX, "x.0123456789abcdef0123"] {
            assert_eq!(SessionId::parse(bad), None, "{bad}");
        }
        for bad in [format!("{SANDBOX}.0123"), format!("{session}0"), format!("{SANDBOX}./../../x")] {
            assert_eq!(SessionId::parse(&bad), None, "{bad}");
        }
        let task = session.task("m");
        for bad in [
            format!("{session}/{task}"),
            format!("{session}/{task}/"),
            format!("{session}/{task}/../x"),
            format!("{session}/{task}/p1/p2"),
            format!("{session}/other/p1"),
            format!("{session}/{task}/{}", "p".repeat(300)),
        ] {
            assert_eq!(PermissionRef::parse(&bad), None, "{bad}");
        }
    }
}
