//! What the store promises, tried on real files.

mod attempts;
mod calls;
mod crash;
mod disk;
mod events;
mod files;
mod fixture;
mod moves;
mod scopes;

use fixture::{SECRET, blueprint, empty, id, insert, kinds, label, new_sandbox, owner, problem, with_one};
