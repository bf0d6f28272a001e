//! A reader that fails at the end of a blob that is not what its descriptor says.

use crate::{Digest, Hasher};
use std::io::{self, Read};

pub struct VerifiedReader<R> {
    inner: R,
    left_bytes: u64,
    expected: Digest,
    /// None after the blob was verified.
    hasher: Option<Hasher>,
}

impl<R: Read> VerifiedReader<R> {
    pub fn new(inner: R, expected: Digest, size: u64) -> Self {
        Self { inner, left_bytes: size, expected, hasher: Some(Hasher::default()) }
    }
}

impl<R: Read> Read for VerifiedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("the blob {why}"));
        if buffer.is_empty() {
            return Ok(0);
        }
        let length = self.inner.read(buffer)?;
        let left = self.left_bytes.checked_sub(length as u64);
        self.left_bytes = left.ok_or_else(|| wrong("is larger than its descriptor says"))?;
        if length > 0 {
            self.hasher.get_or_insert_default().update(&buffer[..length]);
        } else if let Some(hasher) = self.hasher.take() {
            if self.left_bytes > 0 {
                return Err(wrong("is smaller than its descriptor says"));
            }
            if hasher.finish() != self.expected {
                return Err(wrong("does not have the digest of its descriptor"));
            }
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_compared_with_its_descriptor() {
        let blob = b"content";
        for (digest, size, expected) in [
            (Digest::of(blob), 7, ""),
            (Digest::of(blob), 8, "the blob is smaller than its descriptor says"),
            (Digest::of(blob), 6, "the blob is larger than its descriptor says"),
            (Digest::of(b"other"), 7, "the blob does not have the digest of its descriptor"),
        ] {
            let mut reader = VerifiedReader::new(&blob[..], digest, size);
            let mut read = vec![];
            let result = reader.read_to_end(&mut read).map_err(|error| error.to_string());
            assert_eq!(result.err().unwrap_or_default(), expected);
            if expected.is_empty() {
                assert_eq!(read, blob);
                assert_eq!(reader.read(&mut [0; 8]).expect("at its end"), 0);
            }
        }
    }
}
