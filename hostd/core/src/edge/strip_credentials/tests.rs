use super::*;
use base64::{Engine, prelude::BASE64_STANDARD};
use proptest::prelude::*;

const TOKEN: &str = "slw_AZaz09-_AZaz09-_AZaz09-_AZaz09-_AZaz09-_AZa";
const PASS: &str = "slp1.AZaz09-_AZaz09-_AZaz09-_AZaz09-_AZaz09-_AZa";

fn scanner() -> CredentialScanner {
    CredentialScanner::new("")
}

fn map(lines: &[(&str, &str)]) -> HeaderMap {
    let line = |(name, value): &(&str, &str)| -> (HeaderName, HeaderValue) {
        (name.parse().expect("a name"), HeaderValue::from_bytes(value.as_bytes()).expect("a value"))
    };
    lines.iter().map(line).collect()
}

#[test]
fn whatever_carries_a_credential_is_dropped_and_the_rest_stays() {
    let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("x:{TOKEN}")));
    let t = |text: &str| text.replace("TOKEN", TOKEN).replace("PASS", PASS);
    let table: [(&str, &[String], &[String]); 22] = [
        ("authorization", &["Bearer theirs".into()], &["Bearer theirs".into()]),
        ("authorization", &[t("Bearer TOKEN")], &[]),
        ("authorization", &[t("Bearer  TOKEN")], &[]),
        ("authorization", &[t("Token TOKEN")], &[]),
        ("authorization", &[basic], &[]),
        ("authorization", &["Basic eDp5".into(), t("bearer PASS")], &[]),
        ("sec-websocket-protocol", &[t("slipway.token.TOKEN")], &[]),
        (
            "sec-websocket-protocol",
            &[t("vite-hmr, slipway.token.TOKEN,graphql")],
            &["vite-hmr, graphql".into()],
        ),
        ("sec-websocket-protocol", &["vite-hmr".into(), t("TOKEN")], &["vite-hmr".into()]),
        ("referer", &[t("http://a.b/?slipway_pass=PASS")], &["http://a.b/".into()]),
        ("referer", &[t("http://a.b/c?d=e&slipway_pass=PASS&f#g")], &["http://a.b/c?d=e&f#g".into()]),
        ("referer", &[t("http://a.b/TOKEN?d=e")], &[]),
        ("referer", &[t("http://TOKEN@a.b/?d=e#TOKEN")], &[]),
        ("referer", &[t("http://a.b/?next=%2F%3Fslipway_pass%3DPASS&d")], &["http://a.b/?d".into()]),
        ("cookie", &[t("a=b; session=TOKEN; c=d")], &["a=b; c=d".into()]),
        ("cookie", &[t("a=PASS")], &[]),
        ("cookie", &["a=b".into(), t("c=PASS")], &["a=b".into()]),
        ("link", &[t("<http://a.b/?t=TOKEN>; rel=next"), "<http://c.d>".into()], &["<http://c.d>".into()]),
        ("x-api-key", &[t("TOKEN")], &[]),
        ("x-note", &[t("é TOKEN")], &[]),
        ("slw_0123456789abcdef", &["a".into()], &[]),
        ("user-agent", &["sl/1".into()], &["sl/1".into()]),
    ];
    for (name, given, expected) in table {
        let lines = |values: &[String]| -> HeaderMap {
            map(&values.iter().map(|value| (name, value.as_str())).collect::<Vec<_>>())
        };
        let mut headers = lines(given);
        headers.insert("accept", HeaderValue::from_static("a/b"));
        scanner().strip_headers(&mut headers);
        assert_eq!(headers.remove("accept"), Some(HeaderValue::from_static("a/b")));
        assert_eq!(headers, lines(expected), "{name}: {given:?}");
    }
}

#[test]
fn the_query_of_the_target_loses_what_carries_a_credential() {
    for (given, expected) in [
        ("/a?b=c&d", "/a?b=c&d"),
        ("/a?b=c&t=TOKEN&d=%20", "/a?b=c&d=%20"),
        ("/a?TOKEN", "/a"),
        ("/a?slipway%5Fpass=PASS", "/a"),
        ("http://h.i:80/a?b&t=TOKEN", "http://h.i:80/a?b"),
    ] {
        let mut uri: Uri = given.replace("TOKEN", TOKEN).replace("PASS", PASS).parse().expect(given);
        scanner().strip_query(&mut uri);
        assert_eq!(uri, *expected, "{given}");
    }
}

proptest! {
    /// A credential in any header, between any text, as it is or in Base64.
    #[test]
    fn no_header_carries_a_credential_on(
        name in prop_oneof![
            Just("authorization"), Just("cookie"), Just("referer"), Just("sec-websocket-protocol"),
            Just("link"), Just("x-any"), Just("x-forwarded-for"), Just("accept"),
        ],
        words in prop::collection::vec(
            prop_oneof![
                Just("TOKEN"), Just("PASS"), Just("BASIC"), Just(";"), Just(","), Just("&"), Just("?"), Just("#"),
                Just(" "), Just("="), Just("http://a.b/"), Just("slw_"), Just("slp1."), Just("a"), Just("%3D"),
            ],
            0..20,
        ),
        cut in 0_usize..20,
    ) {
        let basic = BASE64_STANDARD.encode(format!("user:{TOKEN}"));
        let text = |words: &[&str]| -> String {
            let word = |word: &&str| match *word {
                "TOKEN" => TOKEN.to_owned(),
                "PASS" => PASS.to_owned(),
                "BASIC" => format!(" {basic} "),
                other => other.to_owned(),
            };
            words.iter().map(word).collect()
        };
        let (first, second) = words.split_at(cut.min(words.len()));
        let (first, second) = (text(first), text(second));
        let mut headers = map(&[(name, first.trim()), (name, second.trim())]);
        scanner().strip_headers(&mut headers);
        for value in headers.values() {
            prop_assert!(!scanner().finds_in(value.as_bytes()), "{value:?}");
            let value = value.to_str().expect("ASCII");
            prop_assert!(![TOKEN, PASS, basic.as_str()].iter().any(|secret| value.contains(secret)), "{value}");
        }
    }
}
