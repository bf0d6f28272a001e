//! Settings of a session as the agent offers them, and which request applies one.

use super::limits::{ID_MAX_BYTES, SETTING_VALUES_MAX, SETTINGS_MAX};
use crate::core::json_fields::{cut, items, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Modes and options that the agent offers; empty before the session is opened.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    modes: Vec<NamedValue>,
    mode: Option<String>,
    options: Vec<ConfigOption>,
    /// Current model, as reported by agents that have no option for it.
    model: Option<String>,
}

#[derive(Debug, Clone)]
struct NamedValue {
    id: String,
    name: String,
}

#[derive(Debug, Clone)]
struct ConfigOption {
    id: String,
    name: String,
    category: Option<String>,
    current: Value,
    values: Vec<NamedValue>,
}

/// One setting to apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingRequest {
    Mode(String),
    Option { name: String, value: String },
}

/// How to apply a setting.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingPlan {
    /// Send this request.
    Request {
        method: &'static str,
        params: Value,
    },
    AlreadySet,
    NotOffered,
}

impl Settings {
    /// Reads the response to a request that opened a session.
    pub fn read(answer: &Value) -> Self {
        let modes = &answer["modes"];
        let mut settings = Self {
            modes: named(items(modes, "availableModes"), "id"),
            mode: text(modes, "currentModeId").map(str::to_owned),
            options: Vec::new(),
            model: text(&answer["models"], "currentModelId").map(str::to_owned),
        };
        settings.renew(answer);
        settings
    }

    /// Replaces the options where the agent sends them again.
    pub fn renew(&mut self, reported: &Value) {
        if reported.get("configOptions").is_some_and(Value::is_array) {
            self.options = items(reported, "configOptions")
                .iter()
                .take(SETTINGS_MAX)
                .filter_map(config_option)
                .collect();
        }
    }

    /// The model that the agent claims to use.
    pub fn model(&self) -> Option<&str> {
        let option = self.option("model").and_then(|option| option.current.as_str());
        option.or(self.model.as_deref()).filter(|model| !model.is_empty())
    }

    pub fn plan(&self, session: &str, request: &SettingRequest) -> SettingPlan {
        match request {
            SettingRequest::Mode(mode) => match pick(&self.modes, mode) {
                Some(found) if self.mode.as_deref() == Some(found) => SettingPlan::AlreadySet,
                Some(found) => SettingPlan::Request {
                    method: "session/set_mode",
                    params: json!({"sessionId": session, "modeId": found}),
                },
                // Newer agents list their modes among the options.
                None => self.plan_option(session, "mode", mode),
            },
            SettingRequest::Option { name, value } => self.plan_option(session, name, value),
        }
    }

    fn plan_option(&self, session: &str, name: &str, value: &str) -> SettingPlan {
        let Some(option) = self.option(name) else { return SettingPlan::NotOffered };
        let params = if let Value::Bool(current) = option.current {
            match value.parse::<bool>() {
                Ok(wanted) if wanted == current => return SettingPlan::AlreadySet,
                Ok(wanted) => {
                    json!({"sessionId": session, "configId": option.id, "type": "boolean", "value": wanted})
                }
                Err(_) => return SettingPlan::NotOffered,
            }
        } else {
            match pick(&option.values, value) {
                Some(found) if option.current.as_str() == Some(found) => return SettingPlan::AlreadySet,
                Some(found) => json!({"sessionId": session, "configId": option.id, "value": found}),
                None => return SettingPlan::NotOffered,
            }
        };
        SettingPlan::Request { method: "session/set_config_option", params }
    }

    fn option(&self, name: &str) -> Option<&ConfigOption> {
        let by_category = || self.options.iter().find(|option| option.category.as_deref() == Some(name));
        let by_name = || self.options.iter().find(|option| option.name.eq_ignore_ascii_case(name));
        self.options.iter().find(|option| option.id == name).or_else(by_category).or_else(by_name)
    }
}

/// Settings to apply, in order: options may depend on the mode.
pub fn requested_settings(mode: Option<&String>, options: &BTreeMap<String, String>) -> Vec<SettingRequest> {
    let option = |(name, value): (&String, &String)| SettingRequest::Option {
        name: name.clone(),
        value: value.clone(),
    };
    mode.cloned().map(SettingRequest::Mode).into_iter().chain(options.iter().map(option)).collect()
}

/// Finds the offered id that is meant: the exact id, else the name, else the only one with the same last
/// part, as in `provider/model`.
fn pick<'a>(offered: &'a [NamedValue], wanted: &str) -> Option<&'a str> {
    let exact = offered.iter().find(|named| named.id == wanted);
    let by_name = || {
        let same = |text: &str| text.eq_ignore_ascii_case(wanted);
        offered.iter().find(|named| same(&named.id) || same(&named.name))
    };
    let by_part = || {
        let last = |text: &str| text.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        // Two ids that both name a provider are two different models.
        let fits = |named: &&NamedValue| {
            last(&named.id) == last(wanted) && !(named.id.contains('/') && wanted.contains('/'))
        };
        let mut found = offered.iter().filter(fits);
        found.next().filter(|_| found.next().is_none())
    };
    exact.or_else(by_name).or_else(by_part).map(|named| named.id.as_str())
}

fn config_option(option: &Value) -> Option<ConfigOption> {
    let id = text(option, "id").filter(|id| id.len() <= ID_MAX_BYTES)?;
    // Values may be grouped.
    let values = items(option, "options").iter().flat_map(|entry| match items(entry, "options") {
        [] => std::slice::from_ref(entry),
        group => group,
    });
    let values: Vec<Value> = values.take(SETTING_VALUES_MAX).cloned().collect();
    Some(ConfigOption {
        id: id.to_owned(),
        name: text(option, "name").map(|name| cut(name, ID_MAX_BYTES)).unwrap_or_default().to_owned(),
        category: text(option, "category").map(|category| cut(category, ID_MAX_BYTES).to_owned()),
        current: option.get("currentValue").filter(|value| !value.is_object()).cloned().unwrap_or_default(),
        values: named(&values, "value"),
    })
}

fn named(values: &[Value], id: &str) -> Vec<NamedValue> {
    let one = |value: &Value| {
        let id = text(value, id).filter(|id| id.len() <= ID_MAX_BYTES)?;
        let name = text(value, "name").unwrap_or(id);
        Some(NamedValue { id: id.to_owned(), name: cut(name, ID_MAX_BYTES).to_owned() })
    };
    values.iter().take(SETTING_VALUES_MAX).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered() -> Settings {
        Settings::read(&json!({
            "sessionId": "s",
            "modes": {"currentModeId": "build", "availableModes": [{"id": "build", "name": "Build"}, {"id": "yolo", "name": "All"}]},
            "configOptions": [
                {"id": "m", "name": "Model", "category": "model", "type": "select", "currentValue": "a/one", "options": [
                    {"group": "g", "name": "G", "options": [{"value": "a/one", "name": "One"}, {"value": "b/two", "name": "Two"}]},
                    {"value": "b/three", "name": "Three"}, {"value": "c/three", "name": "Other three"},
                ]},
                {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": false},
            ],
        }))
    }

    #[test]
    fn a_setting_is_matched_with_what_the_agent_offers() {
        let mode = |mode: &str| SettingRequest::Mode(mode.to_owned());
        let option = |name: &str, value: &str| SettingRequest::Option {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let set_mode = |id: &str| SettingPlan::Request {
            method: "session/set_mode",
            params: json!({"sessionId": "s", "modeId": id}),
        };
        let set = |id: &str, value: &str| SettingPlan::Request {
            method: "session/set_config_option",
            params: json!({"sessionId": "s", "configId": id, "value": value}),
        };
        let on = json!({"sessionId": "s", "configId": "fast", "type": "boolean", "value": true});
        for (request, plan) in [
            (mode("yolo"), set_mode("yolo")),
            (mode("ALL"), set_mode("yolo")),
            (mode("build"), SettingPlan::AlreadySet),
            (mode("plan"), SettingPlan::NotOffered),
            (option("model", "b/two"), set("m", "b/two")),
            (option("model", "two"), set("m", "b/two")),
            (option("Model", "TWO"), set("m", "b/two")),
            (option("model", "one"), SettingPlan::AlreadySet),
            (option("model", "x/two"), SettingPlan::NotOffered),
            (option("m", "three"), set("m", "b/three")),
            (option("model", "four"), SettingPlan::NotOffered),
            (option("effort", "high"), SettingPlan::NotOffered),
            (
                option("fast", "true"),
                SettingPlan::Request { method: "session/set_config_option", params: on },
            ),
            (option("fast", "false"), SettingPlan::AlreadySet),
            (option("fast", "maybe"), SettingPlan::NotOffered),
        ] {
            assert_eq!(offered().plan("s", &request), plan, "{request:?}");
        }
    }

    #[test]
    fn the_model_is_read_from_one_of_two_places() {
        assert_eq!(offered().model(), Some("a/one"));
        assert_eq!(Settings::read(&json!({"models": {"currentModelId": "x"}})).model(), Some("x"));
        assert_eq!(Settings::read(&json!({"configOptions": 7})).model(), None);
    }
}
