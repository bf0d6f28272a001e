//! Bounds on what is tracked and reported of an agent. Those of tools and plans are in `core/tool_limits.rs`.

pub use crate::core::tool_limits::{ID_MAX_BYTES, TITLE_MAX_BYTES};
/// Tools whose last reported state is remembered.
pub const TOOLS_KNOWN_MAX: usize = 256;
/// Least interval between two events of a tool that only add output.
pub const TOOL_OUTPUT_EVERY_MS: u64 = 500;
/// Subjects of a permission (commands, paths, addresses) that rules are matched against.
pub const SUBJECTS_MAX: usize = 32;
pub const SUBJECT_MAX_BYTES: usize = 16 << 10;
/// Permissions open at once, and the options of one.
pub const ASKED_MAX: usize = 64;
pub const PERMISSION_OPTIONS_MAX: usize = 16;
/// Settings of a session that are read, and the values of one.
pub const SETTINGS_MAX: usize = 64;
pub const SETTING_VALUES_MAX: usize = 4_096;
/// Error messages.
pub const MESSAGE_MAX_BYTES: usize = 1 << 10;
/// How long the stdin of a cancelled agent stays open; closing it afterwards stops agents that ignore
/// `session/cancel`.
pub const STOP_INPUT_MS: u64 = 1_000;
