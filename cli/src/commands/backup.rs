//! `slipway backup`: the host as one encrypted file.

use crate::{
    client::{ApiRequest, ClientError},
    context::Context,
    failure::{Failure, eprint_line},
    files::{Transfer, UnnamedFile},
    humanize::bytes,
    limits, secret,
    text::plain,
};
use clap::Args;
use http_body_util::BodyExt as _;
use protocol::api::{BACKUP_TRAILER, BackupCreate, BackupEnd, BackupWorkspaces};
use std::{
    io::Write,
    path::{Path, PathBuf},
};

const EXAMPLES: &str = "\
In the backup, unless flags say otherwise: the database (sandboxes, tasks and their events, tokens, secrets, quotas, the
audit log), the keys that unseal secrets and model keys, the configuration with TLS certificates, and the files of every
sandbox that is not destroyed. With --snapshots also the files of all snapshots. Not in it: images, templates, agents,
and the output of commands. Sandboxes go on meanwhile; the files of each are as they were at one moment.

Without --passphrase-file and --recipient the passphrase is prompted for. Keep it: nobody restores the backup without it.

Exits 1, and writes nothing, when the backup is not whole; and 1 with the file written, when files of single sandboxes
could not be read, which are named.

Examples:
  slipway backup /backups/slipway.age
  slipway backup --passphrase-file /root/backup-passphrase - | ssh store 'cat > slipway.age'
  slipway backup --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kudqz0ssqsvwz5 slipway.age
  slipway backup --workspaces none daily.age";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BackupArgs {
    /// File to write, which only you can read, or - for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Read the passphrase from this file; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "recipients")]
    passphrase_file: Option<PathBuf>,
    /// Encrypt to this public key of age instead, repeatable
    #[arg(long = "recipient", value_name = "age1…")]
    recipients: Vec<String>,
    /// Whose files are in the backup: none, all, or sandboxes by id or name, separated by commas
    #[arg(long, value_name = "none|all|SANDBOX,…", default_value = "all")]
    workspaces: String,
    /// Also the files of all snapshots
    #[arg(long)]
    snapshots: bool,
}

/// Makes the backup and returns the exit code.
pub async fn run(context: &Context, args: BackupArgs) -> Result<u8, Failure> {
    let request = ApiRequest::post("/v1/host/backup")
        .json(&spec(context, &args).await?)
        .header("te", "trailers")
        .timeout(limits::SNAPSHOT_TIMEOUT);
    let mut body = context.client.open(request).await?.into_body();
    let cannot = |error| Failure::io(format!("write {}", plain(&args.file.to_string_lossy())), error);
    let to_stdout = args.file.as_os_str() == "-";
    let mut file = match to_stdout {
        true => None,
        false => Some(UnnamedFile::create(&args.file).map_err(cannot)?),
    };
    let transfer = Transfer::new(context.output, "backing up", None);
    let (mut size, mut end) = (0, None);
    while let Some(frame) = body.frame().await {
        let data = match frame.map_err(ClientError::ConnectionLost)?.into_data() {
            Ok(data) => data,
            Err(frame) => {
                let trailer = frame.trailers_ref().and_then(|trailers| trailers.get(BACKUP_TRAILER));
                end = trailer.and_then(|value| serde_json::from_slice(value.as_bytes()).ok());
                continue;
            }
        };
        transfer.add(data.len());
        size += data.len() as u64;
        tokio::task::block_in_place(|| match &mut file {
            Some(file) => file.write_all(&data).map_err(cannot),
            None => context.output.bytes(&data),
        })?;
    }
    drop(transfer);
    let (sandboxes, snapshots, skipped) = match end {
        Some(BackupEnd::Done { sandboxes, snapshots, skipped }) => (sandboxes, snapshots, skipped),
        Some(BackupEnd::Failed { message }) => {
            return Err(Failure::new(format!("the backup was given up: {}", plain(&message))));
        }
        None => return Err(ClientError::Incomplete.into()),
    };
    file.map_or(Ok(()), |file| file.finish(&args.file)).map_err(cannot)?;
    for skipped in &skipped {
        eprint_line(&format!(
            "slipway: the files of {} are not in the backup: {}",
            plain(&skipped.id),
            plain(&skipped.why)
        ));
    }
    if context.output.json && !to_stdout {
        let done = BackupEnd::Done { sandboxes, snapshots, skipped: skipped.clone() };
        context.output.json(&done)?;
    } else {
        let written = format!(
            "{} written: the files of {sandboxes} sandboxes and {snapshots} snapshots, {}",
            plain(&args.file.to_string_lossy()),
            bytes(size)
        );
        eprint_line(&written);
    }
    Ok(u8::from(!skipped.is_empty()))
}

async fn spec(context: &Context, args: &BackupArgs) -> Result<BackupCreate, Failure> {
    let (workspaces, mut sandboxes) = match args.workspaces.as_str() {
        "all" => (BackupWorkspaces::All, vec![]),
        "none" => (BackupWorkspaces::None, vec![]),
        _ => (BackupWorkspaces::Some, vec![]),
    };
    if workspaces == BackupWorkspaces::Some {
        for name in args.workspaces.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            sandboxes.push(context.sandbox(name).await?);
        }
    }
    let passphrase = match args.recipients.is_empty() {
        true => Some(new_passphrase(args.passphrase_file.as_deref())?),
        false => None,
    };
    let (recipients, snapshots) = (args.recipients.clone(), args.snapshots);
    Ok(BackupCreate { passphrase, recipients, workspaces, sandboxes, snapshots })
}

/// Asks twice on a terminal: a mistake would show when the backup is needed.
fn new_passphrase(file: Option<&Path>) -> Result<String, Failure> {
    let passphrase = secret::read(file, "passphrase of the backup (not shown): ")?;
    if secret::is_typed(file) && secret::read(file, "the same once more: ")? != passphrase {
        return Err(Failure::Usage("the two passphrases differ".to_owned()));
    }
    if passphrase.is_empty() {
        return Err(Failure::Usage("the passphrase is empty".to_owned()));
    }
    Ok(passphrase)
}
