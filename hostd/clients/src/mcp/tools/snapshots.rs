//! Tools for snapshots: saved copies of the files of a sandbox.

use super::{
    args::{DurationText, UlidText},
    registry::{Effect, ToolEntry, Words},
    result::{Outcome, ToolAnswer, done},
    sandboxes::post_once,
};
use crate::mcp::{address::Address, call::Call, event_id::Work, once::Unfinished};
use protocol::{
    EnvMap,
    api::{
        Page, SandboxId, SandboxView, SnapshotCreate, SnapshotFork, SnapshotId, SnapshotRestore, SnapshotView,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub fn tools() -> Vec<ToolEntry> {
    vec![
        ToolEntry::new(CREATE, Effect::Adds, create),
        ToolEntry::new(LIST, Effect::Reads, list),
        ToolEntry::new(RESTORE, Effect::Changes, restore).once(Unfinished::Fails),
        ToolEntry::new(FORK, Effect::Adds, fork),
    ]
}

const CREATE: Words = Words {
    name: "create_snapshot",
    title: "Take a snapshot",
    description: "Saves the files of a sandbox as they are now, within milliseconds. Take one before risky changes.",
};
const LIST: Words = Words {
    name: "list_snapshots",
    title: "List snapshots",
    description: "Lists snapshots, of one sandbox or of all, newest first.",
};
const RESTORE: Words = Words {
    name: "restore_snapshot",
    title: "Restore a snapshot",
    description: "Replaces all files of a sandbox by those of a snapshot; what was changed since is lost, unless a snapshot \
        of it was taken. Its processes are restarted.",
};
const FORK: Words = Words {
    name: "fork_snapshot",
    title: "New sandbox from a snapshot",
    description: "Creates a new sandbox with the files of a snapshot, and waits until it runs; to try several ways from the \
        same state.",
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateArgs {
    /// Id of the sandbox.
    #[schemars(with = "UlidText")]
    sandbox: SandboxId,
    /// Name for people. A snapshot with a name is kept until it is deleted.
    #[schemars(length(min = 1, max = 100))]
    name: Option<String>,
    /// Files to leave out: names at any depth, as in node_modules, or paths from /home/sandbox.
    #[serde(default)]
    #[schemars(length(max = 64))]
    excludes: Vec<String>,
}

async fn create(call: Call, args: CreateArgs) -> ToolAnswer {
    let path = format!("/v1/sandboxes/{}/snapshots", args.sandbox);
    let create = SnapshotCreate { name: args.name, excludes: args.excludes };
    let snapshot: SnapshotView = post_once(&call, &path, &create).await?;
    let text = format!("snapshot {} of sandbox {}", snapshot.id, args.sandbox);
    Ok(done(text, serde_json::to_value(&snapshot).unwrap_or_default()))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArgs {
    /// Only snapshots of this sandbox.
    #[schemars(with = "Option<UlidText>")]
    sandbox: Option<SandboxId>,
    /// How many to return; default 50.
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u32>,
    /// `next` of the page before.
    #[schemars(with = "Option<UlidText>")]
    after: Option<SnapshotId>,
}

async fn list(call: Call, args: ListArgs) -> ToolAnswer {
    let address = Address::new("/v1/snapshots")
        .query("limit", &args.limit.unwrap_or(50).clamp(1, 200).to_string())
        .query_if("sandbox", args.sandbox)
        .query_if("after", args.after);
    let page: Page<SnapshotView> = call.api.get(&address.build()).await?;
    let line = |snapshot: &SnapshotView| {
        let name = snapshot.name.as_deref().unwrap_or("(no name)");
        let of = snapshot.sandbox.map(|sandbox| format!(" of {sandbox}")).unwrap_or_default();
        format!("{} {name}{of} taken {}", snapshot.id, snapshot.created_at)
    };
    let mut lines: Vec<String> = page.items.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("no snapshots".to_owned());
    }
    if let Some(next) = &page.next {
        lines.push(format!("[more: call again with after = {next}]"));
    }
    Ok(done(lines.join("\n"), json!({"items": page.items, "next": page.next})))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RestoreArgs {
    /// Id of the snapshot.
    #[schemars(with = "UlidText")]
    snapshot: SnapshotId,
    /// Id of the sandbox whose files are replaced; default: the one that the snapshot was taken of.
    #[schemars(with = "Option<UlidText>")]
    sandbox: Option<SandboxId>,
}

async fn restore(call: Call, args: RestoreArgs) -> ToolAnswer {
    let path = format!("/v1/snapshots/{}/restore", args.snapshot);
    let restored: Value = call.api.post(&path, &SnapshotRestore { sandbox: args.sandbox }).await?;
    Ok(done(format!("restored snapshot {}", args.snapshot), restored))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForkArgs {
    /// Id of the snapshot.
    #[schemars(with = "UlidText")]
    snapshot: SnapshotId,
    /// Name of the new sandbox.
    #[schemars(length(min = 1, max = 100))]
    name: Option<String>,
    /// Environment variables of the new sandbox.
    #[serde(default)]
    env: EnvMap,
    /// Time after which it is destroyed, as in `4h`; without it, it stays.
    #[schemars(with = "Option<DurationText>")]
    ttl: Option<String>,
}

async fn fork(call: Call, args: ForkArgs) -> ToolAnswer {
    let path = format!("/v1/snapshots/{}/fork?wait=0", args.snapshot);
    let fork = SnapshotFork { name: args.name, env: args.env, ttl: args.ttl, ..SnapshotFork::default() };
    let sandbox: SandboxView = post_once(&call, &path, &fork).await?;
    Ok(Outcome::Follow(Work::Sandbox(sandbox.id), 0))
}
