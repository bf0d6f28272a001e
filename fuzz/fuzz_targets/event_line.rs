//! Any bytes as a line of the event log: an event or a cut tail, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| runtimed::fuzz::event_line(data));
