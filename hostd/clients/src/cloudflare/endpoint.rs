//! What a request asks for, by its method and path. Pure.

use hyper::Method;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint<'a> {
    Health,
    OpenApi,
    PoolStats,
    PoolPrime,
    PoolShutdown,
    Create,
    OfSandbox { sandbox: &'a str, verb: Verb<'a> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb<'a> {
    Delete,
    Running,
    Exec,
    /// A path of a file, percent-encoded.
    ReadFile(&'a str),
    WriteFile(&'a str),
    Persist,
    Hydrate,
    Pty,
    OpenTunnel(&'a str),
    CloseTunnel(&'a str),
    CreateSession,
    DeleteSession(&'a str),
    Mount,
    Unmount,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoEndpoint {
    #[error("the bridge has nothing at this path; see /v1/openapi.json")]
    NotFound,
    #[error("this path does not support this method; see /v1/openapi.json")]
    MethodNotAllowed,
}

impl<'a> Endpoint<'a> {
    pub fn parse(method: &Method, path: &'a str) -> Result<Self, NoEndpoint> {
        let fixed = [
            ("/health", Method::GET, Self::Health),
            ("/v1/openapi.json", Method::GET, Self::OpenApi),
            ("/v1/pool/stats", Method::GET, Self::PoolStats),
            ("/v1/pool/prime", Method::POST, Self::PoolPrime),
            ("/v1/pool/shutdown-prewarmed", Method::POST, Self::PoolShutdown),
            ("/v1/sandbox", Method::POST, Self::Create),
        ];
        if let Some((_, expected, endpoint)) = fixed.into_iter().find(|(at, _, _)| *at == path) {
            return if *method == expected { Ok(endpoint) } else { Err(NoEndpoint::MethodNotAllowed) };
        }
        let rest = path.strip_prefix("/v1/sandbox/").ok_or(NoEndpoint::NotFound)?;
        let (sandbox, verb) = rest.split_once('/').unwrap_or((rest, ""));
        Ok(Self::OfSandbox { sandbox, verb: Verb::parse(method, verb)? })
    }
}

impl<'a> Verb<'a> {
    fn parse(method: &Method, path: &'a str) -> Result<Self, NoEndpoint> {
        let (name, rest) = path.split_once('/').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let methods: &[(Method, Self)] = match (name, rest) {
            ("", None) => &[(Method::DELETE, Self::Delete)],
            ("running", None) => &[(Method::GET, Self::Running)],
            ("exec", None) => &[(Method::POST, Self::Exec)],
            ("file", Some(path)) => {
                &[(Method::GET, Self::ReadFile(path)), (Method::PUT, Self::WriteFile(path))]
            }
            ("persist", None) => &[(Method::POST, Self::Persist)],
            ("hydrate", None) => &[(Method::POST, Self::Hydrate)],
            ("pty", None) => &[(Method::GET, Self::Pty)],
            ("tunnel", Some(port)) => {
                &[(Method::POST, Self::OpenTunnel(port)), (Method::DELETE, Self::CloseTunnel(port))]
            }
            ("session", None) => &[(Method::POST, Self::CreateSession)],
            ("session", Some(session)) => &[(Method::DELETE, Self::DeleteSession(session))],
            ("mount", None) => &[(Method::POST, Self::Mount)],
            ("unmount", None) => &[(Method::POST, Self::Unmount)],
            _ => return Err(NoEndpoint::NotFound),
        };
        let found = methods.iter().find(|(expected, _)| expected == method);
        found.map(|(_, verb)| verb.clone()).ok_or(NoEndpoint::MethodNotAllowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart_by_method_and_path() {
        let of = |verb| Ok(Endpoint::OfSandbox { sandbox: "id", verb });
        for (method, path, expected) in [
            (Method::GET, "/health", Ok(Endpoint::Health)),
            (Method::POST, "/v1/sandbox", Ok(Endpoint::Create)),
            (Method::GET, "/v1/sandbox", Err(NoEndpoint::MethodNotAllowed)),
            (Method::DELETE, "/v1/sandbox/id", of(Verb::Delete)),
            (Method::GET, "/v1/sandbox/id", Err(NoEndpoint::MethodNotAllowed)),
            (Method::POST, "/v1/sandbox/id/exec", of(Verb::Exec)),
            (Method::GET, "/v1/sandbox/id/file/workspace/a/b", of(Verb::ReadFile("workspace/a/b"))),
            (Method::PUT, "/v1/sandbox/id/file/", of(Verb::WriteFile(""))),
            (Method::GET, "/v1/sandbox/id/file", Err(NoEndpoint::NotFound)),
            (Method::DELETE, "/v1/sandbox/id/tunnel/3000", of(Verb::CloseTunnel("3000"))),
            (Method::DELETE, "/v1/sandbox/id/session/s1", of(Verb::DeleteSession("s1"))),
            (Method::POST, "/v1/sandbox/id/exec/more", Err(NoEndpoint::NotFound)),
            (Method::POST, "/v1/pool/prime", Ok(Endpoint::PoolPrime)),
            (Method::GET, "/v1/pool", Err(NoEndpoint::NotFound)),
        ] {
            assert_eq!(Endpoint::parse(&method, path), expected, "{method} {path}");
        }
    }
}
