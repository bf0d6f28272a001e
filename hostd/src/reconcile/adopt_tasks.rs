//! Finds the tasks of an adopted sandbox in the files of its runtimed.

use super::runtime_logs::RuntimeLogs;
use crate::agents::{self, COMMAND};
use hostd_core::limits;
use hostd_store::FoundTask;
use protocol::{AgentKind, TaskId};
use serde::Deserialize;
use std::{
    io,
    path::{Path, PathBuf},
};
use tokio::task::spawn_blocking;
use tracing::warn;

/// The file `tasks/<id>/task.json`, which runtimed writes when it takes a task.
#[derive(Deserialize)]
struct TaskFile {
    agent: AgentKind,
    /// The agent's name in the API; an earlier runtimed does not write it.
    #[serde(default)]
    name: String,
    created_ms: u64,
}

#[derive(Debug, thiserror::Error)]
enum BadTaskFile {
    #[error("the name of its directory is no task id")]
    Name,
    #[error("task.json cannot be read")]
    Unreadable(#[from] io::Error),
    #[error("task.json is not valid")]
    Nonsense(#[from] serde_json::Error),
}

/// Returns the tasks, oldest first. Invalid ones are left out.
pub(super) async fn find_tasks(logs: PathBuf) -> Vec<FoundTask> {
    let found = spawn_blocking(move || list(&RuntimeLogs { logs }));
    found.await.unwrap_or_else(|error| Err(io::Error::other(error))).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            warn!(%error, "failed to list the tasks of an adopted sandbox");
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
                warn!(task = ?name, error, "left out an invalid task of an adopted sandbox");
            }
        }
    }
    found.sort_by(|one, two| (one.created_ms, &one.id).cmp(&(two.created_ms, &two.id)));
    Ok(found)
}

fn read(logs: &RuntimeLogs, name: &str) -> Result<FoundTask, BadTaskFile> {
    let id = TaskId::parse(name).map_err(|_| BadTaskFile::Name)?;
    let file = Path::new("tasks").join(name).join("task.json");
    let TaskFile { agent, name, created_ms } =
        serde_json::from_slice(&logs.bytes(&file, limits::FOUND_TASK_MAX_BYTES)?)?;
    Ok(FoundTask { id, agent: agent_name(agent, name), created_ms })
}

/// The name of the agent where it is valid, else its kind.
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
    async fn tasks_are_found_in_order_and_invalid_ones_are_left_out() {
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
        // Files outside that only a link reaches.
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
