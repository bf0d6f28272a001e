//! The flags that describe a task, and the request they make.

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

/// What the agent is to do, and how.
#[derive(Debug, Args, Default)]
pub struct TaskFlags {
    /// What the agent is to do; `-`, or nothing with a pipe as input, reads it from standard input
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// Who does it, of `slipway agents`; `command` runs the program after `--`, and is meant when there is one
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Model that the agent uses, of `slipway models`
    #[arg(long)]
    pub model: Option<String>,
    /// Go on with the last session that the agent had in this sandbox
    #[arg(long = "continue")]
    pub continues: bool,
    /// Be asked before the agent runs a command, changes a file or fetches something
    #[arg(long)]
    pub ask: bool,
    /// Refuse a kind of tool (execute, edit, fetch, …), or what is about a command, a path or an address like
    /// this, with * for anything; may be given more than once
    #[arg(long, value_name = "PATTERN")]
    pub forbid: Vec<String>,
    /// End it when it has used so many tokens of models
    #[arg(long, value_name = "TOKENS")]
    pub budget_tokens: Option<u64>,
    /// End it when its models have cost so many dollars
    #[arg(long, value_name = "USD")]
    pub budget_cost: Option<f64>,
    /// End it when it has called models so often
    #[arg(long, value_name = "CALLS")]
    pub budget_requests: Option<u64>,
    /// File with what the agent is told before the prompt, instead of the usual; empty for nothing
    #[arg(long, value_name = "FILE")]
    pub briefing: Option<PathBuf>,
    /// End it after this time, as in 90s or 15m; an hour unless given
    #[arg(long, value_name = "TIME", value_parser = value_parser::seconds)]
    pub timeout: Option<f64>,
    /// End it when the agent prints nothing for this long
    #[arg(long, value_name = "TIME", value_parser = value_parser::seconds)]
    pub idle_timeout: Option<f64>,
    /// Environment variable for the agent; NAME alone passes on your own
    #[arg(long = "env", short = 'e', value_name = "NAME=VALUE", value_parser = value_parser::env)]
    pub env: Vec<(String, String)>,
    /// Shell line that must succeed afterwards; what sandbox.yaml says unless given, none when empty
    #[arg(long, value_name = "LINE")]
    pub build: Option<String>,
    /// Directory the agent starts in; relative to the app directory, which is the default
    #[arg(long, short = 'w', value_name = "DIRECTORY")]
    pub cwd: Option<String>,
    /// Let processes live on that outlive the agent
    #[arg(long)]
    pub keep_processes: bool,
    /// Program for the agent `command`: gets the prompt as its input and in $SLIPWAY_PROMPT
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

/// As the API calls them.
const KINDS: [&str; 10] =
    ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"];

/// None where everything is allowed, as it is anyhow.
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

/// The id that was chosen, or a fresh one: with it the same task can be asked for again and runs once.
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
