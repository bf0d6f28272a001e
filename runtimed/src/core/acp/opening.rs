//! From the first word to a session in which everything is as it is wished to be.

use super::limits::{ID_MAX_BYTES, TITLE_MAX_BYTES};
use super::machine::{How, Machine, State, VERSION};
use super::settings::{Granted, Settings, Wish};
use super::words::Effect;
use crate::core::read::{cut, items, text};
use serde_json::{Value, json};

impl Machine {
    pub(super) fn initialized(&mut self, answer: &Value) {
        let version = answer["protocolVersion"].as_u64();
        if version.is_some_and(|version| version != VERSION) {
            self.log(format!("the agent speaks version {} of the protocol", version.unwrap_or_default()));
        }
        let capabilities = &answer["agentCapabilities"];
        self.can_load = capabilities["loadSession"] == true;
        self.can_resume = capabilities["sessionCapabilities"]["resume"].is_object();
        let Some(method) = self.agent.authenticate.clone() else { return self.open() };
        let offered = items(answer, "authMethods");
        if !offered.is_empty() && !offered.iter().any(|offer| text(offer, "id") == Some(&method)) {
            self.log(format!("the agent has no way to authenticate called {method:?}"));
            return self.open();
        }
        self.state = State::Authenticating;
        self.ask("authenticate", &json!({"methodId": method}));
    }

    pub(super) fn open(&mut self) {
        let how = match &self.before {
            Some(_) if self.can_resume => How::Resume,
            Some(_) if self.can_load => How::Load,
            Some(_) => {
                self.log("the agent cannot take up its last session: this one is new".to_owned());
                How::New
            }
            None => How::New,
        };
        self.state = State::Opening(how);
        let method = match how {
            How::Resume => "session/resume",
            How::Load => "session/load",
            How::New => "session/new",
        };
        let mut params = json!({"cwd": self.cwd, "mcpServers": []});
        if let (How::Resume | How::Load, Some(session)) = (how, &self.before) {
            params["sessionId"] = json!(session);
        }
        self.ask(method, &params);
    }

    pub(super) fn opened(&mut self, how: How, answer: &Value) {
        let told = text(answer, "sessionId").filter(|id| id.len() <= ID_MAX_BYTES).map(str::to_owned);
        let session = match how {
            How::New => told,
            How::Resume | How::Load => self.before.clone(),
        };
        let Some(session) = session.filter(|session| !session.is_empty()) else {
            return self.end(Err("the agent opened a session without a name".to_owned()));
        };
        if how != How::New {
            // It was briefed then.
            self.turn.iter_mut().for_each(|turn| turn.briefing = None);
        }
        self.before = self.before.take().filter(|_| how != How::New);
        self.out.push(Effect::Session(session.clone()));
        self.session = Some(session);
        self.settings = Settings::read(answer);
        self.set_next();
    }

    pub(super) fn set_next(&mut self) {
        let session = self.session.clone().unwrap_or_default();
        while let Some(wish) = self.wishes.pop_front() {
            let words = match &wish {
                Wish::Mode(mode) => format!("mode {mode:?}"),
                Wish::Option { name, value } => format!("{name} {value:?}"),
            };
            self.setting = cut(&words, TITLE_MAX_BYTES).to_owned();
            match self.settings.grant(&session, &wish) {
                Granted::Already => {}
                Granted::Unknown => {
                    self.log(format!("{} is not offered by the agent: left out", self.setting));
                }
                Granted::Ask { method, params } => {
                    self.state = State::Setting;
                    return self.ask(method, &params);
                }
            }
        }
        self.claim_model();
        self.state = State::Ready;
        match self.turn.take() {
            Some(turn) => self.prompt(&turn),
            None => self.out.push(Effect::Ready),
        }
    }
}
