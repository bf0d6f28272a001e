//! Files of sandboxes: the API that serves them, archives, and paths on both sides. Used by `cp`, `files` and `sync`.

mod api;
mod archive_reader;
mod archive_writer;
mod beneath;
mod byte_channel;
mod local_file;
mod transfer;
mod unnamed_file;
mod workspace_path;

pub use api::{FileApi, ListOptions, WriteOptions, joined};
pub use archive_reader::{Unpacked, unpack};
pub use archive_writer::{ArchiveSource, pack, pack_link};
pub use beneath::{Beneath, link_stays_beneath, relative_names};
pub use byte_channel::{ReadError, body_of, body_of_reader, read_body};
pub use local_file::{PARTIAL_PREFIX, PartialFile, open_regular, permissions};
pub use transfer::Transfer;
pub use unnamed_file::UnnamedFile;
pub use workspace_path::{CopyPath, SandboxPath, WorkspacePath, os_name};
