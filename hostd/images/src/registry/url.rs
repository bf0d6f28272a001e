//! Addresses of registries, of their token services, and of redirects. Pure.

use crate::{ImageReference, limits::URL_MAX_BYTES};
use hostd_core::egress::{Destination, Host};
use hyper::Uri;
use std::fmt;

/// The server behind `docker.io`.
const DOCKER_HUB_SERVER: &str = "registry-1.docker.io";
const HTTPS_PORT: u16 = 443;
const HTTP_PORT: u16 = 80;

/// A server, and whether it is reached with TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    pub secure: bool,
    pub host: Host,
    pub port: u16,
}

/// An address of HTTP. Neither `Debug` nor `Display` prints the path: content networks sign it.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    pub origin: Origin,
    /// The server as it is written, with its port if that is written: as an operator would list it.
    pub authority: String,
    /// Path and query.
    pub target: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    #[error("an address that is not valid")]
    Malformed,
    #[error("an address without encryption")]
    Insecure,
}

impl Origin {
    /// Returns the value of the header `Host`.
    pub fn host_header(&self) -> String {
        match self.port == default_port(self.secure) {
            true => self.host.to_string(),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl Url {
    /// Returns an address in the registry of an image. The registry is as the image's name says.
    pub fn of_registry(image: &ImageReference, target: String) -> Result<Self, InvalidUrl> {
        let authority = image.registry_host().to_ascii_lowercase();
        let server = if image.is_docker_hub() { DOCKER_HUB_SERVER } else { &authority };
        let server = Destination::parse(server, Some(HTTPS_PORT)).map_err(|_| InvalidUrl::Malformed)?;
        let origin = Origin { secure: true, host: server.host, port: server.port };
        Ok(Self { origin, authority, target })
    }

    /// Parses an absolute address.
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        if text.len() > URL_MAX_BYTES {
            return Err(InvalidUrl::Malformed);
        }
        let uri: Uri = text.parse().map_err(|_| InvalidUrl::Malformed)?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(InvalidUrl::Malformed),
        };
        let authority = uri.authority().ok_or(InvalidUrl::Malformed)?.as_str().to_ascii_lowercase();
        // A user in an address is either a mistake or an attempt to be mistaken.
        if authority.contains('@') {
            return Err(InvalidUrl::Malformed);
        }
        let server = Destination::parse(&authority, Some(default_port(secure)));
        let Destination { host, port } = server.map_err(|_| InvalidUrl::Malformed)?;
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Self { origin: Origin { secure, host, port }, authority, target })
    }

    /// Returns the address that a response from here points to: absolute, or a path on this server. An address without
    /// TLS is only followed from one without TLS.
    pub fn join(&self, location: &str) -> Result<Self, InvalidUrl> {
        let joined = if location.starts_with("//") {
            Self::parse(&format!("{}:{location}", self.scheme()))?
        } else if location.starts_with('/') {
            let target: Uri = location.parse().map_err(|_| InvalidUrl::Malformed)?;
            let target = target.path_and_query().ok_or(InvalidUrl::Malformed)?;
            Self { target: target.as_str().to_owned(), ..self.clone() }
        } else {
            Self::parse(location)?
        };
        match (self.origin.secure, joined.origin.secure) {
            (true, false) => Err(InvalidUrl::Insecure),
            (true | false, true) | (false, false) => Ok(joined),
        }
    }

    /// Returns the same address without TLS. The default port differs.
    pub fn without_tls(&self) -> Self {
        let has_default_port = self.origin.port == HTTPS_PORT && !self.authority.ends_with(":443");
        let port = if has_default_port { HTTP_PORT } else { self.origin.port };
        let origin = Origin { secure: false, host: self.origin.host.clone(), port };
        Self { origin, ..self.clone() }
    }

    /// Adds parameters to the query.
    pub fn with_query(mut self, parameters: &[(&str, &str)]) -> Self {
        for (name, value) in parameters {
            self.target.push(if self.target.contains('?') { '&' } else { '?' });
            self.target.push_str(name);
            self.target.push('=');
            for byte in value.bytes() {
                if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                    self.target.push(byte.into());
                } else {
                    self.target.push_str(&format!("%{byte:02X}"));
                }
            }
        }
        self
    }

    fn scheme(&self) -> &'static str {
        if self.origin.secure { "https" } else { "http" }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.authority)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn default_port(secure: bool) -> u16 {
    if secure { HTTPS_PORT } else { HTTP_PORT }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Scheme, `Host` header, port and target.
    fn shown(url: &Url) -> String {
        format!("{} {} {} {}", url.scheme(), url.origin.host_header(), url.origin.port, url.target)
    }

    #[test]
    fn an_image_has_an_address_in_its_registry() {
        for (image, expected) in [
            ("alpine", "https registry-1.docker.io 443 /v2/"),
            ("Docker.io/team/app", "https registry-1.docker.io 443 /v2/"),
            ("ghcr.io/team/app", "https ghcr.io 443 /v2/"),
            ("Registry.Example:5000/app", "https registry.example:5000 5000 /v2/"),
            ("127.1:5000/app", "https 127.0.0.1:5000 5000 /v2/"),
        ] {
            let image = ImageReference::parse(image).expect(image);
            assert_eq!(shown(&Url::of_registry(&image, "/v2/".into()).expect("valid")), expected, "{image}");
        }
    }

    #[test]
    fn redirects_are_followed_to_valid_addresses_and_never_out_of_tls() {
        let from = Url::parse("https://reg.example/v2/app/blobs/x").expect("valid");
        let table = [
            ("https://cdn.example/x?sig=a%2Fb", Ok("https cdn.example 443 /x?sig=a%2Fb")),
            ("https://CDN.example:8443", Ok("https cdn.example:8443 8443 /")),
            ("https://[::1]/x", Ok("https [::1] 443 /x")),
            ("https://0x7f.1/x", Ok("https 127.0.0.1 443 /x")),
            ("//cdn.example/x", Ok("https cdn.example 443 /x")),
            ("/y?z", Ok("https reg.example 443 /y?z")),
            ("https://cdn.example/x#y", Ok("https cdn.example 443 /x")),
            ("http://cdn.example/x", Err(InvalidUrl::Insecure)),
            ("http://reg.example/v2/app/blobs/x", Err(InvalidUrl::Insecure)),
            ("", Err(InvalidUrl::Malformed)),
            ("y", Err(InvalidUrl::Malformed)),
            ("ftp://a/b", Err(InvalidUrl::Malformed)),
            ("https://a@b/c", Err(InvalidUrl::Malformed)),
            ("https://a:0/c", Err(InvalidUrl::Malformed)),
            ("https://a b/c", Err(InvalidUrl::Malformed)),
            ("/a b", Err(InvalidUrl::Malformed)),
            ("https://300.1.1.1/", Err(InvalidUrl::Malformed)),
        ];
        for (location, expected) in table {
            let joined = from.join(location).map(|url| shown(&url));
            assert_eq!(joined, expected.map(str::to_owned), "{location}");
        }
        let plain = from.without_tls().join("http://cdn.example/x").map(|url| shown(&url));
        assert_eq!(plain.as_deref(), Ok("http cdn.example 80 /x"));
        assert_eq!(
            from.join(&format!("https://a/{}", "x".repeat(URL_MAX_BYTES))),
            Err(InvalidUrl::Malformed)
        );
    }

    #[test]
    fn parameters_are_escaped_and_signatures_are_not_printed() {
        let url = Url::parse("https://a/token?x=1").expect("valid");
        let url = url.with_query(&[("scope", "repository:a/b:pull"), ("service", "a&b")]);
        assert_eq!(url.target, "/token?x=1&scope=repository%3Aa%2Fb%3Apull&service=a%26b");
        assert_eq!(format!("{url} {url:?}"), "https://a https://a");
    }

    proptest! {
        #[test]
        fn no_location_breaks_the_parser(location in "(https?:)?/{0,3}[ -~]{0,40}", any: String) {
            let from = Url::parse("https://reg.example/").expect("valid");
            for location in [location, any] {
                if let Ok(url) = from.join(&location) {
                    prop_assert!(url.origin.secure);
                    prop_assert!(url.target.starts_with('/'));
                    prop_assert!(url.target.parse::<Uri>().is_ok());
                }
            }
        }
    }
}
