//! Any bytes as a request line and path: a route or an error, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| runtimed::fuzz::route(data));
