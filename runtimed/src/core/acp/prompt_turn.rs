//! The one prompt turn of a conversation: how it begins, how it is cancelled, and what its stop reason means.

use super::input_effect::{Effect, PromptTurn};
use super::limits::STOP_INPUT_MS;
use super::machine::{Machine, State};
use super::rpc;
use serde_json::{Value, json};

impl Machine {
    pub(super) fn begin(&mut self, mut turn: Box<PromptTurn>) {
        if self.previous_session.is_some() && self.session.is_some() {
            turn.briefing = None;
        }
        match self.state {
            State::Ready => {
                self.permissions = turn.permissions.clone();
                self.prompt(&turn);
            }
            State::Initializing | State::Authenticating | State::Opening(_) | State::Setting => {
                self.permissions = turn.permissions.clone();
                self.turn = Some(turn);
            }
            State::Prompting | State::Closed => {}
        }
    }

    pub(super) fn prompt(&mut self, turn: &PromptTurn) {
        self.state = State::Prompting;
        let blocks: Vec<Value> = turn
            .briefing
            .iter()
            .chain([&turn.prompt])
            .map(|text| json!({"type": "text", "text": text}))
            .collect();
        let session = self.session.clone().unwrap_or_default();
        self.request("session/prompt", &json!({"sessionId": session, "prompt": blocks}));
    }

    pub(super) fn stop(&mut self, now: u64) {
        match self.state {
            State::Prompting if self.stop_at.is_none() => {
                let session = self.session.clone().unwrap_or_default();
                self.out
                    .push(Effect::Send(rpc::notification("session/cancel", &json!({"sessionId": session}))));
                self.tools.cancel();
                let effects = self.pending_permissions.withdraw_all();
                self.perform(effects);
                self.stop_at = Some(now.saturating_add(STOP_INPUT_MS));
            }
            State::Prompting | State::Closed => {}
            State::Initializing
            | State::Authenticating
            | State::Opening(_)
            | State::Setting
            | State::Ready => {
                self.end(Err("the agent was stopped before it had its prompt".to_owned()));
            }
        }
    }
}

/// Whether a stop reason is a success, else the error message.
pub fn stopped(reason: Option<&str>) -> Result<(), String> {
    let why = match reason {
        Some("end_turn") => return Ok(()),
        Some("max_tokens") => "the agent stopped: its model reached the limit of tokens",
        Some("max_turn_requests") => "the agent stopped: it reached the limit of model requests in one turn",
        Some("refusal") => "the agent refused to go on",
        Some("cancelled") => "the turn was cancelled",
        Some(other) => return Err(format!("the agent stopped: {other}")),
        None => "the agent ended its turn without a reason",
    };
    Err(why.to_owned())
}
