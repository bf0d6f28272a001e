//! The query of a request line. Pure.

use super::route::{ReadFrom, ReadLog, Refusal, TerminalView};
use crate::limits::{REPLAY_DEFAULT_BYTES, TAIL_MAX_BYTES, TAIL_MAX_LINES, WAIT_MAX_MS};
use protocol::{Cursor, ErrorBody, Stream};
use std::collections::BTreeMap;
use std::str::FromStr;

const LIST_MAX: usize = 1000;
const LIST_DEFAULT: usize = 100;

/// The query, in which every parameter must be known: a misspelt name is an error, not a default.
pub(super) struct Query<'a> {
    values: BTreeMap<&'a str, &'a str>,
    /// Names that were looked up; any other is an error.
    asked: std::cell::RefCell<Vec<&'static str>>,
}

impl<'a> Query<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, Refusal> {
        let mut values = BTreeMap::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, "1"));
            if values.insert(name, value).is_some() {
                return Err(Box::new(ErrorBody::invalid(name, "is given twice")));
            }
        }
        Ok(Self { values, asked: std::cell::RefCell::default() })
    }

    pub(super) fn text(&self, name: &'static str) -> Option<&'a str> {
        self.asked.borrow_mut().push(name);
        self.values.get(name).copied()
    }

    pub(super) fn number(
        &self,
        name: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = u64::from_str(text).ok().filter(|n| range.contains(n));
        let must = || format!("must be a number from {} to {}", range.start(), range.end());
        number.map(Some).ok_or_else(|| Box::new(ErrorBody::invalid(name, must())))
    }

    pub(super) fn flag(&self, name: &'static str, default: bool) -> Result<bool, Refusal> {
        match self.text(name) {
            None => Ok(default),
            Some("1" | "true") => Ok(true),
            Some("0" | "false") => Ok(false),
            Some(_) => Err(Box::new(ErrorBody::invalid(name, "must be 1, true, 0 or false"))),
        }
    }

    pub(super) fn cursor(&self, name: &'static str) -> Result<Option<Cursor>, Refusal> {
        let parse = |text: &str| {
            text.parse().map_err(|e: protocol::BadCursor| Box::new(ErrorBody::invalid(name, e.to_string())))
        };
        self.text(name).map(parse).transpose()
    }

    pub(super) fn limit(&self) -> Result<usize, Refusal> {
        Ok(self.number("limit", 1..=LIST_MAX as u64)?.map_or(LIST_DEFAULT, |n| n as usize))
    }

    pub(super) fn wait(&self) -> Result<Option<u64>, Refusal> {
        self.number("wait_ms", 0..=WAIT_MAX_MS)
    }

    pub(super) fn view(&self) -> Result<TerminalView, Refusal> {
        let replay = self.number("replay", 0..=TAIL_MAX_BYTES)?;
        let from = match (self.number("after", 0..=u64::MAX)?, replay) {
            (Some(_), Some(_)) => {
                return Err(Box::new(ErrorBody::invalid("after", "give one of after and replay")));
            }
            (Some(at), None) => ReadFrom::After(at),
            (None, replay) => ReadFrom::Last(replay.unwrap_or(REPLAY_DEFAULT_BYTES)),
        };
        Ok(TerminalView { from, skips: self.flag("skip", true)? })
    }

    pub(super) fn log(&self) -> Result<ReadLog, Refusal> {
        let after = self.number("after", 0..=u64::MAX)?.map(ReadFrom::After);
        let lines = self.number("tail", 0..=TAIL_MAX_LINES as u64)?.map(|n| ReadFrom::Lines(n as usize));
        let last = self.number("last", 0..=u64::MAX)?.map(ReadFrom::Last);
        let mut given = [after, lines, last].into_iter().flatten();
        let from = given.next().unwrap_or_default();
        if given.next().is_some() {
            return Err(Box::new(ErrorBody::invalid("after", "give one of after, tail and last")));
        }
        let stream = match self.text("stream") {
            None | Some("all") => None,
            Some("stdout") => Some(Stream::Stdout),
            Some("stderr") => Some(Stream::Stderr),
            Some(_) => return Err(Box::new(ErrorBody::invalid("stream", "must be all, stdout or stderr"))),
        };
        Ok(ReadLog { from, follow: self.flag("follow", false)?, stream })
    }

    pub(super) fn done(&self) -> Result<(), Refusal> {
        let asked = self.asked.borrow();
        let unknown = self.values.keys().find(|name| !asked.contains(*name));
        unknown.map_or(Ok(()), |name| {
            Err(Box::new(ErrorBody::invalid(*name, "is not a parameter of this request")))
        })
    }
}
