//! The proxy: what a tunnel, and a request with a whole address, take longer than a direct connection.

use super::client::{Load, Route};
use super::fixture::OutgoingFixture;
use super::gateway::{Runs, added, megabytes_per_second, per_second, rates};
use crate::{idle_machine::calm, row::Row};
use anyhow::Result;
use tests::scaled;

pub async fn rows() -> Result<Vec<Row>> {
    let room = OutgoingFixture::open().await?;
    let address = room.provider.address.to_string();
    let mut rows = Vec::new();
    for (way, what, lines) in [
        (Route::Tunnel(address.clone()), "proxy, a request in a tunnel", "tunnels"),
        (Route::Absolute(address.clone()), "proxy, a request", "connections"),
    ] {
        let alone = compare(&room, &load(&way, "/small", 1, scaled(500, 5_000))).await?;
        let slow = compare(&room, &load(&way, "/slow", 16, scaled(30, 300))).await?;
        let many = compare(&room, &load(&way, "/small", 16, scaled(200, 2_000))).await?;
        let large = compare(&room, &load(&way, "/1m", 4, scaled(50, 500))).await?;
        rows.push(added(what, &alone, |run| run.p50_us));
        rows.push(rates(&format!("  16 {lines}, 10 ms each"), &slow, "/s", per_second).swap_remove(0));
        rows.extend(rates(&format!("  16 {lines}"), &many, "/s", per_second));
        rows.extend(rates(&format!("  1 MB each, 4 {lines}"), &large, " MB/s", megabytes_per_second));
    }
    room.close().await?;
    Ok(rows)
}

fn load(way: &Route, path: &str, connections: usize, requests: usize) -> Load {
    Load { way: way.clone(), path: path.to_owned(), body: None, connections, requests }
}

async fn compare(room: &OutgoingFixture, load: &Load) -> Result<Runs> {
    let mut runs = Runs::default();
    for _ in 0..scaled(3, 7) {
        calm().await?;
        runs.add(room.as_exec(load).await?, room.others(load).await?);
    }
    Ok(runs)
}
