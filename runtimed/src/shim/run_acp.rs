//! The part of the shim's loop that serves an ACP conversation.

use super::acp_conversation::ConversationEvent;
use super::control::send;
use super::messages::{Adoption, ConversationReport, Report};
use super::run::Shim;
use crate::core::acp::PermissionDecision;
use crate::core::job::Input;
use crate::sys::clock::monotonic_ms;
use std::io::Read;
use std::os::fd::OwnedFd;

impl Shim {
    /// Acts on events of the conversation. Called after every step that may have caused some.
    pub(super) fn handle_conversation_events(&mut self) {
        let Some(acp) = self.pump.acp() else { return };
        let (pending_events, rotated) = (acp.pending_events(), acp.has_rotated());
        if rotated {
            send(&self.control, &Report::Rotated { end: self.pump.end() }, None);
        }
        for event in pending_events {
            match event {
                ConversationEvent::Report(report) => self.send_report(report),
                ConversationEvent::Waits(waits) => self.step(Input::AwaitsDecision(waits)),
                ConversationEvent::Concluded => self.step(Input::Concluded),
            }
        }
    }

    pub(super) fn permit(&mut self, permit: PermissionDecision) {
        if let Some(acp) = self.pump.acp() {
            acp.permit(permit);
            self.handle_conversation_events();
        }
    }

    /// Gives a task to a job that was started in advance. A job that is about to end does not take it.
    pub(super) fn adopt(&mut self, descriptor: Option<OwnedFd>) {
        let mut text = Vec::new();
        let Some(mut file) = descriptor.map(std::fs::File::from) else { return };
        if file.read_to_end(&mut text).is_err() {
            return;
        }
        let Ok(Adoption { task, turn, idle_ms, leftovers }) = serde_json::from_slice(&text) else { return };
        let Some(acp) = self.pump.acp() else { return };
        if self.job.adopt(leftovers, idle_ms, monotonic_ms()) {
            send(&self.control, &Report::Conversation(ConversationReport::Adopted), None);
            acp.adopt(&task, turn);
            self.handle_conversation_events();
        }
    }

    fn send_report(&self, report: ConversationReport) {
        send(&self.control, &Report::Conversation(report), None);
    }
}
