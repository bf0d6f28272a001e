//! Checks Host and Origin. A page in a browser can be made to send requests here under another name (DNS
//! rebinding) or from another site: both are refused, whatever token they carry.

use super::{error::CallError, peer::Peer};
use hyper::{
    HeaderMap, Uri,
    header::{HOST, HeaderName, ORIGIN},
};
use protocol::api::ApiErrorCode;
use std::net::{IpAddr, SocketAddr};

/// Checks that the Host is served here and the Origin is the API's own.
pub fn check(peer: Peer, headers: &HeaderMap, uri: &Uri, names: &[String]) -> Result<(), CallError> {
    let Peer::Tcp { local, encrypted, .. } = peer else {
        // Browsers do not connect to Unix sockets.
        return Ok(());
    };
    let host = requested_host(headers, uri)?;
    if !is_served_name(host, local, names) {
        return Err(forbidden("this Host is not served here; add it to api_hosts"));
    }
    let origin = single_header(headers, &ORIGIN)?;
    if origin.is_some_and(|origin| !is_same_origin(origin, host, encrypted, names)) {
        return Err(forbidden("cross-origin requests are refused; this Origin is not the API's own"));
    }
    Ok(())
}

/// The host of a request: the Host of HTTP/1.1, the `:authority` of HTTP/2. A request with both must not say two things.
fn requested_host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Result<&'a str, CallError> {
    let authority = uri.authority().map(|authority| authority.as_str());
    match (single_header(headers, &HOST)?, authority) {
        (Some(host), Some(authority)) if !host.eq_ignore_ascii_case(authority) => {
            Err(forbidden("Host and the authority of the request differ"))
        }
        (Some(host), _) | (None, Some(host)) => Ok(host),
        (None, None) => Err(forbidden("the request has no Host")),
    }
}

fn single_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, CallError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            value.to_str().map(Some).map_err(|_| forbidden("Host and Origin must be visible ASCII"))
        }
        (Some(_), Some(_)) => Err(forbidden("Host and Origin may be sent once")),
    }
}

fn is_served_name(authority: &str, local: SocketAddr, names: &[String]) -> bool {
    let name = without_port(authority);
    let listed = names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    // An address cannot be rebound: loopback, or the one the connection came in on.
    let by_address =
        address.is_ok_and(|ip| ip.is_loopback() || ip.to_canonical() == local.ip().to_canonical());
    listed || by_address || name.eq_ignore_ascii_case("localhost")
}

/// The origin that the request goes to (an app on another port of localhost is another origin), or a
/// configured name. On a connection with TLS only `https`: anyone on the network can answer for `http`. On one without,
/// both: a proxy may add TLS.
fn is_same_origin(origin: &str, host: &str, encrypted: bool, names: &[String]) -> bool {
    let clear_text = || if encrypted { None } else { origin.strip_prefix("http://") };
    origin.strip_prefix("https://").or_else(clear_text).is_some_and(|authority| {
        authority.eq_ignore_ascii_case(host)
            || names.iter().any(|known| known.eq_ignore_ascii_case(without_port(authority)))
    })
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        // A colon inside brackets belongs to the address.
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => authority,
    }
}

fn forbidden(message: &str) -> CallError {
    CallError::new(ApiErrorCode::Forbidden, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(encrypted: bool) -> Peer {
        let (from, local) = ("10.0.0.9:4444".parse().unwrap(), "10.0.0.7:9090".parse().unwrap());
        Peer::Tcp { from, local, encrypted }
    }

    #[track_caller]
    fn allowed(host: &str, origin: Option<&str>, expected: bool) {
        allowed_by(peer(false), host, origin, expected);
    }

    #[track_caller]
    fn allowed_by(peer: Peer, host: &str, origin: Option<&str>, expected: bool) {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        let names = ["slipway.example".to_owned()];
        let found = check(peer, &headers, &Uri::from_static("/v1/host"), &names).is_ok();
        assert_eq!(found, expected, "{host} {origin:?}");
    }

    #[test]
    fn served_host_names_are_accepted_and_others_are_not() {
        for good in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:9090",
            "[::1]:9090",
            "[::1]",
            "10.0.0.7",
            "Slipway.Example:443",
        ] {
            allowed(good, None, true);
        }
        for bad in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.8",
            "",
            ":9090",
            "x.localhost",
            "user@localhost",
            "0.0.0.0",
        ] {
            allowed(bad, None, false);
        }
    }

    #[test]
    fn cross_origin_requests_are_refused() {
        let table = [
            ("http://localhost:9090", true),
            ("http://slipway.example", true),
            ("http://localhost:3000", false),
            ("http://s-01jb9xyzabcdefghjkmnpqrstv-3000.preview.localhost:9090", false),
            ("https://evil.example", false),
            ("null", false),
            ("file://localhost:9090", false),
        ];
        for (origin, expected) in table {
            allowed("localhost:9090", Some(origin), expected);
        }
    }

    #[test]
    fn with_tls_only_https_origins_are_the_apis_own() {
        for (origin, expected) in [
            ("https://localhost:9090", true),
            ("https://slipway.example", true),
            ("https://slipway.example:8443", true),
            ("http://localhost:9090", false),
            ("http://slipway.example", false),
            ("https://localhost", false),
        ] {
            allowed_by(peer(true), "localhost:9090", Some(origin), expected);
        }
        // Behind a proxy that adds TLS.
        allowed("slipway.example", Some("https://slipway.example"), true);
    }

    #[test]
    fn the_authority_of_http2_is_checked_like_a_host() {
        for (authority, host, expected) in [
            ("localhost:9090", None, true),
            ("LocalHost:9090", Some("localhost:9090"), true),
            ("[::1]:9090", None, true),
            ("evil.example", None, false),
            ("evil.example", Some("localhost"), false),
            ("localhost", Some("evil.example"), false),
            ("user@localhost", None, false),
        ] {
            let uri: Uri = format!("https://{authority}/v1/host").parse().unwrap();
            let mut headers = HeaderMap::new();
            if let Some(host) = host {
                headers.insert(HOST, host.parse().unwrap());
            }
            let found = check(peer(true), &headers, &uri, &[]).is_ok();
            assert_eq!(found, expected, "{authority} {host:?}");
        }
    }

    #[test]
    fn a_request_with_no_host_or_two_is_refused() {
        let local = "127.0.0.1:1".parse().unwrap();
        let peer = Peer::Tcp { from: local, local, encrypted: false };
        let mut headers = HeaderMap::new();
        assert!(check(peer, &headers, &Uri::from_static("/"), &[]).is_err());
        headers.append(HOST, "localhost".parse().unwrap());
        headers.append(HOST, "localhost".parse().unwrap());
        assert!(check(peer, &headers, &Uri::from_static("/"), &[]).is_err());
        assert!(check(Peer::Unix { uid: 0 }, &headers, &Uri::from_static("/"), &[]).is_ok());
    }
}
