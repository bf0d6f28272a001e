//! Ports with a listener: of one sandbox, and of a list of sandboxes. Wakes none of them.

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

/// Returns the listening ports of a running sandbox.
pub async fn of_sandbox(api: &Api, sandbox: &SandboxId) -> Result<Vec<ListeningPort>, CallError> {
    let (_, control) = api.fleet.control(sandbox).await?;
    let mut all: Vec<ListeningPort> = control.get(&relay::runtimed_path(&["ports"]), CONTROL_TIMEOUT).await?;
    // The excluded port is hostd's own; no app can listen on it.
    all.retain(|listening| listening.port != HOSTD_PORT_IN_SANDBOX);
    Ok(all)
}

/// Adds listening ports to the views of running sandboxes, a few concurrently. A sandbox that does not
/// respond before the common deadline keeps `None`.
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

/// The distinct listening ports of the sandbox at this index of a list.
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
