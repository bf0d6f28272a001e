//! A body that was compressed with gzip, as its content.

use axum::{BoxError, body::Body};
use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use std::io::Write;

/// Compressed bytes that are decoded at once: a thousand times as many may come out.
const STEP_BYTES: usize = 1 << 10;

struct Gunzip {
    body: Body,
    decoder: MultiGzDecoder<Vec<u8>>,
    rest: Bytes,
    is_done: bool,
}

/// The content; a body that is cut or is no gzip ends with an error.
pub fn gunzipped(body: Body) -> Body {
    let start = Gunzip { body, decoder: MultiGzDecoder::new(Vec::new()), rest: Bytes::new(), is_done: false };
    let content = stream::try_unfold(start, |mut gunzip| async {
        Ok::<_, BoxError>(gunzip.next().await?.map(|bytes| (bytes, gunzip)))
    });
    // A body that has ended may be asked again.
    Body::from_stream(content.fuse())
}

impl Gunzip {
    async fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        loop {
            if !self.decoder.get_ref().is_empty() {
                return Ok(Some(std::mem::take(self.decoder.get_mut()).into()));
            }
            if self.is_done {
                return Ok(None);
            }
            if self.rest.has_remaining() {
                let step = self.rest.split_to(self.rest.len().min(STEP_BYTES));
                self.decoder.write_all(&step)?;
                continue;
            }
            match self.body.frame().await {
                Some(frame) => self.rest = frame?.into_data().unwrap_or_default(),
                None => {
                    self.decoder.try_finish()?;
                    self.is_done = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};

    async fn content(compressed: Vec<u8>) -> Result<Vec<u8>, String> {
        let pieces: Vec<Result<Bytes, BoxError>> =
            compressed.chunks(7).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let whole = gunzipped(Body::from_stream(stream::iter(pieces))).collect().await;
        whole.map(|whole| whole.to_bytes().to_vec()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn content_is_what_was_compressed_and_a_cut_is_an_error() {
        let text: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&text).expect("memory");
        let compressed = encoder.finish().expect("memory");
        assert!(content(compressed.clone()).await.expect("whole") == text);
        assert!(content(compressed[..compressed.len() - 9].to_vec()).await.is_err(), "cut");
        assert!(content(b"no gzip at all".to_vec()).await.is_err());
    }
}
