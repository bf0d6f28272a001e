use super::*;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use proptest::prelude::*;

const CUSTOM: &str = "correct horse/battery+staple";

pub fn credential() -> impl Strategy<Value = String> {
    prop_oneof![
        "slw_[A-Za-z0-9_-]{43}",
        "slipway_[0-9a-f]{64}",
        "slp1\\.[A-Za-z0-9_-]{98}",
        Just(CUSTOM.to_owned()),
    ]
}

/// Percent-encodes the characters whose bit is set.
fn percent_encoded(text: &str, bits: &[bool]) -> String {
    let encode = |(at, byte): (usize, u8)| {
        let encoded = bits.get(at % bits.len().max(1)).copied().unwrap_or(false);
        if encoded { format!("%{byte:02X}") } else { char::from(byte).to_string() }
    };
    text.bytes().enumerate().map(encode).collect()
}

#[test]
fn credentials_are_recognised_in_every_encoding_and_other_text_is_not() {
    let (hex, base64url) = ("0123456789abcdef", "AZaz09-_AZaz09-_");
    let tokens = [format!("slw_{base64url}"), format!("slipway_{hex}"), format!("slp1.{base64url}")];
    let scanner = CredentialScanner::new(&tokens[1]);
    let finds = |text: &str| scanner.finds_in(text.as_bytes());
    for token in &tokens {
        for text in [
            token.clone(),
            format!("Bearer  {token}"),
            format!("Token token=\"{token}\""),
            format!("slipway.token.{token}"),
            format!("https://a.b/?slipway_pass={token}&c"),
            format!("prefix{token}suffix"),
            format!("Basic {}", BASE64_STANDARD.encode(format!("x:{token}"))),
            format!("Basic {}", BASE64_STANDARD.encode(format!("ab:{token}"))),
            format!("Basic {}", BASE64_STANDARD.encode(format!("abc:{token}:"))),
            format!("session={}; a=b", BASE64_URL_SAFE_NO_PAD.encode(format!("{{\"t\":\"{token}\"}}"))),
            percent_encoded(token, &[true]),
            percent_encoded(&percent_encoded(token, &[true, false]), &[true, false, false]),
            percent_encoded(&BASE64_STANDARD.encode(format!("~~~{token}")), &[true]),
        ] {
            assert!(finds(&text), "{text}");
        }
    }
    for text in [
        "",
        "slw_",
        "slw_short",
        "slipway_session_of_the_visitor",
        "slipway_pass=&slipway_pass",
        "slipway-preview=slp1.AAAA",
        "slp1.0123456789abcde",
        "SLW_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
        "sl;q=0.9, en;q=0.8, %, %%%, %zz, 100%",
        "c2x3X2FiYw==",
        "correct horse",
    ] {
        assert!(!finds(text), "{text}");
    }
}

#[test]
fn a_signed_url_of_an_e2b_client_is_recognised_and_a_parameter_of_an_app_is_not() {
    let scanner = CredentialScanner::new("slipway_0123456789abcdef");
    let signature = "VtvWmRAG//CWNEQmqUFXjEg3/AjstLtRw1GeOQ95t+4";
    let encoded = signature.replace('/', "%2F").replace('+', "%2B");
    for (text, expected) in [
        (format!("path=a&signature=v1_{signature}"), true),
        (format!("signature=v1_{encoded}&x"), true),
        (format!("https://a.b/c?signature=v1_{encoded}="), true),
        (format!("signature=v1_{}", &signature[1..]), false),
        (format!("signature={signature}"), false),
        ("signature=v1_2026-01-31_of_the_app_itself_which_is_long_enough".to_owned(), false),
    ] {
        assert_eq!(scanner.finds_in(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn a_token_written_by_hand_is_recognised_as_it_is_when_it_is_long_enough() {
    for (token, text, expected) in [
        (CUSTOM, format!("Bearer {CUSTOM}"), true),
        (CUSTOM, format!("Basic {}", BASE64_STANDARD.encode(format!("x:{CUSTOM}"))), true),
        (CUSTOM, percent_encoded(CUSTOM, &[true]), true),
        (CUSTOM, "Bearer correct horse/battery".to_owned(), false),
        ("sixteen-letters!", "a sixteen-letters! b".to_owned(), true),
        ("short", "short short short short".to_owned(), false),
        ("", "anything of some length".to_owned(), false),
    ] {
        assert_eq!(CredentialScanner::new(token).finds_in(text.as_bytes()), expected, "{token}: {text}");
    }
}

/// Each would take seconds if every candidate were decoded to the end.
#[test]
fn no_value_takes_quadratic_time() {
    for text in [format!("%{}", "25".repeat(30_000)), "c2x3X".repeat(12_000), "slw_.".repeat(12_000)] {
        assert!(!CredentialScanner::new(CUSTOM).finds_in(text.as_bytes()), "{}", &text[..20]);
    }
}

proptest! {
    #[test]
    fn a_credential_is_found_wherever_it_stands(
        before in "[ -~]{0,40}",
        token in credential(),
        after in "[ -~]{0,40}",
        bits in prop::collection::vec(any::<bool>(), 1..9),
        url in any::<bool>(),
    ) {
        let scanner = CredentialScanner::new(CUSTOM);
        let plain = format!("{before}{token}{after}");
        prop_assert!(scanner.finds_in(plain.as_bytes()), "{plain}");
        // Only the token: a percent sign before it would decode to another text.
        let percent = format!("a=b?{}&c", percent_encoded(&token, &bits));
        prop_assert!(scanner.finds_in(percent.as_bytes()), "{percent}");
        let encoded = if url { BASE64_URL_SAFE_NO_PAD.encode(&plain) } else { BASE64_STANDARD.encode(&plain) };
        let base64 = format!("Basic {encoded}");
        prop_assert!(scanner.finds_in(base64.as_bytes()), "{plain} as {base64}");
    }

    #[test]
    fn random_values_are_not_taken_for_credentials(text in "[A-Za-z0-9+/=._;, -]{0,400}") {
        prop_assert!(!CredentialScanner::new(CUSTOM).finds_in(text.as_bytes()));
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(text in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = CredentialScanner::new(CUSTOM).finds_in(&text);
    }
}
