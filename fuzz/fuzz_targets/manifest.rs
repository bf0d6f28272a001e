//! Any bytes as `sandbox.yaml`: a manifest or an error, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| runtimed::fuzz::manifest(data));
