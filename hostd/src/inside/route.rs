//! Routes a request from inside by its head alone. Pure.

use hostd_edge::html::wants_html;
use hyper::{HeaderMap, Method, Uri, header::HOST};
use protocol::{
    HOSTD_PORT_IN_SANDBOX,
    api::{ApiError, ApiErrorCode},
};

/// A resource that hostd serves inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The status page of the sandbox.
    Status {
        html: bool,
    },
    Health,
    /// A model call.
    Model,
    /// A request of git to the repository of a grant.
    Git,
    /// A request to the outside, for the egress proxy.
    Outside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A page in a browser could reach this server under a name of its own (DNS rebinding).
    #[error("this is served as localhost, 127.0.0.1 and [::1] only")]
    Name,
    #[error("there is no such path here; see /")]
    Path,
    #[error("only GET is served here")]
    Method,
    #[error("the body is too large")]
    TooLarge,
    #[error("the body did not come whole and in time")]
    NoBody,
    #[error("too many requests from this sandbox; ask less often")]
    TooMany,
}

impl RequestError {
    pub fn error(self) -> ApiError {
        let code = match self {
            Self::Name => ApiErrorCode::Forbidden,
            Self::Path => ApiErrorCode::NotFound,
            Self::Method => ApiErrorCode::MethodNotAllowed,
            Self::TooLarge => ApiErrorCode::TooLarge,
            Self::NoBody => ApiErrorCode::InvalidRequest,
            Self::TooMany => ApiErrorCode::TooMany,
        };
        ApiError::new(code, self.to_string())
    }
}

pub fn route(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<Route, RequestError> {
    // Clients of a proxy name a host in the request line; one without our port is another server than this.
    let ours = |name: &str| is_ours(name) && name.ends_with(&format!(":{HOSTD_PORT_IN_SANDBOX}"));
    if method == Method::CONNECT || uri.authority().is_some_and(|name| !ours(name.as_str())) {
        return Ok(Route::Outside);
    }
    let mut hosts = headers.get_all(HOST).iter().map(|value| value.to_str().unwrap_or_default());
    let (host, second) = (hosts.next().ok_or(RequestError::Name)?, hosts.next());
    let named = uri.authority().map(|authority| authority.as_str());
    if second.is_some() || !is_ours(host) || named.is_some_and(|name| !is_ours(name)) {
        return Err(RequestError::Name);
    }
    let route = match uri.path() {
        "/" => Route::Status { html: wants_html(headers) },
        "/healthz" => Route::Health,
        path if path.starts_with("/model/") => return Ok(Route::Model),
        path if path.starts_with("/git/") => return Ok(Route::Git),
        _ => return Err(RequestError::Path),
    };
    if method == Method::GET { Ok(route) } else { Err(RequestError::Method) }
}

fn is_ours(authority: &str) -> bool {
    let name = authority.strip_suffix(&format!(":{HOSTD_PORT_IN_SANDBOX}")).unwrap_or(authority);
    name.eq_ignore_ascii_case("localhost") || matches!(name, "127.0.0.1" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(method: &str, uri: &str, headers: &[(&str, &str)]) -> Result<Route, RequestError> {
        let mut request = hyper::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        route(&parts.method, &parts.uri, &parts.headers)
    }

    #[test]
    fn only_names_of_loopback_are_served() {
        for good in ["localhost", "LOCALHOST:900", "127.0.0.1", "127.0.0.1:900", "[::1]", "[::1]:900"] {
            assert_eq!(routed("GET", "/healthz", &[("host", good)]), Ok(Route::Health), "{good}");
        }
        let bad = [
            "evil.example",
            "evil.example:900",
            "localhost:901",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "127.0.0.2",
            "::1",
            "user@localhost",
            "",
            ":900",
            "localhost:900:900",
        ];
        for bad in bad {
            assert_eq!(routed("GET", "/healthz", &[("host", bad)]), Err(RequestError::Name), "{bad}");
        }
        assert_eq!(routed("GET", "/", &[]), Err(RequestError::Name), "no Host");
        let twice = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(routed("GET", "/", &twice), Err(RequestError::Name));
        // Requests to a proxy: the proxy decides what they may reach.
        for outside in ["http://localhost/healthz", "http://127.0.0.1/healthz", "http://localhost:80/healthz"]
        {
            assert_eq!(routed("GET", outside, &[("host", "localhost")]), Ok(Route::Outside), "{outside}");
        }
        let context = routed("GET", "http://localhost:900/healthz", &[("host", "localhost:900")]);
        assert_eq!(context, Ok(Route::Health));
        assert_eq!(routed("GET", "http://evil.example/", &[("host", "localhost")]), Ok(Route::Outside));
    }

    #[test]
    fn what_there_is_is_found_and_everything_else_is_refused() {
        let table = [
            ("GET", "/", Ok(Route::Status { html: false })),
            ("GET", "/?x=1", Ok(Route::Status { html: false })),
            ("GET", "/healthz", Ok(Route::Health)),
            ("POST", "/git/token/repo.git/git-upload-pack", Ok(Route::Git)),
            ("GET", "/healthz/", Err(RequestError::Path)),
            ("GET", "//", Err(RequestError::Path)),
            ("GET", "/v1/sandboxes", Err(RequestError::Path)),
            ("POST", "/v1/sandboxes", Err(RequestError::Path)),
            ("POST", "/", Err(RequestError::Method)),
            ("HEAD", "/", Err(RequestError::Method)),
            ("DELETE", "/healthz", Err(RequestError::Method)),
        ];
        for (method, uri, expected) in table {
            assert_eq!(routed(method, uri, &[("host", "localhost")]), expected, "{method} {uri}");
        }
    }

    #[test]
    fn browsers_get_a_page_and_programs_get_json() {
        let table = [
            ("text/html,application/xhtml+xml;q=0.9", true),
            ("application/json, TEXT/HTML;q=0.1", true),
            ("*/*", false),
            ("application/json", false),
        ];
        for (accept, html) in table {
            let found = routed("GET", "/", &[("host", "localhost"), ("accept", accept)]);
            assert_eq!(found, Ok(Route::Status { html }), "{accept}");
        }
    }
}
