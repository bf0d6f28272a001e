//! The destination of a copy, found out before anything is copied.

use crate::{
    context::Context,
    failure::Failure,
    files::{CopyPath, FileApi, WorkspacePath},
};
use protocol::{api::ApiErrorCode, files::FileType};
use std::{
    fs,
    path::{Path, PathBuf},
};

pub struct CopyTarget {
    pub place: Place,
    /// Whether it is a directory that gets the sources under their own names.
    pub into: bool,
}

pub enum Place {
    Local(PathBuf),
    InSandbox(FileApi, WorkspacePath),
    Stdout,
}

impl CopyTarget {
    /// `several`: the destination of several sources must be a directory.
    pub async fn find(context: &Context, to: CopyPath, several: bool) -> Result<Self, Failure> {
        let (place, exists_as_directory, typed_as_directory) = match to {
            CopyPath::Stdio => return Ok(Self { place: Place::Stdout, into: false }),
            CopyPath::Local(path) => {
                let directory = fs::metadata(&path).is_ok_and(|found| found.is_dir());
                let typed = path.as_os_str().as_encoded_bytes().ends_with(b"/");
                (Place::Local(path), directory, typed)
            }
            CopyPath::InSandbox(to) => {
                let api = super::file_api(context, &to).await?;
                let directory = is_directory(&api, &to.path).await?;
                (Place::InSandbox(api, to.path), directory, to.names_directory)
            }
        };
        let into = exists_as_directory || typed_as_directory;
        if several && !into {
            let message =
                "the destination of several sources must be a directory; end it with a slash to make one";
            return Err(Failure::Usage(message.to_owned()));
        }
        Ok(Self { place, into })
    }
}

/// Returns whether a path of a sandbox is a directory, or a link to one.
async fn is_directory(api: &FileApi, path: &WorkspacePath) -> Result<bool, Failure> {
    if path.is_top() {
        return Ok(true);
    }
    match api.stat(path, true).await {
        Ok(found) => Ok(found.kind == FileType::Directory),
        Err(error) if error.is(ApiErrorCode::NotFound) || error.is(ApiErrorCode::NotADirectory) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the name that a local source gets in a directory; none for one that names its content (`.`, `src/.`, `/`).
pub fn own_name(path: &Path) -> Option<&[u8]> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.ends_with(b"/.") || bytes == b"." {
        return None;
    }
    path.file_name().map(std::ffi::OsStr::as_encoded_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_keeps_its_name_unless_its_content_is_meant() {
        let table = [
            ("a", Some("a")),
            ("b/a", Some("a")),
            ("a/", Some("a")),
            ("a/.", None),
            (".", None),
            ("..", None),
            ("/", None),
        ];
        for (path, name) in table {
            assert_eq!(own_name(Path::new(path)), name.map(str::as_bytes), "{path}");
        }
    }
}
