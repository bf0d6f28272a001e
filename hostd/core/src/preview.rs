//! Names and addresses of previews: where the app in a sandbox is seen from outside.

use crate::AppPort;
use protocol::api::{SandboxId, Visibility};
use std::collections::BTreeMap;

/// Where previews are served, as browsers see it.
#[derive(Debug, Clone)]
pub struct Previews {
    pub domain: String,
    pub scheme: Scheme,
    pub port: u16,
    /// The visibility of sandboxes that do not specify one.
    pub visibility: Visibility,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The default port, which URLs omit.
    pub fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A port of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Preview {
    pub sandbox: SandboxId,
    pub port: u16,
}

impl Previews {
    /// The URL of each port, by the port.
    pub fn of(&self, id: &SandboxId, ports: &[u16]) -> BTreeMap<String, String> {
        let url = |port: u16| self.url(&Preview { sandbox: *id, port });
        ports.iter().map(|port| (port.to_string(), url(*port))).collect()
    }

    /// The URL without a path, which is also the origin.
    pub fn url(&self, preview: &Preview) -> String {
        format!("{}://{}", self.scheme.word(), self.authority(preview))
    }

    /// The hostname, and the port where it is not the default.
    pub fn authority(&self, preview: &Preview) -> String {
        let name = self.name(preview);
        if self.port == self.scheme.port() { name } else { format!("{name}:{}", self.port) }
    }

    /// A template of preview URLs, for users.
    pub fn example(&self) -> String {
        let port = if self.port == self.scheme.port() { String::new() } else { format!(":{}", self.port) };
        format!("{}://s-<id>-<port>.preview.{}{port}", self.scheme.word(), self.domain)
    }

    pub fn name(&self, preview: &Preview) -> String {
        format!("s-{}-{}.preview.{}", preview.sandbox, preview.port, self.domain)
    }

    /// Parses the preview that a `Host` names: `s-<id>-<port>.preview.<domain>` or `<port>-<id>.<domain>`, in
    /// any case, with any port behind it.
    pub fn parse(&self, authority: &str) -> Option<Preview> {
        let name = match authority.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
            Some(_) => return None,
            None => authority,
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        let (first, domain) = name.split_once('.')?;
        let (sandbox, port) = if domain.eq_ignore_ascii_case(&self.domain) {
            let (port, sandbox) = first.split_once('-')?;
            (sandbox, port)
        } else {
            let (word, domain) = domain.split_once('.')?;
            let ours = word.eq_ignore_ascii_case("preview") && domain.eq_ignore_ascii_case(&self.domain);
            let (s, rest) = first.split_once('-').filter(|_| ours)?;
            rest.rsplit_once('-').filter(|_| s.eq_ignore_ascii_case("s"))?
        };
        Preview::new(sandbox.parse().ok()?, port)
    }
}

impl Preview {
    /// Parses the port, which is not hostd's own.
    pub fn new(sandbox: SandboxId, port: &str) -> Option<Self> {
        AppPort::parse(port).map(|port| Self { sandbox, port: port.get() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::HOSTD_PORT_IN_SANDBOX;

    const ID: &str = "01jb9xyzabcdefghjkmnpqrstv";

    fn previews(scheme: Scheme, port: u16) -> Previews {
        Previews { domain: "example.com".into(), scheme, port, visibility: Visibility::Public }
    }

    #[test]
    fn previews_are_named_by_sandbox_and_port() {
        let preview = Preview { sandbox: ID.parse().unwrap(), port: 3000 };
        let host = "s-01jb9xyzabcdefghjkmnpqrstv-3000.preview.example.com";
        for (scheme, port, expected) in [
            (Scheme::Http, 8080, format!("http://{host}:8080")),
            (Scheme::Http, 80, format!("http://{host}")),
            (Scheme::Https, 443, format!("https://{host}")),
            (Scheme::Https, 80, format!("https://{host}:80")),
        ] {
            let previews = previews(scheme, port);
            assert_eq!(previews.url(&preview), expected);
            assert_eq!(previews.example(), expected.replace(&format!("{ID}-3000"), "<id>-<port>"));
        }
    }

    #[test]
    fn both_forms_of_a_name_are_understood_in_any_case() {
        let previews = previews(Scheme::Http, 8080);
        let upper = ID.to_ascii_uppercase();
        for good in [
            format!("s-{ID}-3000.preview.example.com"),
            format!("S-{upper}-3000.PREVIEW.Example.COM:8080"),
            format!("s-{ID}-3000.preview.example.com.:1"),
            format!("3000-{ID}.example.com"),
            format!("3000-{upper}.example.com:443"),
        ] {
            let found = previews.parse(&good).unwrap_or_else(|| panic!("{good}"));
            assert_eq!((found.sandbox.as_str(), found.port), (ID, 3000), "{good}");
        }
    }

    #[test]
    fn what_is_no_preview_is_none() {
        let previews = previews(Scheme::Http, 8080);
        for bad in [
            "",
            "example.com",
            "preview.example.com",
            "localhost:8080",
            &format!("s-{ID}-3000.preview.example.com.evil"),
            &format!("s-{ID}-3000.preview.evil.com"),
            &format!("s-{ID}-3000.example.com"),
            &format!("x.s-{ID}-3000.preview.example.com"),
            &format!("s-{ID}-0.preview.example.com"),
            &format!("s-{ID}-03000.preview.example.com"),
            &format!("s-{ID}-+3000.preview.example.com"),
            &format!("s-{ID}-65536.preview.example.com"),
            &format!("s-{ID}.preview.example.com"),
            &format!("3000-{ID}x.example.com"),
            &format!("3000-{ID}.preview.example.com"),
            &format!("s-{ID}-3000.preview.example.com:80:80"),
            &format!("s-{ID}-3000.preview.example.com:8a"),
            &format!("user@s-{ID}-3000.preview.example.com"),
        ] {
            assert_eq!(previews.parse(bad), None, "{bad:?}");
        }
        let own = format!("s-{ID}-{HOSTD_PORT_IN_SANDBOX}.preview.example.com");
        assert_eq!(previews.parse(&own), None, "hostd's own port inside is no app");
    }
}
