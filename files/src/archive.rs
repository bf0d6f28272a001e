//! Archives of a tree, as streams.

use crate::{Exchange, FilesError, Workspace};
use protocol::files::{ArchiveFormat, FilePath, Selection};

pub fn pack(
    _workspace: &Workspace,
    _exchange: &mut dyn Exchange,
    _path: &FilePath,
    _format: ArchiveFormat,
    _select: &Selection,
) -> Result<(), FilesError> {
    Err(FilesError::invalid("not yet"))
}

pub fn unpack(
    _workspace: &Workspace,
    _exchange: &mut dyn Exchange,
    _path: &FilePath,
    _format: ArchiveFormat,
) -> Result<(), FilesError> {
    Err(FilesError::invalid("not yet"))
}
