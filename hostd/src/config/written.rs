//! The configuration as it was written: for backups, and for people who read one.

use super::keys::{DefaultValue, KEYS, Source, variable};

/// The file, and every key that has a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenConfig {
    pub file: Option<String>,
    pub values: Vec<WrittenValue>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenValue {
    pub key: &'static str,
    pub value: String,
    pub source: ValueSource,
}

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueSource {
    Environment,
    File,
    Default,
}

impl ValueSource {
    pub fn word(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::File => "file",
            Self::Default => "default",
        }
    }
}

impl WrittenConfig {
    pub(super) fn of(file: Option<&str>, table: &toml::Table, env: &dyn Fn(&str) -> Option<String>) -> Self {
        let value = |key: &super::keys::ConfigKey| {
            let variable = match key.source {
                Source::FileOrEnvironment => env(&variable(key.name)),
                Source::FileOnly => None,
            };
            let (value, source) = match (variable, table.get(key.name), &key.default) {
                (Some(value), ..) => (value, ValueSource::Environment),
                (None, Some(toml::Value::String(value)), _) => (value.clone(), ValueSource::File),
                (None, Some(value), _) => (value.to_string(), ValueSource::File),
                (None, None, DefaultValue::Text(value)) => ((*value).to_owned(), ValueSource::Default),
                (None, None, DefaultValue::Described(_)) => return None,
            };
            Some(WrittenValue { key: key.name, value, source })
        };
        Self { file: file.map(str::to_owned), values: KEYS.iter().filter_map(value).collect() }
    }
}
