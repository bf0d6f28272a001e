//! HTTP written by hand, for clients that no library would let one be.

use anyhow::{Context, Result};
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::sandbox::PATIENCE;

/// A bare connection to a socket of runtimed.
pub struct Wire(UnixStream);

impl Wire {
    pub async fn connect(socket: &Path) -> Result<Self> {
        Ok(Self(UnixStream::connect(socket).await.context("connect")?))
    }

    /// Connects and sends these bytes.
    pub async fn send(socket: &Path, bytes: impl AsRef<[u8]>) -> Result<Self> {
        let mut wire = Self::connect(socket).await?;
        wire.write(bytes).await?;
        Ok(wire)
    }

    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.0.write_all(bytes.as_ref()).await.context("send")
    }

    /// Everything that comes until the other side hangs up.
    pub async fn rest(mut self) -> Result<String> {
        let mut bytes = Vec::new();
        let read = timeout(PATIENCE, self.0.read_to_end(&mut bytes)).await.context("is never closed")?;
        // Being hung up on with unread input shows as a reset; what came before counts.
        drop(read);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads until `sign` has arrived.
    pub async fn until(&mut self, sign: &str) -> Result<String> {
        let mut seen = Vec::new();
        let reading = async {
            while !String::from_utf8_lossy(&seen).contains(sign) {
                if self.0.read_buf(&mut seen).await? == 0 {
                    break;
                }
            }
            Ok::<_, std::io::Error>(())
        };
        let read = timeout(PATIENCE, reading).await;
        let text = String::from_utf8_lossy(&seen).into_owned();
        read.with_context(|| format!("{sign:?} never comes, only {text:?}"))??;
        Ok(text)
    }
}
