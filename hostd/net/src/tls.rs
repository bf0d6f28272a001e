//! TLS of a listener: handshakes, each with a deadline, with the current pair of files. A renewed certificate is loaded
//! at a handshake, without a restart and without a timer:
//!
//! ```text
//! handshake ─▶ checked within the last second? ─yes─▶ the pair in use
//!                 │ no: check both files
//!                 ├─ unchanged ─────────────────────▶ the pair in use
//!                 ├─ changed, and valid ────────────▶ the new pair, from now on
//!                 └─ changed, and broken: logged ───▶ the pair in use, until they change again
//! ```
//!
//! TLS 1.3 and 1.2, with the suites of rustls: forward secrecy and authenticated encryption only.

mod files;
#[cfg(test)]
mod tests;
mod validity;

pub use files::{PairNames, TlsError};
pub use validity::{Validity, ValidityState};

use crate::connections::respond_and_close;
use files::{CertPair, LoadedPair, Stamps};
use protocol::api::CertificateFingerprint;
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio::{
    net::TcpStream,
    task::spawn_blocking,
    time::{error::Elapsed, timeout},
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig, server::TlsStream};
use tracing::{info, warn};

/// How long a handshake may take.
const HANDSHAKE_MAX_MS: u64 = 10_000;
/// Interval at which the files are checked for changes.
const CHECK_EVERY_MS: u64 = 1_000;

/// The response to HTTP without TLS, as raw bytes: there is no HTTP connection that could format one.
const PLAIN_HTTP_RESPONSE: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 113\r\n\
Connection: close\r\n\r\n\
{\"error\":{\"code\":\"invalid_request\",\"message\":\"this port speaks TLS: use https:// in the URL\",\"retryable\":false}}\n";

/// Clones share the certificate in use.
#[derive(Clone)]
pub struct Tls {
    pair: CertPair,
    current: Arc<Mutex<CurrentPair>>,
}

struct CurrentPair {
    loaded: LoadedPair,
    /// The stamps of the files when they were last read, also if they were broken.
    seen: Stamps,
    checked: Instant,
    /// Why the files as they are now are not used.
    rejected: Option<String>,
}

/// The certificate that a listener shows.
#[derive(Debug, Clone)]
pub struct CertificateStatus {
    pub listener: &'static str,
    pub path: PathBuf,
    pub fingerprint: CertificateFingerprint,
    /// Absent if the certificate does not say it in a known form.
    pub validity: Option<Validity>,
    /// Why the files changed and are not used.
    pub rejected: Option<String>,
}

impl Tls {
    /// Reads the pair. An expired certificate is used, with a warning: a client may trust it by its fingerprint.
    pub fn load(cert: &Path, key: &Path, names: PairNames) -> Result<Self, TlsError> {
        let pair = CertPair { cert: cert.to_owned(), key: key.to_owned(), names };
        // Taken before the files are read: a change meanwhile is seen at the next check.
        let seen = pair.stamps();
        let loaded = pair.read()?;
        log_loaded(&pair, &loaded, "TLS certificate loaded");
        let current = CurrentPair { loaded, seen, checked: Instant::now(), rejected: None };
        Ok(Self { pair, current: Arc::new(Mutex::new(current)) })
    }

    /// Performs the handshake. A client that speaks HTTP without TLS is told so.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let handshake = async {
            if speaks_plain_http(&stream).await? {
                respond_and_close(stream, PLAIN_HTTP_RESPONSE).await;
                return Err(io::Error::new(io::ErrorKind::InvalidData, "HTTP without TLS"));
            }
            let config = self.config(Instant::now()).await;
            TlsAcceptor::from(config).accept(stream).await
        };
        // Cancelling drops the connection; a check that was begun counts as one that found nothing.
        let late = |_: Elapsed| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
        timeout(Duration::from_millis(HANDSHAKE_MAX_MS), handshake).await.map_err(late)?
    }

    pub fn status(&self) -> CertificateStatus {
        let current = self.current();
        CertificateStatus {
            listener: self.pair.names.listener,
            path: self.pair.cert.clone(),
            fingerprint: CertificateFingerprint(current.loaded.fingerprint),
            validity: current.loaded.validity,
            rejected: current.rejected.clone(),
        }
    }

    /// Returns the configuration to use now.
    async fn config(&self, now: Instant) -> Arc<ServerConfig> {
        let seen = {
            let mut current = self.current();
            if now.saturating_duration_since(current.checked) < Duration::from_millis(CHECK_EVERY_MS) {
                return current.loaded.config.clone();
            }
            // Handshakes that come meanwhile use the current pair.
            current.checked = now;
            current.seen
        };
        let pair = self.pair.clone();
        let found = spawn_blocking(move || reload_if_changed(&pair, seen)).await.ok().flatten();
        let mut current = self.current();
        if let Some((seen, loaded)) = found {
            current.seen = seen;
            match loaded {
                Ok(loaded) => {
                    log_loaded(&self.pair, &loaded, "TLS certificate reloaded");
                    (current.loaded, current.rejected) = (loaded, None);
                }
                Err(error) => {
                    let listener = self.pair.names.listener;
                    warn!(listener, %error, "changed TLS certificate not used; keeping the one in use");
                    current.rejected = Some(error.to_string());
                }
            }
        }
        current.loaded.config.clone()
    }

    fn current(&self) -> MutexGuard<'_, CurrentPair> {
        // The value is consistent after every statement that changes it.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the first byte is a letter, as in the methods of HTTP. A TLS record begins with its type, 22.
async fn speaks_plain_http(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let read = stream.peek(&mut first).await?;
    Ok(read == 1 && first[0].is_ascii_alphabetic())
}

/// Reads the files again if they changed since `seen`.
fn reload_if_changed(pair: &CertPair, seen: Stamps) -> Option<(Stamps, Result<LoadedPair, TlsError>)> {
    let now = pair.stamps();
    (now != seen).then(|| (now, pair.read()))
}

fn log_loaded(pair: &CertPair, loaded: &LoadedPair, event: &'static str) {
    let (listener, cert) = (pair.names.listener, pair.cert.display());
    let fingerprint = CertificateFingerprint(loaded.fingerprint);
    info!(listener, %cert, %fingerprint, "{event}");
    let Some(validity) = loaded.validity else { return };
    match validity.state(unix_seconds(SystemTime::now())) {
        ValidityState::Valid => {}
        ValidityState::NotYetValid => warn!(listener, %cert, "TLS certificate is not valid yet"),
        ValidityState::ExpiresSoon => warn!(listener, %cert, "TLS certificate expires soon; renew it"),
        ValidityState::Expired => warn!(listener, %cert, "TLS certificate has expired; clients refuse it"),
    }
}

/// Seconds since 1970, as in [`Validity`].
pub fn unix_seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
