//! The supervisor: the one owner of what runs. Everybody else holds a `Handle` or reads logs.

mod answer;
mod command;
mod context;
mod exec;
mod exec_record;
mod exec_table;
mod execs;
mod handle;
mod holds;
mod input;
mod jobs;
mod logs;
mod manifest;
mod owner;
mod probe;
mod retired_logs;
mod service;
mod service_changes;
mod service_checks;
mod services;
mod status;
mod task;
mod task_answers;
mod task_end;
mod task_recovery;
mod task_stages;
mod task_steps;
mod tasks;
mod watching;

pub use command::{Command, ServiceVerb};
pub use handle::{Counted, Handle, LogHandle};
pub use input::Input;
pub use logs::{Head, LogKey};
pub use owner::{Ended, Supervisor};
pub use task::{TaskEvents, TaskHead};
