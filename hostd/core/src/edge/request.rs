//! Whether a request can be forwarded, and what kind of request it is, decided from its head alone.

use http::{
    HeaderMap, Method, Version,
    header::{ACCEPT, AsHeaderName, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, UPGRADE},
    request::Parts,
};

/// Why a request is not forwarded, whatever it asks for. The connection ends with it: where the next request
/// would begin is not certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MalformedRequest {
    Host,
    Length,
    Method,
}

impl MalformedRequest {
    pub fn reason(self) -> &'static str {
        match self {
            Self::Host => "It names no Host, or two, or another one in its first line.",
            Self::Length => "It states the length of its body twice.",
            Self::Method => "Its method is not forwarded.",
        }
    }
}

/// Returns the host that the request is for.
pub fn authority(parts: &Parts) -> Result<&str, MalformedRequest> {
    if matches!(parts.method, Method::CONNECT | Method::TRACE) {
        return Err(MalformedRequest::Method);
    }
    let both = parts.headers.contains_key(CONTENT_LENGTH) && parts.headers.contains_key(TRANSFER_ENCODING);
    if both || count(&parts.headers, CONTENT_LENGTH) > 1 || count(&parts.headers, TRANSFER_ENCODING) > 1 {
        return Err(MalformedRequest::Length);
    }
    let mut hosts = parts.headers.get_all(HOST).iter();
    let named = parts.uri.authority().map(|authority| authority.as_str());
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(host.to_str().map_err(|_| MalformedRequest::Host)?),
        (None, _) if parts.version == Version::HTTP_2 => None,
        _ => return Err(MalformedRequest::Host),
    };
    match (host, named) {
        (Some(host), Some(named)) if !host.eq_ignore_ascii_case(named) => Err(MalformedRequest::Host),
        (Some(host), _) => Ok(host),
        (None, Some(named)) => Ok(named),
        (None, None) => Err(MalformedRequest::Host),
    }
}

fn count(headers: &HeaderMap, name: impl AsHeaderName) -> usize {
    headers.get_all(name).iter().count()
}

/// The traits of a request that decide how it is forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTraits {
    pub kind: RequestKind,
    pub purpose: RequestPurpose,
    /// The page is shown within another one.
    pub framed: bool,
    /// May be sent again when it is not known whether it arrived.
    pub idempotent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A browser opens a page: it can be shown another one meanwhile.
    Navigation,
    Upgrade,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPurpose {
    Visit,
    /// Sent by the script of a forgotten tab to see whether its server is back: not worth waking a sandbox for.
    Probe,
}

impl RequestTraits {
    pub fn wakes(&self) -> bool {
        match self.purpose {
            RequestPurpose::Visit => true,
            RequestPurpose::Probe => false,
        }
    }

    pub fn of(parts: &Parts) -> Self {
        let headers = &parts.headers;
        let html = listed(headers, ACCEPT, "text/html");
        let upgrade = is_upgrade(parts);
        let mode = word(headers, "sec-fetch-mode");
        let get = parts.method == Method::GET;
        let framed = matches!(word(headers, "sec-fetch-dest"), "iframe" | "frame" | "embed" | "object");
        let probes = listed(headers, "sec-websocket-protocol", "vite-ping")
            || listed(headers, ACCEPT, "text/x-vite-ping")
            || upgrade && matches!(parts.uri.path(), "/_next/hmr" | "/_next/webpack-hmr");
        let kind = if upgrade {
            RequestKind::Upgrade
        } else if get && html && matches!(mode, "" | "navigate") {
            RequestKind::Navigation
        } else {
            RequestKind::Other
        };
        Self {
            kind,
            purpose: if probes { RequestPurpose::Probe } else { RequestPurpose::Visit },
            framed,
            idempotent: matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS),
        }
    }
}

/// Whether a request asks for an upgrade. HTTP/2 in clear text is not begun this way: its clients send the
/// preface first.
fn is_upgrade(parts: &Parts) -> bool {
    let to = word(&parts.headers, UPGRADE);
    parts.version == Version::HTTP_11
        && listed(&parts.headers, CONNECTION, "upgrade")
        && !to.is_empty()
        && !to.to_ascii_lowercase().starts_with("h2c")
}

fn word(headers: &HeaderMap, name: impl AsHeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Whether a comma-separated header, whose items may have parameters, has this item.
fn listed(headers: &HeaderMap, name: impl AsHeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let mut words = values.flat_map(|value| value.split(',')).filter_map(|part| part.split(';').next());
    words.any(|word| word.trim().eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn parts(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn one_host_is_named_once() {
        let named =
            |uri: &str, headers: &[(&str, &str)]| authority(&parts("GET", uri, headers)).map(str::to_owned);
        assert_eq!(named("/", &[("host", "a.b:80")]), Ok("a.b:80".to_owned()));
        assert_eq!(named("http://A.b/", &[("host", "a.b")]), Ok("a.b".to_owned()));
        assert_eq!(named("http://c.d/", &[("host", "a.b")]), Err(MalformedRequest::Host));
        assert_eq!(named("/", &[("host", "a.b"), ("host", "a.b")]), Err(MalformedRequest::Host));
        assert_eq!(named("/", &[]), Err(MalformedRequest::Host));
        assert_eq!(named("http://a.b/", &[]), Err(MalformedRequest::Host), "HTTP/1.1 has it as a header");
        let mut second = parts("GET", "http://a.b/", &[]);
        second.version = Version::HTTP_2;
        assert_eq!(authority(&second), Ok("a.b"));
    }

    #[test]
    fn a_length_said_twice_is_refused() {
        let said = |headers: &[(&str, &str)]| {
            let headers = [&[("host", "a.b")], headers].concat();
            authority(&parts("POST", "/", &headers)).err()
        };
        assert_eq!(said(&[("content-length", "4")]), None);
        assert_eq!(said(&[("transfer-encoding", "chunked")]), None);
        for twice in [
            [("content-length", "4"), ("transfer-encoding", "chunked")],
            [("content-length", "4"), ("content-length", "4")],
            [("transfer-encoding", "chunked"), ("transfer-encoding", "identity")],
        ] {
            assert_eq!(said(&twice), Some(MalformedRequest::Length), "{twice:?}");
        }
    }

    #[test]
    fn tunnels_are_refused() {
        for method in ["CONNECT", "TRACE"] {
            assert_eq!(authority(&parts(method, "/", &[("host", "a.b")])), Err(MalformedRequest::Method));
        }
    }

    #[test]
    fn a_page_that_is_opened_is_told_from_what_it_asks_for_itself() {
        let html = ("accept", "text/html,application/xhtml+xml;q=0.9");
        let navigates = |method: &str, headers: &[(&str, &str)]| {
            RequestTraits::of(&parts(method, "/", headers)).kind == RequestKind::Navigation
        };
        assert!(navigates("GET", &[html]));
        assert!(navigates("GET", &[html, ("sec-fetch-mode", "navigate")]));
        assert!(!navigates("GET", &[html, ("sec-fetch-mode", "cors")]));
        assert!(!navigates("GET", &[("accept", "*/*")]));
        assert!(!navigates("POST", &[html]));
        assert!(!navigates("GET", &[]));
        assert!(!navigates("GET", &[html, ("connection", "Upgrade"), ("upgrade", "websocket")]));
    }

    #[test]
    fn an_upgrade_is_asked_for_twice_and_is_never_to_http_2() {
        let upgrades = |headers: &[(&str, &str)]| {
            RequestTraits::of(&parts("GET", "/", headers)).kind == RequestKind::Upgrade
        };
        assert!(upgrades(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]));
        assert!(upgrades(&[("connection", "upgrade"), ("upgrade", "anything/1")]));
        assert!(!upgrades(&[("upgrade", "websocket")]));
        assert!(!upgrades(&[("connection", "upgrade")]));
        assert!(!upgrades(&[("connection", "upgrade, http2-settings"), ("upgrade", "h2c")]));
    }

    #[test]
    fn a_probe_of_a_forgotten_tab_wakes_no_sandbox() {
        let wakes = |headers: &[(&str, &str)]| RequestTraits::of(&parts("GET", "/", headers)).wakes();
        assert!(!wakes(&[("sec-websocket-protocol", "vite-ping")]));
        assert!(!wakes(&[("accept", "text/x-vite-ping")]));
        assert!(wakes(&[("sec-websocket-protocol", "vite-hmr")]));
        let socket = [("connection", "upgrade"), ("upgrade", "websocket")];
        assert!(!RequestTraits::of(&parts("GET", "/_next/hmr?id=1", &socket)).wakes());
        assert!(RequestTraits::of(&parts("GET", "/socket", &socket)).wakes());
        assert!(wakes(&[]));
    }
}
