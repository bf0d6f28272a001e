//! Flags of a task, shared by `run` and `task submit`, and the request they build.

use crate::{failure::Failure, limits, value_parser};
use clap::Args;
use protocol::{
    Decision, PermissionRule, Permissions, TaskId,
    api::{TaskBudget, TaskCreate},
};
use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

/// Flags of a task.
#[derive(Debug, Args, Default)]
pub struct TaskFlags {
    /// Instructions for the agent; `-`, or no argument with a pipe as input, reads standard input
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// Agent from `slipway agents`; `command` runs the program after `--`, and is the default when there is one
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Model of the agent, from `slipway models`
    #[arg(long)]
    pub model: Option<String>,
    /// Continue the last session of the agent in this sandbox
    #[arg(long = "continue")]
    pub continues: bool,
    /// Ask before the agent runs a command, changes a file or fetches a URL
    #[arg(long)]
    pub ask: bool,
    /// Deny a kind of tool (execute, edit, fetch, …), or a command, path or URL that matches this pattern, with * as
    /// wildcard; repeatable
    #[arg(long, value_name = "PATTERN")]
    pub forbid: Vec<String>,
    /// End the task when its models have used this many tokens
    #[arg(long, value_name = "TOKENS")]
    pub budget_tokens: Option<u64>,
    /// End the task when its models have cost this many dollars
    #[arg(long, value_name = "USD")]
    pub budget_cost: Option<f64>,
    /// End the task after this many model calls
    #[arg(long, value_name = "CALLS")]
    pub budget_requests: Option<u64>,
    /// File with instructions before the prompt, instead of the default ones; an empty file for none
    #[arg(long, value_name = "FILE")]
    pub briefing: Option<PathBuf>,
    /// Time limit, as in 90s or 15m; default: one hour
    #[arg(long, value_name = "TIME", value_parser = value_parser::seconds)]
    pub timeout: Option<f64>,
    /// End the task when the agent prints nothing for this long
    #[arg(long, value_name = "TIME", value_parser = value_parser::seconds)]
    pub idle_timeout: Option<f64>,
    /// Environment variable for the agent; NAME alone takes the value from your environment
    #[arg(long = "env", short = 'e', value_name = "NAME=VALUE", value_parser = value_parser::env)]
    pub env: Vec<(String, String)>,
    /// Shell command that must succeed after the agent; default: the build of sandbox.yaml; empty: none
    #[arg(long, value_name = "LINE")]
    pub build: Option<String>,
    /// Directory the agent starts in; relative to the app directory, which is the default
    #[arg(long, short = 'w', value_name = "DIRECTORY")]
    pub cwd: Option<String>,
    /// Keep processes running that the agent started
    #[arg(long)]
    pub keep_processes: bool,
    /// Program of the agent `command`: gets the prompt on standard input and in $SLIPWAY_PROMPT
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

impl TaskFlags {
    pub fn create(self, id: TaskId, prompt: String) -> Result<TaskCreate, Failure> {
        let briefing = self.briefing.as_deref().map(read_briefing).transpose()?;
        let budget = TaskBudget {
            tokens: self.budget_tokens,
            cost_usd: self.budget_cost,
            requests: self.budget_requests,
        };
        Ok(TaskCreate {
            id: Some(id),
            prompt,
            agent: self.agent,
            model: self.model,
            timeout_s: self.timeout,
            idle_timeout_s: self.idle_timeout,
            continues: self.continues.then_some(true),
            session: None,
            permissions: permissions(self.ask, &self.forbid),
            briefing,
            budget: (budget != TaskBudget::default()).then_some(budget),
            env: self.env.into_iter().collect(),
            command: (!self.command.is_empty()).then_some(self.command),
            cwd: self.cwd,
            build: self.build,
            keep_processes: self.keep_processes,
        })
    }
}

/// Kinds of tools in the API.
const KINDS: [&str; 10] =
    ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"];

/// Builds the permissions; `None` where everything is allowed, which is the default.
fn permissions(ask: bool, forbid: &[String]) -> Option<Permissions> {
    let rule = |pattern: &String| {
        let (tool, about) = if KINDS.contains(&pattern.as_str()) {
            (Some(pattern.clone()), None)
        } else {
            (None, Some(pattern.clone()))
        };
        PermissionRule { tool, about, then: Decision::Deny }
    };
    let default = if ask { Decision::Ask } else { Decision::Allow };
    let permissions = Permissions { default, rules: forbid.iter().map(rule).collect() };
    (permissions != Permissions::default()).then_some(permissions)
}

fn read_briefing(path: &Path) -> Result<String, Failure> {
    let doing = || format!("read the briefing {}", path.display());
    let file = File::open(path).map_err(|error| Failure::io(doing(), error))?;
    let mut text = String::new();
    let read = file.take(limits::PROMPT_MAX_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::io(doing(), error))?;
    Ok(text.trim_end().to_owned())
}

/// Returns the given id, or a new one. The id makes a retried submit safe.
pub fn task_id(chosen: Option<&str>) -> Result<TaskId, Failure> {
    let text =
        chosen.map_or_else(|| ulid::Ulid::generate().to_string().to_ascii_lowercase(), ToOwned::to_owned);
    TaskId::parse(&text).map_err(|error| Failure::Usage(format!("{text:?}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_permissions() {
        assert_eq!(permissions(false, &[]), None);
        let asked = permissions(true, &["execute".to_owned(), "rm *".to_owned()]).expect("some");
        assert_eq!(asked.default, Decision::Ask);
        let rules: Vec<_> =
            asked.rules.iter().map(|rule| (rule.tool.as_deref(), rule.about.as_deref(), rule.then)).collect();
        assert_eq!(rules, [(Some("execute"), None, Decision::Deny), (None, Some("rm *"), Decision::Deny)]);
    }
}
