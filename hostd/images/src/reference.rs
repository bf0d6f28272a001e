//! Image references: `alpine`, `alpine:3.20`, `registry:5000/team/app@sha256:…`.

use crate::Digest;
use std::fmt;

/// Registry, path, tag and digest together.
pub const IMAGE_REFERENCE_MAX_BYTES: usize = 256;
const TAG_MAX_BYTES: usize = 128;
const TAG_DEFAULT: &str = "latest";
/// Prefixes of images that hostd imports into a container engine.
pub const RESERVED_PREFIXES: [&str; 2] = ["slipway-host", "slipway-image-"];
/// The registry of a reference that names none, and its other names.
const DOCKER_HUB: &str = "docker.io";
const DOCKER_HUB_NAMES: [&str; 3] = [DOCKER_HUB, "index.docker.io", "registry-1.docker.io"];
/// Beside Docker Hub, engines take images without a registry for images of this one.
const LOCALHOST: &str = "localhost";
/// The path of images of Docker Hub that have no user.
const LIBRARY: &str = "library/";
/// Prefixes that engines take for an image id.
const DIGEST_ALGORITHMS: [&str; 3] = ["sha256", "sha384", "sha512"];

/// A reference with an explicit tag or digest, so that no engine takes it for the beginning of an image id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageReference {
    full: String,
    registry: Option<String>,
    repository: String,
    version: ImageVersion,
}

/// The version of an image that a reference means. A reference with both means the digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageVersion {
    Tag(String),
    Digest(Digest),
}

impl ImageReference {
    /// Parses a reference; the error says what is wrong with it.
    pub fn parse(name: &str) -> Result<Self, &'static str> {
        let Parts { path, tag, digest } = split(name)?;
        let (first, rest) = path.split_once('/').unwrap_or(("", path));
        let has_registry =
            first == LOCALHOST || first.contains(['.', ':']) || first.bytes().any(|b| b.is_ascii_uppercase());
        let registry = has_registry.then(|| first.to_owned());
        let own = if has_registry { rest } else { path };
        let is_hub = registry.as_deref().is_none_or(is_docker_hub);
        let is_default = is_hub || first.eq_ignore_ascii_case(LOCALHOST);
        let short = own.strip_prefix(LIBRARY).unwrap_or(own);
        if is_default && RESERVED_PREFIXES.iter().any(|reserved| short.starts_with(reserved)) {
            return Err("names that begin with slipway- are reserved");
        }
        if DIGEST_ALGORITHMS.contains(&path) {
            return Err("use the name of the image, not its id");
        }
        let is_plain = tag.is_none() && digest.is_none();
        let full = if is_plain { format!("{name}:{TAG_DEFAULT}") } else { name.to_owned() };
        let repository =
            if is_hub && !own.contains('/') { format!("{LIBRARY}{own}") } else { own.to_owned() };
        let version = match digest {
            Some(digest) => ImageVersion::Digest(digest),
            None => ImageVersion::Tag(tag.unwrap_or(TAG_DEFAULT).to_owned()),
        };
        Ok(Self { full, registry, repository, version })
    }

    /// Returns the reference as it was given, with an explicit tag or digest.
    pub fn full(&self) -> &str {
        &self.full
    }

    /// Returns the registry as it was given, if one was.
    pub fn registry(&self) -> Option<&str> {
        self.registry.as_deref()
    }

    /// Returns the registry as it was given, `docker.io` where none was.
    pub fn registry_host(&self) -> &str {
        self.registry().unwrap_or(DOCKER_HUB)
    }

    /// Whether the registry is Docker Hub, by any of its names.
    pub fn is_docker_hub(&self) -> bool {
        is_docker_hub(self.registry_host())
    }

    /// Returns the path in the registry, which begins with `library/` where Docker Hub needs that.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the reference to one version of the same repository.
    pub fn with_digest(&self, digest: &Digest) -> Self {
        let path = match self.registry() {
            Some(registry) => format!("{registry}/{}", self.repository),
            None => self.repository.clone(),
        };
        Self {
            full: format!("{path}@{digest}"),
            registry: self.registry.clone(),
            repository: self.repository.clone(),
            version: ImageVersion::Digest(digest.clone()),
        }
    }

    pub fn version(&self) -> &ImageVersion {
        &self.version
    }

    /// Returns the tag, unless the reference has a digest.
    pub fn tag(&self) -> Option<&str> {
        match &self.version {
            ImageVersion::Tag(tag) => Some(tag),
            ImageVersion::Digest(_) => None,
        }
    }

    pub fn digest(&self) -> Option<&Digest> {
        match &self.version {
            ImageVersion::Tag(_) => None,
            ImageVersion::Digest(digest) => Some(digest),
        }
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

impl fmt::Display for ImageVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => f.write_str(tag),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

fn is_docker_hub(registry: &str) -> bool {
    DOCKER_HUB_NAMES.iter().any(|name| registry.eq_ignore_ascii_case(name))
}

struct Parts<'a> {
    path: &'a str,
    tag: Option<&'a str>,
    digest: Option<Digest>,
}

fn split(name: &str) -> Result<Parts<'_>, &'static str> {
    if name.len() > IMAGE_REFERENCE_MAX_BYTES {
        return Err("it is longer than 256 bytes");
    }
    let (rest, digest) = match name.split_once('@') {
        Some((rest, digest)) => (rest, Some(Digest::parse(digest))),
        None => (name, None),
    };
    let digest = digest.transpose().map_err(|_| "after @ there must be sha256: and 64 digits")?;
    // A colon before the last slash belongs to a port.
    let (path, tag) = match rest.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (rest, None),
    };
    if !tag.is_none_or(is_tag) {
        return Err("its tag must be 1 to 128 of A-Z a-z 0-9 . _ -, and not begin with . or -");
    }
    let mut parts = path.split('/').peekable();
    let first = parts.next().unwrap_or_default();
    // Only a registry may have a dot, a port or upper case.
    let first_is_good =
        if parts.peek().is_some() { is_part(first) || is_registry(first) } else { is_part(first) };
    if !first_is_good || !parts.all(is_part) {
        return Err("between its slashes there must be a-z 0-9, joined by . _ or -");
    }
    Ok(Parts { path, tag, digest })
}

fn is_part(part: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends_well = part.bytes().next().is_some_and(plain) && part.bytes().next_back().is_some_and(plain);
    ends_well && part.bytes().all(|b| plain(b) || b"._-".contains(&b)) && !part.contains("..")
}

fn is_registry(part: &str) -> bool {
    let (host, port) = match part.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (part, None),
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'-';
    let good = host.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    good && host.bytes().all(plain)
        && !host.contains("..")
        && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

fn is_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=TAG_MAX_BYTES).contains(&tag.len())
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|b| word(b) || b == b'.' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn valid_references_parse_and_others_are_refused() {
        let digest = format!("app@sha256:{}", "0f".repeat(32));
        for good in [
            "alpine",
            "alpine:3.20",
            "library/alpine",
            "docker.io/library/alpine:3.20",
            "localhost:5000/a/b-c_d.e:V1.0-rc",
            "Registry.Example/a",
            digest.as_str(),
        ] {
            assert!(ImageReference::parse(good).is_ok(), "{good}");
        }
        let number = format!("sha256:{}", "0f".repeat(32));
        let long = "a".repeat(IMAGE_REFERENCE_MAX_BYTES + 1);
        for bad in [
            "",
            "-v",
            "--privileged",
            "a b",
            "a\nb",
            "a\0",
            "Alpine",
            "a//b",
            "/a",
            "a/",
            "a/../../containers/x",
            "..",
            "a:",
            "a:-x",
            "a:b:c",
            "a@sha256:short",
            "a@md5:00",
            "a?x=1",
            "a#b",
            "a%2fb",
            "localhost:x/a",
            "ä",
            "slipway-host:0",
            "slipway-image-one:0",
            "library/slipway-host",
            "docker.io/library/slipway-host:1",
            "Docker.io/slipway-host:1",
            "index.docker.io/slipway-image-x",
            "localhost/slipway-image-x:1",
            number.as_str(),
            "sha256:0f0f0f0f0f0f",
            long.as_str(),
        ] {
            assert!(ImageReference::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_reference_gets_an_explicit_tag_and_its_parts_are_known() {
        let hex = "0f".repeat(32);
        let (digest, both) = (format!("app@sha256:{hex}"), format!("ghcr.io/app:1@sha256:{hex}"));
        let digits = format!("sha256:{hex}");
        for (given, full, registry, repository, version) in [
            ("deadbeef", "deadbeef:latest", "docker.io", "library/deadbeef", "latest"),
            ("alpine:3", "alpine:3", "docker.io", "library/alpine", "3"),
            ("team/app", "team/app:latest", "docker.io", "team/app", "latest"),
            ("Docker.io/app:1", "Docker.io/app:1", "Docker.io", "library/app", "1"),
            ("index.docker.io/a/b", "index.docker.io/a/b:latest", "index.docker.io", "a/b", "latest"),
            ("localhost/app", "localhost/app:latest", "localhost", "app", "latest"),
            ("127.0.0.1:5000/app", "127.0.0.1:5000/app:latest", "127.0.0.1:5000", "app", "latest"),
            ("127.1/app:1", "127.1/app:1", "127.1", "app", "1"),
            ("Host/app", "Host/app:latest", "Host", "app", "latest"),
            ("ghcr.io/slipway-host:1", "ghcr.io/slipway-host:1", "ghcr.io", "slipway-host", "1"),
            (digest.as_str(), digest.as_str(), "docker.io", "library/app", digits.as_str()),
            (both.as_str(), both.as_str(), "ghcr.io", "app", digits.as_str()),
        ] {
            let name = ImageReference::parse(given).expect(given);
            let found = (name.full(), name.registry_host(), name.repository(), name.version().to_string());
            assert_eq!(found, (full, registry, repository, version.to_owned()), "{given}");
        }
    }

    proptest! {
        #[test]
        fn the_parts_of_a_valid_reference_are_safe_in_a_request(
            name in "([A-Za-z0-9.-]{1,9}(:[0-9]{1,5})?/)?[a-z0-9._/-]{1,12}(:[A-Za-z0-9._-]{1,5})?",
        ) {
            if let Ok(reference) = ImageReference::parse(&name) {
                let safe = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
                prop_assert!(reference.repository().bytes().all(safe));
                prop_assert!(reference.repository().split('/').all(|part| !part.is_empty() && part != ".."));
                prop_assert_eq!(ImageReference::parse(reference.full()), Ok(reference.clone()));
            }
        }

        #[test]
        fn no_text_breaks_the_parser(name: String) {
            let _ = ImageReference::parse(&name);
        }
    }
}
