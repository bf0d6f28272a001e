//! The files of a sandbox's workspace. Paths are relative to `/home/sandbox`.

use super::SandboxId;
use crate::files::FileType;
use serde::{Deserialize, Serialize};

/// A file, directory or link of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileView {
    /// Relative to `/home/sandbox`. Bytes that are not UTF-8 are replaced; `path_base64` has them.
    pub path: String,
    /// The path where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    #[serde(rename = "type")]
    pub kind: FileType,
    pub size: u64,
    /// Permissions in octal, as in `0644`.
    pub mode: String,
    /// Names that the file has in the workspace.
    pub links: u64,
    pub modified_at: String,
    /// Changes with content and metadata; for `If-Match` and `If-None-Match`.
    pub etag: String,
    /// Where a symbolic link points to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The owner as programs of the sandbox see it; absent where hostd read the files itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

/// A page of a directory or tree, a directory before its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FilePage {
    pub items: Vec<FileView>,
    /// Pass it as `after` to get the next page.
    pub next: Option<String>,
}

/// Files to write, each at once and with its parents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WriteFiles {
    pub files: Vec<WriteFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WriteFile {
    pub path: String,
    pub content: String,
    #[serde(default)]
    pub encoding: ContentEncoding,
    /// Permissions in octal; those of the replaced file, else `0644`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// How content is written as text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ContentEncoding {
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    #[serde(rename = "base64")]
    Base64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FilesWritten {
    /// How many files were written.
    pub updated: usize,
}

/// What an archive was unpacked to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnpackView {
    pub files: u64,
    pub directories: u64,
    pub symlinks: u64,
    pub bytes: u64,
    /// The first entries that were left out.
    pub skipped: Vec<SkippedView>,
    /// All entries that were left out.
    pub skipped_count: u64,
}

/// An entry of an archive that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SkippedView {
    pub path: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SearchView {
    pub items: Vec<SearchMatchView>,
    /// Whether there may be more.
    pub truncated: bool,
    /// Why the search ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A file whose name matches, or a line of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SearchMatchView {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    #[serde(rename = "type")]
    pub kind: FileType,
    pub size: u64,
    /// The number of the line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The byte of the line where the match begins, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// The line, cut where it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The data of a watch event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileChangeView {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Whether it is, or was, a directory.
    pub directory: bool,
    /// Where a moved path was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// A URL to create that reads or writes one file without a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FileLinkCreate {
    pub method: FileLinkMethod,
    /// Relative to `/home/sandbox`.
    pub path: String,
    /// Lifetime, as `90s`, `15m`, `4h` or `7d`, at most `7d`; default: 15 minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// Bytes of the largest upload; default: 1 GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FileLinkMethod {
    #[serde(rename = "GET")]
    Get,
    #[serde(rename = "PUT")]
    Put,
}

impl FileLinkMethod {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
        }
    }
}

/// A signed URL, without its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileLinkView {
    pub id: String,
    pub sandbox_id: SandboxId,
    pub method: FileLinkMethod,
    pub path: String,
    pub max_bytes: u64,
    /// Principal that created the URL.
    pub created_by: String,
    pub created_at: String,
    pub expires_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
}

/// A created URL. Only this response contains its signature.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileLinkCreated {
    #[serde(flatten)]
    pub view: FileLinkView,
    /// The URL, by the `Host` of the request; on the Unix socket only its path and query.
    pub url: String,
}
