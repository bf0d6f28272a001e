//! Sends a request to its provider until a response begins or another attempt would not help.
//! `core::decide_retry` decides.

use super::{
    call_record::CallRecord,
    provider_client::{AttemptError, ProviderClient, ProviderRequest, ProviderResponse},
    provider_failure::ProviderFailure,
};
use crate::Fault;
use hostd_core::{Backoff, RetryDecision, decide_retry};
use std::time::{Duration, SystemTime};
use tokio::time::sleep;

pub enum CallStart {
    Responding(Box<ProviderResponse>),
    Failed(ProviderFailure, Fault),
}

pub struct RetryOutcome {
    pub start: CallStart,
    pub attempts: u32,
    /// The last failure is permanent, by its kind or because of the number of attempts.
    pub gave_up: bool,
}

pub async fn send_with_retries(
    client: &ProviderClient,
    request: &ProviderRequest,
    record: &CallRecord,
    backoff: &Backoff,
) -> RetryOutcome {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let (failure, response) = match client.attempt(request, || record.mark_sent()).await {
            Ok(response) => {
                return RetryOutcome { start: CallStart::Responding(response), attempts, gave_up: false };
            }
            Err(AttemptError::Failed(failure)) => (failure, None),
            Err(AttemptError::ErrorInResponse(failure, response)) => (failure, Some(response)),
        };
        let retry_after_ms = failure.retry_after_ms(SystemTime::now());
        match decide_retry(failure.kind, attempts, retry_after_ms, jitter(), backoff) {
            RetryDecision::Retry { wait_ms } => {
                record.report_retry(attempts, &failure.fault(false, 1, record.key()), wait_ms);
                sleep(Duration::from_millis(wait_ms)).await;
            }
            RetryDecision::Stop { permanent } => {
                let fault = failure.fault(permanent, attempts, record.key());
                let start = response.map_or_else(|| CallStart::Failed(failure, fault), CallStart::Responding);
                return RetryOutcome { start, attempts, gave_up: permanent };
            }
        }
    }
}

fn jitter() -> u8 {
    let mut byte = [0];
    // Without randomness the calls that wait at the same time retry at the same time, no worse.
    let _ = getrandom::fill(&mut byte);
    byte[0]
}
