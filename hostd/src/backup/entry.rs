//! The entries of a backup: their names, of which there are no others, and the lists at its beginning and its end.

use protocol::api::{BackupSummary, SandboxId, SnapshotId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// The format of backups that this hostd writes, and the only one that it reads.
pub const FORMAT: u32 = 1;

/// An entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryName {
    Manifest,
    Database,
    Key(KeyFile),
    Setting(SettingFile),
    /// A part of the files of a sandbox or a snapshot, counted from 0.
    Part(Tree, u64),
    End,
}

/// A key that seals credentials in the database. The other keys of a host are made anew when it is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFile {
    Models,
    Secrets,
}

/// A file of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingFile {
    /// The configuration file as it is written.
    Toml,
    /// Every key with the value that was in force.
    Values,
    ApiCertificate,
    ApiKey,
    PreviewCertificate,
    PreviewKey,
}

/// Whose files they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tree {
    Sandbox(SandboxId),
    Snapshot(SnapshotId),
}

impl KeyFile {
    pub const ALL: [Self; 2] = [Self::Models, Self::Secrets];

    /// Its name in a data directory.
    pub fn name(self) -> &'static str {
        match self {
            Self::Models => "models.key",
            Self::Secrets => "secrets.key",
        }
    }
}

impl SettingFile {
    pub const ALL: [Self; 6] = [
        Self::Toml,
        Self::Values,
        Self::ApiCertificate,
        Self::ApiKey,
        Self::PreviewCertificate,
        Self::PreviewKey,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Toml => "slipway.toml",
            Self::Values => "values.json",
            Self::ApiCertificate => "api-cert.pem",
            Self::ApiKey => "api-key.pem",
            Self::PreviewCertificate => "preview-cert.pem",
            Self::PreviewKey => "preview-key.pem",
        }
    }
}

impl Tree {
    /// The id of the sandbox or the snapshot.
    pub fn id(&self) -> &str {
        match self {
            Self::Sandbox(id) => id.as_str(),
            Self::Snapshot(id) => id.as_str(),
        }
    }
}

const KEYS: &str = "keys/";
const SETTINGS: &str = "configuration/";
const SANDBOXES: &str = "sandboxes/";
const SNAPSHOTS: &str = "snapshots/";

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest => f.write_str("manifest.json"),
            Self::Database => f.write_str("slipway.db"),
            Self::Key(file) => write!(f, "{KEYS}{}", file.name()),
            Self::Setting(file) => write!(f, "{SETTINGS}{}", file.name()),
            Self::Part(Tree::Sandbox(id), number) => write!(f, "{SANDBOXES}{id}/{number}"),
            Self::Part(Tree::Snapshot(id), number) => write!(f, "{SNAPSHOTS}{id}/{number}"),
            Self::End => f.write_str("end.json"),
        }
    }
}

impl EntryName {
    /// Parses a name as it is written, and no other spelling of it.
    pub fn parse(name: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(name).ok()?;
        let found = match text {
            "manifest.json" => Self::Manifest,
            "slipway.db" => Self::Database,
            "end.json" => Self::End,
            _ => Self::parse_below(text)?,
        };
        (found.to_string() == text).then_some(found)
    }

    fn parse_below(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix(KEYS) {
            return KeyFile::ALL.into_iter().find(|file| file.name() == name).map(Self::Key);
        }
        if let Some(name) = text.strip_prefix(SETTINGS) {
            return SettingFile::ALL.into_iter().find(|file| file.name() == name).map(Self::Setting);
        }
        let part = |rest: &str| {
            let (id, number) = rest.split_once('/')?;
            Some((id.to_owned(), number.parse::<u64>().ok()?))
        };
        if let Some(rest) = text.strip_prefix(SANDBOXES) {
            let (id, number) = part(rest)?;
            return Some(Self::Part(Tree::Sandbox(id.parse().ok()?), number));
        }
        let (id, number) = part(text.strip_prefix(SNAPSHOTS)?)?;
        Some(Self::Part(Tree::Snapshot(id.parse().ok()?), number))
    }
}

/// The first entry: what this is. Fields that a reader does not know are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    pub hostd_version: String,
    /// The instance that was backed up; a restored one gets its own.
    pub instance: String,
    /// Of the database.
    pub schema: u32,
    pub created_ms: u64,
    /// What the backup is to hold; the last entry says what it does.
    pub sandboxes: Vec<SandboxId>,
    pub snapshots: Vec<SnapshotId>,
}

/// The last entry. Without it the backup is cut short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The entries before this one, and the hash of their names, sizes and contents.
    pub entries: u64,
    pub sha256: String,
    #[serde(flatten)]
    pub summary: BackupSummary,
}

/// The hash of all entries, in their order.
#[derive(Clone, Default)]
pub struct EntryDigest {
    hash: Sha256,
    entries: u64,
}

impl EntryDigest {
    pub fn begin(&mut self, name: &str, size: u64) {
        self.entries += 1;
        self.hash.update(format!("{name}\n{size}\n"));
    }

    pub fn update(&mut self, content: &[u8]) {
        self.hash.update(content);
    }

    /// Returns the number of entries, and the hash.
    pub fn finish(self) -> (u64, String) {
        (self.entries, hostd_store::identity_files::hex(&self.hash.finalize()))
    }
}
