//! TLS in front of previews: handshakes, each with a deadline, with the pair of files as it is now. A
//! renewed certificate is taken up at a handshake, without a restart and without a timer:
//!
//! ```text
//! handshake ─▶ looked within the last second? ─yes─▶ the pair in use
//!                 │ no: look at both files
//!                 ├─ as they were ────────────────▶ the pair in use
//!                 ├─ changed, and good ───────────▶ the new pair, from now on
//!                 └─ changed, and broken: logged ─▶ the pair in use, until they change again
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

/// How long a client may take to agree on keys.
const HANDSHAKE_MAX_MS: u64 = 10_000;
/// Between two looks at the files.
const CHECK_EVERY_MS: u64 = 1_000;

/// A clone is the same one.
#[derive(Clone)]
pub struct Tls {
    pair: CertPair,
    current: Arc<Mutex<CurrentConfig>>,
}

struct CurrentConfig {
    config: Arc<ServerConfig>,
    /// What the files were when they were last read, also if they were broken.
    seen: Stamps,
    checked: Instant,
}

impl Tls {
    pub fn load(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        let pair = CertPair { cert: cert.to_owned(), key: key.to_owned() };
        // Before they are read: what changes meanwhile is seen at the next look.
        let seen = pair.stamps();
        let current = CurrentConfig { config: pair.read()?, seen, checked: Instant::now() };
        Ok(Self { pair, current: Arc::new(Mutex::new(current)) })
    }

    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let handshake = async {
            let config = self.config(Instant::now()).await;
            TlsAcceptor::from(config).accept(stream).await
        };
        // Cancelled, it drops the connection; a look that it began counts as one that found nothing.
        let late = |_: Elapsed| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
        timeout(Duration::from_millis(HANDSHAKE_MAX_MS), handshake).await.map_err(late)?
    }

    /// The one to use now.
    async fn config(&self, now: Instant) -> Arc<ServerConfig> {
        let seen = {
            let mut current = self.current();
            if now.saturating_duration_since(current.checked) < Duration::from_millis(CHECK_EVERY_MS) {
                return current.config.clone();
            }
            // Whoever comes meanwhile uses what there is.
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
                    info!(cert = %self.pair.cert.display(), "the certificate of previews was renewed");
                    current.config = config;
                }
                Err(error) => warn!(%error, "the new certificate of previews is not used; the old one is"),
            }
        }
        current.config.clone()
    }

    fn current(&self) -> MutexGuard<'_, CurrentConfig> {
        // Whole after every statement that changes it.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the files are now, if that is not what they were.
fn reload_if_changed(pair: &CertPair, seen: Stamps) -> Option<(Stamps, Result<Arc<ServerConfig>, TlsError>)> {
    let now = pair.stamps();
    (now != seen).then(|| (now, pair.read()))
}
