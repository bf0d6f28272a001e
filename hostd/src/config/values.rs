//! The values of keys as written: the environment above the TOML file, each read by its type.

use super::{
    ConfigError, bad,
    keys::{self, DefaultValue, variable},
    written::WrittenConfig,
};
use std::str::FromStr;
use toml::Value;

pub struct ConfigValues<'a> {
    file: toml::Table,
    env: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> ConfigValues<'a> {
    /// Reads the file and refuses keys that the table does not have.
    pub fn read(file: Option<&str>, env: &'a dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let file: toml::Table = toml::from_str(file.unwrap_or_default())
            .map_err(|error| bad("configuration file", one_line(&error.to_string())))?;
        match file.keys().find(|name| keys::find(name).is_none()) {
            Some(unknown) => Err(bad(
                "configuration file",
                format!("unknown key `{unknown}` (hostd --help lists the keys there are)"),
            )),
            None => Ok(Self { file, env }),
        }
    }

    /// Returns everything as it was written.
    pub fn written(&self, file: Option<&str>) -> WrittenConfig {
        WrittenConfig::of(file, &self.file, self.env)
    }

    /// Returns a text, or the default of its key.
    pub fn text(&self, key: &str) -> Result<String, ConfigError> {
        let written = match (self.env)(&variable(key)) {
            Some(text) => Some(text),
            None => self.in_file(key, "a text", |value| value.as_str().map(str::to_owned))?,
        };
        Ok(written.unwrap_or_else(|| default(key).to_owned()))
    }

    /// Returns a text that may be absent; an empty one is absent.
    pub fn optional(&self, key: &str) -> Result<Option<String>, ConfigError> {
        Ok(Some(self.text(key)?).filter(|text| !text.is_empty()))
    }

    /// Returns a whole number, the default of its key, or nothing where it has none.
    pub fn integer(&self, key: &str) -> Result<Option<u64>, ConfigError> {
        self.number(key, |value| value.as_integer().and_then(|number| number.try_into().ok()))
    }

    /// Returns a number as [`Self::integer`] does, with a fraction.
    pub fn decimal(&self, key: &str) -> Result<Option<f64>, ConfigError> {
        self.number(key, |value| value.as_float().or_else(|| value.as_integer().map(|number| number as f64)))
    }

    fn number<T: FromStr>(
        &self,
        key: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        match (self.env)(&variable(key)).filter(|text| !text.is_empty()) {
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| bad(&variable(key), format!("must be a number, not {text:?}"))),
            None => Ok(self.in_file(key, "a number", read)?.or_else(|| default(key).parse().ok())),
        }
    }

    /// Returns a list; in the environment its items are separated by commas.
    pub fn list(&self, key: &str) -> Result<Vec<String>, ConfigError> {
        if let Some(text) = (self.env)(&variable(key)) {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            return Ok(parts.map(str::to_owned).collect());
        }
        let texts = |value: &Value| {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<_>>()
        };
        Ok(self.in_file(key, "a list of texts", texts)?.unwrap_or_default())
    }

    /// Returns a table of the file.
    pub fn table(&self, key: &str) -> Result<toml::Table, ConfigError> {
        Ok(self.in_file(key, "a table", |value| value.as_table().cloned())?.unwrap_or_default())
    }

    fn in_file<T>(
        &self,
        key: &str,
        kind: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.file.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| bad(key, format!("must be {kind}, not {value}")))
    }
}

/// Returns the default text of a key, empty where it has none.
fn default(key: &str) -> &'static str {
    match keys::find(key).expect("the parser asks only for keys of the table").default {
        DefaultValue::Text(text) => text,
        DefaultValue::Described(_) => "",
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
