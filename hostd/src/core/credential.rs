//! Recognises API tokens and preview passes by their form, wherever they stand in text that goes to an app: as
//! they are, percent-encoded, or in Base64. Pure; allocates only where something may be found.
//!
//! ```text
//!  slw_<Base64url>       token of the API
//!  slipway_<hex digits>  token of the administrator
//!  slp1.<Base64url>      pass of a preview
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

/// What every token of the API begins with.
pub const TOKEN_PREFIX: &str = "slw_";
/// What the administrator's token begins with, where hostd wrote it.
pub const ADMIN_PREFIX: &str = "slipway_";

/// Characters behind a prefix that make a credential of it. A third of the shortest one: a token that was cut is
/// still a secret.
const BODY_MIN_BYTES: usize = 16;
/// A text that is shorter has no room for a credential.
const CREDENTIAL_MIN_BYTES: usize = TOKEN_PREFIX.len() + BODY_MIN_BYTES;
/// Layers of percent-encoding that are looked through: addresses stand in addresses.
const PERCENT_LAYERS_MAX: usize = 8;

/// Padding may be missing, and the last character may have bits that mean nothing.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);

struct Form {
    prefix: &'static str,
    is_body: fn(u8) -> bool,
}

const FORMS: [Form; 3] = [
    Form { prefix: TOKEN_PREFIX, is_body: is_base64url },
    Form { prefix: ADMIN_PREFIX, is_body: |byte| byte.is_ascii_hexdigit() },
    Form { prefix: PASS_PREFIX, is_body: is_base64url },
];

/// Finds credentials in text. Its `Debug` shows none.
pub struct CredentialScanner {
    /// Prefixes as they are and as Base64 has them, in each of its three alignments.
    needles: AhoCorasick,
    encodings: Vec<Encoding>,
    /// Characters of Base64 that are enough to know any of them, with what stands before it in its group.
    base64_window: usize,
    /// The administrator's token, where it is of no form of ours.
    custom: Option<Vec<u8>>,
}

/// How a needle is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    /// In Base64, beginning with this byte of a group of three.
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
    /// The administrator may have written the token by hand: then it is looked for as it is, if it is long enough
    /// not to be a word of ordinary text.
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
                // Both alphabets of Base64 are looked for where they differ.
                let url: Vec<u8> = needle.iter().map(|byte| url_safe(*byte)).collect();
                for needle in [Some(needle.clone()), (url != needle).then_some(url)].into_iter().flatten() {
                    needles.push(needle);
                    encodings.push(Encoding::Base64 { shift });
                }
            }
        }
        let needles = AhoCorasick::new(needles).expect("few needles, all of them short");
        let longest = custom.as_ref().map_or(0, Vec::len).max(ADMIN_PREFIX.len() + BODY_MIN_BYTES);
        Self { needles, encodings, base64_window: 4 * (longest + 2).div_ceil(3), custom }
    }

    /// Whether a token or a pass stands somewhere in this text.
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
        // Quicker than the look at each needle, and nearly always enough.
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
        let body = body.and_then(|body| body.get(..BODY_MIN_BYTES));
        body.is_some_and(|body| body.iter().all(|byte| (form.is_body)(*byte)))
    })
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

/// The characters that a text has in Base64 whatever stands around it, when it begins with this byte of a group.
fn in_base64(text: &[u8], shift: usize) -> Vec<u8> {
    let padded = [&vec![0; shift], text].concat();
    let encoded = BASE64_STANDARD.encode(&padded);
    encoded.as_bytes()[characters_before(shift)..8 * padded.len() / 6].to_vec()
}

/// Characters of a group that say something of the bytes before this one.
fn characters_before(shift: usize) -> usize {
    (8 * shift).div_ceil(6)
}

/// What the Base64 at the beginning of a text says, in either alphabet, as far as so many characters.
fn base64_decoded(text: &[u8], characters: usize) -> Vec<u8> {
    let standard = |byte: &u8| match byte {
        b'-' => Some(b'+'),
        b'_' => Some(b'/'),
        b'+' | b'/' => Some(*byte),
        other => other.is_ascii_alphanumeric().then_some(*other),
    };
    let mut run: Vec<u8> = text.iter().take(characters).map_while(standard).collect();
    // A single character behind the last group says nothing.
    run.truncate(if run.len() % 4 == 1 { run.len() - 1 } else { run.len() });
    BASE64.decode(run).unwrap_or_default()
}

/// Nothing where nothing is percent-encoded.
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

/// The byte that `%41` and its like at the beginning of a text stand for.
fn encoded_byte(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match text {
        [b'%', high, low, ..] => u8::try_from(digit(*high)? << 4 | digit(*low)?).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
