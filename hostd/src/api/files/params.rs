//! Parameters of the routes of files.

use super::super::{
    call::Call,
    error::CallError,
    limits,
    param::{Param, ParamKind},
};
use protocol::{
    api::ApiErrorCode,
    files::{ArchiveFormat, FilePath, FilesTop, Selection},
};

const fn param(name: &'static str, about: &'static str, kind: ParamKind) -> Param {
    Param { name, about, kind }
}

/// The home of the sandbox's user, which paths are relative to.
const HOME: &[u8] = b"/home/sandbox";

pub const PATH: &[Param] = &[param(
    "path",
    "Relative to `/home/sandbox`, or absolute below it; percent-encoded bytes",
    ParamKind::Path,
)];
pub const ANYWHERE: &[Param] = &[param(
    "anywhere",
    "true or 1: absolute paths of the whole sandbox, as its user sees it; only while it runs",
    ParamKind::Flag,
)];
pub const FROM_TO: &[Param] = &[
    param("from", "The path that is there", ParamKind::Path),
    param("to", "The path that it gets", ParamKind::Path),
    param("overwrite", "true or 1: replace a file that is there", ParamKind::Flag),
];
pub const FOLLOW_LINK: &[Param] =
    &[param("follow", "true or 1: follow a symbolic link at the end of the path", ParamKind::Flag)];
pub const SELECT: &[Param] = &[
    param(
        "ignore",
        "true or 1: leave out `.git` and what `.gitignore` and `.ignore` files name",
        ParamKind::Flag,
    ),
    param(
        "exclude",
        "Leave out paths that match, as in a `.gitignore` file; patterns separated by commas",
        ParamKind::Text { most_chars: limits::EXCLUDES_MAX_CHARS },
    ),
];
pub const LIST: &[Param] = &[
    param("recursive", "true or 1: all levels, unless `depth` names fewer", ParamKind::Flag),
    param("depth", "Levels of directories; default 1", ParamKind::Number { least: 1, most: 512 }),
    param("limit", "Entries of a page; default 1000", ParamKind::Number { least: 1, most: 10_000 }),
    param("after", "Continue after this: `next` of the previous page", ParamKind::Path),
];
const MODE_PARAM: Param = param("mode", "Permissions in octal, as in 0644", ParamKind::Mode);
pub const MODE: &[Param] = &[MODE_PARAM];
pub const WRITE: &[Param] =
    &[MODE_PARAM, param("append", "true or 1: write at the end of the file", ParamKind::Flag)];
pub const RECURSIVE: &[Param] =
    &[param("recursive", "true or 1: also what is in a directory", ParamKind::Flag)];
pub const FORMAT: &[Param] =
    &[param("format", "Format of the archive; default tar", ParamKind::OneOf(&["tar", "tar.gz", "zip"]))];
pub const SEARCH: &[Param] = &[
    param(
        "name",
        "A glob that the name matches, or the path below `path` where the glob has a slash",
        ParamKind::Text { most_chars: limits::PATTERN_MAX_CHARS },
    ),
    param(
        "content",
        "A regular expression that a line matches",
        ParamKind::Text { most_chars: limits::PATTERN_MAX_CHARS },
    ),
    param("ignore_case", "true or 1: upper and lower case match each other", ParamKind::Flag),
    param("hidden", "true or 1: also names that begin with a dot", ParamKind::Flag),
    param("limit", "Matches returned; default 200", ParamKind::Number { least: 1, most: 2_000 }),
];

/// Where the paths of the call begin.
pub fn top(call: &Call) -> Result<FilesTop, CallError> {
    let anywhere = call.query.flag("anywhere", false)?;
    Ok(if anywhere { FilesTop::Root } else { FilesTop::Workspace })
}

/// A path as its verb takes it.
fn from_top(call: &Call, path: &FilePath) -> FilePath {
    match top(call) {
        Ok(FilesTop::Root) => path.clone(),
        Ok(FilesTop::Workspace) | Err(_) => below_home(path),
    }
}

/// A path parameter of the call; the top where it is missing.
pub fn path(call: &Call, name: &str) -> FilePath {
    call.query.path(name).map(|path| from_top(call, path)).unwrap_or_default()
}

/// A path parameter that must be there. Only callers that may see the sandbox are told that it is missing.
pub async fn required_path(call: &Call, name: &str) -> Result<FilePath, CallError> {
    call.sandbox().await?;
    let missing = || CallError::invalid(name, "give the path of the file");
    call.query.path(name).map(|path| from_top(call, path)).ok_or_else(missing)
}

/// An absolute path below the home, as programs inside see it, is one relative to it. Any other stays as it is: the
/// kernel refuses it.
pub fn below_home(path: &FilePath) -> FilePath {
    match path.0.strip_prefix(HOME) {
        Some([]) => FilePath::default(),
        Some([b'/', rest @ ..]) => FilePath(rest.iter().copied().skip_while(|byte| *byte == b'/').collect()),
        Some(_) | None => path.clone(),
    }
}

pub fn selection(call: &Call) -> Result<Selection, CallError> {
    let exclude = call.query.text("exclude").unwrap_or_default().split(',').filter(|text| !text.is_empty());
    let exclude: Vec<String> = exclude.map(str::to_owned).collect();
    if exclude.len() > limits::EXCLUDES_MAX {
        let message = format!("must be at most {} patterns", limits::EXCLUDES_MAX);
        return Err(CallError::invalid("exclude", message));
    }
    Ok(Selection { ignore: call.query.flag("ignore", false)?, exclude })
}

pub fn mode(text: Option<&str>) -> Result<Option<u32>, CallError> {
    text.map(|text| super::super::param::mode(text).map_err(|why| CallError::invalid("mode", why)))
        .transpose()
}

pub fn format(call: &Call) -> ArchiveFormat {
    match call.query.text("format") {
        Some("zip") => ArchiveFormat::Zip,
        Some("tar.gz") => ArchiveFormat::TarGz,
        Some(_) | None => ArchiveFormat::Tar,
    }
}

pub fn number(call: &Call, name: &str, otherwise: usize) -> Result<usize, CallError> {
    Ok(call.query.number(name)?.and_then(|number| usize::try_from(number).ok()).unwrap_or(otherwise))
}

/// A reply of another kind than the verb has: runtimed is not trusted to send the right one.
pub fn unexpected() -> CallError {
    CallError::new(ApiErrorCode::SandboxFailed, "the sandbox sent a reply of another kind")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_path_below_the_home_is_relative_to_it() {
        for (given, expected) in [
            ("a/b", "a/b"),
            ("", ""),
            ("/home/sandbox", ""),
            ("/home/sandbox/", ""),
            ("/home/sandbox//a", "a"),
            ("/home/sandboxed/a", "/home/sandboxed/a"),
            ("/etc/passwd", "/etc/passwd"),
            ("/home/sandbox/../x", "../x"),
        ] {
            assert_eq!(below_home(&given.into()), expected.into(), "{given}");
        }
    }
}
