//! Published SDKs of E2B against Slipway's own API: the time from a create to the first output, as ComputeSDK's
//! leaderboard measures it, and a large file up and down.

use crate::{
    host::start_with,
    row::{Goal, Row, ms},
};
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    time::Duration,
};
use tests::{Hostd, scaled, stock_clients::StockClient};

/// What a create and a command by the SDK may take, against our own package.
const MOST: f64 = 1.3;
/// The p50 from a create to the output, by the SDK: the best of the public board.
const MOST_MS: f64 = 40.0;
/// The share of the speed of the files API that the SDK has to reach.
const LEAST_SPEED: f64 = 0.7;
const AT_ONCE: usize = 100;
const FILE_MB: u64 = 100;

/// Samples of both, taken in turns.
#[derive(Deserialize)]
struct Samples {
    own: Vec<f64>,
    e2b: Vec<f64>,
}

pub async fn rows() -> Result<Vec<Row>> {
    let hostd = start_with(&[("SLIPWAY_LOG", "warn")]).await?;
    let body = json!({"tenant": "bench", "principal": "bench", "e2b": true});
    let created: Value = hostd.operator()?.post("/v1/tokens", &body).await?.expect(201)?;
    let key = created["token"].as_str().context("a token")?;
    let mut rows = time_to_output(&hostd, key).await?;
    rows.extend(transfers(&hostd, key).await?);
    hostd.stop().await?;
    Ok(rows)
}

fn client(hostd: &Hostd, key: &str, client: StockClient) -> StockClient {
    client.env("E2B_API_URL", hostd.url()).env("E2B_SANDBOX_URL", hostd.url()).env("E2B_API_KEY", key)
}

/// By ComputeSDK's provider, and by the same program with our own package.
async fn time_to_output(hostd: &Hostd, key: &str) -> Result<Vec<Row>> {
    #[derive(Deserialize)]
    struct Printed {
        sequential: Samples,
        burst: Samples,
    }
    let script = StockClient::node("e2b-node", "e2b/time_to_output.js")?
        .env("SLIPWAY_SDK", own_package()?)
        .arg(scaled(30, 200).to_string())
        .arg(scaled(3, 10).to_string())
        .arg(AT_ONCE.to_string());
    let printed: Printed = serde_json::from_str(&client(hostd, key, script).run().await?)?;
    let p50_ms = percentile(&printed.sequential.e2b, 0.5);
    let mut rows = vec![Row {
        what: "create to output by ComputeSDK, p50".into(),
        ours: ms(from_ms(p50_ms)),
        other: format!("the best of its board {}", ms(from_ms(MOST_MS))),
        ratio: p50_ms / MOST_MS,
        goal: Goal::AtMost(1.0),
    }];
    for (how, samples) in [("alone", &printed.sequential), ("100 at once", &printed.burst)] {
        for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
            let (e2b, own) = (percentile(&samples.e2b, share), percentile(&samples.own, share));
            rows.push(Row {
                what: format!("create to output, {how}, {name}").into(),
                ours: ms(from_ms(e2b)),
                other: format!("our own package {}", ms(from_ms(own))),
                ratio: e2b / own,
                goal: Goal::AtMost(MOST),
            });
        }
    }
    Ok(rows)
}

async fn transfers(hostd: &Hostd, key: &str) -> Result<Vec<Row>> {
    #[derive(Deserialize)]
    struct Printed {
        up: Samples,
        down: Samples,
    }
    let script = StockClient::python("e2b-2.63.0", "e2b/transfer.py")?;
    let script = script.arg(FILE_MB.to_string()).arg(scaled(5, 20).to_string());
    let printed: Printed = serde_json::from_str(&client(hostd, key, script).run().await?)?;
    let row = |what: &'static str, samples: &Samples| {
        let (e2b_s, own_s) = (percentile(&samples.e2b, 0.5), percentile(&samples.own, 0.5));
        let speed = |seconds: f64| format!("{:.0} MB/s", FILE_MB as f64 / seconds);
        Row {
            what: Cow::Borrowed(what),
            ours: speed(e2b_s),
            other: format!("the files API {}", speed(own_s)),
            ratio: own_s / e2b_s,
            goal: Goal::AtLeast(LEAST_SPEED),
        }
    };
    Ok(vec![row("100 MB up by the E2B SDK", &printed.up), row("100 MB down by the E2B SDK", &printed.down)])
}

/// The module that `scripts/sdk` built.
fn own_package() -> Result<PathBuf> {
    let apps = std::env::var_os("SLIPWAY_APPS").context("SLIPWAY_APPS must be set")?;
    Ok(Path::new(&apps).join("sdk-typescript/dist/index.js"))
}

fn percentile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = (sorted.len() as f64 * share) as usize;
    sorted.get(position.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

fn from_ms(time_ms: f64) -> Duration {
    Duration::from_secs_f64(time_ms / 1e3)
}
