//! The cookie that holds a preview pass, and what is done to cookies between a browser and an app. Works on
//! bytes: cookies of others need not be text.

use super::preview::Scheme;
use http::{
    HeaderMap,
    header::{COOKIE, HeaderValue, SET_COOKIE},
};

/// Browsers accept a name with this prefix only from the host itself, and only over TLS.
const SECURE: &str = "__Host-slipway-preview";
const PLAIN: &str = "slipway-preview";

fn name(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Http => PLAIN,
        Scheme::Https => SECURE,
    }
}

/// The `Set-Cookie` for this hostname alone. Over TLS it is also sent within frames of other sites,
/// partitioned by site.
pub fn pass_cookie(scheme: Scheme, pass: &str, good_for_s: u64) -> HeaderValue {
    let site = match scheme {
        Scheme::Http => "SameSite=Lax",
        Scheme::Https => "Secure; SameSite=None; Partitioned",
    };
    let text = format!("{}={pass}; Path=/; Max-Age={good_for_s}; HttpOnly; {site}", name(scheme));
    let mut value = HeaderValue::try_from(text).expect("a pass is visible ASCII");
    value.set_sensitive(true);
    value
}

/// The values of all cookies with our name: another preview may have set some of them.
pub fn pass_cookies(scheme: Scheme, headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    pairs(headers).filter_map(move |pair| {
        let at = memchr::memchr(b'=', pair)?;
        (pair[..at].trim_ascii() == name(scheme).as_bytes()).then(|| pair[at + 1..].trim_ascii())
    })
}

/// Removes our cookies from a request. The others stay, in one header: HTTP/2 splits it.
pub fn strip_pass_cookies(headers: &mut HeaderMap) {
    let mut values = headers.get_all(COOKIE).iter();
    match (values.next(), values.next()) {
        (None, _) => return,
        (Some(only), None) if memchr::memmem::find(only.as_bytes(), PLAIN.as_bytes()).is_none() => return,
        (Some(_), _) => {}
    }
    let others: Vec<&[u8]> = pairs(headers).filter(|pair| !is_ours(pair)).collect();
    let joined = HeaderValue::from_bytes(&others.join(&b"; "[..])).ok().filter(|joined| !joined.is_empty());
    headers.remove(COOKIE);
    if let Some(joined) = joined {
        headers.insert(COOKIE, joined);
    }
}

/// Keeps cookies that an app sets on its hostname, and drops those with our name: no preview sets cookies for
/// others, or signs its visitors out.
pub fn make_cookies_host_only(headers: &mut HeaderMap) {
    let harmless =
        |value: &HeaderValue| host_only(value.as_bytes()).is_some_and(|kept| kept == value.as_bytes());
    if headers.get_all(SET_COOKIE).iter().all(harmless) {
        return;
    }
    let kept: Vec<HeaderValue> = headers
        .get_all(SET_COOKIE)
        .iter()
        .filter_map(|value| HeaderValue::from_bytes(&host_only(value.as_bytes())?).ok())
        .collect();
    headers.remove(SET_COOKIE);
    for value in kept {
        headers.append(SET_COOKIE, value);
    }
}

/// A `Set-Cookie` without `Domain`; none for one that sets our cookie.
fn host_only(value: &[u8]) -> Option<Vec<u8>> {
    let mut parts = value.split(|byte| *byte == b';');
    let pair = parts.next().unwrap_or_default();
    if is_ours(pair) {
        return None;
    }
    let attributes = parts.filter(|part| !is_named(part, "domain"));
    Some(std::iter::once(pair).chain(attributes).collect::<Vec<_>>().join(&b';'))
}

/// Whether a pair is our cookie. A cookie without a name is sent as its value alone: `=a=b` comes back as
/// `a=b`.
fn is_ours(pair: &[u8]) -> bool {
    let mut pair = pair.trim_ascii();
    while let Some(rest) = pair.strip_prefix(b"=") {
        pair = rest.trim_ascii_start();
    }
    is_named(pair, SECURE) || is_named(pair, PLAIN)
}

fn is_named(part: &[u8], name: &str) -> bool {
    let own = part.split(|byte| *byte == b'=').next().unwrap_or_default();
    own.trim_ascii().eq_ignore_ascii_case(name.as_bytes())
}

fn pairs(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(COOKIE).iter();
    let pairs = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    pairs.map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::HeaderName;
    use proptest::prelude::*;

    fn headers(name: &HeaderName, values: &[&str]) -> HeaderMap {
        let value = |text: &&str| (name.clone(), HeaderValue::from_bytes(text.as_bytes()).unwrap());
        values.iter().map(value).collect()
    }

    fn texts(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        headers.get_all(name).iter().map(text).collect()
    }

    #[test]
    fn the_cookie_is_for_its_host_alone() {
        let text = |scheme| pass_cookie(scheme, "slp1.x", 60).to_str().unwrap().to_owned();
        assert_eq!(text(Scheme::Http), "slipway-preview=slp1.x; Path=/; Max-Age=60; HttpOnly; SameSite=Lax");
        assert_eq!(
            text(Scheme::Https),
            "__Host-slipway-preview=slp1.x; Path=/; Max-Age=60; HttpOnly; Secure; SameSite=None; Partitioned"
        );
    }

    #[test]
    fn all_cookies_of_our_name_are_found_and_no_others() {
        let table: [(Scheme, &[&str], &[&str]); 6] = [
            (Scheme::Http, &["a=b; slipway-preview=x; slipway-preview=y"], &["x", "y"]),
            (Scheme::Http, &["slipway-preview=x", "c=d", "slipway-preview=y"], &["x", "y"]),
            (Scheme::Http, &["slipway-previews=x; my-slipway-preview=y; slipway-preview"], &[]),
            (Scheme::Http, &["__Host-slipway-preview=x"], &[]),
            (Scheme::Https, &["slipway-preview=x; __Host-slipway-preview=y"], &["y"]),
            (Scheme::Https, &[], &[]),
        ];
        for (scheme, given, expected) in table {
            let headers = headers(&COOKIE, given);
            let expected: Vec<&[u8]> = expected.iter().map(|text| text.as_bytes()).collect();
            assert_eq!(pass_cookies(scheme, &headers).collect::<Vec<_>>(), expected, "{given:?}");
        }
    }

    #[test]
    fn an_app_sees_its_own_cookies_in_one_header() {
        let table: [(&[&str], &[&str]); 9] = [
            (&[], &[]),
            (&["a=b;c=d"], &["a=b;c=d"]),
            (&["a=b", "c=d"], &["a=b; c=d"]),
            (&["a=b; slipway-preview=x; c=d"], &["a=b; c=d"]),
            (&["a=b", "slipway-preview=x", "c=d"], &["a=b; c=d"]),
            (&["__Host-slipway-preview=x; slipway-preview=y; SLIPWAY-PREVIEW=z"], &[]),
            (&["slipway-preview; a=slipway-preview=1"], &["a=slipway-preview=1"]),
            (&["=slipway-preview=x"], &[]),
            (&["é=slipway-preview; slipway-preview=x"], &["é=slipway-preview"]),
        ];
        for (given, expected) in table {
            let mut headers = headers(&COOKIE, given);
            strip_pass_cookies(&mut headers);
            assert_eq!(texts(&headers, &COOKIE), expected, "{given:?}");
        }
    }

    #[test]
    fn an_app_sets_cookies_for_itself_alone() {
        let table: [(&[&str], &[&str]); 8] = [
            (&["a=b; Path=/; Secure", "c=d"], &["a=b; Path=/; Secure", "c=d"]),
            (&["a=b; Domain=preview.localhost; Path=/"], &["a=b; Path=/"]),
            (&["a=b;domain=.localhost;DOMAIN = x;HttpOnly", "c=d"], &["a=b;HttpOnly", "c=d"]),
            (&["a=domain=x; Domain"], &["a=domain=x"]),
            (&["slipway-preview=x; Path=/", "a=b"], &["a=b"]),
            (&["__host-Slipway-Preview=x"], &[]),
            (&["=slipway-preview=x", " == __Host-slipway-preview=x", "slipway-preview"], &[]),
            (&["domain=1"], &["domain=1"]),
        ];
        for (given, expected) in table {
            let mut headers = headers(&SET_COOKIE, given);
            make_cookies_host_only(&mut headers);
            assert_eq!(texts(&headers, &SET_COOKIE), expected, "{given:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_of_ours_passes_in_either_direction(
            words in proptest::collection::vec(
                prop_oneof![
                    Just("slipway-preview"), Just("__Host-slipway-preview"), Just("="), Just(";"), Just(" "),
                    Just("Domain"), Just("a"), Just("é"),
                ],
                0..24,
            ),
            cut in 0_usize..24,
        ) {
            let (first, second) = words.split_at(cut.min(words.len()));
            let lines = [first.concat(), second.concat()];
            let given: Vec<&str> = lines.iter().map(String::as_str).collect();
            let mut request = headers(&COOKIE, &given);
            strip_pass_cookies(&mut request);
            prop_assert!(request.get_all(COOKIE).iter().count() <= 1);
            for scheme in [Scheme::Http, Scheme::Https] {
                prop_assert_eq!(pass_cookies(scheme, &request).count(), 0);
            }
            let mut answer = headers(&SET_COOKIE, &given);
            make_cookies_host_only(&mut answer);
            for value in texts(&answer, &SET_COOKIE) {
                let mut parts = value.split(';');
                prop_assert!(!is_ours(parts.next().unwrap_or_default().as_bytes()));
                let names = parts.map(|part| part.split('=').next().unwrap_or_default().trim());
                prop_assert!(!names.into_iter().any(|name| name.eq_ignore_ascii_case("domain")));
            }
        }
    }
}
