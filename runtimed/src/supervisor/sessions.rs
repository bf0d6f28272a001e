//! The last session of each agent in this sandbox, for tasks that continue it. Kept in one small file; losing
//! it costs a session that starts anew, never a task.

use crate::shim::messages::Claim;
use protocol::validate;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

const FILE: &str = "sessions.json";
const FILE_NEW: &str = "sessions.json.new";
/// Agents that are remembered, newest last.
const AGENTS_MAX: usize = 64;

#[derive(Debug)]
pub struct Sessions {
    dir: PathBuf,
    known: Vec<AgentSession>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AgentSession {
    agent: String,
    session: String,
}

impl Sessions {
    /// Reads the file that an earlier boot left in the control directory.
    pub fn load(dir: &Path) -> Self {
        let bytes = std::fs::read(dir.join(FILE)).unwrap_or_default();
        let mut known: Vec<AgentSession> = serde_json::from_slice(&bytes).unwrap_or_default();
        known.retain(|known| is_safe_name(&known.agent) && is_safe_name(&known.session));
        known.drain(..known.len().saturating_sub(AGENTS_MAX));
        Self { dir: dir.to_owned(), known }
    }

    pub fn last(&self, agent: &str) -> Option<String> {
        self.known.iter().find(|known| known.agent == agent).map(|known| known.session.clone())
    }

    /// Remembers a session, unless its id could not be passed back: it becomes an argument.
    pub fn store(&mut self, agent: &str, session: &str) {
        if !is_safe_name(agent) || !is_safe_name(session) {
            tracing::warn!(agent = %agent.escape_debug(), "session id of agent not stored: unsafe as an argument");
            return;
        }
        if self.last(agent).as_deref() == Some(session) {
            return;
        }
        self.known.retain(|known| known.agent != agent);
        self.known.drain(..self.known.len().saturating_sub(AGENTS_MAX - 1));
        self.known.push(AgentSession { agent: agent.to_owned(), session: session.to_owned() });
        if let Err(error) = self.write_file() {
            tracing::error!(%error, "failed to record agent session");
        }
    }

    /// Remembers the session that an agent claims. An agent that was `resumed` and failed by itself without
    /// naming a session may have been asked to continue one that no longer exists.
    pub fn update_from_claim(&mut self, agent: &str, claim: Option<&Claim>, resumed: bool) {
        match claim {
            Some(Claim { session: Some(session), .. }) => self.store(agent, session),
            Some(Claim { good: false, session: None, .. }) if resumed => self.forget(agent),
            Some(Claim { session: None, .. }) | None => {}
        }
    }

    fn forget(&mut self, agent: &str) {
        if self.last(agent).is_none() {
            return;
        }
        self.known.retain(|known| known.agent != agent);
        if let Err(error) = self.write_file() {
            tracing::error!(%error, "failed to remove agent session");
        }
    }

    fn write_file(&self) -> io::Result<()> {
        let written = self.dir.join(FILE_NEW);
        std::fs::write(&written, serde_json::to_vec(&self.known)?)?;
        std::fs::rename(written, self.dir.join(FILE))
    }
}

/// Whether a name can be stored and passed back as an argument: it is neither an option nor several words.
pub fn is_safe_name(name: &str) -> bool {
    validate::session("session", name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_session_of_each_agent_outlives_a_boot() {
        let home = tempfile::tempdir().expect("a directory");
        let mut sessions = Sessions::load(home.path());
        assert_eq!(sessions.last("opencode"), None);
        for (agent, session) in [("opencode", "ses_1"), ("claude", "u-u-i-d"), ("opencode", "ses_2")] {
            sessions.store(agent, session);
        }
        sessions.store("gone", "s");
        sessions.update_from_claim("gone", Some(&Claim { good: true, ..Claim::default() }), true);
        sessions.update_from_claim("gone", Some(&Claim::default()), false);
        sessions.update_from_claim("gone", None, true);
        assert_eq!(sessions.last("gone").as_deref(), Some("s"));
        sessions.update_from_claim("gone", Some(&Claim::default()), true);
        for sessions in [sessions, Sessions::load(home.path())] {
            assert_eq!(sessions.last("opencode").as_deref(), Some("ses_2"));
            assert_eq!(sessions.last("claude").as_deref(), Some("u-u-i-d"));
            assert_eq!(sessions.last("gone"), None);
        }
    }

    #[test]
    fn a_name_that_would_be_something_else_as_an_argument_is_not_kept() {
        let home = tempfile::tempdir().expect("a directory");
        let mut sessions = Sessions::load(home.path());
        let long = "x".repeat(protocol::limits::SESSION_MAX_BYTES + 1);
        for session in ["", "--dangerous", "two words", "line\nfeed", "nul\0", "é", long.as_str()] {
            sessions.store("claude", session);
            assert_eq!(sessions.last("claude"), None, "{session:?}");
        }
    }

    #[test]
    fn the_number_of_remembered_agents_is_limited() {
        let home = tempfile::tempdir().expect("a directory");
        let mut sessions = Sessions::load(home.path());
        for agent in 0..=AGENTS_MAX {
            sessions.store(&format!("agent-{agent}"), "s");
        }
        assert_eq!(sessions.known.len(), AGENTS_MAX);
        assert_eq!(sessions.last("agent-0"), None);
        assert_eq!(sessions.last("agent-1").as_deref(), Some("s"));
        std::fs::write(home.path().join(FILE), b"[{\"agent\":").expect("room");
        assert_eq!(Sessions::load(home.path()).known, [], "a torn file is none");
    }
}
