//! Decompresses a zstd stream: all frames in sequence, each verified by its checksum. The window of a frame,
//! and so its memory, is limited.

use crate::limits::ZSTD_WINDOW_MAX_BYTES;
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};
use std::io::{self, BufRead, Read};

/// Reads the content of all frames of `source`.
pub struct ZstdReader<R> {
    source: R,
    frame: FrameDecoder,
    /// Inside a frame whose checksum is not verified yet.
    within: bool,
}

impl<R: BufRead> ZstdReader<R> {
    pub fn new(source: R) -> Self {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(ZSTD_WINDOW_MAX_BYTES);
        Self { source, frame, within: false }
    }

    /// Starts the next frame; `false` at the end of the source.
    fn next_frame(&mut self) -> io::Result<bool> {
        loop {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            let skip = match self.frame.reset(&mut self.source) {
                Ok(()) => {
                    self.within = true;
                    return Ok(true);
                }
                Err(error) => skippable(&error).ok_or_else(|| wrong(&error))?,
            };
            let skipped = io::copy(&mut (&mut self.source).take(skip), &mut io::sink())?;
            if skipped < skip {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn end_frame(&mut self) -> io::Result<()> {
        self.within = false;
        if let (Some(stored), Some(computed)) =
            (self.frame.get_checksum_from_data(), self.frame.get_calculated_checksum())
            && stored != computed
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "zstd: the checksum does not match the data",
            ));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            if !self.within && !self.next_frame()? {
                return Ok(0);
            }
            while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                let block = BlockDecodingStrategy::UptoBlocks(1);
                self.frame.decode_blocks(&mut self.source, block).map_err(|error| wrong(&error))?;
            }
            match self.frame.read(buffer)? {
                0 => self.end_frame()?,
                read => return Ok(read),
            }
        }
        Ok(0)
    }
}

/// The length of a skippable frame.
fn skippable(error: &FrameDecoderError) -> Option<u64> {
    if let FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. }) = error {
        return Some(u64::from(*length));
    }
    None
}

fn wrong(error: &FrameDecoderError) -> io::Error {
    let message = if let FrameDecoderError::WindowSizeTooBig { .. } = error {
        let max_mib = ZSTD_WINDOW_MAX_BYTES >> 20;
        format!("zstd: its window is larger than {max_mib} MiB; compress it again without --long")
    } else if let FrameDecoderError::DictNotProvided { .. } = error {
        "zstd: it was compressed with a dictionary; compress it again without one".to_owned()
    } else {
        format!("zstd: the data is damaged or ends too early: {error}")
    };
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn decode(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut out = vec![];
        let read = ZstdReader::new(bytes).read_to_end(&mut out);
        read.map(|_| out).map_err(|error| error.to_string())
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    /// A skippable frame with `length` bytes of content.
    fn passed_over(length: u32) -> Vec<u8> {
        let mut frame = 0x184d_2a50_u32.to_le_bytes().to_vec();
        frame.extend(length.to_le_bytes());
        frame.extend(vec![7; length as usize]);
        frame
    }

    #[test]
    fn frames_are_read_in_sequence() {
        let text = b"slipway ".repeat(100_000);
        let stream = [packed(&text), passed_over(5), packed(b""), packed(b"end"), passed_over(0)].concat();
        assert_eq!(decode(&stream), Ok([text, b"end".to_vec()].concat()));
        assert_eq!(decode(b""), Ok(vec![]));
    }

    /// Output of `printf slipway | zstd --check`.
    const BY_THE_TOOL: &[u8] = b"\x28\xb5\x2f\xfd\x04\x58\x39\x00\x00slipway\x05\x4a\x6f\xe1";

    #[test]
    fn damage_is_detected() {
        let whole = packed(&b"slipway ".repeat(100_000));
        for at in [1, 5, 9, whole.len() / 2, whole.len() - 1] {
            assert!(decode(&whole[..at]).is_err(), "cut at {at}");
        }
        assert_eq!(decode(BY_THE_TOOL).as_deref(), Ok(&b"slipway"[..]));
        let mut changed = BY_THE_TOOL.to_vec();
        changed[10] ^= 1;
        assert!(decode(&changed).expect_err("changed").contains("checksum"));
        assert!(decode(&[BY_THE_TOOL, b"garbage"].concat()).is_err(), "no frame");
        let skips = passed_over(5);
        assert!(decode(&skips[..skips.len() - 1]).is_err(), "cut where nothing is read");
    }

    #[test]
    fn a_large_window_is_refused_before_it_is_filled() {
        // Magic, a descriptor with only a window, and its exponent: 2^(10 + exponent) bytes.
        let frame = |exponent: u8| [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, exponent << 3][..], &[1, 0, 0]].concat();
        assert_eq!(decode(&frame(17)), Ok(vec![]), "128 MiB");
        for exponent in [18, 31] {
            let said = decode(&frame(exponent)).expect_err("too large");
            assert!(said.contains("128 MiB"), "{said}");
        }
    }
}
