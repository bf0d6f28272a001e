//! Any bytes as lines of Codex: events within bounds, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| runtimed::fuzz::codex_line(data));
