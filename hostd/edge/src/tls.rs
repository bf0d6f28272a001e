//! TLS in front of previews: handshakes, each with a deadline, with the current pair of files. A renewed
//! certificate is loaded at a handshake, without a restart and without a timer:
//!
//! ```text
//! handshake ─▶ checked within the last second? ─yes─▶ the pair in use
//!                 │ no: check both files
//!                 ├─ unchanged ─────────────────────▶ the pair in use
//!                 ├─ changed, and valid ────────────▶ the new pair, from now on
//!                 └─ changed, and broken: logged ───▶ the pair in use, until they change again
//! ```

mod files;
#[cfg(test)]
mod tests;

pub use files::TlsError;

use files::{CertPair, Stamps};
use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
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

/// Clones share the certificate in use.
#[derive(Clone)]
pub struct Tls {
    pair: CertPair,
    current: Arc<Mutex<CurrentConfig>>,
}

struct CurrentConfig {
    config: Arc<ServerConfig>,
    /// The stamps of the files when they were last read, also if they were broken.
    seen: Stamps,
    checked: Instant,
}

impl Tls {
    pub fn load(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        let pair = CertPair { cert: cert.to_owned(), key: key.to_owned() };
        // Taken before the files are read: a change meanwhile is seen at the next check.
        let seen = pair.stamps();
        let current = CurrentConfig { config: pair.read()?, seen, checked: Instant::now() };
        Ok(Self { pair, current: Arc::new(Mutex::new(current)) })
    }

    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let handshake = async {
            let config = self.config(Instant::now()).await;
            TlsAcceptor::from(config).accept(stream).await
        };
        // Cancelling drops the connection; a check that was begun counts as one that found nothing.
        let late = |_: Elapsed| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
        timeout(Duration::from_millis(HANDSHAKE_MAX_MS), handshake).await.map_err(late)?
    }

    /// Returns the configuration to use now.
    async fn config(&self, now: Instant) -> Arc<ServerConfig> {
        let seen = {
            let mut current = self.current();
            if now.saturating_duration_since(current.checked) < Duration::from_millis(CHECK_EVERY_MS) {
                return current.config.clone();
            }
            // Handshakes that come meanwhile use the current pair.
            current.checked = now;
            current.seen
        };
        let pair = self.pair.clone();
        let found = spawn_blocking(move || reload_if_changed(&pair, seen)).await.ok().flatten();
        let mut current = self.current();
        if let Some((seen, config)) = found {
            current.seen = seen;
            match config {
                Ok(config) => {
                    info!(cert = %self.pair.cert.display(), "preview certificate reloaded");
                    current.config = config;
                }
                Err(error) => warn!(%error, "changed preview certificate not used; keeping the one in use"),
            }
        }
        current.config.clone()
    }

    fn current(&self) -> MutexGuard<'_, CurrentConfig> {
        // The value is consistent after every statement that changes it.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the files again if they changed since `seen`.
fn reload_if_changed(pair: &CertPair, seen: Stamps) -> Option<(Stamps, Result<Arc<ServerConfig>, TlsError>)> {
    let now = pair.stamps();
    (now != seen).then(|| (now, pair.read()))
}
