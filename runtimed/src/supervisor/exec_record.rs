//! Records of execs on disk: one file for all of them, with a line when an exec starts and one when it ends.
//! A start without an end, found at boot, is an exec that was lost with the sandbox. Never holds environment
//! variables.
//!
//! Space for the next lines is reserved beforehand, so that a full disk does not prevent a command from being
//! recorded, and so from running: it may be the one that frees space.

use crate::log::ReservedSpace;
use protocol::{Cursor, ExecId, Exit, Hint};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecStart {
    pub id: ExecId,
    pub argv: Vec<String>,
    pub cwd: String,
    pub tty: bool,
    pub started_ms: u64,
    /// Hash of the request, to tell a repeated request from another one with the same id.
    pub fingerprint: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecEnd {
    pub exit: Exit,
    pub hints: Vec<Hint>,
    pub ended_ms: u64,
    pub duration_ms: u64,
    pub output_end: u64,
    /// Cursor of the event that reports this end. A boot that finds the record without the event died between
    /// the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Cursor>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordLine<'a> {
    Start(std::borrow::Cow<'a, ExecStart>),
    End { id: std::borrow::Cow<'a, ExecId>, end: std::borrow::Cow<'a, ExecEnd> },
}

/// An exec as recorded in the file.
pub type RecordedExec = (ExecStart, Option<ExecEnd>);

pub struct Records {
    path: PathBuf,
    file: File,
    bytes: u64,
    reserved: ReservedSpace,
    /// Size at which the file is rewritten with the records still needed.
    rewrite_at: u64,
}

/// The file is rewritten when it has this size and has doubled since the last rewrite.
const REWRITE_MIN_BYTES: u64 = 2 << 20;

impl Records {
    /// Opens the file and reads its records. Lines that cannot be read are skipped.
    pub fn open(path: &Path) -> io::Result<(Self, Vec<RecordedExec>)> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let known = parse(&bytes);
        let file = append_to(path)?;
        let mut records =
            Self { path: path.to_owned(), file, bytes: 0, reserved: ReservedSpace::default(), rewrite_at: 0 };
        if let Err(error) = records.rewrite(known.iter().map(|(start, end)| (start, end.as_ref()))) {
            tracing::warn!(%error, "failed to rewrite exec records; appending to the old file");
            records.go_on_after(&bytes)?;
        }
        Ok((records, known))
    }

    /// Continues in the existing file, without a torn line at its end: a full disk must not prevent booting.
    fn go_on_after(&mut self, bytes: &[u8]) -> io::Result<()> {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        if whole < bytes.len() {
            self.file.set_len(whole as u64)?;
        }
        self.bytes = whole as u64;
        self.rewrite_at = (2 * self.bytes).max(REWRITE_MIN_BYTES);
        self.reserved.extend(&self.file, self.bytes);
        Ok(())
    }

    pub fn start(&mut self, start: &ExecStart) -> io::Result<()> {
        self.append(&RecordLine::Start(std::borrow::Cow::Borrowed(start)))
    }

    pub fn end(&mut self, id: &ExecId, end: &ExecEnd) -> io::Result<()> {
        let (id, end) = (std::borrow::Cow::Borrowed(id), std::borrow::Cow::Borrowed(end));
        self.append(&RecordLine::End { id, end })
    }

    pub fn wants_rewrite(&self) -> bool {
        self.bytes >= self.rewrite_at
    }

    /// Rewrites the file with only these records. The old file stays until the new one is complete.
    pub fn rewrite<'a>(
        &mut self,
        kept: impl Iterator<Item = (&'a ExecStart, Option<&'a ExecEnd>)>,
    ) -> io::Result<()> {
        let mut text = Vec::new();
        for (start, end) in kept {
            write_line(&mut text, &RecordLine::Start(std::borrow::Cow::Borrowed(start)))?;
            if let Some(end) = end {
                let (id, end) = (std::borrow::Cow::Borrowed(&start.id), std::borrow::Cow::Borrowed(end));
                write_line(&mut text, &RecordLine::End { id, end })?;
            }
        }
        let fresh = self.path.with_extension("new");
        if let Err(error) = std::fs::write(&fresh, &text).and_then(|()| std::fs::rename(&fresh, &self.path)) {
            // An incomplete file would only take space.
            let _ = std::fs::remove_file(&fresh);
            return Err(error);
        }
        self.file = append_to(&self.path)?;
        self.bytes = text.len() as u64;
        self.rewrite_at = (2 * self.bytes).max(REWRITE_MIN_BYTES);
        self.reserved = ReservedSpace::default();
        self.reserved.extend(&self.file, self.bytes);
        Ok(())
    }

    fn append(&mut self, line: &RecordLine<'_>) -> io::Result<()> {
        let mut text = Vec::new();
        write_line(&mut text, line)?;
        if let Err(error) = self.file.write_all(&text) {
            // Half a line would make the next one unreadable.
            let _ = self.file.set_len(self.bytes);
            self.reserved = ReservedSpace::default();
            return Err(error);
        }
        self.bytes += text.len() as u64;
        self.reserved.extend(&self.file, self.bytes);
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn write_line(text: &mut Vec<u8>, line: &RecordLine<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *text, line)?;
    text.push(b'\n');
    Ok(())
}

fn parse(bytes: &[u8]) -> Vec<RecordedExec> {
    let mut known: BTreeMap<ExecId, RecordedExec> = BTreeMap::new();
    for line in
        bytes.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice::<RecordLine<'_>>(line).ok())
    {
        match line {
            RecordLine::Start(start) => drop(known.insert(start.id.clone(), (start.into_owned(), None))),
            RecordLine::End { id, end } => {
                if let Some((_, slot)) = known.get_mut(&*id) {
                    *slot = Some(end.into_owned());
                }
            }
        }
    }
    known.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn start(name: &str) -> ExecStart {
        let id = ExecId::parse(name).expect("a good name");
        ExecStart {
            id,
            argv: vec!["true".into()],
            cwd: "/".into(),
            tty: false,
            started_ms: 1,
            fingerprint: 2,
        }
    }

    fn end() -> ExecEnd {
        let exit = Exit::Exited { code: 0 };
        ExecEnd { exit, hints: Vec::new(), ended_ms: 3, duration_ms: 2, output_end: 0, told: None }
    }

    #[test]
    fn what_was_written_is_known_at_the_next_boot() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("execs.log");
        let (mut records, known) = Records::open(&path).expect("a new file");
        assert_eq!(known, []);
        for name in ["a", "b"] {
            records.start(&start(name)).expect("written");
        }
        records.end(&start("a").id, &end()).expect("written");
        let (mut records, known) = Records::open(&path).expect("the same file");
        assert_eq!(known, [(start("a"), Some(end())), (start("b"), None)]);
        records.rewrite(std::iter::once((&start("b"), None))).expect("written anew");
        let (_, known) = Records::open(&path).expect("the same file");
        assert_eq!(known, [(start("b"), None)]);
    }

    #[test]
    fn a_torn_or_damaged_line_costs_only_itself() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("execs.log");
        let (mut records, _) = Records::open(&path).expect("a new file");
        records.start(&start("a")).expect("written");
        let whole = std::fs::read(&path).expect("readable");
        let damaged = [&b"\xff{}\n"[..], &whole, b"{\"end\":{\"id\":\"zzz\"", &whole[..9]].concat();
        std::fs::write(&path, damaged).expect("writable");
        let (_, known) = Records::open(&path).expect("never fatal");
        assert_eq!(known, [(start("a"), None)]);
    }

    #[test]
    fn a_file_that_cannot_be_written_anew_goes_on_as_it_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("execs.log");
        let (mut records, _) = Records::open(&path).expect("a new file");
        records.start(&start("a")).expect("written");
        let whole = std::fs::read(&path).expect("readable");
        std::fs::write(&path, [&whole, &whole[..9]].concat()).expect("torn");
        // A directory in the way of the new file stands for a full disk.
        std::fs::create_dir(dir.path().join("execs.new")).expect("a directory");
        let (mut records, known) = Records::open(&path).expect("never fatal");
        assert_eq!(known, [(start("a"), None)]);
        records.end(&start("a").id, &end()).expect("written");
        let (_, known) = Records::open(&path).expect("never fatal");
        assert_eq!(known, [(start("a"), Some(end()))]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_readable_file(bytes: Vec<u8>) {
            parse(&bytes);
        }
    }
}
