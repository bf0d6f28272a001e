//! Tests of the verbs on a real file system.

mod fixture;
mod verbs;
mod watch;
