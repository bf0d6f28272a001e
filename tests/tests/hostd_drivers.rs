//! Which drivers a hostd has: chosen by its configuration, told to whoever asks.

use anyhow::{Context, Result, ensure};
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use tests::{Caller, Hostd};

async fn driver(caller: &Caller, name: &str) -> Result<Value> {
    let drivers: Value = caller.get("/v1/drivers").await?.expect(200)?;
    let items = drivers["items"].as_array().context("items")?;
    items.iter().find(|driver| driver["name"] == name).cloned().with_context(|| format!("{name} is listed"))
}

#[tokio::test]
async fn a_docker_that_is_away_at_the_start_is_told_and_the_rest_works() -> Result<()> {
    let nowhere = [("SLIPWAY_DRIVER", "docker"), ("SLIPWAY_DOCKER_SOCKET", "unix:///there/is/none.sock")];
    let hostd = Hostd::start_with(&nowhere).await?;
    let operator = hostd.operator()?;
    let docker = driver(&operator, "docker").await?;
    ensure!(docker["default"] == true && docker["usable"] == false && docker["present"] == false, "{docker}");
    ensure!(docker["missing"][0].as_str().is_some_and(|why| why.contains("/there/is/none.sock")), "{docker}");
    let ready = operator.get("/readyz").await?;
    ensure!((ready.status, ready.code()?) == (503, ApiErrorCode::DriverUnavailable), "{}", ready.text());
    let refused = operator.post("/v1/sandboxes", &json!({})).await?;
    let error = refused.error()?;
    ensure!(error.code == ApiErrorCode::DriverUnavailable && error.retryable, "{error:?}");
    // Nobody waits for it, and another driver is as good as ever.
    ensure!(operator.get("/v1/sandboxes").await?.status == 200);
    let made = operator.post("/v1/sandboxes", &json!({"driver": "oci"})).await?.expect::<Value>(201)?;
    ensure!(made["driver"] == "oci" && made["status"] == "running", "{made}");
    let doctor = hostd.ran(&["doctor"]).await?;
    ensure!(doctor.code == Some(1) && doctor.out.contains("docker cannot be used"), "{doctor:?}");
    Ok(())
}

#[tokio::test]
async fn with_oci_an_engine_is_left_alone_unless_it_is_named() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let docker = driver(&operator, "docker").await?;
    ensure!(docker["usable"] == false && docker["default"] == false, "{docker}");
    let error = operator.post("/v1/sandboxes", &json!({"driver": "docker"})).await?.error()?;
    ensure!(error.code == ApiErrorCode::Unsupported && error.detail.supported == ["oci"], "{error:?}");
    ensure!(error.message.contains("SLIPWAY_DOCKER_SOCKET"), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn the_command_shows_drivers_and_what_is_stale() -> Result<()> {
    let hostd = Hostd::start().await?;
    let shown = hostd.ran(&["drivers"]).await?;
    ensure!(shown.code == Some(0), "{shown:?}");
    for words in ["oci *", "docker", "kubernetes", "not supported", "none, proxy"] {
        ensure!(shown.out.contains(words), "{words} in {}", shown.out);
    }
    let stale = hostd.ran(&["stale"]).await?;
    ensure!(stale.out == "nothing stale was found\n", "{stale:?}");
    // A directory that no badge explains is reported, and stays.
    let strange = hostd.data().join("oci/01jb9xyzabcdefghjkmnpqrstv");
    std::fs::create_dir(&strange)?;
    let stale: Value = hostd.operator()?.get("/v1/host/stale").await?.expect(200)?;
    ensure!(
        stale["items"][0]["name"] == "01jb9xyzabcdefghjkmnpqrstv" && stale["items"][0]["driver"] == "oci"
    );
    ensure!(hostd.ran(&["stale"]).await?.out.contains("01jb9xyzabcdefghjkmnpqrstv"));
    ensure!(strange.exists());
    Ok(())
}
