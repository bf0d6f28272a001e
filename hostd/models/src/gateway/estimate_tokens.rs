//! Estimates tokens where no provider has counted them. Pure.

/// Bytes of text per token.
const TOKEN_BYTES: u64 = 4;
/// A base64 word of at least this length is an image or the like, and counts as so many bytes of text.
const BLOB_MIN_BYTES: usize = 16 << 10;
const BLOB_COUNTS_BYTES: u64 = 6_400;

pub fn estimate_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(TOKEN_BYTES)
}

/// Bytes of a request, with images counted as a fixed number of bytes each.
pub fn request_text_bytes(body: &[u8]) -> u64 {
    let all = body.len() as u64;
    if body.len() < BLOB_MIN_BYTES {
        return all;
    }
    let is_part =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=');
    let mut at = 0;
    let blobs = body.split(|byte| !is_part(byte)).filter(|word| {
        let before = &body[..at];
        at += word.len() + 1;
        word.len() >= BLOB_MIN_BYTES && precedes_base64(before)
    });
    blobs.fold(all, |bytes, blob| bytes - blob.len() as u64 + BLOB_COUNTS_BYTES)
}

/// Whether base64 data follows, as all dialects write it: `"data": "…`, or a URL `data:…;base64,…`.
fn precedes_base64(text: &[u8]) -> bool {
    let member = || {
        let name = text.strip_suffix(b"\"")?.trim_ascii_end().strip_suffix(b":")?;
        Some(name.trim_ascii_end().ends_with(b"\"data\""))
    };
    text.ends_with(b";base64,") || member() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_not_counted_by_their_bytes() {
        let picture = format!(r#"{{"data":"{}"}}"#, "A".repeat(1 << 20));
        assert_eq!(request_text_bytes(picture.as_bytes()), BLOB_COUNTS_BYTES + 11);
        let address = format!(r#"{{"url":"data:image/png;base64,{}"}}"#, "A".repeat(1 << 20));
        assert!(request_text_bytes(address.as_bytes()) < BLOB_COUNTS_BYTES + 100);
        let spaced = format!(r#"{{"data" : "{}"}}"#, "A".repeat(1 << 20));
        assert!(request_text_bytes(spaced.as_bytes()) < BLOB_COUNTS_BYTES + 100);
        // Elsewhere a long word is text.
        for text in [r#"{"text":""#, r#"{"mydata":""#, "base64 "] {
            let text = format!("{text}{}", "A".repeat(1 << 20));
            assert_eq!(request_text_bytes(text.as_bytes()), text.len() as u64);
        }
        let text = "many words ".repeat(10_000);
        assert_eq!(request_text_bytes(text.as_bytes()), text.len() as u64);
        assert_eq!((estimate_tokens(0), estimate_tokens(1), estimate_tokens(8)), (0, 1, 2));
    }
}
