//! What the store promises, tried on real files.

mod attempts;
mod calls;
mod crash;
mod disk;
mod events;
mod files;
mod fixture;
mod links;
mod moves;
mod scopes;
mod tasks;

use fixture::{
    SECRET, blueprint, empty, id, insert, kinds, label, lines, new_sandbox, new_task, owner, problem,
    with_one,
};
