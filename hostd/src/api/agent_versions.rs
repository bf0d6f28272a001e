//! Versions of the agents installed in a sandbox, queried once per attempt and cached: some agents take a
//! second to print theirs.

use super::{
    call::Call,
    dispatch::new_id,
    exec_run::{self, ExecOutcome},
};
use hostd_drivers::control::Control;
use hostd_store::SandboxRecord;
use protocol::{EnvMap, ExecId, ExecRequest, Exit, api::SandboxId, sanitize::one_line};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
};

/// How long one version command may run.
const QUERY_MAX_MS: u64 = 15_000;
/// Characters of a version that are shown.
const VERSION_CHARS: usize = 80;
/// Entries of the cache before it is cleared.
const CACHED_MAX: usize = 1_000;

/// A program of one attempt: sandbox, attempt, path.
type Key = (SandboxId, u32, String);

#[derive(Default)]
pub struct AgentVersions {
    /// `None`: the program prints no version.
    known: Mutex<HashMap<Key, Option<String>>>,
}

impl AgentVersions {
    fn get(&self, key: &Key) -> Option<Option<String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn put(&self, key: Key, version: Option<String>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CACHED_MAX {
            known.clear();
        }
        known.insert(key, version);
    }
}

/// Returns versions by agent. `programs` holds name, path and arguments of each; they run one after the other
/// because each is a large program.
pub async fn query(
    call: &Call,
    record: &SandboxRecord,
    control: &Control,
    programs: Vec<(String, String, Vec<String>)>,
) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for (name, path, args) in programs {
        let key = (record.id, record.attempt, path.clone());
        let version = match call.api.agent_versions.get(&key) {
            Some(known) => known,
            // A caller with read access must not start processes.
            None if !call.lease.allows_run() => continue,
            None => {
                let argv = std::iter::once(path).chain(args).collect();
                let version = run_version_command(call, &record.id, control.clone(), argv).await;
                call.api.agent_versions.put(key, version.clone());
                version
            }
        };
        versions.extend(version.map(|version| (name, version)));
    }
    versions
}

async fn run_version_command(
    call: &Call,
    sandbox: &SandboxId,
    control: Control,
    argv: Vec<String>,
) -> Option<String> {
    let request = ExecRequest {
        id: ExecId::parse(&format!("version-{}", new_id())).ok(),
        argv: Some(argv),
        shell: None,
        cwd: None,
        env: EnvMap::new(),
        stdin: None,
        stdin_open: false,
        timeout_ms: Some(QUERY_MAX_MS),
        tty: None,
    };
    let outcome = exec_run::run(&call.api, sandbox, control, &request, Some(QUERY_MAX_MS)).await.ok()?;
    let ExecOutcome::Reported(view) = outcome else { return None };
    let stdout = view.stdout.filter(|_| view.exit == Some(Exit::Exited { code: 0 }))?;
    first_line(&stdout.data)
}

fn first_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(one_line(line, VERSION_CHARS)).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_first_line_sanitized() {
        let table = [
            ("1.18.33\n", Some("1.18.33")),
            ("\n  codex-cli 0.166.0\nmore", Some("codex-cli 0.166.0")),
            ("\u{1b}[1m2\u{1b}[0m", Some("2")),
            ("", None),
            ("\n \n", None),
        ];
        for (text, expected) in table {
            assert_eq!(first_line(text).as_deref(), expected, "{text:?}");
        }
    }
}
