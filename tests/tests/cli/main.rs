//! `slipway` as people and scripts use it, against a real hostd.

mod commands;
mod files;
mod sh;
mod tasks;
