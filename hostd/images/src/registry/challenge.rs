//! Challenges: how a registry wants a request to be authorized (`WWW-Authenticate`). Pure.

use crate::limits::{CHALLENGE_WORDS_MAX, CHALLENGES_MAX};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Challenge {
    /// The login itself.
    Basic,
    /// A token, which the service at `realm` gives.
    Bearer { realm: String, service: Option<String> },
}

impl Challenge {
    /// Chooses from the values of all such headers: a token where one is offered, else the login. None where neither
    /// is.
    pub fn choose<'a>(headers: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let offered: Vec<Self> = headers.into_iter().take(CHALLENGES_MAX).flat_map(parse).collect();
        let is_token = |challenge: &Self| match challenge {
            Self::Bearer { .. } => true,
            Self::Basic => false,
        };
        offered.iter().find(|challenge| is_token(challenge)).or(offered.first()).cloned()
    }
}

/// A challenge of any scheme.
struct Offered<'a> {
    scheme: &'a str,
    parameters: Vec<(&'a str, String)>,
}

impl Offered<'_> {
    fn parameter(&self, name: &str) -> Option<String> {
        let (_, value) = self.parameters.iter().find(|(own, _)| own.eq_ignore_ascii_case(name))?;
        Some(value.clone())
    }

    fn known(&self) -> Option<Challenge> {
        if self.scheme.eq_ignore_ascii_case("basic") {
            return Some(Challenge::Basic);
        }
        let is_bearer = self.scheme.eq_ignore_ascii_case("bearer");
        let realm = self.parameter("realm").filter(|_| is_bearer)?;
        Some(Challenge::Bearer { realm, service: self.parameter("service") })
    }
}

/// Parses one header, which may hold several challenges. What cannot be parsed ends it.
fn parse(header: &str) -> Vec<Challenge> {
    let mut offered: Vec<Offered<'_>> = Vec::new();
    let mut rest = header;
    for _ in 0..CHALLENGE_WORDS_MAX {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (word, after) = split_token(rest);
        if word.is_empty() {
            break;
        }
        let value = after.trim_start_matches([' ', '\t']).strip_prefix('=');
        let Some(value) = value else {
            offered.push(Offered { scheme: word, parameters: Vec::new() });
            rest = after;
            continue;
        };
        // A parameter of no challenge, or one that is not closed.
        let Some(last) = offered.last_mut() else { break };
        let Some((value, after)) = split_value(value.trim_start_matches([' ', '\t'])) else { break };
        last.parameters.push((word, value));
        rest = after;
    }
    offered.iter().filter_map(Offered::known).collect()
}

fn split_token(text: &str) -> (&str, &str) {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/".contains(&b);
    let end = text.bytes().position(|b| !is_token(b)).unwrap_or(text.len());
    text.split_at(end)
}

/// Splits off a value, quoted or not. None where a quote is not closed.
fn split_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = split_token(text);
        // The padding of a token68 is no value.
        return Some((value.to_owned(), rest.trim_start_matches('=')));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            plain => value.push(plain),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bearer(realm: &str, service: Option<&str>) -> Option<Challenge> {
        Some(Challenge::Bearer { realm: realm.into(), service: service.map(str::to_owned) })
    }

    #[test]
    fn a_challenge_is_chosen() {
        let table: [(&[&str], Option<Challenge>); 17] = [
            (&[], None),
            (&[""], None),
            (&["Basic realm=\"Registry Realm\""], Some(Challenge::Basic)),
            (&["basic"], Some(Challenge::Basic)),
            (
                &[
                    r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull""#,
                ],
                bearer("https://auth.docker.io/token", Some("registry.docker.io")),
            ),
            (&[r#"bearer  REALM = "https://a" , Service=b"#], bearer("https://a", Some("b"))),
            (&[r#"Bearer scope="a,b",realm="https://a""#], bearer("https://a", None)),
            (&[r#"Bearer realm="https://a?x=\"1\"""#], bearer("https://a?x=\"1\"", None)),
            (&["Basic realm=x", "Bearer realm=y"], bearer("y", None)),
            (&["Basic realm=x, Bearer realm=\"y\", service=z"], bearer("y", Some("z"))),
            (&["Bearer realm=\"y\", Basic realm=x"], bearer("y", None)),
            (&["Negotiate YII==, Basic realm=x"], Some(Challenge::Basic)),
            (&["Digest realm=\"x\", nonce=\"y\""], None),
            (&["Bearer service=x"], None),
            (&["Bearer realm=\"not closed"], None),
            (&["Bearer realm=\"a\\"], None),
            (&["=x, Basic"], None),
        ];
        for (headers, expected) in table {
            assert_eq!(Challenge::choose(headers.iter().copied()), expected, "{headers:?}");
        }
    }

    proptest! {
        #[test]
        fn no_header_breaks_the_parser(header in "([A-Za-z]{1,9}|[ ,=\"\\\\]{1,3}|[ -~]{0,9}|ä){0,12}", any: String) {
            let _ = Challenge::choose([header.as_str(), any.as_str()]);
        }

        #[test]
        fn a_quoted_realm_is_read_back(realm in "[ -~]{0,40}") {
            let quoted = realm.replace('\\', "\\\\").replace('"', "\\\"");
            let header = format!("Bearer service=\"s\",realm=\"{quoted}\"");
            prop_assert_eq!(Challenge::choose([header.as_str()]), bearer(&realm, Some("s")));
        }
    }
}
