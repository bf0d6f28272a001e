//! Recognises API tokens and preview passes by their form, anywhere in text that goes to an app: verbatim,
//! percent-encoded, or in Base64. Pure; allocates only where something may be found.
//!
//! ```text
//!  slw_<Base64url>       token of the API
//!  e2b_<hex digits>      token of the API, in the form of E2B
//!  slipway_<hex digits>  token of the operator
//!  slp1.<Base64url>      pass of a preview
//!  slc_<Base64url>       token that a protocol of other clients handed out for one sandbox
//!  signature=v1_<Base64> parameter of a URL that an E2B client signed with one of these
//! ```

use super::PASS_PREFIX;
use aho_corasick::AhoCorasick;
use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
    prelude::BASE64_STANDARD,
};
use std::fmt;

/// Prefix of every API token.
pub const TOKEN_PREFIX: &str = "slw_";
/// Prefix of every token that a protocol of other clients hands out.
pub const CLIENT_TOKEN_PREFIX: &str = "slc_";
/// Prefix of API tokens in the form of E2B.
pub const E2B_TOKEN_PREFIX: &str = "e2b_";
/// Prefix of the operator's token, if hostd generated it.
pub const ADMIN_PREFIX: &str = "slipway_";

/// Characters after a prefix that make it a credential. A third of the shortest one: a truncated token is
/// still a secret.
const BODY_MIN_BYTES: usize = 16;
/// Shorter texts cannot contain a credential.
const CREDENTIAL_MIN_BYTES: usize = TOKEN_PREFIX.len() + BODY_MIN_BYTES;
/// Layers of percent-encoding that are decoded: URLs are nested in URLs.
const PERCENT_LAYERS_MAX: usize = 8;

/// Padding may be missing, and the last character may have unused bits.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);

struct Form {
    prefix: &'static str,
    /// Characters after the prefix that make it a credential.
    body_min_bytes: usize,
    is_body: fn(u8) -> bool,
}

impl Form {
    const fn new(prefix: &'static str, is_body: fn(u8) -> bool) -> Self {
        Self { prefix, body_min_bytes: BODY_MIN_BYTES, is_body }
    }
}

const FORMS: [Form; 6] = [
    Form::new(TOKEN_PREFIX, is_base64url),
    Form::new(E2B_TOKEN_PREFIX, is_hex),
    Form::new(ADMIN_PREFIX, is_hex),
    Form::new(PASS_PREFIX, is_base64url),
    Form::new(CLIENT_TOKEN_PREFIX, is_base64url),
    // Whole: an app may well have parameters of its own that begin so.
    Form { prefix: "signature=v1_", body_min_bytes: 43, is_body: is_base64 },
];

/// Finds credentials in text. Its `Debug` shows none.
pub struct CredentialScanner {
    /// Prefixes verbatim and in Base64, in each of its three alignments.
    needles: AhoCorasick,
    encodings: Vec<Encoding>,
    /// Base64 characters that are enough to recognise any credential, including the bytes before it in its
    /// group.
    base64_window: usize,
    /// The operator's token, if it has none of our forms.
    custom: Option<Vec<u8>>,
}

/// The encoding of a needle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    /// In Base64, starting at this byte of a group of three.
    Base64 {
        shift: usize,
    },
}

impl fmt::Debug for CredentialScanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialScanner").finish_non_exhaustive()
    }
}

impl CredentialScanner {
    /// The operator may have written the token by hand: then it is searched for verbatim, if it is long
    /// enough not to be a word of ordinary text.
    pub fn new(admin_token: &str) -> Self {
        let token = admin_token.as_bytes();
        let custom = (!has_form(token) && token.len() >= BODY_MIN_BYTES).then(|| token.to_vec());
        let plain = FORMS.iter().map(|form| form.prefix.as_bytes()).chain(custom.as_deref());
        let (mut needles, mut encodings) = (Vec::new(), Vec::new());
        for text in plain {
            needles.push(text.to_vec());
            encodings.push(Encoding::Plain);
            for shift in 0..3 {
                let needle = in_base64(text, shift);
                // Both Base64 alphabets are searched for where they differ.
                let url: Vec<u8> = needle.iter().map(|byte| url_safe(*byte)).collect();
                for needle in [Some(needle.clone()), (url != needle).then_some(url)].into_iter().flatten() {
                    needles.push(needle);
                    encodings.push(Encoding::Base64 { shift });
                }
            }
        }
        let needles = AhoCorasick::new(needles).expect("few needles, all of them short");
        let longest = FORMS.iter().map(|form| form.prefix.len() + form.body_min_bytes).max();
        let longest = custom.as_ref().map_or(0, Vec::len).max(longest.unwrap_or_default());
        Self { needles, encodings, base64_window: 4 * (longest + 2).div_ceil(3), custom }
    }

    /// Whether the text contains a token or a pass.
    pub fn finds_in(&self, text: &[u8]) -> bool {
        if text.len() < CREDENTIAL_MIN_BYTES.min(self.custom.as_ref().map_or(usize::MAX, Vec::len)) {
            return false;
        }
        if self.finds_undecoded(text) {
            return true;
        }
        let mut layer = percent_decoded(text);
        for _ in 0..PERCENT_LAYERS_MAX {
            let Some(text) = layer else { return false };
            if self.finds_undecoded(&text) {
                return true;
            }
            layer = percent_decoded(&text);
        }
        false
    }

    fn finds_undecoded(&self, text: &[u8]) -> bool {
        // Faster than checking each match, and nearly always sufficient.
        if !self.needles.is_match(text) {
            return false;
        }
        self.needles.find_overlapping_iter(text).any(|found| {
            match self.encodings[found.pattern().as_usize()] {
                Encoding::Plain => self.begins_with_credential(&text[found.start()..]),
                Encoding::Base64 { shift } => {
                    let group = found.start().checked_sub(characters_before(shift));
                    let decoded = group.map(|from| base64_decoded(&text[from..], self.base64_window));
                    let at = decoded.as_ref().and_then(|decoded| decoded.get(shift..));
                    at.is_some_and(|text| self.begins_with_credential(text))
                }
            }
        })
    }

    fn begins_with_credential(&self, text: &[u8]) -> bool {
        has_form(text) || self.custom.as_ref().is_some_and(|custom| text.starts_with(custom))
    }
}

/// Whether a text begins with a credential of one of our forms.
fn has_form(text: &[u8]) -> bool {
    FORMS.iter().any(|form| {
        let body = text.strip_prefix(form.prefix.as_bytes());
        let body = body.and_then(|body| body.get(..form.body_min_bytes));
        body.is_some_and(|body| body.iter().all(|byte| (form.is_body)(*byte)))
    })
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn url_safe(byte: u8) -> u8 {
    match byte {
        b'+' => b'-',
        b'/' => b'_',
        other => other,
    }
}

/// The Base64 characters of a text that do not depend on its surroundings, when it starts at this byte of a
/// group.
fn in_base64(text: &[u8], shift: usize) -> Vec<u8> {
    let padded = [&vec![0; shift], text].concat();
    let encoded = BASE64_STANDARD.encode(&padded);
    encoded.as_bytes()[characters_before(shift)..8 * padded.len() / 6].to_vec()
}

/// Characters of a group that encode bits of the bytes before this one.
fn characters_before(shift: usize) -> usize {
    (8 * shift).div_ceil(6)
}

/// Decodes the Base64 at the beginning of a text, in either alphabet, up to this many characters.
fn base64_decoded(text: &[u8], characters: usize) -> Vec<u8> {
    let standard = |byte: &u8| match byte {
        b'-' => Some(b'+'),
        b'_' => Some(b'/'),
        b'+' | b'/' => Some(*byte),
        other => other.is_ascii_alphanumeric().then_some(*other),
    };
    let mut run: Vec<u8> = text.iter().take(characters).map_while(standard).collect();
    // A single character after the last group encodes no byte.
    run.truncate(if run.len() % 4 == 1 { run.len() - 1 } else { run.len() });
    BASE64.decode(run).unwrap_or_default()
}

/// `None` where nothing is percent-encoded.
fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let first = memchr::memchr_iter(b'%', text).find(|at| encoded_byte(&text[*at..]).is_some())?;
    let mut decoded = text[..first].to_vec();
    let mut rest = &text[first..];
    while let Some((byte, after)) = rest.split_first() {
        let encoded = encoded_byte(rest);
        decoded.push(encoded.unwrap_or(*byte));
        rest = if encoded.is_some() { &rest[3..] } else { after };
    }
    Some(decoded)
}

/// Decodes an escape such as `%41` at the beginning of a text.
fn encoded_byte(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let [b'%', high, low, ..] = text else { return None };
    u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()
}

#[cfg(test)]
mod tests;
