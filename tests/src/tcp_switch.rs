//! A fixed address in front of a server whose own changes, as a load balancer is one: connections can be cut, and those
//! that come while the server is away are held until it is back.

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

pub struct TcpSwitch {
    url: String,
    /// The address of the server, and how often all connections were cut.
    target: watch::Sender<(Option<String>, u64)>,
    server: JoinHandle<()>,
}

impl TcpSwitch {
    /// Hands connections to a server, as in `http://127.0.0.1:9090`.
    pub async fn start(url: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let own = format!("http://{}", listener.local_addr()?);
        let (target, watched) = watch::channel((Some(address(url)?), 0));
        let server = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(forward(stream, watched.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { url: own, target, server })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        self.target.send_modify(|(_, cuts)| *cuts += 1);
    }

    /// Holds new connections until there is another server. Those that are open stay.
    pub fn hold(&self) {
        self.target.send_modify(|(address, _)| *address = None);
    }

    pub fn point_to(&self, url: &str) -> Result<()> {
        let found = address(url)?;
        self.target.send_modify(|(address, _)| *address = Some(found));
        Ok(())
    }
}

impl Drop for TcpSwitch {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn address(url: &str) -> Result<String> {
    Ok(url.strip_prefix("http://").context("a URL of plain HTTP")?.to_owned())
}

async fn forward(mut from: TcpStream, mut target: watch::Receiver<(Option<String>, u64)>) {
    let Ok((Some(address), cuts)) =
        target.wait_for(|(address, _)| address.is_some()).await.map(|found| found.clone())
    else {
        return;
    };
    let Ok(mut to) = TcpStream::connect(address).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut from, &mut to) => {}
        _ = target.wait_for(|(_, now)| *now != cuts) => {}
    }
}
