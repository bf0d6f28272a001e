//! The edge against other proxies, with the same app behind each: how many requests, how late, at what cost.

pub mod endless;
mod ours;
mod probe;
mod proxies;
mod sockets;
mod stalled;
pub mod target;
mod two_pieces;
pub mod upstream;
mod wake;
mod wrk;

pub use sockets::rows as sockets;
pub use stalled::rows as stalled;
pub use two_pieces::rows as two_pieces;
pub use wake::rows as wake;

use crate::{
    docker::Docker,
    docker_port::Published,
    row::{Goal, Row, ms, ratio},
};
use anyhow::Result;
use ours::Ours;
use proxies::{Nginx, Proxy};
use target::Target;
use tests::scaled;
use upstream::Upstream;
use wrk::{Load, Run};

const LOADS: [Load; 4] = [
    Load { what: "small, 1 connection", path: "/", connections: 1 },
    Load { what: "small, 32 connections", path: "/", connections: 32 },
    Load { what: "small, 256 connections", path: "/", connections: 256 },
    Load { what: "1 MB, 8 connections", path: "/1m", connections: 8 },
];

pub async fn rows() -> Result<Vec<Row>> {
    let docker = Docker::start()?;
    let published = docker.publish()?;
    let ours = Ours::start().await?;
    let upstream = Upstream::start().await?;
    let keep_alive = Proxy::nginx(Nginx::KeepAlive, &upstream.address).await?;
    let default = Proxy::nginx(Nginx::Default, &upstream.address).await?;
    let caddy = Proxy::caddy(&upstream.address).await?;
    let docker_proxy = docker_target(&docker, &published)?;
    let targets = [&ours.target, &keep_alive.target, &default.target, &caddy.target, &docker_proxy];
    let mut rows = Vec::new();
    for load in &LOADS {
        rows.extend(compare(&targets, load)?);
    }
    ours.hostd.stop().await?;
    Ok(rows)
}

/// The published port of a container: docker-proxy is a process that copies bytes.
fn docker_target(docker: &Docker, published: &Published) -> Result<Target> {
    Ok(Target {
        name: "docker's published port",
        address: published.address.clone(),
        host: published.address.clone(),
        pids: docker.port_proxies()?,
        network_of: Some(docker.pid()?),
    })
}

/// All of them in turn, several times, so that a busy moment of the machine meets them all.
fn compare(targets: &[&Target; 5], load: &Load) -> Result<Vec<Row>> {
    let mut runs: [Vec<Run>; 5] = Default::default();
    for target in targets {
        wrk::warm_up(target, load)?;
    }
    for _ in 0..scaled(3, 7) {
        for (target, runs) in targets.iter().zip(&mut runs) {
            runs.push(wrk::run(target, load)?);
        }
    }
    let [ours, keep_alive, default, caddy, docker] = runs.map(|runs| wrk::typical(&runs));
    let large = load.path == "/1m";
    let requests = |theirs: &Run, name: &str, goal: f64| Row {
        what: format!("preview, {}", load.what).into(),
        ours: format!("{:.0}/s", ours.per_s),
        other: format!("{name} {:.0}/s", theirs.per_s),
        ratio: ours.per_s / theirs.per_s,
        goal: Goal::AtLeast(goal),
    };
    let late = |what: &str, of: fn(&Run) -> std::time::Duration, goal| Row {
        what: format!("  {what}").into(),
        ours: ms(of(&ours)),
        other: format!("nginx, keep-alive {}", ms(of(&keep_alive))),
        ratio: ratio(of(&ours), of(&keep_alive)),
        goal,
    };
    let others = [(&keep_alive, "nginx"), (&default, "default"), (&caddy, "caddy"), (&docker, "docker")];
    let cost: Vec<String> = others.iter().map(|(run, name)| format!("{name} {:.0}", run.cpu_us)).collect();
    Ok(vec![
        requests(&keep_alive, targets[1].name, if large { 1.4 } else { 1.0 }),
        late("half of them within", |run| run.p50, Goal::Shown),
        late("99 % of them within", |run| run.p99, Goal::AtMost(1.0)),
        requests(&default, targets[2].name, if large { 1.0 } else { 3.0 }),
        requests(&caddy, targets[3].name, 1.0),
        requests(&docker, targets[4].name, 1.0),
        Row {
            what: "  processor time for one".into(),
            ours: format!("{:.0} µs", ours.cpu_us),
            other: format!("{} µs", cost.join(", ")),
            ratio: ours.cpu_us / keep_alive.cpu_us,
            goal: Goal::Shown,
        },
    ])
}
