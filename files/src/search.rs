//! Finds files by name and by content.

use crate::{Exchange, FilesError, Workspace};
use protocol::files::SearchRequest;

pub fn search(
    _workspace: &Workspace,
    _exchange: &mut dyn Exchange,
    _request: &SearchRequest,
) -> Result<(), FilesError> {
    Err(FilesError::invalid("not yet"))
}
