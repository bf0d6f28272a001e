//! `run.json`: the container of a sandbox, and which of its runs was seen to its end.
//!
//! Written before a container is created, so that no container is ever without a record.

use super::{
    super::local::{
        files::{self, failed},
        layout::SandboxDir,
    },
    engine::InspectedState,
    limits::{EARLIER_NONCES_MAX, RUN_RECORD_MAX_BYTES},
};
use crate::DriverError;
use serde::{Deserialize, Serialize};
use std::{fs::File, io};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Nonce in the labels of the container.
    pub nonce: String,
    /// Container id, once known.
    pub container: Option<String>,
    /// Start time of the last run that was observed; it identifies the run.
    #[serde(rename = "seen")]
    pub observed_start: Option<String>,
    /// Start time of the run whose end is handled.
    #[serde(rename = "cleared")]
    pub cleared_start: Option<String>,
    /// Boot id of the host when the run was observed.
    #[serde(default)]
    pub boot: Option<String>,
    /// Nonces of earlier containers of this sandbox, newest last.
    #[serde(rename = "older", default)]
    pub earlier_nonces: Vec<String>,
}

impl RunRecord {
    pub fn read(dir: &SandboxDir) -> Result<Option<Self>, DriverError> {
        let bytes = match files::read(&dir.run(), RUN_RECORD_MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read the run record")(error)),
        };
        // Without the record the engine is asked.
        let unknown = |error: serde_json::Error| {
            tracing::warn!(file = %dir.run().display(), %error, "run record is unreadable; asking the container engine");
            Self::default()
        };
        Ok(Some(serde_json::from_slice(&bytes).unwrap_or_else(unknown)))
    }

    /// Writes the record atomically, without fsync.
    pub fn write(&self, dir: &SandboxDir) -> Result<File, DriverError> {
        let bytes = serde_json::to_vec(self).map_err(io::Error::from);
        let written = bytes.and_then(|bytes| files::replace(&dir.run(), &bytes, 0o600));
        written.map_err(failed("write the run record"))
    }

    /// Writes the record and syncs it to disk. Blocks.
    pub fn write_durably(&self, dir: &SandboxDir) -> Result<(), DriverError> {
        let synced = self.write(dir)?.sync_all().and_then(|()| File::open(dir.path())?.sync_all());
        synced.map_err(failed("write the run record"))
    }

    /// The record for the next container. Keeps the nonce of a container whose creation was interrupted: it
    /// may still appear.
    pub fn for_next_container(old: Option<Self>) -> Self {
        match old {
            Some(run) if run.container.is_none() && !run.nonce.is_empty() => run,
            old => {
                let nonce = ulid::Ulid::generate().to_string().to_ascii_lowercase();
                let old = old.unwrap_or_default();
                let mut earlier_nonces = old.earlier_nonces;
                earlier_nonces.push(old.nonce);
                earlier_nonces.retain(|nonce| !nonce.is_empty());
                earlier_nonces.drain(..earlier_nonces.len().saturating_sub(EARLIER_NONCES_MAX));
                Self { nonce, earlier_nonces, ..Self::default() }
            }
        }
    }

    /// Whether a container with this nonce is the current one. When the record was lost, authentic labels
    /// suffice.
    pub fn has_nonce(&self, nonce: &str) -> bool {
        self.nonce == nonce || self.nonce.is_empty()
    }

    /// Whether this state is of the run that was observed.
    pub fn is_observed_start(&self, state: &InspectedState) -> bool {
        self.observed_start.as_ref() == Some(&state.started_at)
    }

    /// Whether the last observed run has an end that is not handled yet.
    pub fn has_uncleared_start(&self) -> bool {
        self.observed_start.is_some() && self.observed_start != self.cleared_start
    }

    pub fn has_cleared(&self, started_at: &str) -> bool {
        self.cleared_start.as_deref() == Some(started_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::layout::Layout;

    /// `run.json` outlives hostd: a field of another name would lose the container.
    #[test]
    fn the_stored_form_keeps_its_names() {
        let record = RunRecord {
            nonce: "n".into(),
            container: Some("c".into()),
            observed_start: Some("s".into()),
            cleared_start: Some("e".into()),
            boot: Some("b".into()),
            earlier_nonces: vec!["o".into()],
        };
        let stored = r#"{"nonce":"n","container":"c","seen":"s","cleared":"e","boot":"b","older":["o"]}"#;
        assert_eq!(serde_json::to_string(&record).expect("JSON"), stored);
        assert_eq!(serde_json::from_str::<RunRecord>(stored).expect("a record"), record);
    }

    #[test]
    fn a_nonce_is_used_until_a_container_has_it_and_remembered_then() {
        let first = RunRecord::for_next_container(None);
        assert_eq!(
            RunRecord::for_next_container(Some(first.clone())),
            first,
            "its container may still come to be"
        );
        let made = |run: RunRecord| RunRecord { container: Some("c".into()), ..run };
        let second = RunRecord::for_next_container(Some(made(first.clone())));
        assert!(second.nonce != first.nonce && second.earlier_nonces == [first.nonce.as_str()]);
        let last = (0..20).fold(second, |run, _| RunRecord::for_next_container(Some(made(run))));
        assert_eq!(last.earlier_nonces.len(), EARLIER_NONCES_MAX);
    }

    #[test]
    fn with_an_unreadable_record_the_engine_decides() {
        let temp = tempfile::tempdir().expect("a directory");
        let id = "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id");
        let dir = Layout::new(temp.path().to_owned(), "docker").sandbox(&id);
        std::fs::create_dir_all(dir.path()).expect("made");
        assert_eq!(RunRecord::read(&dir).expect("nothing there"), None);
        std::fs::write(dir.run(), "{\"nonce\":").expect("written");
        let run = RunRecord::read(&dir).expect("read").expect("there");
        assert!(run.has_nonce("anything") && !run.has_uncleared_start());
        assert!(!RunRecord::for_next_container(Some(run)).nonce.is_empty());
    }
}
