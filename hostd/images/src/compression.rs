//! Compressions of archives, found by their first bytes.

mod zstd;

use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, Cursor, Read};
use zstd::ZstdReader;

/// Compression of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    Plain,
    Gzip,
    Zstd,
    /// Recognized, not supported.
    Other(&'static str),
}

/// Length of the longest magic number.
pub const MAGIC_BYTES: usize = 6;

impl Compression {
    pub fn of(beginning: &[u8]) -> Self {
        match beginning {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or a skippable frame, which parallel compressors write first.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Other("xz"),
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Other("bzip2"),
            [0x04, 0x22, 0x4d, 0x18, ..] => Self::Other("lz4"),
            [b'P', b'K', 3, 4, ..] => Self::Other("zip"),
            _ => Self::Plain,
        }
    }
}

/// Decompresses what is read, if it is compressed. Reads to the end of `source`: only there a truncation or a wrong
/// checksum shows.
pub fn decompress<'a>(mut source: impl BufRead + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut magic = Vec::with_capacity(MAGIC_BYTES);
    source.by_ref().take(MAGIC_BYTES as u64).read_to_end(&mut magic)?;
    let compression = Compression::of(&magic);
    let whole = Cursor::new(magic).chain(source);
    Ok(match compression {
        Compression::Plain => Box::new(whole),
        Compression::Gzip => Box::new(MultiGzDecoder::new(whole)),
        Compression::Zstd => Box::new(ZstdReader::new(whole)),
        Compression::Other(name) => {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "it is compressed with {name}; give a tar archive that is plain or compressed with gzip or zstd"
                ),
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_detected_by_magic_number() {
        let table: [(&[u8], Compression); 10] = [
            (b"", Compression::Plain),
            (b"./", Compression::Plain),
            (b"\x1f\x8b\x08", Compression::Gzip),
            (b"\x28\xb5\x2f\xfd\x04", Compression::Zstd),
            (b"\x50\x2a\x4d\x18", Compression::Zstd),
            (b"\x28\xb5\x2f", Compression::Plain),
            (b"\xfd7zXZ\0", Compression::Other("xz")),
            (b"BZh91A", Compression::Other("bzip2")),
            (b"\x04\x22\x4d\x18", Compression::Other("lz4")),
            (b"PK\x03\x04", Compression::Other("zip")),
        ];
        for (beginning, compression) in table {
            assert_eq!(Compression::of(beginning), compression, "{beginning:?}");
        }
    }
}
