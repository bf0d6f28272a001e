//! The verbs on the files of a workspace, between hostd and their performer: a thread of hostd, or a process of
//! runtimed inside the sandbox. One request, the bytes of its body, one reply, the bytes that follow it.
//!
//! A path is bytes, relative to the top of the workspace.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::fmt::{self, Write};

/// A path of the workspace as its bytes; percent-encoded where it is text.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilePath(pub Vec<u8>);

impl FilePath {
    /// The path percent-encoded: letters, digits and `-._~/` as they are.
    pub fn encoded(&self) -> String {
        let mut text = String::with_capacity(self.0.len());
        for byte in &self.0 {
            if byte.is_ascii_alphanumeric() || b"-._~/".contains(byte) {
                text.push(char::from(*byte));
            } else {
                let _ = write!(text, "%{byte:02X}");
            }
        }
        text
    }

    /// Decodes percent-encoded text; `None` where a `%` is not followed by two hexadecimal digits.
    pub fn decode(text: &str) -> Option<Self> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let [first, tail @ ..] = rest {
            rest = tail;
            if *first != b'%' {
                bytes.push(*first);
                continue;
            }
            let [high, low, tail @ ..] = rest else { return None };
            let digit = |byte: u8| char::from(byte).to_digit(16);
            bytes.push(u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()?);
            rest = tail;
        }
        Some(Self(bytes))
    }

    /// The path as text for people.
    pub fn lossy(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.lossy())
    }
}

impl From<&str> for FilePath {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl Serialize for FilePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.encoded())
    }
}

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::decode(&text).ok_or_else(|| D::Error::custom("a path that is not percent-encoded"))
    }
}

/// Where the paths of a request begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesTop {
    #[default]
    Workspace,
    /// The root directory of the sandbox, as its user sees it. Only a process inside can open it.
    Root,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum FilesRequest {
    Stat {
        path: FilePath,
        /// Whether a link at the end of the path is followed.
        follow: bool,
    },
    List(ListRequest),
    /// The content follows the reply.
    Read {
        path: FilePath,
        range: Option<ByteRange>,
        /// Without content, where the file still has one of these tags.
        unless_etag: Vec<String>,
    },
    /// The body is the content.
    Write(WriteRequest),
    Delete {
        path: FilePath,
        recursive: bool,
        if_match: Option<Vec<String>>,
    },
    Mkdir {
        path: FilePath,
        mode: Option<u32>,
    },
    Move {
        from: FilePath,
        to: FilePath,
        overwrite: bool,
    },
    Copy {
        from: FilePath,
        to: FilePath,
        overwrite: bool,
    },
    /// Copies the content of a directory into another, beside what is there. A file that is in the way is kept under
    /// another name. `.git` is left out.
    Install {
        from: FilePath,
        to: FilePath,
    },
    /// The body is a JSON array of [`ManyFile`].
    WriteMany,
    /// The archive follows the reply.
    Pack {
        path: FilePath,
        format: ArchiveFormat,
        select: Selection,
    },
    /// The body is the archive.
    Unpack {
        path: FilePath,
        format: ArchiveFormat,
    },
    Search(SearchRequest),
    /// Lines of [`WatchLine`] follow the reply, until the caller hangs up.
    Watch {
        path: FilePath,
        recursive: bool,
    },
}

impl FilesRequest {
    /// Whether the verb makes the workspace larger.
    pub fn adds_content(&self) -> bool {
        match self {
            Self::Write(_)
            | Self::Mkdir { .. }
            | Self::Copy { .. }
            | Self::Install { .. }
            | Self::WriteMany
            | Self::Unpack { .. } => true,
            Self::Stat { .. }
            | Self::List(_)
            | Self::Read { .. }
            | Self::Delete { .. }
            | Self::Move { .. }
            | Self::Pack { .. }
            | Self::Search(_)
            | Self::Watch { .. } => false,
        }
    }

    /// Whether the verb may change the size of the workspace, in either direction.
    pub fn changes_content(&self) -> bool {
        self.adds_content() || matches!(self, Self::Delete { .. } | Self::Move { .. })
    }
}

/// Which entries of a tree are visited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Whether `.gitignore` and `.ignore` files apply, and `.git` is left out.
    pub ignore: bool,
    /// Globs of paths, relative to the top of the visit, that are left out.
    pub exclude: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRequest {
    pub path: FilePath,
    /// Levels below `path`; 1 is its own entries.
    pub depth: u32,
    pub limit: usize,
    /// The last path of the previous page.
    pub after: Option<FilePath>,
    pub select: Selection,
}

/// Bytes of a file, as `Range` names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ByteRange {
    /// From here to the last byte that is wanted, or to the end.
    From { first: u64, last: Option<u64> },
    /// This many bytes at the end.
    Suffix { bytes: u64 },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteRequest {
    pub path: FilePath,
    /// Permissions; those of the replaced file, else 0644.
    pub mode: Option<u32>,
    pub how: WriteMode,
    /// Only where the file has one of these tags; `*` is any file.
    pub if_match: Option<Vec<String>>,
    /// A larger body is refused.
    pub max_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    #[default]
    Replace,
    /// Only where there is nothing yet.
    Create,
    Append,
}

/// One of many files to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManyFile {
    pub path: FilePath,
    /// In base64.
    pub content: String,
    pub mode: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArchiveFormat {
    Tar,
    TarGz,
    Zip,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchRequest {
    pub path: FilePath,
    /// A glob of the name, or of the path where it has a `/`.
    pub name: Option<String>,
    /// A regular expression that a line matches.
    pub content: Option<String>,
    pub ignore_case: bool,
    /// Whether names that begin with a dot are visited.
    pub hidden: bool,
    pub limit: usize,
    pub select: Selection,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum FilesReply {
    Entry {
        entry: FileEntry,
        /// Whether it was not there before.
        created: bool,
    },
    Page {
        items: Vec<FileEntry>,
        /// Whether there are entries after these.
        more: bool,
    },
    /// `bytes` of content from `first` on follow.
    Content {
        entry: FileEntry,
        first: u64,
        bytes: u64,
    },
    NotModified {
        entry: FileEntry,
    },
    Done,
    Written {
        files: usize,
    },
    /// The archive follows.
    Archive,
    Unpacked(UnpackReport),
    Installed(InstallReport),
    Found {
        items: Vec<SearchMatch>,
        /// Why there may be more.
        truncated: Option<String>,
    },
    Watching,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileType {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    Device,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    pub path: FilePath,
    pub kind: FileType,
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    pub links: u64,
    pub modified: FileTime,
    /// Changes whenever content or metadata do.
    pub etag: String,
    /// Where a symbolic link points to.
    pub target: Option<FilePath>,
    /// As the sandbox has it; absent where another namespace looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<FileOwner>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileOwner {
    pub uid: u32,
    pub gid: u32,
}

/// A time of a file, since the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTime {
    pub seconds: i64,
    pub nanos: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpackReport {
    pub files: u64,
    pub directories: u64,
    pub symlinks: u64,
    pub bytes: u64,
    /// The first entries that were left out.
    pub skipped: Vec<SkippedEntry>,
    pub skipped_count: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallReport {
    /// Files and links that were copied. Those that were there already with the same content do not count.
    pub files: u64,
    /// The first names under which files that were in the way are kept.
    pub kept: Vec<FilePath>,
    pub kept_count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedEntry {
    pub path: FilePath,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchMatch {
    pub path: FilePath,
    pub kind: FileType,
    pub size: u64,
    pub line: Option<LineMatch>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineMatch {
    /// From 1.
    pub number: u64,
    /// Bytes before the match, from 1.
    pub column: u64,
    /// The line, cut where it is long; bytes that are not UTF-8 replaced.
    pub text: String,
}

/// A change of the workspace, a line of JSON each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum WatchLine {
    /// Changes from now on are reported.
    Ready,
    Change(FileChangeEvent),
    /// Changes were lost: list again. Later changes are reported.
    Overflow {
        reason: String,
    },
    /// Nothing happened for a while.
    Idle,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChangeEvent {
    pub change: FileChangeKind,
    pub path: FilePath,
    pub directory: bool,
    /// Of a move within the watched tree.
    pub from: Option<FilePath>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    Created,
    Modified,
    Deleted,
    Moved,
}

/// Why a verb was not performed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesFailure {
    pub code: FilesErrorCode,
    pub message: String,
    pub path: Option<FilePath>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesErrorCode {
    InvalidRequest,
    NotFound,
    Exists,
    NotAFile,
    NotADirectory,
    NotEmpty,
    /// The path, or a link on it, leads out of the workspace.
    Outside,
    AccessDenied,
    PreconditionFailed,
    RangeNotSatisfiable,
    TooLarge,
    TooMany,
    DiskFull,
    TimedOut,
    Unsupported,
    /// The caller's body ended early.
    BodyCut,
    Internal,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_the_same_after_its_text() {
        for bytes in [&b"a/b c.txt"[..], b"", b"\xff\xfe/%41", "ü/é".as_bytes(), b"a+b&c=d?e#f"] {
            let path = FilePath(bytes.to_vec());
            assert_eq!(FilePath::decode(&path.encoded()), Some(path.clone()), "{}", path.encoded());
            let json = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<FilePath>(&json).unwrap(), path);
        }
        for wrong in ["%", "%4", "%zz", "a%4g"] {
            assert_eq!(FilePath::decode(wrong), None, "{wrong}");
        }
    }
}
