//! The query of a request. Every parameter must be known to the route: a misspelt name is an error, not a
//! default.

use super::{
    error::CallError,
    limits as api,
    param::{self, NUMBER_MAX, PATH_MAX_BYTES, Param, ParamKind},
};
use axum::extract::Query as Parsed;
use hostd_core::limits;
use hyper::Uri;
use protocol::files::FilePath;

#[derive(Debug, Default, PartialEq)]
pub struct Query {
    pairs: Vec<(String, String)>,
    /// Parameters that are paths, as their bytes.
    paths: Vec<(&'static str, FilePath)>,
}

impl Query {
    pub fn parse(uri: &Uri, known: &[Param]) -> Result<Self, CallError> {
        let invalid = |_| CallError::invalid("query", "must be name=value pairs separated by &");
        let Parsed(pairs) = Parsed::<Vec<(String, String)>>::try_from_uri(uri).map_err(invalid)?;
        for (at, (name, value)) in pairs.iter().enumerate() {
            let is_path = known.iter().any(|param| param.name == name && param.kind == ParamKind::Path);
            if name.contains('\u{fffd}') || (value.contains('\u{fffd}') && !is_path) {
                return Err(CallError::invalid(name, "the query is not UTF-8"));
            }
            let Some(param) = known.iter().find(|param| param.name == name) else {
                let names: Vec<&str> = known.iter().map(|param| param.name).collect();
                let message = match names.as_slice() {
                    [] => format!("unknown parameter {name:?}; this call takes none"),
                    names => format!("unknown parameter {name:?}; this call takes {}", names.join(", ")),
                };
                return Err(CallError::invalid(name, message));
            };
            param.kind.check(value).map_err(|message| CallError::invalid(name, message))?;
            if pairs[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(CallError::invalid(name, "given twice"));
            }
        }
        let paths = paths(uri.query().unwrap_or_default(), known)?;
        Ok(Self { pairs, paths })
    }

    /// A parameter that is a path.
    pub fn path(&self, name: &str) -> Option<&FilePath> {
        self.paths.iter().find(|(each, _)| *each == name).map(|(_, path)| path)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(each, _)| each == name).map(|(_, value)| value.as_str())
    }

    pub fn flag(&self, name: &str, otherwise: bool) -> Result<bool, CallError> {
        let invalid = |message| CallError::invalid(name, message);
        self.text(name).map_or(Ok(otherwise), |text| param::flag(text).map_err(invalid))
    }

    pub fn number(&self, name: &str) -> Result<Option<u64>, CallError> {
        let invalid = |message| CallError::invalid(name, message);
        self.text(name).map(|text| param::number(text, 0, NUMBER_MAX).map_err(invalid)).transpose()
    }

    pub fn limit(&self) -> Result<usize, CallError> {
        let invalid = |message| CallError::invalid("limit", message);
        let parse = |text| param::number(text, 1, limits::PAGE_MAX as u64).map_err(invalid);
        let requested = self.text("limit").map(parse).transpose()?;
        Ok(requested.and_then(|number| usize::try_from(number).ok()).unwrap_or(limits::PAGE_DEFAULT))
    }

    /// `wait`: a duration, or 0.
    pub fn wait_ms(&self) -> Result<u64, CallError> {
        self.wait_up_to(api::WAIT_DEFAULT_MS, api::WAIT_MAX_MS)
    }

    pub fn wait_up_to(&self, otherwise_ms: u64, most_ms: u64) -> Result<u64, CallError> {
        let invalid = |message| CallError::invalid("wait", message);
        self.text("wait").map_or(Ok(otherwise_ms), |text| param::wait_ms(text, most_ms).map_err(invalid))
    }

    /// Parses `workspace=keep|remove`: whether to keep the workspace.
    pub fn keeps_workspace(&self, otherwise: bool) -> Result<bool, CallError> {
        match self.text("workspace") {
            None => Ok(otherwise),
            Some("keep") => Ok(true),
            Some("remove") => Ok(false),
            Some(_) => Err(CallError::invalid("workspace", "must be keep or remove")),
        }
    }

    /// The named parameters as a query for runtimed; they contain only letters and digits.
    pub fn runtimed_query(&self, names: &[&str]) -> Result<String, CallError> {
        let mut query = String::new();
        for (name, value) in self.pairs.iter().filter(|(name, _)| names.contains(&name.as_str())) {
            if value.is_empty() || !value.bytes().all(|b| b.is_ascii_alphanumeric()) {
                return Err(CallError::invalid(name, "must be a number or a word"));
            }
            query.push(if query.is_empty() { '?' } else { '&' });
            query.push_str(&format!("{name}={value}"));
        }
        Ok(query)
    }
}

/// The bytes of parameters that are paths. `+` is a space, as in every query.
fn paths(query: &str, known: &[Param]) -> Result<Vec<(&'static str, FilePath)>, CallError> {
    let mut found = Vec::new();
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        let is_path = |param: &&Param| param.kind == ParamKind::Path && param.name == name;
        let Some(param) = known.iter().find(is_path) else { continue };
        let invalid = |message: &str| CallError::invalid(name, message);
        let path = FilePath::decode(&value.replace('+', " "));
        let path = path.ok_or_else(|| invalid("a % must be followed by two hexadecimal digits"))?;
        if path.0.len() > PATH_MAX_BYTES || path.0.contains(&0) {
            return Err(invalid("must be at most 4095 bytes, none of them NUL"));
        }
        found.push((param.name, path));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Param] = &[
        Param { name: "wait", about: "", kind: ParamKind::WAIT },
        Param { name: "limit", about: "", kind: ParamKind::LIMIT },
        Param { name: "after", about: "", kind: ParamKind::Text { most_chars: 64 } },
        Param { name: "follow", about: "", kind: ParamKind::Flag },
        Param { name: "path", about: "", kind: ParamKind::Path },
    ];

    fn parse(query: &str) -> Result<Query, String> {
        let uri = format!("/x?{query}").parse().unwrap();
        Query::parse(&uri, KNOWN).map_err(|failure| failure.error.detail.field.unwrap_or_default())
    }

    #[test]
    fn only_known_names_once_each() {
        assert!(parse("wait=0&limit=5").is_ok());
        for (query, field) in [("wiat=0", "wiat"), ("limit=1&limit=2", "limit"), ("after=%ff", "after")] {
            assert_eq!(parse(query).unwrap_err(), field, "{query}");
        }
    }

    #[test]
    fn a_path_is_bytes() {
        let path = |query| parse(query).map(|query| query.path("path").map(|path| path.0.clone()));
        assert_eq!(path("path=a%2Fb+c%ff"), Ok(Some(b"a/b c\xff".to_vec())));
        assert_eq!(path("path="), Ok(Some(vec![])));
        assert_eq!(path("limit=5"), Ok(None));
        for wrong in ["path=%zz", "path=%", "path=a%00b", "path=a&path=b"] {
            assert_eq!(path(wrong), Err("path".to_owned()), "{wrong}");
        }
    }

    #[test]
    fn values_are_validated() {
        for (query, field) in [
            ("wait=11m", "wait"),
            ("wait=soon", "wait"),
            ("wait=", "wait"),
            ("limit=0", "limit"),
            ("limit=1001", "limit"),
            ("limit=-1", "limit"),
            ("limit=", "limit"),
            ("limit=18446744073709551616", "limit"),
            ("follow=", "follow"),
            ("follow=yes", "follow"),
        ] {
            assert_eq!(parse(query).unwrap_err(), field, "{query}");
        }
        let wait = |query| parse(query).unwrap().wait_ms().unwrap();
        assert_eq!([wait(""), wait("wait=0"), wait("wait=30s")], [60_000, 0, 30_000]);
        let limit = |query| parse(query).unwrap().limit().unwrap();
        assert_eq!([limit(""), limit("limit=1000")], [100, 1000]);
    }

    #[test]
    fn parameters_for_runtimed_cannot_inject_others() {
        let passed = |query| parse(query).unwrap().runtimed_query(&["after", "follow"]).ok();
        assert_eq!(passed("follow=1&after=12&limit=3").as_deref(), Some("?follow=1&after=12"));
        assert_eq!(passed("after=1%26follow%3D1"), None);
        assert_eq!(passed("").as_deref(), Some(""));
    }
}
