//! `slipway fork`: makes sandboxes with the files of a snapshot, or of a sandbox as it is now.

use super::snapshot;
use crate::{
    client::ApiRequest, context::Context, failure::Failure, limits, progress::Progress, sandbox_wait,
    value_parser,
};
use clap::Args;
use protocol::api::{SandboxView, SnapshotCreate, SnapshotFork, SnapshotId, SnapshotView};

#[derive(Debug, Args)]
pub struct ForkArgs {
    /// Snapshot, or sandbox: a snapshot of it is taken first. Id, prefix of an id, or name
    #[arg(value_name = "SNAPSHOT|SANDBOX")]
    source: String,
    /// Name of the new sandbox
    #[arg(long)]
    name: Option<String>,
    /// Environment variable of the new sandbox; the variables of the old one are not carried over
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = value_parser::env)]
    env: Vec<(String, String)>,
    /// Destroy the new sandbox after this time, as in 2h
    #[arg(long, value_name = "DURATION")]
    ttl: Option<String>,
    /// How many sandboxes to make
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100), conflicts_with = "name")]
    count: u32,
}

pub async fn run(context: &Context, args: ForkArgs) -> Result<(), Failure> {
    let snapshot = source(context, &args.source).await?;
    let fork = SnapshotFork {
        name: args.name,
        env: args.env.into_iter().collect(),
        ttl: args.ttl,
        ..SnapshotFork::default()
    };
    for _ in 0..args.count {
        make(context, &snapshot, &fork).await?;
    }
    Ok(())
}

/// The snapshot that an argument names, or a new one of the sandbox that it names.
async fn source(context: &Context, text: &str) -> Result<SnapshotId, Failure> {
    let is_known = |id: &SnapshotId| ApiRequest::get(format!("/v1/snapshots/{id}"));
    if let Some(id) = snapshot::find_if_any(context, text).await?
        && context.client.send(is_known(&id)).await.is_ok()
    {
        return Ok(id);
    }
    let taken = snapshot::take(context, text, SnapshotCreate::default()).await?;
    let view: SnapshotView = taken.parse()?;
    Ok(view.id)
}

async fn make(context: &Context, snapshot: &SnapshotId, fork: &SnapshotFork) -> Result<(), Failure> {
    let progress = Progress::start(context.output, "forking");
    let request = ApiRequest::post(format!("/v1/snapshots/{snapshot}/fork"))
        .query("wait", format!("{}s", limits::CREATE_WAIT_S))
        .json(fork)
        .timeout(limits::SETTLE_TIMEOUT);
    let response = context.client.send(request).await?;
    let response = sandbox_wait::until_settled(context, response, &progress).await?;
    drop(progress);
    let view: SandboxView = response.parse()?;
    context.show_response(&response, |view: SandboxView| Ok(format!("{}\n", view.id)))?;
    sandbox_wait::fail_if_error(&view)
}
