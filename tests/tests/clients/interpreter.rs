//! E2B's code interpreter by its published SDKs, with real kernels in the image `interpreter`.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::{Hostd, stock_clients::StockClient};

#[tokio::test]
async fn code_keeps_its_variables_draws_charts_and_is_interrupted() -> Result<()> {
    let image = std::env::var("SLIPWAY_INTERPRETER").context(
        "SLIPWAY_INTERPRETER must name the directory that `scripts/build-image interpreter` printed",
    )?;
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let import = json!({"name": "interpreter", "path": image});
    operator.post("/v1/images", &import).await?.expect::<Value>(201)?;
    let token = json!({"tenant": "acme", "principal": "ann", "e2b": true});
    let created: Value = operator.post("/v1/tokens", &token).await?.expect(201)?;
    let key = created["token"].as_str().context("a token")?;
    let python = StockClient::python("e2b-2.63.0", "e2b/interpreter.py")?;
    let node = StockClient::node("e2b-node", "e2b/interpreter.js")?;
    for script in [python, node] {
        let script = script
            .env("E2B_API_URL", hostd.url())
            .env("E2B_SANDBOX_URL", hostd.url())
            .env("E2B_API_KEY", key);
        ensure!(script.run().await? == "passed\n");
    }
    hostd.stop().await
}
