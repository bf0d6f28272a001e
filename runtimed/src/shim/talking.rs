//! What the loop of a shim does for a job that it speaks with.

use super::control::send;
use super::run::Shim;
use super::talk::Note;
use super::wire::{Adoption, Report, TalkReport};
use crate::core::acp::Permit;
use crate::core::job::Input;
use crate::sys::clock::monotonic_ms;
use std::io::Read;
use std::os::fd::OwnedFd;

impl Shim {
    /// Acts on what came of the last words. Called after everything that may have made some.
    pub(super) fn note(&mut self) {
        let Some(talk) = self.pump.talk() else { return };
        let (notes, rotated) = (talk.notes(), talk.has_rotated());
        if rotated {
            send(&self.control, &Report::Rotated { end: self.pump.end() }, None);
        }
        for note in notes {
            match note {
                Note::Report(report) => self.tell(report),
                Note::Waits(waits) => self.step(Input::Waits(waits)),
                Note::Concluded => self.step(Input::Concluded),
            }
        }
    }

    pub(super) fn permit(&mut self, permit: Permit) {
        if let Some(talk) = self.pump.talk() {
            talk.permit(permit);
            self.note();
        }
    }

    /// A task for a job that was started without one. One that is about to end does not take it.
    pub(super) fn adopt(&mut self, descriptor: Option<OwnedFd>) {
        let mut text = Vec::new();
        let Some(mut file) = descriptor.map(std::fs::File::from) else { return };
        if file.read_to_end(&mut text).is_err() {
            return;
        }
        let Ok(Adoption { task, turn, idle_ms, leftovers }) = serde_json::from_slice(&text) else { return };
        let Some(talk) = self.pump.talk() else { return };
        if self.job.adopt(leftovers, idle_ms, monotonic_ms()) {
            send(&self.control, &Report::Talk(TalkReport::Adopted), None);
            talk.adopt(&task, turn);
            self.note();
        }
    }

    fn tell(&self, report: TalkReport) {
        send(&self.control, &Report::Talk(report), None);
    }
}
