//! Reports changes of a tree.

use crate::{Exchange, FilesError, Workspace};
use protocol::files::FilePath;

pub fn watch(
    _workspace: &Workspace,
    _exchange: &mut dyn Exchange,
    _path: &FilePath,
    _recursive: bool,
) -> Result<(), FilesError> {
    Err(FilesError::invalid("not yet"))
}
