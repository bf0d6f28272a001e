//! Tests of the verbs on a real file system.

mod archive;
mod archive_memory;
mod archive_noise;
mod fixture;
mod hostile_archive;
mod search;
mod verbs;
mod watch;
