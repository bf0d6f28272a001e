//! Any bytes as the body of a task request: parsed or refused, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| runtimed::fuzz::task_request(data));
