//! The flags that describe a task, and the request they make.

use crate::{failure::Failure, parse};
use clap::Args;
use protocol::{TaskId, api::TaskCreate};

/// What the agent is to do, and how.
#[derive(Debug, Args, Default)]
pub struct TaskFlags {
    /// What the agent is to do; `-`, or nothing with a pipe as input, reads it from standard input
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// Who does it; `command` runs the program after `--`, and is meant when there is one
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Model that the agent uses
    #[arg(long)]
    pub model: Option<String>,
    /// End it after this time, as in 90s or 15m; an hour unless given
    #[arg(long, value_name = "TIME", value_parser = parse::seconds)]
    pub timeout: Option<f64>,
    /// End it when the agent prints nothing for this long
    #[arg(long, value_name = "TIME", value_parser = parse::seconds)]
    pub idle_timeout: Option<f64>,
    /// Environment variable for the agent; NAME alone passes on your own
    #[arg(long = "env", short = 'e', value_name = "NAME=VALUE", value_parser = parse::env)]
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
    pub fn create(self, id: TaskId, prompt: String) -> TaskCreate {
        TaskCreate {
            id: Some(id),
            prompt,
            agent: self.agent,
            model: self.model,
            timeout_s: self.timeout,
            idle_timeout_s: self.idle_timeout,
            continues: None,
            env: self.env.into_iter().collect(),
            command: (!self.command.is_empty()).then_some(self.command),
            cwd: self.cwd,
            build: self.build,
            keep_processes: self.keep_processes,
        }
    }
}

/// The id that was chosen, or a fresh one: with it the same task can be asked for again and runs once.
pub fn task_id(chosen: Option<&str>) -> Result<TaskId, Failure> {
    let text =
        chosen.map_or_else(|| ulid::Ulid::generate().to_string().to_ascii_lowercase(), ToOwned::to_owned);
    TaskId::parse(&text).map_err(|error| Failure::Usage(format!("{text:?}: {error}")))
}
