//! Any bytes as lines of an agent that speaks ACP: effects within bounds, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| runtimed::fuzz::acp_line(data));
