//! Any bytes as the body of an exec request: parsed or refused, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| runtimed::fuzz::exec_request(data));
