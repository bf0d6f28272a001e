//! Side-by-side measurements: each row is ours against the alternative, in the same run, interleaved.
//! Absolute times prove nothing on a busy machine; the ratio is what counts.

mod bare_crun;
mod checkpoint;
mod counting_viewer;
mod docker;
mod docker_port;
mod edge;
mod engine;
mod events;
mod exec;
mod files;
mod follow;
mod footprint;
mod host;
mod idle_machine;
mod images;
mod log;
mod outgoing;
mod plain_sse;
mod quota;
mod row;
mod snapshots;
mod start;
mod stock_client;
mod stock_sdk;
mod tasks;
mod terminal;
mod throughput;
mod tls;

use anyhow::Result;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use row::Row;

fn main() -> Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let [word, to] = wanted.as_slice()
        && word == outgoing::relay::WORD
    {
        return outgoing::relay::serve(to);
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(wanted))
}

async fn run(wanted: Vec<String>) -> Result<()> {
    if let [word, address] = wanted.as_slice()
        && word == edge::upstream::WORD
    {
        return edge::upstream::serve(address).await;
    }
    if let [word, address] = wanted.as_slice()
        && word == edge::endless::WORD
    {
        return edge::endless::serve(address).await;
    }
    if wanted.first().is_some_and(|word| word == outgoing::client::WORD) {
        return outgoing::client::run().await;
    }
    let want = |name: &str| wanted.is_empty() || wanted.iter().any(|w| name.contains(w.as_str()));
    // For those who hold many connections, and for what they start.
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let mut rows: Vec<Row> = Vec::new();
    println!("{}", row::HEAD);
    macro_rules! measure {
        ($name:literal, $rows:expr) => {
            if want($name) {
                for row in $rows.await? {
                    println!("{row}");
                    rows.push(row);
                }
            }
        };
    }
    measure!("exec", exec::rows());
    measure!("throughput", throughput::rows());
    measure!("follow", follow::rows());
    measure!("start", start::rows());
    measure!("tasks", tasks::rows());
    measure!("checkpoint", checkpoint::rows());
    measure!("footprint", footprint::rows());
    measure!("events", events::rows());
    measure!("log", log::rows());
    measure!("quota", quota::rows());
    measure!("images", images::rows());
    measure!("snapshots", snapshots::rows());
    measure!("files", files::rows());
    measure!("terminal", terminal::rows());
    measure!("tls", tls::rows());
    measure!("stock client", stock_client::rows());
    measure!("stock sdk", stock_sdk::rows());
    measure!("host", host::rows());
    measure!("density", host::density());
    measure!("docker", engine::rows());
    measure!("edge", edge::rows());
    measure!("sockets", edge::sockets());
    measure!("stalled", edge::stalled());
    measure!("pieces", edge::two_pieces());
    measure!("wake", edge::wake());
    measure!("gateway", outgoing::gateway::rows());
    measure!("egress", outgoing::egress::rows());
    measure!("agent", outgoing::agent::rows());
    let missed = rows.iter().filter(|row| !row.is_met()).count();
    println!("{} rows, {missed} goals missed", rows.len());
    if missed > 0 {
        std::process::exit(1);
    }
    Ok(())
}
