//! Installs dotfiles. hostd touches no path of a workspace for it: processes inside the sandbox, of its user, unpack
//! the archive into `~/.dotfiles` and install what is there.

use super::{
    provision::StepOutcome,
    provision_exec::{self, StepExec},
};
use bytes::Bytes;
use hostd_core::{
    DOTFILES_DIR, Dotfiles, DotfilesEntry, DotfilesFormat, DotfilesFrom, DotfilesPrograms, InstallDecision,
    decide_install, limits, step_problem,
};
use hostd_drivers::control::{Control, ControlError, FilesConnectionError};
use hostd_store::{SandboxRecord, Secret, Store};
use hyper::Method;
use protocol::{
    ProgramsRequest, ProgramsView,
    api::DotfilesInstall,
    files::{
        ArchiveFormat, FileEntry, FilePath, FileType, FilesReply, FilesRequest, FilesTop, InstallReport,
        ListRequest, Selection,
    },
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

const ARCHIVE_MISSING: &str = "dotfiles archive missing in the store; recreate the sandbox with it";
const HOME: &str = "/home/sandbox";
const WITHIN: Duration = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);
/// How long a verb on files may take.
const VERB_MAX: Duration = Duration::from_millis(limits::DOTFILES_MAX_MS);
/// Bytes of an archive in one frame.
const CHUNK_BYTES: usize = 64 << 10;
/// Names that are looked at to find out the layout, and those of one page.
const ENTRIES_MAX: usize = 10_000;
const PAGE_ENTRIES: usize = 1_000;

/// Why dotfiles were not installed.
enum DotfilesError {
    Control(ControlError),
    /// In words for the problem of the sandbox.
    Refused(String),
}

impl From<ControlError> for DotfilesError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

pub(super) async fn install(
    control: &Control,
    store: &Store,
    record: &SandboxRecord,
    dotfiles: &Dotfiles,
    index: usize,
) -> Result<StepOutcome, ControlError> {
    match unpack_and_install(control, store, record, dotfiles, index).await {
        Ok(outcome) => Ok(outcome),
        Err(DotfilesError::Control(error)) => Err(error),
        Err(DotfilesError::Refused(why)) => {
            Ok(StepOutcome::Failed(step_problem(&record.blueprint, index, None, None, &[why])))
        }
    }
}

async fn unpack_and_install(
    control: &Control,
    store: &Store,
    record: &SandboxRecord,
    dotfiles: &Dotfiles,
    index: usize,
) -> Result<StepOutcome, DotfilesError> {
    // An earlier hostd came as far as its exec, which must not find the files changed, nor be decided anew: it may have
    // changed them itself.
    let secrets: Vec<String> = record.env.0.all.values().cloned().collect();
    if provision_exec::is_known(control, record).await? {
        return Ok(provision_exec::finish(control, record, index, &secrets).await?);
    }
    if let DotfilesFrom::Archive(format) = dotfiles.from {
        let archive =
            store.dotfiles(&record.id).await.map_err(|error| DotfilesError::Refused(error.to_string()))?;
        let Some(archive) = archive else { return Err(DotfilesError::Refused(ARCHIVE_MISSING.to_owned())) };
        unpack(control, format, &archive).await?;
    }
    let entries = match dotfiles.install {
        // All files are copied, whatever their layout is.
        DotfilesInstall::Copy => Vec::new(),
        DotfilesInstall::Auto
        | DotfilesInstall::Stow
        | DotfilesInstall::Chezmoi
        | DotfilesInstall::Script => list(control).await?,
    };
    let programs = programs(control).await?;
    match decide_install(dotfiles.install, &entries, programs, HOME) {
        InstallDecision::Copy => {
            let report = copy(control).await?;
            record_replaced_files(store, record, &report).await;
            Ok(StepOutcome::Succeeded)
        }
        InstallDecision::Run { argv, dir } => {
            let cwd = Some(format!("{HOME}/{dir}"));
            let env = record.env.0.all.clone();
            let exec = StepExec { argv, cwd, env, timeout_ms: limits::DOTFILES_MAX_MS, secrets };
            Ok(provision_exec::run(control, record, index, exec).await?)
        }
        InstallDecision::Impossible(why) => Err(DotfilesError::Refused(why)),
    }
}

async fn unpack(
    control: &Control,
    format: DotfilesFormat,
    archive: &Secret<Arc<[u8]>>,
) -> Result<(), DotfilesError> {
    let format = match format {
        DotfilesFormat::Tar => ArchiveFormat::Tar,
        DotfilesFormat::TarGz => ArchiveFormat::TarGz,
        DotfilesFormat::Zip => ArchiveFormat::Zip,
    };
    let request = FilesRequest::Unpack { path: FilePath(DOTFILES_DIR.into()), format };
    let reply = perform(control, &request, &archive.0).await?;
    if matches!(reply, FilesReply::Unpacked(_)) { Ok(()) } else { Err(unexpected(&reply)) }
}

/// The names of the directory, two levels deep.
async fn list(control: &Control) -> Result<Vec<DotfilesEntry>, DotfilesError> {
    let mut entries: Vec<DotfilesEntry> = Vec::new();
    let mut after = None;
    loop {
        let request = FilesRequest::List(ListRequest {
            path: FilePath(DOTFILES_DIR.into()),
            depth: 2,
            select: Selection { exclude: vec![".git".to_owned()], ..Selection::default() },
            after,
            limit: PAGE_ENTRIES,
        });
        let reply = perform(control, &request, &[]).await?;
        let FilesReply::Page { items, more } = reply else { return Err(unexpected(&reply)) };
        after = items.last().map(|item| item.path.clone());
        entries.extend(items.iter().filter_map(entry));
        if !more || after.is_none() {
            return Ok(entries);
        }
        // A part of them would be installed in part, or in another way.
        if entries.len() >= ENTRIES_MAX {
            let message = format!(
                "there are more than {ENTRIES_MAX} names at the top of the dotfiles: use install: copy"
            );
            return Err(DotfilesError::Refused(message));
        }
    }
}

fn entry(item: &FileEntry) -> Option<DotfilesEntry> {
    let path = String::from_utf8(item.path.0.get(DOTFILES_DIR.len() + 1..)?.to_vec()).ok()?;
    Some(DotfilesEntry {
        path,
        is_directory: item.kind == FileType::Directory,
        is_executable: item.kind == FileType::File && item.mode & 0o100 != 0,
    })
}

async fn programs(control: &Control) -> Result<DotfilesPrograms, ControlError> {
    let ask = ProgramsRequest { programs: vec!["stow".to_owned(), "chezmoi".to_owned()] };
    let (_, view) = control.json::<ProgramsView>(Method::POST, "/v1/programs", Some(&ask), WITHIN).await?;
    Ok(DotfilesPrograms {
        stow: view.found.contains_key("stow"),
        chezmoi: view.found.contains_key("chezmoi"),
    })
}

async fn copy(control: &Control) -> Result<InstallReport, DotfilesError> {
    let request = FilesRequest::Install { from: FilePath(DOTFILES_DIR.into()), to: FilePath(Vec::new()) };
    let reply = perform(control, &request, &[]).await?;
    if let FilesReply::Installed(report) = reply { Ok(report) } else { Err(unexpected(&reply)) }
}

/// Records which files were in the way, and what they are called now.
async fn record_replaced_files(store: &Store, record: &SandboxRecord, report: &InstallReport) {
    let name = |path: &FilePath| protocol::sanitize::one_line(&String::from_utf8_lossy(&path.0), 200);
    let kept: Vec<String> = report.kept.iter().map(name).collect();
    let data = json!({ "files": report.files, "kept": kept, "kept_count": report.kept_count });
    let noted = store.record_event(&record.id, "dotfiles.copied", data, record.updated_ms).await;
    if let Err(error) = noted {
        tracing::warn!(sandbox = %record.id, %error, "failed to record which files dotfiles replaced");
    }
}

/// Has a process inside the sandbox perform a verb on files.
async fn perform(
    control: &Control,
    request: &FilesRequest,
    body: &[u8],
) -> Result<FilesReply, DotfilesError> {
    let exchange = async {
        let mut connection = control.files(FilesTop::Workspace, request).await?;
        for chunk in body.chunks(CHUNK_BYTES) {
            if connection.send(Bytes::copy_from_slice(chunk)).await.is_err() {
                // The verb has ended; its reply says why.
                break;
            }
        }
        let _ = connection.finish().await;
        match connection.reply().await {
            Ok(reply) => Ok(reply),
            Err(FilesConnectionError::Failed(failure)) => Err(DotfilesError::Refused(failure.message)),
            Err(error @ (FilesConnectionError::Malformed(_) | FilesConnectionError::Broken(_))) => {
                Err(DotfilesError::Refused(error.to_string()))
            }
        }
    };
    let late = ControlError::TimedOut(limits::DOTFILES_MAX_MS);
    timeout(VERB_MAX, exchange).await.unwrap_or(Err(DotfilesError::Control(late)))
}

fn unexpected(reply: &FilesReply) -> DotfilesError {
    DotfilesError::Refused(format!("unexpected reply from runtimed: {reply:?}"))
}
