//! What a request asks the interpreter for. Pure.

use hyper::Method;
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb {
    Execute,
    Create,
    List,
    Remove { context: String },
    Restart { context: String },
}

impl Verb {
    pub fn of(method: &Method, path: &str) -> Option<Self> {
        let names: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (method.as_str(), names.as_slice()) {
            ("POST", ["execute"]) => Some(Self::Execute),
            ("POST", ["contexts"]) => Some(Self::Create),
            ("GET", ["contexts"]) => Some(Self::List),
            ("DELETE", ["contexts", context]) => Some(Self::Remove { context: (*context).to_owned() }),
            ("POST", ["contexts", context, "restart"]) => {
                Some(Self::Restart { context: (*context).to_owned() })
            }
            _ => None,
        }
    }

    /// The argument of the program.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Create => "create",
            Self::List => "list",
            Self::Remove { .. } => "remove",
            Self::Restart { .. } => "restart",
        }
    }

    /// The document that the program reads, of the one that the client sent.
    pub fn document(&self, given: Map<String, Value>) -> Map<String, Value> {
        match self {
            Self::Execute | Self::Create => given,
            Self::List => Map::new(),
            Self::Remove { context } | Self::Restart { context } => {
                Map::from_iter([("id".to_owned(), json!(context))])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_is_named_by_method_and_path() {
        let context = || "c1".to_owned();
        let table = [
            ("POST", "/execute", Some(Verb::Execute)),
            ("GET", "/execute", None),
            ("POST", "/contexts", Some(Verb::Create)),
            ("GET", "/contexts", Some(Verb::List)),
            ("DELETE", "/contexts/c1", Some(Verb::Remove { context: context() })),
            ("POST", "/contexts/c1/restart", Some(Verb::Restart { context: context() })),
            ("POST", "/contexts/c1", None),
            ("POST", "/", None),
        ];
        for (method, path, expected) in table {
            assert_eq!(Verb::of(&method.parse().expect("a method"), path), expected, "{method} {path}");
        }
    }

    #[test]
    fn a_context_is_named_by_the_path_and_not_by_the_document() {
        let given = Map::from_iter([("id".to_owned(), json!("other")), ("code".to_owned(), json!("1"))]);
        let verb = Verb::Remove { context: "c1".to_owned() };
        assert_eq!(Value::Object(verb.document(given.clone())), json!({"id": "c1"}));
        assert_eq!(Verb::Execute.document(given.clone()), given);
        assert_eq!(Verb::List.document(given), Map::new());
    }
}
