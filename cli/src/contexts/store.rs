//! Reads and changes the files of contexts. A change is one rename: it is there as a whole, or not at all, also when
//! the command is killed. Two changes at once wait for each other.

use super::{
    ContextName, ContextsError, SavedContexts, directory,
    private_file::{self, Secrecy},
};
use crate::limits;
use nix::libc;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

const CONTEXTS: &str = "contexts.toml";
const LOCK: &str = "contexts.lock";
const TOKENS: &str = "tokens";

pub struct ContextStore {
    directory: PathBuf,
}

/// A token that gets a file of its own.
pub struct NewToken<'a> {
    pub name: &'a ContextName,
    pub text: &'a str,
}

impl ContextStore {
    /// Finds the directory by the environment.
    pub fn locate() -> Result<Self, ContextsError> {
        Ok(Self { directory: directory::locate()? })
    }

    #[cfg(test)]
    pub fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub fn load(&self) -> Result<SavedContexts, ContextsError> {
        if !directory::check(&self.directory)? {
            return Ok(SavedContexts::default());
        }
        let path = self.directory.join(CONTEXTS);
        match private_file::read(&path, Secrecy::Public, limits::CONTEXTS_MAX_BYTES)? {
            Some(text) => SavedContexts::parse(&text).map_err(|why| ContextsError::Invalid { path, why }),
            None => Ok(SavedContexts::default()),
        }
    }

    /// Reads a token file of a context.
    pub fn token(&self, file: &str) -> Result<String, ContextsError> {
        let tokens = self.directory.join(TOKENS);
        let path = tokens.join(file);
        directory::check(&tokens)?;
        let text = private_file::read(&path, Secrecy::Secret, limits::SECRET_MAX_BYTES)?;
        Ok(text.ok_or(ContextsError::NoToken(path))?.trim().to_owned())
    }

    /// Changes the contexts. `token` is written first; `change` gets the name of its file. Token files that no context
    /// uses any more are removed, also those that a killed command left.
    pub fn update<T>(
        &self,
        token: Option<NewToken<'_>>,
        change: impl FnOnce(&mut SavedContexts, Option<String>) -> Result<T, ContextsError>,
    ) -> Result<T, ContextsError> {
        let tokens = self.directory.join(TOKENS);
        directory::prepare(&self.directory)?;
        directory::prepare(&tokens)?;
        let _lock = directory::lock(&self.directory.join(LOCK))?;
        let mut saved = self.load()?;
        let file = token.map(|token| write_token(&tokens, &token)).transpose()?;
        let changed = change(&mut saved, file).and_then(|changed| {
            let path = self.directory.join(CONTEXTS);
            replace(&path, saved.print().as_bytes())?;
            Ok(changed)
        });
        // After a failure the old contexts are in force.
        let in_force = if changed.is_ok() { saved } else { self.load()? };
        remove_unused(&tokens, &in_force);
        changed
    }
}

/// Writes a token to a new file, and returns its name.
fn write_token(tokens: &Path, token: &NewToken<'_>) -> Result<String, ContextsError> {
    let file = format!("{}.{}", token.name, ulid::Ulid::generate());
    let path = tokens.join(&file);
    write_new(&path, format!("{}\n", token.text).as_bytes()).map_err(|source| ContextsError::Io {
        doing: "write",
        path,
        source,
    })?;
    Ok(file)
}

/// Replaces a file as a whole. The caller holds the lock, so no other command writes the partial file beside it.
fn replace(path: &Path, content: &[u8]) -> Result<(), ContextsError> {
    let write = || -> io::Result<()> {
        let partial = path.with_extension("toml.new");
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        write_new(&partial, content)?;
        fs::rename(&partial, path)?;
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    write().map_err(|source| ContextsError::Io { doing: "write", path: path.to_owned(), source })
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file =
        options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Removes token files that no context uses. Errors are ignored: the next change tries again.
fn remove_unused(tokens: &Path, saved: &SavedContexts) {
    for entry in fs::read_dir(tokens).into_iter().flatten().flatten() {
        let used = entry.file_name().to_str().is_some_and(|file| saved.uses_token_file(file));
        if !used {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
