//! What was the same on both sides, kept in the user's cache directory between runs. Without it nothing is deleted.

use super::tree::{Base, Synced};
use crate::files::WorkspacePath;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use protocol::api::SandboxId;
use serde::{Deserialize, Serialize};
use std::{
    env, fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, BufReader, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

const FORMAT: u32 = 1;

/// The file that keeps the base of one pair of directories.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    pair: Pair,
}

/// The pair that the base belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pair {
    sandbox: String,
    remote: String,
    local: String,
    /// Another file system at the same path is another directory.
    device: u64,
    inode: u64,
    /// The number of a directory that was removed may belong to a new one; its time of birth does not.
    born_ns: Option<u128>,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    format: u32,
    pair: Pair,
    /// Names in base64: they are bytes.
    items: Vec<(String, Synced)>,
}

impl StateFile {
    /// `local` is the canonical path of an existing directory.
    pub fn new(sandbox: SandboxId, remote: &WorkspacePath, local: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(local)?;
        let encoded = |bytes: &[u8]| STANDARD.encode(bytes);
        let pair = Pair {
            sandbox: sandbox.to_string(),
            remote: encoded(remote.as_bytes()),
            local: encoded(local.as_os_str().as_encoded_bytes()),
            device: metadata.dev(),
            inode: metadata.ino(),
            born_ns: metadata
                .created()
                .ok()
                .and_then(|time| Some(time.duration_since(UNIX_EPOCH).ok()?.as_nanos())),
        };
        let mut hasher = DefaultHasher::new();
        (&pair.sandbox, &pair.remote, &pair.local).hash(&mut hasher);
        let name = format!("{}-{:016x}.json", pair.sandbox, hasher.finish());
        Ok(Self { path: cache_directory()?.join("slipway/sync").join(name), pair })
    }

    /// The base; empty where there is none that belongs to this pair.
    pub fn load(&self) -> Base {
        let read = || -> io::Result<Saved> {
            Ok(serde_json::from_reader(BufReader::new(fs::File::open(&self.path)?))?)
        };
        let Ok(saved) = read() else { return Base::new() };
        if saved.format != FORMAT || saved.pair != self.pair {
            return Base::new();
        }
        let decoded = |(name, synced): (String, Synced)| Some((STANDARD.decode(name).ok()?, synced));
        saved.items.into_iter().map(decoded).collect::<Option<Base>>().unwrap_or_default()
    }

    pub fn save(&self, base: &Base) -> io::Result<()> {
        let items = base.iter().map(|(name, synced)| (STANDARD.encode(name), synced.clone())).collect();
        let saved = Saved { format: FORMAT, pair: self.pair.clone(), items };
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut file = crate::files::PartialFile::create(&self.path)?;
        file.write_all(&serde_json::to_vec(&saved)?)?;
        file.finish(&self.path, 0o600)
    }
}

/// `XDG_CACHE_HOME`, or `.cache` in the home directory.
fn cache_directory() -> io::Result<PathBuf> {
    let set = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let missing = || io::Error::new(io::ErrorKind::NotFound, "neither XDG_CACHE_HOME nor HOME is set");
    set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache"))).ok_or_else(missing)
}
