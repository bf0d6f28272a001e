//! Writes a regular file: whole and at once, or at its end.

use crate::{
    Exchange, FilesError, Workspace,
    entry::{etag, matches, of_stat},
    exchange::gone,
    mkdir::make_parents,
    temporary::Temporary,
    workspace::{Slot, file_kind},
};
use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, openat},
    sys::stat::{FileStat, Mode, SFlag, fstat, fstatat},
};
use protocol::files::{FileEntry, FilePath, FilesReply, WriteMode, WriteRequest};
use std::{fs::File, io::Write};

/// Permissions of a new file.
pub const NEW_FILE_MODE: u32 = 0o644;

pub fn write(
    workspace: &Workspace,
    exchange: &mut dyn Exchange,
    request: &WriteRequest,
) -> Result<(), FilesError> {
    make_parents(workspace, &request.path)?;
    let slot = workspace.followed_slot(&request.path)?;
    // Before the body is read: a large one that will be refused is not sent.
    let old = check(&slot, request)?;
    let (entry, created) = match request.how {
        WriteMode::Append => append(workspace, exchange, request)?,
        WriteMode::Replace | WriteMode::Create => {
            let temporary = Temporary::new(&slot)?;
            receive(exchange, &temporary.file, request)?;
            let mode = request.mode.or(old.map(|stat| stat.st_mode)).unwrap_or(NEW_FILE_MODE);
            temporary.finish(mode)?;
            // Once more: the content took its time.
            let old = check(&slot, request)?;
            let entry =
                if request.how == WriteMode::Create { temporary.create()? } else { temporary.replace()? };
            (entry, old.is_none())
        }
    };
    let entry = FileEntry { path: request.path.clone(), ..entry };
    exchange.reply(FilesReply::Entry { entry, created }).map_err(gone)
}

/// Checks the conditions of the request against what is there; returns that.
fn check(slot: &Slot, request: &WriteRequest) -> Result<Option<FileStat>, FilesError> {
    let old = match fstatat(&slot.parent, slot.name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(stat),
        Err(Errno::ENOENT) => None,
        Err(errno) => return Err(FilesError::at("inspect the file", &slot.path)(errno)),
    };
    let unmet = || FilesError::Precondition { path: request.path.clone() };
    if request.how == WriteMode::Create && old.is_some() {
        return Err(unmet());
    }
    if let Some(tags) = &request.if_match
        && !old.as_ref().is_some_and(|stat| matches(tags, &etag(stat)))
    {
        return Err(unmet());
    }
    if old.as_ref().is_some_and(|stat| file_kind(stat) != SFlag::S_IFREG) {
        return Err(FilesError::NotAFile { path: request.path.clone() });
    }
    Ok(old)
}

/// Writes at the end of a file; every piece of the body in one call.
fn append(
    workspace: &Workspace,
    exchange: &mut dyn Exchange,
    request: &WriteRequest,
) -> Result<(FileEntry, bool), FilesError> {
    let flags = OFlag::O_WRONLY | OFlag::O_APPEND;
    let (file, created) = match workspace.open_file(&request.path, flags) {
        Ok((file, _)) => (file, false),
        Err(FilesError::NotFound { .. }) => (create_empty(workspace, request, flags)?, true),
        Err(error) => return Err(error),
    };
    receive(exchange, &file, request)?;
    file.sync_all().map_err(FilesError::io_at("write the file", &request.path))?;
    let stat = fstat(&file).map_err(FilesError::at("inspect the file", &request.path))?;
    Ok((of_stat(request.path.clone(), &stat, None), created))
}

fn create_empty(workspace: &Workspace, request: &WriteRequest, flags: OFlag) -> Result<File, FilesError> {
    let slot = workspace.followed_slot(&request.path)?;
    let flags = flags | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mode = Mode::from_bits_truncate(request.mode.unwrap_or(NEW_FILE_MODE) & 0o777);
    let file = openat(&slot.parent, slot.name.as_c_str(), flags, mode)
        .map_err(FilesError::at("create the file", &request.path))?;
    Ok(File::from(file))
}

fn receive(exchange: &mut dyn Exchange, mut file: &File, request: &WriteRequest) -> Result<(), FilesError> {
    let max = request.max_bytes.unwrap_or(u64::MAX);
    let mut received = 0_u64;
    while let Some(chunk) = exchange.receive().map_err(FilesError::BodyCut)? {
        received = received.saturating_add(chunk.len() as u64);
        if received > max {
            return Err(FilesError::TooLarge { message: format!("the body has more than {max} bytes") });
        }
        file.write_all(&chunk).map_err(FilesError::io_at("write the file", &request.path))?;
    }
    Ok(())
}

/// Writes one file whose content is at hand.
pub fn write_whole(
    workspace: &Workspace,
    path: &FilePath,
    content: &[u8],
    mode: Option<u32>,
) -> Result<(), FilesError> {
    make_parents(workspace, path)?;
    let slot = workspace.followed_slot(path)?;
    let request = WriteRequest { path: path.clone(), mode, ..WriteRequest::default() };
    let old = check(&slot, &request)?;
    let mut temporary = Temporary::new(&slot)?;
    temporary.file.write_all(content).map_err(FilesError::io_at("write the file", path))?;
    temporary.finish(mode.or(old.map(|stat| stat.st_mode)).unwrap_or(NEW_FILE_MODE))?;
    temporary.replace().map(drop)
}
