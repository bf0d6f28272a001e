//! Ports that something listens on: of one sandbox, and of a list of them. Nothing is woken for it.

use super::{
    Api,
    error::CallError,
    limits::{LISTENING_CONCURRENCY, LISTENING_TIMEOUT_MS},
    relay::{self, CONTROL_TIMEOUT},
};
use futures_util::{StreamExt as _, stream};
use protocol::{
    HOSTD_PORT_IN_SANDBOX, ListeningPort,
    api::{SandboxId, SandboxStatus, SandboxView},
};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::{Instant, timeout_at};

/// Returns what listens in a sandbox that runs.
pub async fn of_sandbox(api: &Api, sandbox: &SandboxId) -> Result<Vec<ListeningPort>, CallError> {
    let (_, control) = api.fleet.control(sandbox).await?;
    let mut all: Vec<ListeningPort> = control.get(&relay::runtimed_path(&["ports"]), CONTROL_TIMEOUT).await?;
    // The one that is left out is hostd's own, and no app can have it.
    all.retain(|listening| listening.port != HOSTD_PORT_IN_SANDBOX);
    Ok(all)
}

/// Asks all that run, a few at a time. One that does not answer in time is left as it is, and holds up no other for
/// longer than the whole may take.
pub async fn add_to_views(api: &Api, views: &mut [SandboxView]) {
    let deadline = Instant::now() + Duration::from_millis(LISTENING_TIMEOUT_MS);
    let mut queries = Vec::new();
    for (index, view) in views.iter().enumerate() {
        if view.status == SandboxStatus::Running {
            queries.push(port_numbers(api, index, view.id, deadline));
        }
    }
    let found: Vec<(usize, Option<Vec<u16>>)> =
        stream::iter(queries).buffer_unordered(LISTENING_CONCURRENCY).collect().await;
    for (index, numbers) in found {
        views[index].listening = numbers;
    }
}

/// The ports of the sandbox at this index of a list, each once.
async fn port_numbers(
    api: &Api,
    index: usize,
    sandbox: SandboxId,
    deadline: Instant,
) -> (usize, Option<Vec<u16>>) {
    let answer = timeout_at(deadline, of_sandbox(api, &sandbox)).await.ok().and_then(Result::ok);
    let distinct = |all: Vec<ListeningPort>| all.iter().map(|listening| listening.port).collect();
    let distinct: Option<BTreeSet<u16>> = answer.map(distinct);
    (index, distinct.map(|ports| ports.into_iter().collect()))
}
