//! Tests of the store on real files.

mod access_watch;
mod api_rows;
mod attempts;
mod client_records;
mod crash;
mod database_file;
mod events;
mod expiry;
mod history;
mod log_quota;
mod model_calls;
mod names;
mod preview_links;
mod quotas;
mod restored;
mod scopes;
mod shares;
mod task_changes;
mod tasks;
mod transitions;
mod webhooks;
mod writer;

use crate::fixture::{
    SECRET, empty, id, insert, kinds, label, lines, new_sandbox, new_task, owner, problem, status_line,
    with_one,
};
