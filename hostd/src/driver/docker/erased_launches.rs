//! Launches whose sandbox is gone: an engine that was slow may still make their container, also after hostd
//! began anew.

use super::{
    super::local::files::{self, failed},
    limits::{ERASED_MAX, ERASED_MAX_BYTES},
};
use crate::driver::DriverError;
use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

pub struct ErasedLaunches {
    /// One number in each line.
    file: PathBuf,
    nonces: Mutex<VecDeque<String>>,
}

impl ErasedLaunches {
    /// A file that cannot be read is as good as none: its containers would be listed as stale.
    pub fn open(file: PathBuf) -> Self {
        let text = files::read_text(&file, ERASED_MAX_BYTES).unwrap_or_default();
        let nonces = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        Self { file, nonces: Mutex::new(nonces) }
    }

    /// `may_come` when it is not known whether the engine made its container.
    pub fn remember(&self, nonce: &str, may_appear: bool) -> Result<(), DriverError> {
        let mut nonces = self.nonces();
        if nonce.is_empty() || nonces.iter().any(|known| known == nonce) {
            return Ok(());
        }
        if nonces.len() >= ERASED_MAX {
            nonces.pop_front();
        }
        nonces.push_back(nonce.to_owned());
        if !may_appear {
            return Ok(());
        }
        let lines: String = nonces.iter().map(|nonce| format!("{nonce}\n")).collect();
        let written = files::replace(&self.file, lines.as_bytes(), 0o600);
        written.map(drop).map_err(failed("write which containers may still come"))
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
    fn what_may_still_come_is_known_to_the_next_hostd() {
        let temp = tempfile::tempdir().expect("a directory");
        let open = || ErasedLaunches::open(temp.path().join("erased"));
        let erased = open();
        erased.remember("a", false).expect("remembered");
        assert!(erased.contains("a") && !open().contains("a"), "its container was there, and is gone");
        for number in 0..1_200 {
            erased.remember(&number.to_string(), number % 100 == 0).expect("remembered");
        }
        let again = open();
        assert!(again.contains("1100") && !again.contains("0"), "only so many");
    }
}
