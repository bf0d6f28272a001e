//! Coding agents: scripted ones in runtimed, real ones through hostd against a scripted model.

mod acp;
mod app;
mod configured;
mod fake_model;
mod json;
mod others;
mod permissions;
mod real;
mod warm;
