//! Bounds on what is known and told of what an agent says. Those of tools and plans are in `core/tool.rs`.

pub use crate::core::tool_limits::{ID_MAX_BYTES, TITLE_MAX_BYTES};
/// Tools of which is known what was told.
pub const TOOLS_KNOWN_MAX: usize = 256;
/// Between two events that say no more than that a tool has printed something.
pub const TOOL_OUTPUT_EVERY_MS: u64 = 500;
/// What a permission is about, to hold rules against.
pub const SUBJECTS_MAX: usize = 32;
pub const SUBJECT_MAX_BYTES: usize = 16 << 10;
/// Permissions that wait for somebody, and the options of one.
pub const ASKED_MAX: usize = 64;
pub const PERMISSION_OPTIONS_MAX: usize = 16;
/// Settings of a session that are looked at, and the values of one.
pub const SETTINGS_MAX: usize = 64;
pub const SETTING_VALUES_MAX: usize = 4_096;
/// Errors for people.
pub const MESSAGE_MAX_BYTES: usize = 1 << 10;
/// OpenMethod long an agent that was told to stop has its input for; after that it ends, which some obey instead.
pub const STOP_INPUT_MS: u64 = 1_000;
