//! hostd on a container engine, against the same engine without hostd: the overhead, the number of requests
//! to the engine, and the cost of many containers.

mod crowd;
mod life;
mod raw_container;
mod relay;
mod requests;

use crate::{host::start_with, row::Row};
use anyhow::Result;
use relay::Relay;
use std::path::Path;
use tests::Hostd;
use tests::engines::{Engine, Kind};

pub async fn rows() -> Result<Vec<Row>> {
    let docker = Engine::start(Kind::Docker)?;
    let mut rows = life::rows(&docker).await?;
    rows.extend(requests::rows(&docker).await?);
    rows.extend(crowd::rows(&docker).await?);
    drop(docker);
    rows.extend(life::rows(&Engine::start(Kind::Podman)?).await?);
    Ok(rows)
}

/// A hostd whose engine is behind this socket.
async fn hostd_on(socket: &Path) -> Result<Hostd> {
    let socket = socket.display().to_string();
    let driver = [("SLIPWAY_DRIVER", "docker"), ("SLIPWAY_DOCKER_SOCKET", &socket), ("SLIPWAY_LOG", "warn")];
    start_with(&driver).await
}

/// A hostd, and what it asks of the engine.
struct Overheard {
    hostd: Hostd,
    relay: Relay,
}

impl Overheard {
    async fn start(engine: &Engine) -> Result<Self> {
        let relay = Relay::start(&engine.socket())?;
        Ok(Self { hostd: hostd_on(relay.socket()).await?, relay })
    }
}
