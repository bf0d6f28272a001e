//! Launches of destroyed sandboxes. A slow engine may still create their container, also after hostd restarted.

use super::{
    super::local::files::{self, failed},
    limits::{DESTROYED_MAX, DESTROYED_MAX_BYTES},
};
use crate::DriverError;
use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

pub struct DestroyedLaunches {
    /// One nonce in each line.
    file: PathBuf,
    nonces: Mutex<VecDeque<String>>,
}

impl DestroyedLaunches {
    /// Reads the file; an unreadable one counts as empty, and its containers would be listed as stale.
    pub fn open(file: PathBuf) -> Self {
        let text = files::read_text(&file, DESTROYED_MAX_BYTES).unwrap_or_default();
        let nonces = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        Self { file, nonces: Mutex::new(nonces) }
    }

    /// Remembers an destroyed launch; on disk only if `may_appear`, that is if the engine may not have created
    /// its container yet.
    pub fn remember(&self, nonce: &str, may_appear: bool) -> Result<(), DriverError> {
        let mut nonces = self.nonces();
        if nonce.is_empty() || nonces.iter().any(|known| known == nonce) {
            return Ok(());
        }
        if nonces.len() >= DESTROYED_MAX {
            nonces.pop_front();
        }
        nonces.push_back(nonce.to_owned());
        if !may_appear {
            return Ok(());
        }
        let lines: String = nonces.iter().map(|nonce| format!("{nonce}\n")).collect();
        let written = files::replace(&self.file, lines.as_bytes(), 0o600);
        written.map(drop).map_err(failed("write the list of destroyed launches"))
    }

    pub fn contains(&self, nonce: &str) -> bool {
        self.nonces().iter().any(|known| known == nonce)
    }

    fn nonces(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.nonces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_launches_are_known_to_the_next_hostd() {
        let temp = tempfile::tempdir().expect("a directory");
        let open = || DestroyedLaunches::open(temp.path().join("erased"));
        let destroyed = open();
        destroyed.remember("a", false).expect("remembered");
        assert!(destroyed.contains("a") && !open().contains("a"), "its container was there, and is gone");
        for number in 0..1_200 {
            destroyed.remember(&number.to_string(), number % 100 == 0).expect("remembered");
        }
        let again = open();
        assert!(again.contains("1100") && !again.contains("0"), "only so many");
    }
}
