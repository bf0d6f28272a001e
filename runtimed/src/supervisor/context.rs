//! Shared by all tables of the supervisor: configuration, shims, the event log, and how job specs are built.

use super::jobs::Jobs;
use crate::config::Config;
use crate::core::job::Leftovers;
use crate::core::proxy_env;
use crate::limits::{DESCRIPTORS_WANTED, GRACE_DEFAULT_MS};
use crate::log::EventLog;
use crate::shim::messages::{JobSpec, Stdin};
use crate::sys::clock::wall_ms;
use crate::sys::{cgroup, fd_limit};
use protocol::{
    AGENTS_BIN, EnvMap, Fact, STATUS_URL, STATUS_URL_VARIABLE, TRACEPARENT_VARIABLE, TraceParent,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct Context {
    pub config: Arc<Config>,
    pub jobs: Jobs,
    pub events: EventLog,
    pub cgroup: cgroup::Location,
    /// The limit of open descriptors that runtimed was started with, for jobs.
    open_files: Option<u64>,
    shell: String,
}

/// Default search path of programs. Agents come last: a program of the image wins.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slipway/agents/bin";
const LANG: &str = "C.UTF-8";
const TERM: &str = "xterm-256color";
/// Shells in order of preference; an image without any fails with the name of the last.
const SHELLS: [&str; 4] = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh"];

/// Agents come last, also on the search path of an image.
fn with_agents(path: &str) -> String {
    let has_agents = path.split(':').any(|dir| dir == AGENTS_BIN);
    if has_agents { path.to_owned() } else { format!("{path}:{AGENTS_BIN}") }
}

/// Tells a process which trace it belongs to, unless its environment does.
pub fn add_trace(env: &mut EnvMap, trace: Option<TraceParent>) {
    if let Some(trace) = trace {
        env.entry(TRACEPARENT_VARIABLE.to_owned()).or_insert_with(|| trace.to_string());
    }
}

impl Context {
    pub fn new(config: Arc<Config>, jobs: Jobs, events: EventLog) -> Self {
        let shell = SHELLS.iter().find(|path| Path::new(path).exists()).unwrap_or(&"/bin/sh");
        let open_files = fd_limit::raise(DESCRIPTORS_WANTED);
        Self { config, jobs, events, cgroup: cgroup::locate(), open_files, shell: (*shell).to_owned() }
    }

    pub fn record(&mut self, fact: Fact) {
        self.events.append(fact, wall_ms());
    }

    pub fn shell_line(&self, line: &str) -> Vec<String> {
        vec![self.shell.clone(), "-c".to_owned(), line.to_owned()]
    }

    /// A plain job: no input, no terminal, no log.
    pub fn job(&self, argv: Vec<String>, env: &EnvMap, cwd: Option<&str>) -> JobSpec {
        JobSpec {
            argv,
            env: self.environment(env, false),
            cwd: self.directories(cwd),
            uid: self.config.uid,
            gid: self.config.gid,
            stdin: Stdin::Null,
            tty: None,
            timeout_ms: None,
            timeout_grace_ms: GRACE_DEFAULT_MS,
            log: None,
            log_from: 0,
            task: None,
            conversation: None,
            files: BTreeMap::new(),
            captures_reply: false,
            idle_ms: None,
            leftovers: Leftovers::Kill,
            pattern: None,
            open_files: self.open_files,
            cgroup: self.cgroup.clone(),
            workspace: self.config.home.clone(),
        }
    }

    /// A clean environment: a few variables every program needs, those of the image, then those of the request. Nothing
    /// of runtimed's own.
    pub fn environment(&self, given: &EnvMap, tty: bool) -> Vec<(String, String)> {
        let mut env = EnvMap::new();
        let mut set = |name: &str, value: String| drop(env.insert(name.to_owned(), value));
        set("PATH", PATH.to_owned());
        set("LANG", LANG.to_owned());
        for (name, value) in &self.config.image_env {
            match name.as_str() {
                "PATH" if value.is_empty() => {}
                "PATH" => set(name, with_agents(value)),
                _ => set(name, value.clone()),
            }
        }
        // Also where the image says otherwise.
        set("HOME", self.config.home.display().to_string());
        set("USER", self.config.user.clone());
        set(STATUS_URL_VARIABLE, STATUS_URL.to_owned());
        if tty {
            set("TERM", TERM.to_owned());
        }
        env.extend(given.clone());
        env.into_iter().collect()
    }

    /// Points a job to the proxy out of the sandbox, if there is one. Kind and name identify the job.
    pub fn add_proxy_env(&self, kind: &str, name: &str, job: &mut JobSpec) {
        if self.config.proxy {
            proxy_env::add_proxy_env(kind, name, &mut job.env);
        }
    }

    /// Directories a job may start in: the requested one, else the first of app, home and root that can be
    /// entered.
    fn directories(&self, cwd: Option<&str>) -> Vec<PathBuf> {
        match cwd {
            Some(cwd) => vec![self.config.app_dir.join(cwd)],
            None => vec![self.config.app_dir.clone(), self.config.home.clone(), PathBuf::from("/")],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_gets_the_trace_of_its_request_unless_it_has_one() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let own = EnvMap::from([("TRACEPARENT".to_owned(), "its own".to_owned())]);
        for (trace, mut env, expected) in [
            (TraceParent::parse(header), EnvMap::new(), Some(header)),
            (TraceParent::parse(header), own.clone(), Some("its own")),
            (None, own, Some("its own")),
            (None, EnvMap::new(), None),
        ] {
            add_trace(&mut env, trace);
            assert_eq!(env.get("TRACEPARENT").map(String::as_str), expected);
        }
    }
}
