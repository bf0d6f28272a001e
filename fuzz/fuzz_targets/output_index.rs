//! Any bytes as the index of an output log: recovered or refused, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| runtimed::fuzz::output_index(data));
