//! The routes of E2B's control plane that its SDKs use.

use super::query::decoded;
use hyper::Method;

/// What a request asks for. Ids are as in the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    Create,
    /// The list without pages, of earlier SDKs.
    ListAll,
    List,
    Get(String),
    Kill(String),
    SetTimeout(String),
    /// Extends the timeout.
    Refresh(String),
    Connect(String),
    Resume(String),
    Pause(String),
    TakeSnapshot(String),
    Fork(String),
    SetNetwork(String),
    Metrics(String),
    /// The log with lines and entries, of earlier SDKs.
    LogLines(String),
    Logs(String),
    ListSnapshots,
    /// A snapshot is a template to E2B.
    DeleteTemplate(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoute {
    UnknownPath,
    OtherMethod,
}

pub fn route(method: &Method, path: &str) -> Result<Operation, NoRoute> {
    let segments: Option<Vec<String>> = path.split('/').skip(1).map(decoded).collect();
    let segments = segments.ok_or(NoRoute::UnknownPath)?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (is_v2, rest) = match segments.as_slice() {
        ["v2", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (delete, get, post, put) = (Method::DELETE, Method::GET, Method::POST, Method::PUT);
    let wanted: &[(Method, Operation)] = match rest {
        ["sandboxes"] if is_v2 => &[(post, Operation::Create), (get, Operation::List)],
        ["sandboxes"] => &[(post, Operation::Create), (get, Operation::ListAll)],
        ["sandboxes", id] if !is_v2 => {
            &[(get, Operation::Get((*id).into())), (delete, Operation::Kill((*id).into()))]
        }
        ["sandboxes", id, verb] => {
            let id = (*id).to_owned();
            &[match (*verb, is_v2) {
                ("connect", _) => (post, Operation::Connect(id)),
                ("logs", true) => (get, Operation::Logs(id)),
                ("logs", false) => (get, Operation::LogLines(id)),
                ("timeout", false) => (post, Operation::SetTimeout(id)),
                ("refreshes", false) => (post, Operation::Refresh(id)),
                ("resume", false) => (post, Operation::Resume(id)),
                ("pause", false) => (post, Operation::Pause(id)),
                ("snapshots", false) => (post, Operation::TakeSnapshot(id)),
                ("fork", false) => (post, Operation::Fork(id)),
                ("network", false) => (put, Operation::SetNetwork(id)),
                ("metrics", false) => (get, Operation::Metrics(id)),
                _ => return Err(NoRoute::UnknownPath),
            }]
        }
        ["snapshots"] if !is_v2 => &[(get, Operation::ListSnapshots)],
        ["templates", id] if !is_v2 => &[(delete, Operation::DeleteTemplate((*id).into()))],
        _ => return Err(NoRoute::UnknownPath),
    };
    let found = wanted.iter().find(|(each, _)| each == method);
    found.map(|(_, operation)| operation.clone()).ok_or(NoRoute::OtherMethod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_the_sdks_have_an_operation() {
        let id = || "x".to_owned();
        let table = [
            ("POST", "/sandboxes", Ok(Operation::Create)),
            ("POST", "/v2/sandboxes", Ok(Operation::Create)),
            ("GET", "/sandboxes", Ok(Operation::ListAll)),
            ("GET", "/v2/sandboxes", Ok(Operation::List)),
            ("GET", "/sandboxes/x", Ok(Operation::Get(id()))),
            ("DELETE", "/sandboxes/x", Ok(Operation::Kill(id()))),
            ("POST", "/sandboxes/x/timeout", Ok(Operation::SetTimeout(id()))),
            ("POST", "/sandboxes/x/refreshes", Ok(Operation::Refresh(id()))),
            ("POST", "/sandboxes/x/connect", Ok(Operation::Connect(id()))),
            ("POST", "/v2/sandboxes/x/connect", Ok(Operation::Connect(id()))),
            ("POST", "/sandboxes/x/resume", Ok(Operation::Resume(id()))),
            ("POST", "/sandboxes/x/pause", Ok(Operation::Pause(id()))),
            ("POST", "/sandboxes/x/snapshots", Ok(Operation::TakeSnapshot(id()))),
            ("POST", "/sandboxes/x/fork", Ok(Operation::Fork(id()))),
            ("PUT", "/sandboxes/x/network", Ok(Operation::SetNetwork(id()))),
            ("GET", "/sandboxes/x/metrics", Ok(Operation::Metrics(id()))),
            ("GET", "/sandboxes/x/logs", Ok(Operation::LogLines(id()))),
            ("GET", "/v2/sandboxes/x/logs", Ok(Operation::Logs(id()))),
            ("GET", "/snapshots", Ok(Operation::ListSnapshots)),
            ("DELETE", "/templates/x", Ok(Operation::DeleteTemplate(id()))),
            ("DELETE", "/templates/a%2Fb%3Ac", Ok(Operation::DeleteTemplate("a/b:c".into()))),
            ("GET", "/templates/x", Err(NoRoute::OtherMethod)),
            ("PUT", "/sandboxes", Err(NoRoute::OtherMethod)),
            ("GET", "/", Err(NoRoute::UnknownPath)),
            ("GET", "/v2/sandboxes/x", Err(NoRoute::UnknownPath)),
            ("POST", "/sandboxes/x/y/z", Err(NoRoute::UnknownPath)),
            ("POST", "/sandboxes/x/explode", Err(NoRoute::UnknownPath)),
            ("DELETE", "/templates/%ff", Err(NoRoute::UnknownPath)),
        ];
        for (method, path, expected) in table {
            let method = method.parse().expect("a method");
            assert_eq!(route(&method, path), expected, "{method} {path}");
        }
    }
}
