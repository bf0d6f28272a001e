//! The tasks that a sandbox knows of, from the files of its runtimed: for a database that does not know them.

use super::runtime_logs::RuntimeLogs;
use crate::{
    agents::{self, COMMAND},
    limits,
    store::FoundTask,
};
use protocol::{AgentKind, TaskId};
use serde::Deserialize;
use std::{
    io,
    path::{Path, PathBuf},
};
use tokio::task::spawn_blocking;
use tracing::warn;

/// What runtimed writes down of a task when it takes it: `tasks/<id>/task.json`.
#[derive(Deserialize)]
struct Start {
    agent: AgentKind,
    /// What its caller calls that agent; an earlier runtimed does not say.
    #[serde(default)]
    name: String,
    created_ms: u64,
}

#[derive(Debug, thiserror::Error)]
enum BadTask {
    #[error("its name is no id")]
    Name,
    #[error("what is written down of it cannot be read")]
    Unreadable(#[from] io::Error),
    #[error("what is written down of it makes no sense")]
    Nonsense(#[from] serde_json::Error),
}

/// Oldest first. What makes no sense is left out.
pub(super) async fn find_tasks(logs: PathBuf) -> Vec<FoundTask> {
    let found = spawn_blocking(move || list(&RuntimeLogs { logs }));
    found.await.unwrap_or_else(|error| Err(io::Error::other(error))).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            warn!(%error, "could not look for the tasks of a sandbox");
        }
        Vec::new()
    })
}

fn list(logs: &RuntimeLogs) -> io::Result<Vec<FoundTask>> {
    let names = logs.names("tasks", limits::FOUND_TASKS_MAX)?;
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        match read(logs, &name) {
            Ok(task) => found.push(task),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(task = ?name, error, "a task of a sandbox was left out");
            }
        }
    }
    found.sort_by(|one, two| (one.created_ms, &one.id).cmp(&(two.created_ms, &two.id)));
    Ok(found)
}

fn read(logs: &RuntimeLogs, name: &str) -> Result<FoundTask, BadTask> {
    let id = TaskId::parse(name).map_err(|_| BadTask::Name)?;
    let file = Path::new("tasks").join(name).join("task.json");
    let Start { agent, name, created_ms } =
        serde_json::from_slice(&logs.bytes(&file, limits::FOUND_TASK_MAX_BYTES)?)?;
    Ok(FoundTask { id, agent: agent_name(agent, name), created_ms })
}

/// By the name it was called, where there is a good one, else by its kind.
fn agent_name(kind: AgentKind, name: String) -> String {
    match kind {
        AgentKind::Command => COMMAND.to_owned(),
        AgentKind::Acp | AgentKind::StreamJson if agents::is_name(&name) => name,
        AgentKind::Acp => "acp".to_owned(),
        AgentKind::StreamJson => "stream-json".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[tokio::test]
    async fn tasks_are_found_in_their_order_and_nonsense_is_left_out() {
        let home = tempfile::tempdir().expect("a directory");
        let put = |id: &str, text: &str| {
            let dir = home.path().join("tasks").join(id);
            std::fs::create_dir_all(&dir).expect("made");
            std::fs::write(dir.join("task.json"), text).expect("written");
        };
        put("late", r#"{"agent":"acp","name":"opencode","created_ms":9,"fingerprint":1}"#);
        put("early", r#"{"agent":"command","created_ms":3,"fingerprint":1}"#);
        put("odd", r#"{"agent":"stream_json","name":"../x","created_ms":5,"fingerprint":1}"#);
        put("-rf", r#"{"agent":"command","created_ms":1}"#);
        put("unknown", r#"{"agent":"telepathy","created_ms":1}"#);
        put("empty", "");
        let long = format!(r#"{{"agent":"command","created_ms":1,"x":"{}"}}"#, "x".repeat(20_000));
        put("long", &long);
        // Beside it, and reached only through a link.
        let outside = home.path().join("outside");
        std::fs::create_dir(&outside).expect("made");
        std::fs::write(outside.join("task.json"), r#"{"agent":"command","created_ms":1}"#).expect("written");
        symlink(&outside, home.path().join("tasks/link")).expect("linked");
        std::fs::create_dir(home.path().join("tasks/linked")).expect("made");
        symlink(outside.join("task.json"), home.path().join("tasks/linked/task.json")).expect("linked");

        let found = find_tasks(home.path().to_owned()).await;
        let found: Vec<_> =
            found.iter().map(|task| (task.id.as_str(), task.agent.as_str(), task.created_ms)).collect();
        assert_eq!(found, [("early", "command", 3), ("odd", "stream-json", 5), ("late", "opencode", 9)]);
    }

    #[tokio::test]
    async fn a_sandbox_that_never_ran_has_none() {
        let home = tempfile::tempdir().expect("a directory");
        assert!(find_tasks(home.path().to_owned()).await.is_empty());
        assert!(find_tasks(home.path().join("none")).await.is_empty());
    }
}
