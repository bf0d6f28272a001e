//! Copies bytes both ways on an upgraded connection, whatever they mean. A buffer exists only while it has
//! content, so a silent connection costs its two sockets and little else.

use super::{auth::AccessEnded, limits::HALF_CLOSED_MAX, wake::thaw_same_epoch};
use crate::{
    preview_target::RequestPermit, traffic::PreviewStream, upstream::UpgradedConnection, waker::Waker,
};
use bytes::Bytes;
use hostd_net::backpressure::read_chunk;
use std::{
    io, mem,
    pin::{Pin, pin},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, split},
    time::timeout,
};

/// The app's end of an upgraded connection, and the visit that it counts for.
pub struct AppEnd {
    connection: UpgradedConnection,
    traffic: PreviewStream,
    visit: RequestPermit,
    /// Set where a token opened the connection.
    ended: Option<AccessEnded>,
}

impl AppEnd {
    /// Counts as an open stream from here on.
    pub fn new(connection: UpgradedConnection, visit: RequestPermit, ended: Option<AccessEnded>) -> Self {
        Self { connection, traffic: visit.target().traffic.stream(), visit, ended }
    }
}

/// Copies until the connection or the access to the sandbox ends. When the latter does, both ends see the connection
/// closed.
pub async fn splice<T>(browser: T, sent: Bytes, mut app: AppEnd, waker: &dyn Waker) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let Some(ended) = app.ended.take() else { return copy(browser, sent, app, waker).await };
    tokio::select! {
        copied = copy(browser, sent, app, waker) => copied,
        _ = ended => Ok(()),
    }
}

/// Copies until both directions have ended, or one end is gone. `sent` was read from the browser already.
async fn copy<T>(browser: T, sent: Bytes, app: AppEnd, waker: &dyn Waker) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let AppEnd { connection, mut traffic, visit, ended: _ } = app;
    let UpgradedConnection { stream, read_ahead, epoch, permit: _permit } = connection;
    let target = visit.target();
    let (mut from_browser, mut to_browser) = split(browser);
    let (mut from_app, mut to_app) = split(stream);
    let inward = async {
        let mut chunk = sent;
        loop {
            if !chunk.is_empty() {
                traffic.record_bytes(chunk.len());
                thaw_same_epoch(target, waker, epoch).await?;
                to_app.write_all(&chunk).await?;
            }
            // The chunk is freed before the next read waits.
            drop(mem::take(&mut chunk));
            chunk = read_chunk(&mut from_browser).await?;
            if chunk.is_empty() {
                return to_app.shutdown().await;
            }
        }
    };
    let outward = async {
        let mut chunk = read_ahead;
        loop {
            to_browser.write_all(&chunk).await?;
            // TLS may buffer what it could not send at once.
            to_browser.flush().await?;
            drop(mem::take(&mut chunk));
            chunk = read_chunk(&mut from_app).await?;
            if chunk.is_empty() {
                return to_browser.shutdown().await;
            }
        }
    };
    let (mut inward, mut outward) = (pin!(inward), pin!(outward));
    let (ended, rest): (_, Pin<&mut (dyn Future<Output = io::Result<()>> + Send)>) = tokio::select! {
        // The other direction goes on below.
        ended = inward.as_mut() => (ended, outward),
        ended = outward.as_mut() => (ended, inward),
    };
    ended?;
    timeout(HALF_CLOSED_MAX, rest).await.unwrap_or(Ok(()))
}
