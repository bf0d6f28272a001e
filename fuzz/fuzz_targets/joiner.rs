//! Any text in pieces of any size: every character is emitted once.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| runtimed::fuzz::joiner(data));
