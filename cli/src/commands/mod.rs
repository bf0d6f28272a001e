//! One command per file: its arguments, and what it does.

pub mod attach;
pub mod attempts;
pub mod completions;
pub mod create;
pub mod doctor;
pub mod down;
pub mod ensure;
pub mod events;
pub mod exec;
pub mod get;
pub mod image;
pub mod lifecycle;
pub mod logs;
pub mod ls;
pub mod ports;
pub mod ps;
pub mod rm;
pub mod run;
pub mod service;
pub mod services;
pub mod task;
pub mod task_view;
pub mod token;
pub mod top;
pub mod up;
pub mod version;
