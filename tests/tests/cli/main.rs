//! `slipway` as people and scripts use it, against a real hostd.

mod commands;
mod contexts;
mod files;
mod sh;
mod tasks;
