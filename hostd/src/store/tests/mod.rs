//! Tests of the store on real files.

mod api_rows;
mod attempts;
mod crash;
mod database_file;
mod events;
mod fixture;
mod model_calls;
mod preview_links;
mod scopes;
mod tasks;
mod transitions;
mod writer;

use fixture::{SECRET, blueprint, empty, insert, kinds, lines, new_sandbox, owner, problem, status_line};
pub(crate) use fixture::{id, label, new_task, no_room_for, with_one};
