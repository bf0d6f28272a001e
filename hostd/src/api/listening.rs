//! Ports that something listens on: of one sandbox, and of a list of them. Nothing is woken for it.

use super::{
    Api,
    failure::Failure,
    limits::{LISTENING_AT_ONCE, LISTENING_WITHIN_MS},
    pass::{self, WITHIN},
};
use futures_util::{StreamExt as _, stream};
use protocol::{
    INSIDE_PORT, ListeningPort,
    api::{SandboxId, SandboxStatus, SandboxView},
};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::{Instant, timeout_at};

/// Returns what listens in a sandbox that runs.
pub async fn ports(api: &Api, sandbox: &SandboxId) -> Result<Vec<ListeningPort>, Failure> {
    let (_, control) = api.fleet.control(sandbox).await?;
    let mut all: Vec<ListeningPort> = control.get(&pass::path(&["ports"]), WITHIN).await?;
    // The one that is left out is hostd's own, and no app can have it.
    all.retain(|listening| listening.port != INSIDE_PORT);
    Ok(all)
}

/// Asks all that run, a few at a time. One that does not answer in time is left as it is, and holds up no other for
/// longer than the whole may take.
pub async fn add(api: &Api, views: &mut [SandboxView]) {
    let deadline = Instant::now() + Duration::from_millis(LISTENING_WITHIN_MS);
    let mut asked = Vec::new();
    for (place, view) in views.iter().enumerate() {
        if view.status == SandboxStatus::Running {
            asked.push(numbers(api, place, view.id, deadline));
        }
    }
    let told: Vec<(usize, Option<Vec<u16>>)> =
        stream::iter(asked).buffer_unordered(LISTENING_AT_ONCE).collect().await;
    for (place, numbers) in told {
        views[place].listening = numbers;
    }
}

/// The ports of the sandbox at this place of a list, each once.
async fn numbers(
    api: &Api,
    place: usize,
    sandbox: SandboxId,
    deadline: Instant,
) -> (usize, Option<Vec<u16>>) {
    let answer = timeout_at(deadline, ports(api, &sandbox)).await.ok().and_then(Result::ok);
    let distinct = |all: Vec<ListeningPort>| all.iter().map(|listening| listening.port).collect();
    let distinct: Option<BTreeSet<u16>> = answer.map(distinct);
    (place, distinct.map(|ports| ports.into_iter().collect()))
}
