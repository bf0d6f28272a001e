//! The hash of the content of a file. Of an ordinary file it is the SHA-256 of its bytes. A file that is nearly all zeros
//! has one of its other blocks, so that a hole of many terabytes costs nothing.
//!
//! Which of the two a file has depends on its content alone, not on what its file system allocates for it: it is the same
//! after a copy and on another host. `sparse_sha256` is the SHA-256 of, for each block of 4,096 bytes that is not all
//! zeros, its offset (8 bytes, little-endian) and its bytes (the last block of a file may be shorter), and at the end
//! 8 bytes of ones and the size of the file (8 bytes, little-endian).

use super::{
    super::limits::{SPARSE_FACTOR, SPARSE_FILE_MIN_BYTES},
    extents::{BLOCK_BYTES, Extent, next_extent},
};
use sha2::{Digest, Sha256};
use std::{fmt::Write, fs::File, io, os::unix::fs::FileExt};

const PIECE_BYTES: usize = 256 << 10;
static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];

/// The hash of the content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentHash {
    /// SHA-256 of all bytes.
    Whole(String),
    /// The hash of the blocks that are not all zeros, and their bytes.
    Sparse { sha256: String, held_bytes: u64 },
}

/// Hashes a file of a tree that nobody changes. Reads no holes.
pub fn hash_content(file: &File, size: u64) -> io::Result<ContentHash> {
    if size >= SPARSE_FILE_MIN_BYTES
        && let Some(sparse) = hash_if_sparse(file, size)?
    {
        return Ok(sparse);
    }
    hash_whole(file, size).map(ContentHash::Whole)
}

/// `None` for an ordinary file, of which a part is read to know that.
fn hash_if_sparse(file: &File, size: u64) -> io::Result<Option<ContentHash>> {
    let (mut hash, mut held_bytes) = (Sha256::new(), 0_u64);
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while let Some(Extent { start, end }) = next_extent(file, at, size)? {
        at = start;
        while at < end {
            let bytes = read_piece(file, &mut piece, at, end)?;
            for (number, block) in (0_u64..).zip(bytes.chunks(BLOCK_BYTES as usize)) {
                if block != &ZEROS[..block.len()] {
                    hash.update((at + number * BLOCK_BYTES).to_le_bytes());
                    hash.update(block);
                    held_bytes += block.len() as u64;
                }
            }
            at += bytes.len() as u64;
            if held_bytes.saturating_mul(SPARSE_FACTOR) >= size {
                return Ok(None);
            }
        }
    }
    hash.update(u64::MAX.to_le_bytes());
    hash.update(size.to_le_bytes());
    Ok(Some(ContentHash::Sparse { sha256: hex(&hash.finalize()), held_bytes }))
}

/// Holes are hashed as zeros: the file is small, or holds a good part of its size.
fn hash_whole(file: &File, size: u64) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(size).unwrap_or(PIECE_BYTES))];
    let mut at = 0;
    while let Some(Extent { start, end }) = next_extent(file, at, size)? {
        hash_zeros(&mut hash, start - at);
        at = start;
        while at < end {
            let bytes = read_piece(file, &mut piece, at, end)?;
            hash.update(bytes);
            at += bytes.len() as u64;
        }
    }
    hash_zeros(&mut hash, size - at);
    Ok(hex(&hash.finalize()))
}

fn hash_zeros(hash: &mut Sha256, mut bytes: u64) {
    while bytes > 0 {
        let length = usize::try_from(bytes).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        hash.update(&ZEROS[..length]);
        bytes -= length as u64;
    }
}

/// Reads a piece that begins at `at`: whole, or up to `end`.
fn read_piece<'a>(file: &File, piece: &'a mut [u8], at: u64, end: u64) -> io::Result<&'a [u8]> {
    let length = usize::try_from(end - at).unwrap_or(piece.len()).min(piece.len());
    file.read_exact_at(&mut piece[..length], at)?;
    Ok(&piece[..length])
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
