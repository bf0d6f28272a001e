//! `slipway snapshot`: takes, lists, verifies, restores, exports, imports and removes snapshots.

mod archive;

use crate::{
    client::{ApiRequest, ClientError},
    context::{Context, parse_items},
    failure::Failure,
    humanize::{age, bytes},
    limits,
    progress::Progress,
    table::Table,
    text::{plain, wire_name},
};
use clap::{Args, Subcommand};
use protocol::api::{
    SandboxView, SnapshotCreate, SnapshotId, SnapshotRestore, SnapshotVerification, SnapshotView,
};

#[derive(Debug, Args)]
pub struct SnapshotArgs {
    #[command(subcommand)]
    command: SnapshotCommand,
}

#[derive(Debug, Subcommand)]
enum SnapshotCommand {
    /// Take a snapshot of the files of a sandbox, whether it runs or not
    ///
    /// Prints the id of the snapshot. A sandbox that runs goes on; its processes stand still for the moment in which what
    /// changed last is copied.
    Create {
        /// Id, prefix of an id, or name of a sandbox
        #[arg(value_name = "SANDBOX")]
        sandbox: String,
        /// Name of the snapshot; one with a name is kept until it is removed
        #[arg(long)]
        name: Option<String>,
        /// Leave out what has this name, as in node_modules, or path from the home directory; may be repeated
        #[arg(long = "exclude", value_name = "PATTERN")]
        excludes: Vec<String>,
    },
    /// List snapshots, newest first
    #[command(visible_alias = "list")]
    Ls {
        /// Only those of this sandbox
        #[arg(value_name = "SANDBOX")]
        sandbox: Option<String>,
    },
    /// Show a snapshot
    Inspect(Named),
    /// Print the hash of each file, one JSON object in a line
    Manifest(Named),
    /// Read every file and compare it with its hash; exits with 1 where something differs
    Verify(Named),
    /// Put the files of a snapshot in the place of those of its sandbox
    ///
    /// The sandbox is stopped and started again. Its old files are kept until it runs, and come back if it does not.
    Restore {
        #[command(flatten)]
        snapshot: Named,
        /// Another sandbox than the one that the snapshot was taken of
        #[arg(long, value_name = "SANDBOX")]
        into: Option<String>,
    },
    /// Write a snapshot into a file, to import it on another host
    ///
    /// An archive of all files (tar, compressed with zstd), without extended attributes.
    Export(archive::ExportArgs),
    /// Make a snapshot of an exported one; its files are checked against their hashes
    Import(archive::ImportArgs),
    /// Remove snapshots; sandboxes made from them stay
    Rm {
        /// Ids, prefixes of ids, or names
        #[arg(required = true, value_name = "SNAPSHOT")]
        snapshots: Vec<String>,
    },
}

#[derive(Debug, Args)]
struct Named {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,
}

pub async fn run(context: &Context, args: SnapshotArgs) -> Result<(), Failure> {
    match args.command {
        SnapshotCommand::Create { sandbox, name, excludes } => {
            let taken = take(context, &sandbox, SnapshotCreate { name, excludes }).await?;
            context.show_response(&taken, |view: SnapshotView| Ok(format!("{}\n", view.id)))
        }
        SnapshotCommand::Ls { sandbox } => list(context, sandbox.as_deref()).await,
        SnapshotCommand::Inspect(Named { snapshot }) => {
            let request = ApiRequest::get(path(&find(context, &snapshot).await?, ""));
            context.show(request, |view: SnapshotView| Ok(format_details(&view))).await
        }
        SnapshotCommand::Manifest(Named { snapshot }) => manifest(context, &snapshot).await,
        SnapshotCommand::Verify(Named { snapshot }) => verify(context, &snapshot).await,
        SnapshotCommand::Restore { snapshot, into } => {
            restore(context, &snapshot.snapshot, into.as_deref()).await
        }
        SnapshotCommand::Export(args) => archive::export(context, args).await,
        SnapshotCommand::Import(args) => archive::import(context, args).await,
        SnapshotCommand::Rm { snapshots } => remove(context, &snapshots).await,
    }
}

fn path(snapshot: &SnapshotId, rest: &str) -> String {
    format!("/v1/snapshots/{snapshot}{rest}")
}

/// Takes a snapshot of a sandbox that an argument names.
pub async fn take(
    context: &Context,
    sandbox: &str,
    create: SnapshotCreate,
) -> Result<crate::client::ApiResponse, Failure> {
    let sandbox = context.sandbox(sandbox).await?;
    let progress = Progress::start(context.output, "taking a snapshot");
    let request = ApiRequest::post(format!("/v1/sandboxes/{sandbox}/snapshots")).json(&create);
    let response = context.client.send(request.timeout(limits::SNAPSHOT_TIMEOUT)).await?;
    drop(progress);
    Ok(response)
}

/// Finds the snapshot that an argument names: by its id, its name, or a prefix of its id.
pub async fn find(context: &Context, text: &str) -> Result<SnapshotId, Failure> {
    match find_if_any(context, text).await? {
        Some(id) => Ok(id),
        None => Err(Failure::new(format!("no snapshot with the id or name {text:?}"))
            .hint("`slipway snapshot ls` shows what exists")),
    }
}

pub async fn find_if_any(context: &Context, text: &str) -> Result<Option<SnapshotId>, Failure> {
    if let Ok(id) = text.parse() {
        return Ok(Some(id));
    }
    let known: Vec<SnapshotView> =
        parse_items(context.client.list(ApiRequest::get("/v1/snapshots").long_pages()).await?)?;
    pick(text, &known)
}

fn pick(text: &str, known: &[SnapshotView]) -> Result<Option<SnapshotId>, Failure> {
    let prefix = text.to_ascii_lowercase();
    let named: Vec<&SnapshotView> = known.iter().filter(|view| view.name.as_deref() == Some(text)).collect();
    let by_prefix = || known.iter().filter(|view| view.id.as_str().starts_with(&prefix)).collect();
    let matches = if named.is_empty() && !text.is_empty() { by_prefix() } else { named };
    match matches.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.id)),
        several => {
            let ids: Vec<&str> = several.iter().map(|view| view.id.as_str()).take(5).collect();
            Err(Failure::Usage(format!("{text:?} is more than one snapshot: {}", ids.join(", "))))
        }
    }
}

async fn list(context: &Context, sandbox: Option<&str>) -> Result<(), Failure> {
    let sandbox = match sandbox {
        Some(sandbox) => Some(context.sandbox(sandbox).await?),
        None => None,
    };
    let request =
        ApiRequest::get("/v1/snapshots").query_if("sandbox", sandbox.as_ref().map(|id| id.as_str()));
    let format = |views: Vec<SnapshotView>| {
        let mut table = Table::new(["ID", "NAME", "SANDBOX", "FILES", "SIZE", "TAKEN"]);
        for view in views {
            let content = view.content.as_ref();
            table.row([
                view.id.to_string().into(),
                view.name.unwrap_or_default().into(),
                view.sandbox.map(|id| id.to_string()).unwrap_or_default().into(),
                content.map(|content| content.files.to_string()).unwrap_or_default().into(),
                content.map(|content| bytes(content.bytes)).unwrap_or_default().into(),
                age(&view.created_at).into(),
            ]);
        }
        table.render(context.output)
    };
    context.show_list(request, format).await
}

fn format_details(view: &SnapshotView) -> String {
    let mut rows = vec![
        ("id", view.id.to_string()),
        ("name", view.name.clone().unwrap_or_default()),
        ("sandbox", view.sandbox.map(|id| id.to_string()).unwrap_or_default()),
        ("parent", view.parent.map(|id| id.to_string()).unwrap_or_default()),
        ("taken", age(&view.created_at)),
        ("frozen", format!("{} ms", view.frozen_ms)),
    ];
    rows.extend(view.excludes.iter().map(|pattern| ("excluded", pattern.clone())));
    match &view.content {
        Some(content) => rows.extend([
            ("files", content.files.to_string()),
            ("size", bytes(content.bytes)),
            ("sha256", content.sha256.clone()),
        ]),
        None => rows.push(("sha256", "not known yet".to_owned())),
    }
    let shown = rows.iter().filter(|(_, value)| !value.is_empty());
    shown.map(|(name, value)| format!("{name:<10} {}\n", plain(value))).collect()
}

async fn manifest(context: &Context, snapshot: &str) -> Result<(), Failure> {
    let request = ApiRequest::get(path(&find(context, snapshot).await?, "/manifest"));
    let response = context.client.send(request.timeout(limits::SNAPSHOT_TIMEOUT)).await?;
    let text = String::from_utf8(response.body.to_vec());
    context.output.text(&text.map_err(|error| ClientError::UnexpectedResponse(error.to_string()))?)
}

async fn verify(context: &Context, snapshot: &str) -> Result<(), Failure> {
    let progress = Progress::start(context.output, "reading the snapshot");
    let request = ApiRequest::post(path(&find(context, snapshot).await?, "/verify"));
    let response = context.client.send(request.timeout(limits::SNAPSHOT_TIMEOUT)).await?;
    drop(progress);
    let found: SnapshotVerification = response.parse()?;
    context.show_response(&response, |found: SnapshotVerification| Ok(format_verification(&found)))?;
    match found.intact {
        true => Ok(()),
        false => Err(Failure::new("the snapshot is not what it was when it was taken")),
    }
}

fn format_verification(found: &SnapshotVerification) -> String {
    let SnapshotVerification { intact, content, differences, differences_total } = found;
    if *intact {
        let size = bytes(content.bytes);
        return format!("intact: {} files, {size}, sha256 {}\n", content.files, content.sha256);
    }
    let line = |kind: String, path: &str| format!("{kind:<8} {}\n", plain(path));
    let lines = differences.iter().map(|difference| line(wire_name(&difference.kind), &difference.path));
    format!("{}{differences_total} differences\n", lines.collect::<String>())
}

async fn restore(context: &Context, snapshot: &str, into: Option<&str>) -> Result<(), Failure> {
    let snapshot = find(context, snapshot).await?;
    let sandbox = match into {
        Some(sandbox) => Some(context.sandbox(sandbox).await?),
        None => None,
    };
    let progress = Progress::start(context.output, "restoring");
    let request = ApiRequest::post(path(&snapshot, "/restore")).json(&SnapshotRestore { sandbox });
    let response = context.client.send(request.timeout(limits::SNAPSHOT_TIMEOUT)).await?;
    drop(progress);
    let said = |view: SandboxView| Ok(format!("{} has the files of {snapshot}\n", view.id));
    context.show_response(&response, said)
}

async fn remove(context: &Context, snapshots: &[String]) -> Result<(), Failure> {
    for text in snapshots {
        let snapshot = find(context, text).await?;
        let request = ApiRequest::delete(path(&snapshot, "")).timeout(limits::SNAPSHOT_TIMEOUT);
        context.client.send(request).await?;
        if !context.output.json {
            context.output.line(&format!("{snapshot} removed"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(id: &str, name: Option<&str>) -> SnapshotView {
        serde_json::from_value(serde_json::json!({
            "id": id, "name": name, "sandbox": "01jb9xyzabcdefghjkmnpqrstv", "state": "ready",
            "owner": {"tenant": "t", "principal": "p", "project": "default"},
            "created_at": "2026-01-01T00:00:00Z", "frozen_ms": 3,
        }))
        .expect("a snapshot")
    }

    #[test]
    fn a_name_wins_over_a_prefix_and_both_must_be_one() {
        let (first, second) = ("01jb9xyzabcdefghjkmnpqrsta", "01jb9xyzabcdefghjkmnpqrstb");
        let known = [view(first, Some("before")), view(second, None)];
        assert_eq!(pick("before", &known).expect("one").map(|id| id.to_string()).as_deref(), Some(first));
        let found = pick("01JB9XYZABCDEFGHJKMNPQRSTB", &known).expect("one");
        assert_eq!(found.map(|id| id.to_string()).as_deref(), Some(second));
        assert!(pick("01jb", &known).is_err());
        assert_eq!(pick("other", &known).expect("none"), None);
    }
}
