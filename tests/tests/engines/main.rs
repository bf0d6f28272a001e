//! Real engines: the conformance of every driver, and what Docker and Podman do in their own ways.

mod client;
mod conformance;
mod engine_user;
mod features;
mod hostile;
