use super::*;
use crate::Scheme;
use proptest::prelude::*;
use protocol::api::Visibility;

const NOW_MS: u64 = 1_800_000_000_000;

fn previews(domain: &str) -> Previews {
    Previews { domain: domain.into(), scheme: Scheme::Https, port: 443, visibility: Visibility::Private }
}

fn signer() -> PassSigner {
    PassSigner::new(&[7; 32], previews("example.com"))
}

fn preview(port: u16) -> Preview {
    Preview { sandbox: "01jb9xyzabcdefghjkmnpqrstv".parse().unwrap(), port }
}

fn pass() -> PreviewPass {
    let link = "01kb9xyzabcdefghjkmnpqrstv".parse().unwrap();
    PreviewPass { link, preview: preview(3000), expires_ms: NOW_MS + 1 }
}

#[test]
fn a_pass_opens_one_preview_in_one_way_until_it_expires() {
    let text = signer().sign(&pass(), PassPurpose::Link);
    assert_eq!(text.len(), PASS_PREFIX.len() + TEXT_BYTES);
    assert!(text.len() <= 110, "it is part of addresses: {text}");
    assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{text}");
    let read = |signer: &PassSigner, at: &Preview, purpose, now_ms| {
        signer.verify(text.as_bytes(), at, purpose, now_ms)
    };
    let other = Preview { sandbox: "01jb9xyzabcdefghjkmnpqrstw".parse().unwrap(), ..preview(3000) };
    let table = [
        (preview(3000), PassPurpose::Link, NOW_MS, Ok(pass())),
        (preview(3001), PassPurpose::Link, NOW_MS, Err(PassError::OtherPreview)),
        (other, PassPurpose::Link, NOW_MS, Err(PassError::OtherPreview)),
        (preview(3000), PassPurpose::Cookie, NOW_MS, Err(PassError::OtherUse)),
        (preview(3000), PassPurpose::Link, NOW_MS + 1, Err(PassError::Expired)),
    ];
    for (at, purpose, now_ms, expected) in table {
        assert_eq!(read(&signer(), &at, purpose, now_ms), expected, "{at:?} {purpose:?} {now_ms}");
    }
    for (name, strange) in [
        ("another key", PassSigner::new(&[8; 32], previews("example.com"))),
        ("another domain", PassSigner::new(&[7; 32], previews("example.org"))),
    ] {
        assert_eq!(
            read(&strange, &preview(3000), PassPurpose::Link, NOW_MS),
            Err(PassError::Forged),
            "{name}"
        );
    }
}

#[test]
fn what_is_no_pass_is_refused() {
    let good = signer().sign(&pass(), PassPurpose::Link);
    for bad in [
        "",
        "slp1.",
        &good[..good.len() - 1],
        &format!("{good}="),
        &format!("{good} "),
        &good.replace("slp1.", "slp2."),
        &good.replace("slp1.", "SLP1."),
        &good.replace("slp1.", ""),
        &format!("slp1.{}", "A".repeat(TEXT_BYTES)),
        &format!("slp1.{}", "=".repeat(TEXT_BYTES)),
        &"x".repeat(1 << 20),
    ] {
        let read = signer().verify(bad.as_bytes(), &preview(3000), PassPurpose::Link, NOW_MS);
        assert_eq!(read, Err(PassError::Forged), "{bad:.200}");
    }
}

#[test]
fn a_key_for_badges_does_not_sign_signer() {
    // The signature of a badge with the same key, if its body could be chosen.
    let as_badge = |body: &[u8]| hmac(&[7; 32], &[b"slipway badge 1\0", body]);
    assert_ne!(as_badge(b""), signer().key);
    assert_ne!(as_badge(LABEL), signer().key);
}

#[test]
fn ids_of_links_are_written_as_they_are_read() {
    let text = "01kb9xyzabcdefghjkmnpqrstv";
    assert_eq!(text.to_uppercase().parse::<LinkId>().unwrap().to_string(), text);
    assert!("01kb9xyzabcdefghjkmnpqrst".parse::<LinkId>().is_err());
    assert!("../../../../../../../../..".parse::<LinkId>().is_err());
}

fn any_pass() -> impl Strategy<Value = PreviewPass> {
    (any::<u128>(), any::<u128>(), any::<u16>(), 0..=EXPIRY_MAX_MS).prop_map(
        |(link, sandbox, port, expires_ms)| {
            let sandbox = sandbox_of(Ulid::from_bytes(sandbox.to_be_bytes())).unwrap();
            let link = LinkId(Ulid::from_bytes(link.to_be_bytes()));
            PreviewPass { link, preview: Preview { sandbox, port }, expires_ms }
        },
    )
}

proptest! {
    #[test]
    fn every_pass_is_read_as_it_was_written(pass in any_pass(), now_ms in 0..=EXPIRY_MAX_MS) {
        for purpose in [PassPurpose::Link, PassPurpose::Cookie] {
            let text = signer().sign(&pass, purpose);
            let expected = if now_ms < pass.expires_ms { Ok(pass) } else { Err(PassError::Expired) };
            prop_assert_eq!(signer().verify(text.as_bytes(), &pass.preview, purpose, now_ms), expected);
        }
    }

    #[test]
    fn a_pass_with_a_byte_changed_is_none(
        pass in any_pass(),
        at in 0..PASS_PREFIX.len() + TEXT_BYTES,
        change in 1_u8..,
    ) {
        let mut text = signer().sign(&pass, PassPurpose::Link).into_bytes();
        text[at] ^= change;
        let read = signer().verify(&text, &pass.preview, PassPurpose::Link, 0);
        prop_assert_eq!(read, Err(PassError::Forged));
    }

    #[test]
    fn a_pass_whose_content_was_changed_is_none(pass in any_pass(), other in any_pass()) {
        let decode = |text: String| BASE64_URL_SAFE_NO_PAD.decode(&text[PASS_PREFIX.len()..]).unwrap();
        let mut bytes = decode(signer().sign(&pass, PassPurpose::Link));
        let body = decode(signer().sign(&other, PassPurpose::Link));
        bytes[..BODY_BYTES].copy_from_slice(&body[..BODY_BYTES]);
        prop_assume!(pass != other);
        let text = format!("{PASS_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes));
        for at in [pass.preview, other.preview] {
            prop_assert_eq!(signer().verify(text.as_bytes(), &at, PassPurpose::Link, 0), Err(PassError::Forged));
        }
    }

    #[test]
    fn whatever_strangers_send_is_judged(bytes in proptest::collection::vec(any::<u8>(), 0..300), good in any::<bool>()) {
        let text = if good { [PASS_PREFIX.as_bytes(), &bytes].concat() } else { bytes };
        let read = signer().verify(&text, &preview(3000), PassPurpose::Link, NOW_MS);
        prop_assert_eq!(read, Err(PassError::Forged));
    }

    #[test]
    fn whatever_is_well_formed_is_judged(bytes in proptest::collection::vec(any::<u8>(), BODY_BYTES + MAC_BYTES)) {
        let text = format!("{PASS_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes));
        let read = signer().verify(text.as_bytes(), &preview(3000), PassPurpose::Link, NOW_MS);
        prop_assert_eq!(read, Err(PassError::Forged));
    }
}
