//! What agents in a sandbox say their versions are. Asked once for each time the sandbox is brought up: some take
//! a second to say it.

use super::{
    call::Call,
    dispatch::new_id,
    exec_run::{self, ExecOutcome},
};
use crate::{control::Control, core::Access, store::SandboxRecord};
use protocol::{EnvMap, ExecId, ExecRequest, Exit, api::SandboxId, sanitize::one_line};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
};

/// How long one may take to say it.
const QUERY_MAX_MS: u64 = 15_000;
/// Characters of it that are told.
const VERSION_CHARS: usize = 80;
/// Sandboxes whose answers are kept.
const CACHED_MAX: usize = 1_000;

/// One program as it was brought up: which sandbox, which try, where.
type Key = (SandboxId, u32, String);

#[derive(Default)]
pub struct AgentVersions {
    /// None: it does not say.
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

/// `asked` is name, path and arguments of each. One after the other: each is a large program.
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
            // Whoever may only look starts nothing.
            None if !call.caller.allows(Access::Write) => continue,
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
    fn a_version_is_the_first_line_without_what_steers_a_terminal() {
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
