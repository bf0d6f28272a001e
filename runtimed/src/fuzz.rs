//! Entry points for fuzzing: each takes any bytes and must return. The same functions are driven by
//! `cargo fuzz` where a nightly compiler is there and by property tests everywhere.

use crate::api::{request, route};
use crate::core::manifest;
use crate::core::request::{check_exec, check_task};
use crate::log::segment;
use protocol::{ExecRequest, TaskRequest, log_line};

pub fn output_index(bytes: &[u8]) {
    let start = bytes.first_chunk().map_or(0, |raw| u64::from_le_bytes(*raw));
    let records = segment::decode_index(bytes, start);
    assert!(records.windows(2).all(|pair| pair[0].at <= pair[1].at));
}

pub fn event_line(bytes: &[u8]) {
    let (sound, _) = log_line::sound_prefix(bytes);
    assert!(sound <= bytes.len());
}

pub fn manifest(bytes: &[u8]) {
    if let Err(error) = manifest::parse(bytes) {
        assert!(!error.message.is_empty());
    }
}

pub fn route(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (method, target) = text.split_once(' ').unwrap_or(("GET", text));
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let _ = route::parse(method, path, query);
}

pub fn exec_request(bytes: &[u8]) {
    if let Ok(request) = request::decode::<ExecRequest>(bytes) {
        let _ = check_exec(&request);
    }
}

pub fn task_request(bytes: &[u8]) {
    if let Ok(request) = request::decode::<TaskRequest>(bytes) {
        let _ = check_task(&request);
    }
}
