//! Session setup: `initialize`, authentication, opening the session, applying its settings.

use super::input_effect::Effect;
use super::limits::{ID_MAX_BYTES, TITLE_MAX_BYTES};
use super::machine::{Machine, OpenMethod, State, VERSION};
use super::settings::{SettingPlan, SettingRequest, Settings};
use crate::core::json_fields::{cut, items, text};
use serde_json::{Value, json};

impl Machine {
    pub(super) fn on_initialized(&mut self, answer: &Value) {
        let version = answer["protocolVersion"].as_u64();
        if version.is_some_and(|version| version != VERSION) {
            self.log(format!("the agent speaks version {} of the protocol", version.unwrap_or_default()));
        }
        let capabilities = &answer["agentCapabilities"];
        self.can_load = capabilities["loadSession"] == true;
        self.can_resume = capabilities["sessionCapabilities"]["resume"].is_object();
        let Some(method) = self.agent.authenticate.clone() else { return self.open_session() };
        let offered = items(answer, "authMethods");
        if !offered.is_empty() && !offered.iter().any(|offer| text(offer, "id") == Some(&method)) {
            self.log(format!("the agent offers no authentication method {method:?}"));
            return self.open_session();
        }
        self.state = State::Authenticating;
        self.request("authenticate", &json!({"methodId": method}));
    }

    pub(super) fn open_session(&mut self) {
        let how = match &self.previous_session {
            Some(_) if self.can_resume => OpenMethod::Resume,
            Some(_) if self.can_load => OpenMethod::Load,
            Some(_) => {
                self.log("the agent cannot continue its last session: this one is new".to_owned());
                OpenMethod::New
            }
            None => OpenMethod::New,
        };
        self.state = State::Opening(how);
        let method = match how {
            OpenMethod::Resume => "session/resume",
            OpenMethod::Load => "session/load",
            OpenMethod::New => "session/new",
        };
        let mut params = json!({"cwd": self.cwd, "mcpServers": []});
        if let (OpenMethod::Resume | OpenMethod::Load, Some(session)) = (how, &self.previous_session) {
            params["sessionId"] = json!(session);
        }
        self.request(method, &params);
    }

    pub(super) fn on_session_opened(&mut self, how: OpenMethod, answer: &Value) {
        let told = text(answer, "sessionId").filter(|id| id.len() <= ID_MAX_BYTES).map(str::to_owned);
        let session = match how {
            OpenMethod::New => told,
            OpenMethod::Resume | OpenMethod::Load => self.previous_session.clone(),
        };
        let Some(session) = session.filter(|session| !session.is_empty()) else {
            return self.end(Err("the agent opened a session without an id".to_owned()));
        };
        if how != OpenMethod::New {
            // The previous session was already briefed.
            self.turn.iter_mut().for_each(|turn| turn.briefing = None);
        }
        self.previous_session = self.previous_session.take().filter(|_| how != OpenMethod::New);
        self.out.push(Effect::Session(session.clone()));
        self.session = Some(session);
        self.settings = Settings::read(answer);
        self.apply_next_setting();
    }

    pub(super) fn apply_next_setting(&mut self) {
        let session = self.session.clone().unwrap_or_default();
        while let Some(request) = self.settings_to_apply.pop_front() {
            let words = match &request {
                SettingRequest::Mode(mode) => format!("mode {mode:?}"),
                SettingRequest::Option { name, value } => format!("{name} {value:?}"),
            };
            self.setting_label = cut(&words, TITLE_MAX_BYTES).to_owned();
            match self.settings.plan(&session, &request) {
                SettingPlan::AlreadySet => {}
                SettingPlan::NotOffered => {
                    self.log(format!("{} is not offered by the agent: left out", self.setting_label));
                }
                SettingPlan::Request { method, params } => {
                    self.state = State::Setting;
                    return self.request(method, &params);
                }
            }
        }
        self.report_model();
        self.state = State::Ready;
        match self.turn.take() {
            Some(turn) => self.prompt(&turn),
            None => self.out.push(Effect::Ready),
        }
    }
}
