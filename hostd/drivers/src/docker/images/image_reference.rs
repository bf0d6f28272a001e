//! Image references: `alpine`, `alpine:3.20`, `registry:5000/team/app@sha256:…`.

/// Registry, path, tag and digest together.
pub const IMAGE_REFERENCE_MAX_BYTES: usize = 256;
const TAG_MAX_BYTES: usize = 128;
const TAG_DEFAULT: &str = "latest";
/// Prefixes of images that hostd imports into the engine.
pub const OURS: [&str; 2] = ["slipway-host", "slipway-image-"];
/// Registries that mean the same as no registry.
const DEFAULT_REGISTRIES: [&str; 4] = ["docker.io", "index.docker.io", "registry-1.docker.io", "localhost"];
/// Prefixes that engines take for an image id.
const DIGEST_ALGORITHMS: [&str; 3] = ["sha256", "sha384", "sha512"];

/// A reference with an explicit tag or digest, so that no engine takes it for the beginning of an image id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageReference {
    pub full: String,
    pub registry: Option<String>,
}

impl ImageReference {
    /// Parses a reference; the error says what is wrong with it.
    pub fn parse(name: &str) -> Result<Self, &'static str> {
        let Parts { path, tag, digest } = split(name)?;
        let (first, rest) = path.split_once('/').unwrap_or(("", path));
        let has_registry = first == "localhost"
            || first.contains(['.', ':'])
            || first.bytes().any(|b| b.is_ascii_uppercase());
        let registry = has_registry.then(|| first.to_owned());
        let is_default_registry = registry.as_deref().is_none_or(|registry| {
            DEFAULT_REGISTRIES
                .iter()
                .any(|is_default_registry| registry.eq_ignore_ascii_case(is_default_registry))
        });
        let own = if has_registry { rest } else { path };
        let own = own.strip_prefix("library/").unwrap_or(own);
        if is_default_registry && OURS.iter().any(|ours| own.starts_with(ours)) {
            return Err("names that begin with slipway- are reserved");
        }
        if DIGEST_ALGORITHMS.contains(&path) {
            return Err("use the name of the image, not its id");
        }
        let is_plain = tag.is_none() && digest.is_none();
        let full = if is_plain { format!("{name}:{TAG_DEFAULT}") } else { name.to_owned() };
        Ok(Self { full, registry })
    }
}

struct Parts<'a> {
    path: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

fn split(name: &str) -> Result<Parts<'_>, &'static str> {
    if name.len() > IMAGE_REFERENCE_MAX_BYTES {
        return Err("it is longer than 256 bytes");
    }
    let (rest, digest) = match name.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (name, None),
    };
    if !digest.is_none_or(is_digest) {
        return Err("after @ there must be sha256: and 64 digits");
    }
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

fn is_digest(digest: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    digest.strip_prefix("sha256:").is_some_and(|rest| rest.len() == 64 && rest.bytes().all(hex))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_reference_gets_an_explicit_tag_and_its_registry_is_parsed() {
        let digest = format!("app@sha256:{}", "0f".repeat(32));
        for (given, full, registry) in [
            ("deadbeef", "deadbeef:latest", None),
            ("alpine:3", "alpine:3", None),
            ("team/app", "team/app:latest", None),
            ("localhost/app", "localhost/app:latest", Some("localhost")),
            ("127.0.0.1:5000/app", "127.0.0.1:5000/app:latest", Some("127.0.0.1:5000")),
            ("127.1/app:1", "127.1/app:1", Some("127.1")),
            ("Host/app", "Host/app:latest", Some("Host")),
            ("ghcr.io/slipway-host:1", "ghcr.io/slipway-host:1", Some("ghcr.io")),
            (digest.as_str(), digest.as_str(), None),
        ] {
            let name = ImageReference::parse(given).expect(given);
            assert_eq!((name.full.as_str(), name.registry.as_deref()), (full, registry), "{given}");
        }
    }
}
