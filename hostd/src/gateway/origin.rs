//! Where a provider is: its base URL, taken apart. Pure. It is an operator's word, so any address is good.

use hyper::{Uri, header::HeaderValue};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    pub secure: bool,
    /// A name, or an address; of IPv6 without brackets.
    pub host: String,
    pub port: u16,
}

/// One provider's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    pub origin: Origin,
    /// For the header `Host`.
    pub host: HeaderValue,
    path: String,
    query: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its base URL must be http:// or https:// with a host, without a user; add the provider again")]
pub struct BadBase;

impl Base {
    pub fn parse(url: &str) -> Result<Self, BadBase> {
        let uri: Uri = url.parse().map_err(|_| BadBase)?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(BadBase),
        };
        let authority = uri.authority().ok_or(BadBase)?;
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(BadBase);
        }
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| BadBase)?;
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let name = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let path = uri.path().trim_end_matches('/').to_owned();
        let query = uri.query().map(str::to_owned);
        Ok(Self { origin: Origin { secure, host: name, port }, host, path, query })
    }

    /// In the request line. Both queries are kept: some providers want one of their own.
    pub fn target(&self, path: &str, query: &str) -> Result<Uri, BadBase> {
        let mut target = format!("{}{path}", self.path);
        let queries = [self.query.as_deref().unwrap_or_default(), query];
        for (at, query) in queries.into_iter().filter(|query| !query.is_empty()).enumerate() {
            target.push(if at == 0 { '?' } else { '&' });
            target.push_str(query);
        }
        target.parse().map_err(|_| BadBase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_taken_apart() {
        let table = [
            ("https://api.example/v1", (true, "api.example", 443), "api.example", "/v1/messages?beta=true"),
            ("http://127.0.0.1:8080", (false, "127.0.0.1", 8080), "127.0.0.1:8080", "/messages?beta=true"),
            ("http://[::1]:9/a/b/", (false, "::1", 9), "[::1]:9", "/a/b/messages?beta=true"),
            ("https://x.example/v1?v=2", (true, "x.example", 443), "x.example", "/v1/messages?v=2&beta=true"),
        ];
        for (url, (secure, host, port), header, target) in table {
            let base = Base::parse(url).expect(url);
            assert_eq!(base.origin, Origin { secure, host: host.to_owned(), port }, "{url}");
            assert_eq!(base.host, header, "{url}");
            assert_eq!(base.target("/messages", "beta=true").expect(url).to_string(), target, "{url}");
        }
        let plain = Base::parse("http://a").expect("an address").target("/messages", "").expect("a target");
        assert_eq!(plain.to_string(), "/messages");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in ["", "api.example/v1", "ftp://a", "http://", "http://u:p@a/", "/v1", "http:// a"] {
            assert_eq!(Base::parse(url), Err(BadBase), "{url}");
        }
    }
}
