//! Any bytes as lines of Claude Code: events within bounds, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| runtimed::fuzz::claude_line(data));
