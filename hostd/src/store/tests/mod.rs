//! What the store promises, tried on real files.

mod attempts;
mod calls;
mod crash;
mod disk;
mod events;
mod files;
mod fixture;
mod links;
mod models;
mod moves;
mod scopes;
mod tasks;

use fixture::{SECRET, blueprint, empty, insert, kinds, lines, new_sandbox, owner, problem, status_line};
pub(crate) use fixture::{id, label, new_task, no_room_for, with_one};
