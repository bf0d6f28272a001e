//! The content of `contexts.toml`, and changes to it. Pure.

use super::{ContextName, ContextsError};
use crate::{
    client::{Fingerprint, Scheme, ServerUrl, Trust},
    limits,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedContexts {
    /// The context of commands that name none; absent: this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<ContextName>,
    #[serde(default)]
    pub contexts: BTreeMap<ContextName, SavedContext>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedContext {
    pub url: ServerUrl,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fingerprint: Option<Fingerprint>,
    /// Name of a file in `tokens/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,
}

impl SavedContext {
    /// `trust` counts for `https` only, and is never [`Trust::Insecure`].
    pub fn new(url: ServerUrl, trust: &Trust, token_file: Option<String>) -> Self {
        let (ca_file, fingerprint) = match trust {
            Trust::System | Trust::Insecure => (None, None),
            Trust::CaFile(path) => (Some(path.clone()), None),
            Trust::Pinned(fingerprint) => (None, Some(*fingerprint)),
        };
        Self { url, ca_file, fingerprint, token_file }
    }

    pub fn trust(&self) -> Trust {
        match (&self.ca_file, self.fingerprint) {
            (_, Some(fingerprint)) => Trust::Pinned(fingerprint),
            (Some(path), None) => Trust::CaFile(path.clone()),
            (None, None) => Trust::System,
        }
    }

    /// Describes how the server is verified.
    pub fn verified_by(&self) -> String {
        match self.url.scheme {
            Scheme::Http => "nothing: plain HTTP".to_owned(),
            Scheme::Https => self.trust().to_string(),
        }
    }
}

impl SavedContexts {
    /// Parses a file. `Err` says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let saved: Self =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().replace('\n', " "))?;
        for (name, context) in &saved.contexts {
            if context.ca_file.is_some() && context.fingerprint.is_some() {
                return Err(format!("context {name} has both ca_file and fingerprint"));
            }
            if context.token_file.as_deref().is_some_and(|file| !is_token_file(file)) {
                return Err(format!("context {name} has a token_file that is no plain name"));
            }
        }
        Ok(saved)
    }

    pub fn print(&self) -> String {
        let content = toml::to_string(self).expect("text, paths and tables are all that TOML needs");
        format!("# Written by `slipway context`. The tokens are in tokens/, one file each.\n{content}")
    }

    pub fn get(&self, name: &ContextName) -> Result<&SavedContext, ContextsError> {
        self.contexts.get(name).ok_or_else(|| ContextsError::Missing(name.clone()))
    }

    pub fn add(
        &mut self,
        name: &ContextName,
        context: SavedContext,
        replace: bool,
    ) -> Result<(), ContextsError> {
        if self.contexts.contains_key(name) && !replace {
            return Err(ContextsError::Exists(name.clone()));
        }
        self.contexts.insert(name.clone(), context);
        if self.contexts.len() > limits::CONTEXTS_MAX { Err(ContextsError::TooMany) } else { Ok(()) }
    }

    /// Removes a context; returns whether it was the current one.
    pub fn remove(&mut self, name: &ContextName) -> Result<bool, ContextsError> {
        self.contexts.remove(name).ok_or_else(|| ContextsError::Missing(name.clone()))?;
        Ok(self.current.take_if(|current| current == name).is_some())
    }

    /// Makes a context the current one; `None` is this machine.
    pub fn set_current(&mut self, name: Option<ContextName>) -> Result<(), ContextsError> {
        if let Some(name) = &name {
            self.get(name)?;
        }
        self.current = name;
        Ok(())
    }

    /// Returns the token file that `name` keeps when it gets the address `url`.
    pub fn kept_token(&self, name: &ContextName, url: &ServerUrl) -> Result<Option<String>, ContextsError> {
        let context = self.get(name)?;
        // Neither to another host, nor from TLS to plain HTTP.
        if context.url != *url {
            return Err(ContextsError::OtherAddress(name.clone(), context.url.to_string()));
        }
        Ok(context.token_file.clone())
    }

    /// Returns whether a context uses a token file.
    pub fn uses_token_file(&self, file: &str) -> bool {
        self.contexts.values().any(|context| context.token_file.as_deref() == Some(file))
    }
}

fn is_token_file(file: &str) -> bool {
    !file.is_empty() && !file.starts_with('.') && !file.contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ContextName {
        text.parse().expect("a name")
    }

    fn context(url: &str, token: &str) -> SavedContext {
        let url = url.parse().expect("a URL");
        SavedContext::new(url, &Trust::Pinned(Fingerprint::of(b"")), Some(token.to_owned()))
    }

    #[test]
    fn contexts_are_printed_and_parsed() {
        let mut saved = SavedContexts::default();
        let ca = Trust::CaFile("/etc/ssl/acme.pem".into());
        let lab = SavedContext::new("https://lab".parse().expect("a URL"), &ca, None);
        saved.add(&name("lab"), lab, false).expect("added");
        saved.add(&name("prod.eu"), context("https://Box:9090", "prod.eu.1"), false).expect("added");
        saved.set_current(Some(name("prod.eu"))).expect("it exists");
        insta::assert_snapshot!(saved.print(), @r#"
        # Written by `slipway context`. The tokens are in tokens/, one file each.
        current = "prod.eu"

        [contexts.lab]
        url = "https://lab"
        ca_file = "/etc/ssl/acme.pem"

        [contexts."prod.eu"]
        url = "https://box:9090"
        fingerprint = "E3:B0:C4:42:98:FC:1C:14:9A:FB:F4:C8:99:6F:B9:24:27:AE:41:E4:64:9B:93:4C:A4:95:99:1B:78:52:B8:55"
        token_file = "prod.eu.1"
        "#);
        assert_eq!(SavedContexts::parse(&saved.print()), Ok(saved));
    }

    #[test]
    fn a_file_that_is_wrong_says_where() {
        let both =
            format!("[contexts.x]\nurl='https://x'\nca_file='/x'\nfingerprint='{}'", Fingerprint::of(b""));
        let table = [
            ("current = 7", "invalid type"),
            ("colour = 'red'", "unknown field `colour`"),
            ("[contexts.x]\nurl='https://x/api'", "without a path"),
            ("[contexts.local]\nurl='https://x'", "reserved"),
            ("[contexts.x]\nurl='https://x'\nfingerprint='AB'", "SHA-256"),
            ("[contexts.x]\nurl='https://x'\ntoken_file='../../key'", "no plain name"),
            (both.as_str(), "both ca_file and fingerprint"),
        ];
        for (text, why) in table {
            let error = SavedContexts::parse(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_token_stays_with_its_address() {
        let mut saved = SavedContexts::default();
        saved.add(&name("prod"), context("https://box:9090", "t"), false).expect("added");
        let kept = |url: &str| saved.kept_token(&name("prod"), &url.parse().expect("a URL"));
        assert_eq!(kept("https://BOX:9090").ok().flatten().as_deref(), Some("t"));
        for other in ["https://box:9091", "http://box:9090", "https://other:9090", "https://box"] {
            assert!(matches!(kept(other), Err(ContextsError::OtherAddress(..))), "{other}");
        }
    }

    #[test]
    fn a_removed_context_is_no_longer_current() {
        let mut saved = SavedContexts::default();
        saved.add(&name("a"), context("https://a", "a.1"), false).expect("added");
        assert!(matches!(
            saved.add(&name("a"), context("https://b", "a.2"), false),
            Err(ContextsError::Exists(_))
        ));
        saved.add(&name("a"), context("https://b", "a.2"), true).expect("replaced");
        assert!(saved.uses_token_file("a.2") && !saved.uses_token_file("a.1"));
        assert!(matches!(saved.set_current(Some(name("b"))), Err(ContextsError::Missing(_))));
        saved.set_current(Some(name("a"))).expect("it exists");
        assert!(saved.remove(&name("a")).expect("it exists"));
        assert_eq!(saved, SavedContexts::default());
    }
}
