//! Tries, one after the other, until there is an answer or no use in another one.

use super::{
    attempt::{Begun, Outgoing, Unanswered, World},
    desk::Open,
    failure::Failure,
};
use crate::{
    core::{Backoff, Next, next},
    models::Fault,
};
use std::time::{Duration, SystemTime};
use tokio::time::sleep;

pub enum Tried {
    Begun(Box<Begun>),
    Failed(Failure, Fault),
}

pub struct Tries {
    pub tried: Tried,
    pub count: u32,
    /// There would be another one, if there had not been so many.
    pub used_up: bool,
}

pub async fn tries(
    world: &World,
    outgoing: &Outgoing,
    call: &Open,
    backoff: &Backoff,
    key: Option<&str>,
) -> Tries {
    let mut count = 0;
    loop {
        count += 1;
        let (failure, begun) = match world.attempt(outgoing, || call.sent()).await {
            Ok(begun) => return Tries { tried: Tried::Begun(begun), count, used_up: false },
            Err(Unanswered::Failed(failure)) => (failure, None),
            Err(Unanswered::Troubled(failure, begun)) => (failure, Some(begun)),
        };
        let told_ms = failure.told_wait_ms(SystemTime::now());
        match next(failure.nature, count, told_ms, jitter(), backoff) {
            Next::Again { wait_ms } => {
                call.retrying(count, &failure.fault(false, 1, key), wait_ms);
                sleep(Duration::from_millis(wait_ms)).await;
            }
            Next::Stop { permanent } => {
                let fault = failure.fault(permanent, count, key);
                let tried = begun.map_or_else(|| Tried::Failed(failure, fault), Tried::Begun);
                return Tries { tried, count, used_up: permanent };
            }
        }
    }
}

fn jitter() -> u8 {
    let mut byte = [0];
    // Without it those who wait together ask together, no more.
    let _ = getrandom::fill(&mut byte);
    byte[0]
}
