//! Accepts the connections of a listener up to a limit. Each is a task; all of them are owned here and ended
//! in order when hostd shuts down.

mod ip_prefix;

pub use ip_prefix::IpPrefix;

use crate::{
    connection_threads::ConnectionThreads,
    keyed_limiter::{InUse, KeyedLimiter, KeyedPermit},
};
use hostd_metrics::Counter;
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink},
    sync::Semaphore,
    task::{JoinError, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

/// Connections over the limit that get a response at once; more are closed without one.
const REFUSALS_MAX: usize = 64;
const REFUSAL_MAX: Duration = Duration::from_secs(1);
const REFUSED_READ_MAX_BYTES: u64 = 64 << 10;
/// Pause after an accept that failed for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A source of connections.
pub trait Accept {
    type Io: AsyncRead + AsyncWrite + Send + Unpin + 'static;
    type Peer: Send + 'static;
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Io, Self::Peer)>> + Send;
    /// The address that the per-address limit counts for; none for connections without such a limit.
    fn limited_ip(_: &Self::Peer) -> Option<IpPrefix> {
        None
    }
}

/// How many connections there may be, and how they end.
pub struct ServeOptions {
    pub connections_max: usize,
    /// Whether a connection over the limit waits in the kernel's queue; if so, the handler must end others
    /// soon.
    pub queue_when_full: bool,
    /// Connections of one address.
    pub per_ip_max: usize,
    /// The response to a connection over the limit.
    pub full_response: &'static [u8],
    /// How long connections may take to end at shutdown.
    pub drain_max: Duration,
    /// Counts connections over the limit.
    pub refused: Counter,
    /// The threads that serve connections; absent: the runtime that accepts them.
    pub threads: Option<ConnectionThreads>,
}

/// Serves until shutdown; then waits at most `drain_max` for connections to end.
pub async fn serve<L, F>(
    listener: L,
    options: ServeOptions,
    handle: impl Fn(L::Io, L::Peer) -> F,
    shutdown: CancellationToken,
) where
    L: Accept,
    F: Future<Output = ()> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(options.connections_max));
    let per_ip = KeyedLimiter::default();
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            let permit =
                if options.queue_when_full { permits.clone().acquire_owned().await.ok() } else { None };
            (permit, listener.accept().await)
        };
        tokio::select! {
            biased;
            // All branches only wait; a connection is either accepted or still in the kernel's queue, and an
            // unused permit is returned.
            () = shutdown.cancelled() => break,
            Some(ended) = connections.join_next() => report(ended),
            (permit, accepted) = accepted => match accepted {
                Ok((stream, peer)) => {
                    let ip_permit = ip_permit(&per_ip, L::limited_ip(&peer), options.per_ip_max);
                    let permit = permit.or_else(|| permits.clone().try_acquire_owned().ok());
                    let Some(permit) = permit.zip(ip_permit.ok()) else {
                        options.refused.inc();
                        refuse(stream, options.full_response, &refusals, &mut connections);
                        continue;
                    };
                    let handling = handle(stream, peer);
                    let served = async move {
                        handling.await;
                        drop(permit);
                    };
                    match &options.threads {
                        Some(threads) => threads.spawn(&mut connections, served),
                        None => drop(connections.spawn(served)),
                    }
                }
                Err(error) => {
                    debug!(%error, "failed to accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let drained = async {
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
    };
    if timeout(options.drain_max, drained).await.is_err() {
        warn!(left = connections.len(), "connections aborted by the shutdown");
        connections.shutdown().await;
    }
}

/// Returns the permit of an address that is limited, if it has fewer connections than this.
fn ip_permit(
    per_ip: &KeyedLimiter<IpPrefix>,
    prefix: Option<IpPrefix>,
    max: usize,
) -> Result<Option<KeyedPermit<IpPrefix>>, InUse> {
    let check = |in_use: InUse| if in_use.mine < max { Ok(()) } else { Err(in_use) };
    prefix.map(|prefix| per_ip.acquire(prefix, check)).transpose()
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        error!(%error, "connection handler panicked");
    }
}

/// Responds to a connection over the limit, if few enough are being responded to.
fn refuse(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    full: &'static [u8],
    refusals: &Arc<Semaphore>,
    connections: &mut JoinSet<()>,
) {
    let Ok(permit) = refusals.clone().try_acquire_owned() else { return };
    connections.spawn(async move {
        respond_and_close(stream, full).await;
        drop(permit);
    });
}

/// Sends a raw response to a connection that is not served, and closes it.
pub async fn respond_and_close(mut stream: impl AsyncRead + AsyncWrite + Unpin, response: &[u8]) {
    let respond = async {
        stream.write_all(response).await?;
        stream.shutdown().await?;
        // The request is read, or the kernel would discard the response.
        copy(&mut stream.take(REFUSED_READ_MAX_BYTES), &mut sink()).await
    };
    // The client may have closed the connection already.
    let _ = timeout(REFUSAL_MAX, respond).await;
}

/// Checks that the raw response to a connection over the limit is well-formed.
#[cfg(any(test, feature = "test-support"))]
#[track_caller]
pub fn check_raw_response(full: &[u8]) {
    check_raw_error(full, protocol::api::ApiErrorCode::TooMany);
}

/// Checks that a raw response is well-formed and has this error.
#[cfg(any(test, feature = "test-support"))]
#[track_caller]
pub fn check_raw_error(full: &[u8], code: protocol::api::ApiErrorCode) {
    let text = std::str::from_utf8(full).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
    assert_eq!(length.parse::<usize>().expect("a number"), body.len());
    let error: protocol::api::ApiErrorBody = serde_json::from_str(body).expect("JSON");
    assert_eq!(error.error.code, code);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::pending, net::IpAddr};
    use tokio::io::{DuplexStream, duplex};
    use tokio::sync::{Mutex, mpsc};

    struct FakeListener(Mutex<mpsc::Receiver<(DuplexStream, IpAddr)>>);

    impl Accept for FakeListener {
        type Io = DuplexStream;
        type Peer = IpAddr;

        async fn accept(&self) -> io::Result<(DuplexStream, IpAddr)> {
            self.0.lock().await.recv().await.ok_or_else(|| io::ErrorKind::NotConnected.into())
        }

        fn limited_ip(peer: &IpAddr) -> Option<IpPrefix> {
            IpPrefix::of(*peer)
        }
    }

    #[tokio::test]
    async fn one_address_cannot_take_all_connections() {
        let (arrive, arriving) = mpsc::channel(1);
        let (shutdown, refused) = (CancellationToken::new(), Counter::default());
        let options = ServeOptions {
            connections_max: 4,
            queue_when_full: false,
            per_ip_max: 2,
            full_response: b"full",
            drain_max: Duration::ZERO,
            refused: refused.clone(),
            threads: None,
        };
        let handle = async |mut stream: DuplexStream| {
            let _ = stream.write_all(b"here").await;
            pending::<()>().await;
        };
        let listener = FakeListener(Mutex::new(arriving));
        let serving =
            tokio::spawn(serve(listener, options, move |stream, _| handle(stream), shutdown.clone()));
        let mut kept = Vec::new();
        for (address, wanted) in [
            ("192.0.2.1", b"here"),
            ("192.0.2.1", b"here"),
            ("192.0.2.1", b"full"),
            ("192.0.2.2", b"here"),
            ("127.0.0.1", b"here"),
            ("192.0.2.3", b"full"),
        ] {
            let (mut ours, theirs) = duplex(64);
            arrive.send((theirs, address.parse().unwrap())).await.unwrap();
            let mut reply = [0; 4];
            ours.read_exact(&mut reply).await.unwrap();
            assert_eq!(&reply, wanted, "{address}");
            kept.push(ours);
        }
        assert_eq!(refused.get(), 2);
        shutdown.cancel();
        serving.await.unwrap();
    }
}
