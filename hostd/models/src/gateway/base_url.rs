//! The base URL of a provider, parsed. Pure. An operator configures it, so any address is allowed.

use hyper::{Uri, header::HeaderValue};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    pub secure: bool,
    /// A name or an address; IPv6 without brackets.
    pub host: String,
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    pub origin: Origin,
    /// For the header `Host`.
    pub host: HeaderValue,
    path: String,
    query: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its base URL must be http:// or https:// with a host, without a user; add the provider again")]
pub struct InvalidBaseUrl;

impl BaseUrl {
    pub fn parse(url: &str) -> Result<Self, InvalidBaseUrl> {
        let uri: Uri = url.parse().map_err(|_| InvalidBaseUrl)?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(InvalidBaseUrl),
        };
        let authority = uri.authority().ok_or(InvalidBaseUrl)?;
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(InvalidBaseUrl);
        }
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| InvalidBaseUrl)?;
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let name = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let path = uri.path().trim_end_matches('/').to_owned();
        let query = uri.query().map(str::to_owned);
        Ok(Self { origin: Origin { secure, host: name, port }, host, path, query })
    }

    /// The request target. Both queries are kept, since some providers need a parameter in their base URL.
    pub fn target(&self, path: &str, query: &str) -> Result<Uri, InvalidBaseUrl> {
        let mut target = format!("{}{path}", self.path);
        let queries = [self.query.as_deref().unwrap_or_default(), query];
        for (at, query) in queries.into_iter().filter(|query| !query.is_empty()).enumerate() {
            target.push(if at == 0 { '?' } else { '&' });
            target.push_str(query);
        }
        target.parse().map_err(|_| InvalidBaseUrl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_parsed() {
        let table = [
            ("https://api.example/v1", (true, "api.example", 443), "api.example", "/v1/messages?beta=true"),
            ("http://127.0.0.1:8080", (false, "127.0.0.1", 8080), "127.0.0.1:8080", "/messages?beta=true"),
            ("http://[::1]:9/a/b/", (false, "::1", 9), "[::1]:9", "/a/b/messages?beta=true"),
            ("https://x.example/v1?v=2", (true, "x.example", 443), "x.example", "/v1/messages?v=2&beta=true"),
        ];
        for (url, (secure, host, port), header, target) in table {
            let base = BaseUrl::parse(url).expect(url);
            assert_eq!(base.origin, Origin { secure, host: host.to_owned(), port }, "{url}");
            assert_eq!(base.host, header, "{url}");
            assert_eq!(base.target("/messages", "beta=true").expect(url).to_string(), target, "{url}");
        }
        let plain =
            BaseUrl::parse("http://a").expect("an address").target("/messages", "").expect("a target");
        assert_eq!(plain.to_string(), "/messages");
    }

    #[test]
    fn an_invalid_base_url_is_refused() {
        for url in ["", "api.example/v1", "ftp://a", "http://", "http://u:p@a/", "/v1", "http:// a"] {
            assert_eq!(BaseUrl::parse(url), Err(InvalidBaseUrl), "{url}");
        }
    }
}
