//! The event log: one writer, files of lines, a cursor `(epoch, seq)` for each event.
//!
//! A file is named after the cursor of its first event. Each boot begins a new epoch and a new file. A torn
//! end of the last boot is cut and reported as a `gap`; so are events lost on a full disk, once there is
//! space again. Appending never fails for the caller: an event records what has already happened.

use super::ReservedSpace;
use crate::limits::{EVENT_SEGMENT_MAX_BYTES, EVENTS_MAX_BYTES};
use protocol::log_line::{self, file_name, parse_file_name};
use protocol::{Cursor, Event, Fact};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tokio::sync::watch;

pub struct EventLog {
    dir: PathBuf,
    last: Cursor,
    file: Option<File>,
    file_bytes: u64,
    reserved: ReservedSpace,
    lost_events: u64,
    before: Option<Cursor>,
    published: watch::Sender<Cursor>,
}

impl EventLog {
    /// Opens the log for a new boot. `now_s` only has to exceed the epoch of a log that was lost as a whole,
    /// so that its cursors are not reused.
    pub fn open(dir: &Path, now_s: u64) -> io::Result<(Self, Recovered)> {
        std::fs::create_dir_all(dir)?;
        let files = list(dir)?;
        let recovered = files.last().map_or(Ok(Recovered::default()), |file| recover(dir, *file))?;
        let epoch = files.last().map_or(1, |file| file.epoch + 1).max(now_s);
        let last = Cursor { epoch, seq: 0 };
        let (published, _) = watch::channel(last);
        let log = Self {
            dir: dir.to_owned(),
            last,
            file: None,
            file_bytes: 0,
            reserved: ReservedSpace::default(),
            lost_events: 0,
            before: recovered.last,
            published,
        };
        Ok((log, recovered))
    }

    pub fn epoch(&self) -> u64 {
        self.last.epoch
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The cursor of the next appended event.
    pub fn next(&self) -> Cursor {
        // A pending gap is written first.
        Cursor { seq: self.last.seq + 1 + u64::from(self.lost_events > 0), ..self.last }
    }

    /// The last event of earlier boots; `None` where the log is new.
    pub fn before(&self) -> Option<Cursor> {
        self.before
    }

    /// The cursor of the newest event; a change means that there is more to read.
    pub fn watch(&self) -> watch::Receiver<Cursor> {
        self.published.subscribe()
    }

    pub fn append(&mut self, fact: Fact, time_ms: u64) {
        let kind = fact.kind();
        if let Err(error) = self.record_gap(time_ms).and_then(|()| self.write(fact, time_ms)) {
            // The number is used up all the same, so that the hole is as large as the gap will report.
            self.last.seq += 1;
            self.lost_events += 1;
            tracing::error!(kind, %error, "failed to write event");
        }
        self.published.send_replace(self.last);
    }

    /// Records lost events before the next event.
    fn record_gap(&mut self, time_ms: u64) -> io::Result<()> {
        let lost_events = self.lost_events;
        if lost_events == 0 {
            return Ok(());
        }
        let reason = "the log could not be written".to_owned();
        self.write(Fact::Gap { lost_bytes: 0, lost_events, reason }, time_ms)?;
        self.lost_events = 0;
        Ok(())
    }

    /// Writes one event, and uses the next number if that succeeds.
    fn write(&mut self, fact: Fact, time_ms: u64) -> io::Result<()> {
        let cursor = Cursor { seq: self.last.seq + 1, ..self.last };
        let event = Event { cursor, time_ms, fact };
        let line = log_line::encode(&event)?;
        if self.file_bytes >= EVENT_SEGMENT_MAX_BYTES
            && let Some(full) = self.file.take()
        {
            // Frees reserved space that was not needed.
            let _ = full.set_len(self.file_bytes);
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                self.file_bytes = 0;
                self.reserved = ReservedSpace::default();
                let file = create(&self.dir.join(file_name(event.cursor)))?;
                trim(&self.dir)?;
                none.insert(file)
            }
        };
        if let Err(error) = file.write_all(line.as_bytes()) {
            // Half a line would make the next one unreadable.
            let _ = file.set_len(self.file_bytes);
            self.reserved = ReservedSpace::default();
            return Err(error);
        }
        self.last = cursor;
        self.file_bytes += line.len() as u64;
        self.reserved.extend(file, self.file_bytes);
        Ok(())
    }
}

/// The state of the last boot's log when it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    pub cut_bytes: u64,
    /// The last complete event.
    pub last: Option<Cursor>,
}

/// Cuts a torn end of a file.
fn recover(dir: &Path, first: Cursor) -> io::Result<Recovered> {
    let path = dir.join(file_name(first));
    let bytes = std::fs::read(&path)?;
    let (sound, last) = log_line::sound_prefix(&bytes);
    let cut_bytes = (bytes.len() - sound) as u64;
    if cut_bytes > 0 {
        OpenOptions::new().write(true).open(path)?.set_len(sound as u64)?;
    }
    let before_the_file = Cursor { seq: first.seq.saturating_sub(1), ..first };
    Ok(Recovered { cut_bytes, last: last.or(Some(before_the_file)) })
}

fn create(path: &Path) -> io::Result<File> {
    // Append mode, so that a file cut after a failed write continues at its new end.
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Removes the oldest files until the rest is within bounds; never the newest.
fn trim(dir: &Path) -> io::Result<()> {
    let files = list(dir)?;
    let mut total = 0;
    let newest_first = files.iter().rev().enumerate();
    for (age, first) in newest_first {
        let path = dir.join(file_name(*first));
        total += std::fs::metadata(&path)?.len();
        if age > 0 && total > EVENTS_MAX_BYTES {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// The first cursor of each file, oldest first. Other names are skipped.
pub(super) fn list(dir: &Path) -> io::Result<Vec<Cursor>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            found.extend(entry.file_name().to_str().and_then(parse_file_name));
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests;
