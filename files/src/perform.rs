//! Performs a request: one verb, one file.

use crate::{
    Exchange, FilesError, Workspace, archive, copy, delete, entry, exchange::gone, install, list, mkdir,
    read, rename, search, watch, write, write_many,
};
use protocol::files::{FilesReply, FilesRequest};

/// Performs one verb. The reply, and what follows it, go through the exchange; an error before the reply is the answer,
/// one after it breaks the answer off.
pub fn perform(
    workspace: &Workspace,
    exchange: &mut dyn Exchange,
    request: &FilesRequest,
) -> Result<(), FilesError> {
    let done = |exchange: &mut dyn Exchange, reply| exchange.reply(reply).map_err(gone);
    match request {
        FilesRequest::Stat { path, follow } => {
            let entry = entry::stat(workspace, path, *follow)?;
            done(exchange, FilesReply::Entry { entry, created: false })
        }
        FilesRequest::List(list) => {
            let (items, more) = list::list(workspace, exchange, list)?;
            done(exchange, FilesReply::Page { items, more })
        }
        FilesRequest::Read { path, range, unless_etag } => {
            read::read(workspace, exchange, path, *range, unless_etag)
        }
        FilesRequest::Write(write) => write::write(workspace, exchange, write),
        FilesRequest::Delete { path, recursive, if_match } => {
            delete::delete(workspace, exchange, path, *recursive, if_match.as_deref())?;
            done(exchange, FilesReply::Done)
        }
        FilesRequest::Mkdir { path, mode } => {
            let (entry, created) = mkdir::mkdir(workspace, path, *mode)?;
            done(exchange, FilesReply::Entry { entry, created })
        }
        FilesRequest::Move { from, to, overwrite } => {
            let entry = rename::rename(workspace, from, to, *overwrite)?;
            done(exchange, FilesReply::Entry { entry, created: false })
        }
        FilesRequest::Copy { from, to, overwrite } => {
            let entry = copy::copy(workspace, exchange, from, to, *overwrite)?;
            done(exchange, FilesReply::Entry { entry, created: false })
        }
        FilesRequest::Install { from, to } => {
            let report = install::install(workspace, exchange, from, to)?;
            done(exchange, FilesReply::Installed(report))
        }
        FilesRequest::WriteMany => write_many::write_many(workspace, exchange),
        FilesRequest::Pack { path, format, select } => {
            archive::pack(workspace, exchange, path, *format, select)
        }
        FilesRequest::Unpack { path, format } => archive::unpack(workspace, exchange, path, *format),
        FilesRequest::Search(search) => search::search(workspace, exchange, search),
        FilesRequest::Watch { path, recursive } => watch::watch(workspace, exchange, path, *recursive),
    }
}
