//! An upgraded connection: bytes both ways, whatever they mean. A buffer exists only while something is in
//! it, so a silent one costs its two sockets and little else.

use super::{limits::HALF_CLOSED_MAX, rouse::rouse};
use crate::{
    backpressure::read_piece,
    reconcile::{Fleet, RequestPermit},
    upstream::Taken,
};
use bytes::Bytes;
use std::{
    io, mem,
    pin::{Pin, pin},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, split},
    time::timeout,
};

/// The app's end, and what belongs to it.
pub struct AppEnd {
    pub taken: Taken,
    pub visit: RequestPermit,
}

/// Until both have ended, or one is gone. `sent` is what the browser sent already.
pub async fn splice<T>(browser: T, sent: Bytes, app: AppEnd, fleet: &Fleet) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let AppEnd { taken: Taken { stream, said, epoch, place: _place }, visit } = app;
    let site = visit.site();
    let (mut from_browser, mut to_browser) = split(browser);
    let (mut from_app, mut to_app) = split(stream);
    let mut traffic = site.traffic.stream();
    let inward = async {
        let mut piece = sent;
        loop {
            if !piece.is_empty() {
                traffic.moved(piece.len());
                rouse(site, fleet, epoch).await?;
                to_app.write_all(&piece).await?;
            }
            // What was passed on is not held while nothing comes.
            drop(mem::take(&mut piece));
            piece = read_piece(&mut from_browser).await?;
            if piece.is_empty() {
                return to_app.shutdown().await;
            }
        }
    };
    let outward = async {
        let mut piece = said;
        loop {
            to_browser.write_all(&piece).await?;
            // TLS may keep what it could not send at once.
            to_browser.flush().await?;
            drop(mem::take(&mut piece));
            piece = read_piece(&mut from_app).await?;
            if piece.is_empty() {
                return to_browser.shutdown().await;
            }
        }
    };
    let (mut inward, mut outward) = (pin!(inward), pin!(outward));
    let (ended, rest): (_, Pin<&mut (dyn Future<Output = io::Result<()>> + Send)>) = tokio::select! {
        // Neither is cut off: the other one goes on below.
        ended = inward.as_mut() => (ended, outward),
        ended = outward.as_mut() => (ended, inward),
    };
    ended?;
    timeout(HALF_CLOSED_MAX, rest).await.unwrap_or(Ok(()))
}
