//! Host keys of SSH servers, as OpenSSH writes them down, and the secret that holds a key with those of its server.
//! Pure.
//!
//! ```text
//!  [@revoked] HOST[,HOST…] TYPE BASE64 [comment]     HOST: name, [name]:port, *.name, !name, |1|SALT|HASH
//! ```
//!
//! Certificates of hosts (`@cert-authority`) are not supported: such a line makes no key known.

use crate::egress::{Destination, Host};
use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

const SSH_PORT: u16 = 22;
/// What a private key ends with.
const KEY_END: &str = "-----END ";
const REVOKED: &str = "@revoked";

/// What known hosts say of the key of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKeyVerdict {
    Known,
    /// Nothing is known of the server.
    Unknown,
    /// The server has other keys.
    Changed,
    Revoked,
}

/// A line that is about a server.
struct KnownKey<'a> {
    is_revoked: bool,
    kind: &'a str,
    blob: Vec<u8>,
}

/// Returns the private key of a secret, and the known hosts behind it.
pub fn split_key_secret(value: &str) -> (&str, &str) {
    let mut end = 0;
    for line in value.split_inclusive('\n') {
        end += line.len();
        if line.starts_with(KEY_END) {
            return value.split_at(end);
        }
    }
    (value, "")
}

/// Judges the key that a server has, in the encoding of the protocol.
pub fn check_host_key(known_hosts: &str, server: &Destination, key: &[u8]) -> HostKeyVerdict {
    let mut verdict = HostKeyVerdict::Unknown;
    for known in keys_of(known_hosts, server) {
        let is_same = known.blob == key;
        verdict = match (known.is_revoked, is_same) {
            (true, true) => return HostKeyVerdict::Revoked,
            (true, false) => verdict,
            (false, true) => HostKeyVerdict::Known,
            (false, false) if verdict == HostKeyVerdict::Known => verdict,
            (false, false) => HostKeyVerdict::Changed,
        };
    }
    verdict
}

/// Returns the types of the known keys of a server: it is asked for one of them.
pub fn known_key_types<'a>(known_hosts: &'a str, server: &Destination) -> Vec<&'a str> {
    keys_of(known_hosts, server).filter(|known| !known.is_revoked).map(|known| known.kind).collect()
}

/// Returns the name of a server in known hosts.
pub fn known_host_name(server: &Destination) -> String {
    let host = match &server.host {
        Host::Name(name) => name.clone(),
        Host::Address(address) => address.to_string(),
    };
    if server.port == SSH_PORT { host } else { format!("[{host}]:{}", server.port) }
}

fn keys_of<'a>(known_hosts: &'a str, server: &Destination) -> impl Iterator<Item = KnownKey<'a>> + use<'a> {
    let name = known_host_name(server);
    known_hosts.lines().filter_map(move |line| parse_line(line, &name))
}

fn parse_line<'a>(line: &'a str, name: &str) -> Option<KnownKey<'a>> {
    let mut fields = line.split_ascii_whitespace();
    let first = fields.next().filter(|first| !first.starts_with('#'))?;
    let (is_revoked, hosts) = match first.starts_with('@') {
        true if first == REVOKED => (true, fields.next()?),
        true => return None,
        false => (false, first),
    };
    if !names_host(hosts, name) {
        return None;
    }
    let kind = fields.next()?;
    Some(KnownKey { is_revoked, kind, blob: BASE64_STANDARD.decode(fields.next()?).ok()? })
}

fn names_host(patterns: &str, name: &str) -> bool {
    let mut found = false;
    for pattern in patterns.split(',') {
        match pattern.strip_prefix('!') {
            Some(excluded) if matches(excluded, name) => return false,
            Some(_) => {}
            None => found |= matches(pattern, name) || is_hash_of(pattern, name).unwrap_or(false),
        }
    }
    found
}

/// Whether a pattern is `|1|SALT|HASH` of this name.
fn is_hash_of(pattern: &str, name: &str) -> Option<bool> {
    let (salt, hash) = pattern.strip_prefix("|1|")?.split_once('|')?;
    let (salt, hash) = (BASE64_STANDARD.decode(salt).ok()?, BASE64_STANDARD.decode(hash).ok()?);
    let mac = Hmac::<Sha1>::new_from_slice(&salt).ok()?.chain_update(name);
    Some(mac.verify_slice(&hash).is_ok())
}

/// Matches a pattern with `*` and `?`, without recursion: it goes back to the last `*` only.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_ascii_lowercase().into_bytes(), name.as_bytes());
    let (mut at, mut in_name, mut star) = (0, 0, None);
    while in_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[in_name] => {
                at += 1;
                in_name += 1;
            }
            Some(_) | None => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                (at, in_name) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use HostKeyVerdict::{Changed, Known, Revoked, Unknown};

    /// The hash of `host`, as `ssh-keygen -H` writes it.
    fn hashed(host: &str) -> String {
        let salt = b"0123456789abcdefghij";
        let mac = Hmac::<Sha1>::new_from_slice(salt).expect("any length").chain_update(host).finalize();
        format!("|1|{}|{}", BASE64_STANDARD.encode(salt), BASE64_STANDARD.encode(mac.into_bytes()))
    }

    #[test]
    fn a_host_key_is_judged_by_the_lines_of_its_server() {
        let (own, other) = (BASE64_STANDARD.encode("own"), BASE64_STANDARD.encode("other"));
        let hash = hashed("host");
        for (lines, expected) in [
            (String::new(), Unknown),
            (format!("# host ssh-ed25519 {own}\n"), Unknown),
            (format!("host ssh-ed25519 {own}\n"), Known),
            (format!("a,host\tssh-ed25519  {own} a comment\r\n"), Known),
            (format!("HOST ssh-ed25519 {own}"), Known),
            (format!("*.host ssh-ed25519 {own}"), Unknown),
            (format!("h*t ssh-ed25519 {own}"), Known),
            (format!("h?st ssh-ed25519 {own}"), Known),
            (format!("*,!host ssh-ed25519 {own}"), Unknown),
            (format!("{hash} ssh-ed25519 {own}"), Known),
            (format!("{hash} ssh-ed25519 {other}"), Changed),
            (format!("|1|x|y ssh-ed25519 {own}"), Unknown),
            (format!("[host]:2222 ssh-ed25519 {own}"), Unknown),
            (format!("host ssh-ed25519 {other}"), Changed),
            (format!("host ssh-ed25519 {other}\nhost ssh-ed25519 {own}"), Known),
            (format!("host ssh-ed25519 {own}\nhost ssh-rsa {other}"), Known),
            (format!("host ssh-ed25519 {own}\n@revoked * ssh-ed25519 {own}"), Revoked),
            (format!("@revoked host ssh-ed25519 {other}"), Unknown),
            (format!("@cert-authority host ssh-ed25519 {own}"), Unknown),
            ("host ssh-ed25519 ???".to_owned(), Unknown),
            ("host ssh-ed25519".to_owned(), Unknown),
        ] {
            let server = Destination::parse("host", Some(22)).expect("a server");
            assert_eq!(check_host_key(&lines, &server, b"own"), expected, "{lines}");
        }
    }

    #[test]
    fn a_server_has_its_port_in_its_name() {
        let key = BASE64_STANDARD.encode("own");
        for (server, name) in [
            ("host:2222", "[host]:2222"),
            ("[::1]:22", "::1"),
            ("[::1]:1", "[::1]:1"),
            ("127.0.0.1:22", "127.0.0.1"),
        ] {
            let server = Destination::parse(server, None).expect("a server");
            let line = format!("{name} ssh-ed25519 {key}");
            assert_eq!(check_host_key(&line, &server, b"own"), Known, "{name}");
            assert_eq!(known_key_types(&line, &server), ["ssh-ed25519"], "{name}");
        }
    }

    #[test]
    fn a_secret_is_a_key_and_known_hosts() {
        let key = "-----BEGIN X-----\nabc\n-----END X-----\n";
        for (value, expected) in [
            (key.to_owned(), (key, "")),
            (format!("{key}host ssh-ed25519 x\n"), (key, "host ssh-ed25519 x\n")),
            ("no key".to_owned(), ("no key", "")),
            (String::new(), ("", "")),
        ] {
            assert_eq!(split_key_secret(&value), expected, "{value}");
        }
    }
}
