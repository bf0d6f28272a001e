//! How long servers are waited for, and when a request is repeated.

use crate::limits::{
    DOCUMENT_MAX_MS, REQUEST_ATTEMPTS_MAX, RESPONSE_HEAD_MAX_MS, RETRY_AFTER_MAX_MS, RETRY_FIRST_MS,
    RETRY_WAIT_MAX_MS, STALL_WINDOW_MS,
};
use hostd_core::Backoff;
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct Waits {
    pub backoff: Backoff,
    /// From a request to the head of its response.
    pub head: Duration,
    /// For the body of a document.
    pub document: Duration,
    /// In which some bytes of a blob must arrive.
    pub stall_window: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            backoff: Backoff {
                attempts_max: REQUEST_ATTEMPTS_MAX,
                first_ms: RETRY_FIRST_MS,
                wait_max_ms: RETRY_WAIT_MAX_MS,
                retry_after_max_ms: RETRY_AFTER_MAX_MS,
            },
            head: Duration::from_millis(RESPONSE_HEAD_MAX_MS),
            document: Duration::from_millis(DOCUMENT_MAX_MS),
            stall_window: Duration::from_millis(STALL_WINDOW_MS),
        }
    }
}
