//! Rewrites the hostnames in headers of requests and responses.
//!
//! Dev servers check `Host` and `Origin` and know themselves as `localhost:<port>`. So requests say that, for
//! pages and upgrades alike, and responses are changed back. Origins of other sites are left alone: the
//! servers' own checks must see them.

use crate::{Preview, Previews, Scheme};
use http::{
    HeaderMap, Uri, Version,
    header::{
        ACCESS_CONTROL_ALLOW_ORIGIN, CONNECTION, CONTENT_SECURITY_POLICY, COOKIE, EXPECT, FORWARDED, HOST,
        HeaderName, HeaderValue, LOCATION, ORIGIN, REFERER, TE, TRANSFER_ENCODING, UPGRADE, X_FRAME_OPTIONS,
    },
    request::Parts,
};
use protocol::api::PreviewHeaders;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const PROXY_AUTHORIZATION: HeaderName = HeaderName::from_static("proxy-authorization");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// Names that a server inside has for itself.
const LOCAL: [&str; 4] = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"];

/// The names of one preview, outside and inside.
pub struct HeaderRewrite<'a> {
    pub previews: &'a Previews,
    pub preview: Preview,
    /// The host of the request; absent where headers named the sandbox.
    pub authority: Option<&'a str>,
    pub policy: PreviewHeaders,
}

impl HeaderRewrite<'_> {
    /// Rewrites the head of a request for the app.
    pub fn rewrite_request(&self, parts: &mut Parts, upgrade: bool) {
        strip_hop_by_hop(&mut parts.headers, upgrade);
        for name in [EXPECT, FORWARDED, PROXY_AUTHORIZATION] {
            parts.headers.remove(name);
        }
        drop_forwarded(&mut parts.headers);
        if parts.version == Version::HTTP_2 {
            join_cookies(&mut parts.headers);
        }
        parts.version = Version::HTTP_11;
        parts.uri = origin_form(&parts.uri);
        if self.previews.scheme == Scheme::Https {
            parts.headers.insert(FORWARDED_PROTO, HeaderValue::from_static("https"));
        }
        let local = format!("localhost:{}", self.preview.port);
        let as_sent = self.policy == PreviewHeaders::AsSent;
        let host = self.authority.filter(|_| as_sent).unwrap_or(&local);
        parts.headers.insert(HOST, text(host));
        if !as_sent {
            for name in [ORIGIN, REFERER] {
                if let Some(value) = parts.headers.get(&name).and_then(|value| self.inward(value, &local)) {
                    parts.headers.insert(name, value);
                }
            }
        }
    }

    /// Rewrites an address of the preview itself to the one that the app knows.
    fn inward(&self, value: &HeaderValue, local: &str) -> Option<HeaderValue> {
        let (_, authority, path) = split(value.to_str().ok()?)?;
        let asked = self.authority?;
        let own = authority.eq_ignore_ascii_case(asked)
            || authority.eq_ignore_ascii_case(&self.previews.authority(&self.preview));
        own.then(|| text(&format!("http://{local}{path}")))
    }

    /// Rewrites the head of a response for the browser.
    pub fn rewrite_response(&self, headers: &mut HeaderMap, framed: bool) {
        strip_hop_by_hop(headers, false);
        if self.policy == PreviewHeaders::AsSent {
            return;
        }
        for name in [LOCATION, ACCESS_CONTROL_ALLOW_ORIGIN] {
            if let Some(value) = headers.get(&name).and_then(|value| self.outward(value)) {
                headers.insert(name, value);
            }
        }
        if framed {
            headers.remove(X_FRAME_OPTIONS);
            let policies = headers.get_all(CONTENT_SECURITY_POLICY).iter().map(frameable).collect::<Vec<_>>();
            headers.remove(CONTENT_SECURITY_POLICY);
            for policy in policies.into_iter().filter(|policy| !policy.is_empty()) {
                headers.append(CONTENT_SECURITY_POLICY, policy);
            }
        }
    }

    /// Rewrites an address of a server inside to the one that browsers reach.
    fn outward(&self, value: &HeaderValue) -> Option<HeaderValue> {
        let (scheme, authority, path) = split(value.to_str().ok()?)?;
        let (name, port) = match authority.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()?),
            _ => (authority, scheme.port()),
        };
        if !LOCAL.iter().any(|local| local.eq_ignore_ascii_case(name)) {
            return None;
        }
        let asked = self.authority?;
        if port == self.preview.port {
            return Some(text(&format!("{}://{asked}{path}", self.previews.scheme.word())));
        }
        let other = Preview::new(self.preview.sandbox, &port.to_string())?;
        Some(text(&format!("{}{path}", self.previews.url(&other))))
    }
}

/// Removes hop-by-hop headers.
pub fn strip_hop_by_hop(headers: &mut HeaderMap, upgrade: bool) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name: &HeaderName| *name != UPGRADE && *name != KEEP_ALIVE && name.as_str() != "close")
        .collect();
    let to = headers.get(UPGRADE).filter(|_| upgrade).cloned();
    let trailers =
        headers.get(TE).is_some_and(|value| value.to_str().is_ok_and(|te| te.contains("trailers")));
    for name in named {
        headers.remove(name);
    }
    for name in [CONNECTION, KEEP_ALIVE, PROXY_CONNECTION, TRANSFER_ENCODING, UPGRADE, TE] {
        headers.remove(name);
    }
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if let Some(to) = to {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, to);
    }
}

/// Drops what proxies in front claim: none of them is known, so none is trusted.
fn drop_forwarded(headers: &mut HeaderMap) {
    let said: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-forwarded-")).cloned().collect();
    for name in said {
        headers.remove(name);
    }
}

/// HTTP/2 may split cookies; HTTP/1.1 servers expect one header.
fn join_cookies(headers: &mut HeaderMap) {
    let all: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if all.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&all.join(&b"; "[..]))
    {
        headers.insert(COOKIE, joined);
    }
}

fn origin_form(uri: &Uri) -> Uri {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    path.parse().unwrap_or_else(|_| Uri::from_static("/"))
}

/// A policy without the rule that forbids framing.
fn frameable(policy: &HeaderValue) -> HeaderValue {
    let Ok(policy) = policy.to_str() else { return policy.clone() };
    let keeps = |rule: &&str| !rule.trim_start().to_ascii_lowercase().starts_with("frame-ancestors");
    text(policy.split(';').filter(keeps).collect::<Vec<_>>().join(";").trim())
}

/// Splits `http://authority/path` into its parts.
fn split(url: &str) -> Option<(Scheme, &str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = if scheme.eq_ignore_ascii_case("http") {
        Scheme::Http
    } else if scheme.eq_ignore_ascii_case("https") {
        Scheme::Https
    } else {
        return None;
    };
    let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    Some((scheme, &rest[..at], &rest[at..]))
}

/// Cannot fail: all parts come from header values.
fn text(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;
    use protocol::api::Visibility;

    const ID: &str = "01jb9xyzabcdefghjkmnpqrstv";
    const HOST_3000: &str = "s-01jb9xyzabcdefghjkmnpqrstv-3000.preview.localhost:8080";

    fn previews(scheme: Scheme) -> Previews {
        Previews { domain: "localhost".into(), scheme, port: 8080, visibility: Visibility::Public }
    }

    fn with<T>(policy: PreviewHeaders, act: impl FnOnce(&HeaderRewrite<'_>) -> T) -> T {
        let previews = previews(Scheme::Http);
        let preview = Preview { sandbox: ID.parse().expect("an id"), port: 3000 };
        act(&HeaderRewrite { previews: &previews, preview, authority: Some(HOST_3000), policy })
    }

    fn request(policy: PreviewHeaders, headers: &[(&str, &str)]) -> Parts {
        let mut request =
            Request::builder().uri(format!("http://{HOST_3000}/a?b=c")).header("host", HOST_3000);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut parts = request.body(()).expect("a request").into_parts().0;
        with(policy, |rewrite| rewrite.rewrite_request(&mut parts, false));
        parts
    }

    fn rewritten(name: HeaderName, value: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(name.clone(), value.parse().expect("a value"));
        with(PreviewHeaders::Localhost, |rewrite| rewrite.rewrite_response(&mut headers, false));
        headers[name].to_str().expect("text").to_owned()
    }

    #[test]
    fn an_app_sees_itself_as_localhost() {
        let own = format!("http://{HOST_3000}");
        let page = format!("https://{}/x?y", HOST_3000.to_ascii_uppercase());
        let parts = request(PreviewHeaders::Localhost, &[("origin", &own), ("referer", &page)]);
        assert_eq!(parts.uri, "/a?b=c");
        assert_eq!(parts.headers["host"], "localhost:3000");
        assert_eq!(parts.headers["origin"], "http://localhost:3000");
        assert_eq!(parts.headers["referer"], "http://localhost:3000/x?y");
        let parts = request(PreviewHeaders::AsSent, &[("origin", &own)]);
        assert_eq!(parts.headers["host"], HOST_3000);
        assert_eq!(parts.headers["origin"], own);
    }

    #[test]
    fn other_sites_stay_other_sites() {
        let neighbour = HOST_3000.replace("-3000.", "-3001.");
        for origin in [
            "https://evil.example",
            "null",
            "http://localhost:3000.evil.example",
            &format!("http://{neighbour}"),
            &format!("http://{HOST_3000}.evil.example"),
            &format!("http://{HOST_3000}@evil.example"),
            "http://s-01jb9xyzabcdefghjkmnpqrstv-3000.preview.localhost:9999",
        ] {
            let parts = request(PreviewHeaders::Localhost, &[("origin", origin)]);
            assert_eq!(parts.headers["origin"], origin);
        }
    }

    #[test]
    fn what_is_for_one_hop_or_claims_to_come_from_a_proxy_is_dropped() {
        let parts = request(
            PreviewHeaders::Localhost,
            &[
                ("connection", "keep-alive, x-secret"),
                ("keep-alive", "timeout=5"),
                ("x-secret", "1"),
                ("te", "trailers, deflate"),
                ("transfer-encoding", "chunked"),
                ("upgrade", "h2c"),
                ("expect", "100-continue"),
                ("forwarded", "for=1.2.3.4"),
                ("x-forwarded-host", "evil.example"),
                ("x-forwarded-for", "1.2.3.4"),
                ("proxy-authorization", "Basic x"),
                ("accept", "*/*"),
            ],
        );
        let mut left: Vec<&str> = parts.headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "host", "te"]);
        assert_eq!(parts.headers["te"], "trailers");
    }

    #[test]
    fn an_upgrade_keeps_what_makes_it_one() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        strip_hop_by_hop(&mut headers, true);
        assert_eq!((&headers[CONNECTION], &headers[UPGRADE]), (&text("Upgrade"), &text("websocket")));
    }

    #[test]
    fn cookies_that_http_2_split_are_one_again() {
        let mut parts = Request::builder()
            .version(Version::HTTP_2)
            .uri(format!("http://{HOST_3000}/"))
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .body(())
            .expect("a request")
            .into_parts()
            .0;
        with(PreviewHeaders::Localhost, |rewrite| rewrite.rewrite_request(&mut parts, false));
        assert_eq!(parts.headers.get_all("cookie").iter().collect::<Vec<_>>(), ["a=1; b=2"]);
        assert_eq!(parts.version, Version::HTTP_11);
    }

    #[test]
    fn redirects_lead_back_to_the_preview() {
        let own = format!("http://{HOST_3000}");
        let other = own.replace("-3000.", "-8000.");
        for (from, to) in [
            ("http://localhost:3000/login?next=/", format!("{own}/login?next=/")),
            ("https://127.0.0.1:3000", own.clone()),
            ("http://[::1]:3000/x", format!("{own}/x")),
            ("http://localhost:8000/x", format!("{other}/x")),
            ("/relative", "/relative".to_owned()),
            ("http://example.com:3000/", "http://example.com:3000/".to_owned()),
            ("http://localhost.example.com:3000/", "http://localhost.example.com:3000/".to_owned()),
            ("http://localhost:900/", "http://localhost:900/".to_owned()),
        ] {
            assert_eq!(rewritten(LOCATION, from), to, "{from}");
        }
        assert_eq!(rewritten(ACCESS_CONTROL_ALLOW_ORIGIN, "http://localhost:3000"), own);
        assert_eq!(rewritten(ACCESS_CONTROL_ALLOW_ORIGIN, "*"), "*");
    }

    #[test]
    fn a_page_can_be_framed_when_it_is_framed() {
        let headers = |framed: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
            let policy = "default-src 'self'; frame-ancestors 'none'";
            headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
            with(PreviewHeaders::Localhost, |rewrite| rewrite.rewrite_response(&mut headers, framed));
            headers
        };
        assert!(headers(false).contains_key(X_FRAME_OPTIONS));
        let framed = headers(true);
        assert!(!framed.contains_key(X_FRAME_OPTIONS));
        assert_eq!(framed[CONTENT_SECURITY_POLICY], "default-src 'self'");
    }

    #[test]
    fn an_app_behind_tls_is_told_so() {
        let previews = previews(Scheme::Https);
        let preview = Preview { sandbox: ID.parse().expect("an id"), port: 3000 };
        let policy = PreviewHeaders::Localhost;
        let rewrite = HeaderRewrite { previews: &previews, preview, authority: None, policy };
        let mut parts = Request::builder().uri("/").body(()).expect("a request").into_parts().0;
        rewrite.rewrite_request(&mut parts, false);
        assert_eq!(parts.headers["x-forwarded-proto"], "https");
    }
}
